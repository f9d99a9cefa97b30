"""Dates, times and instants: as numbers, as Spark reads them in text, and in time zones.

A time zone is named as Spark's ``spark.sql.session.timeZone`` names it: an offset (``+02:00``),
``UTC`` or ``Z``, or a region (``Europe/Rome``). A local time that occurs twice means the earlier
instant; one that a clock skips is moved forward by as much as the clock: Spark's rules.

Promises: a text means what Spark's cast of it to DATE, TIMESTAMP, TIMESTAMP_NTZ or TIME makes of
it; spellings that only Spark knows have no value here. Local times of a region are refused where
zone databases disagree: before 1970, and from 2100 on.
Does not know: what a time is for.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .duration import whole_seconds
from .errors import OptionError, UnsupportedExpressionError

MICROSECONDS_PER_DAY = 86_400_000_000
# A thousand years, the longest duration that is taken: before the year 1 there is no datetime.
MOST_SECONDS = 1000 * 365 * 24 * 3600

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LOCAL_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NANOSECONDS_PER_MICROSECOND = 1000
_FIRST_YEAR, _LAST_YEAR = 1970, 2100
_LONGEST_OFFSET = 18 * 3600

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):(\d{2})(?::(\d{2}))?")
_UTC_NAMES = frozenset({"UTC", "GMT", "UT", "Z", "ETC/UTC", "ETC/GMT", "ZULU", "ETC/ZULU"})
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_DATE_AND_REST = re.compile(r"(\d{4}-\d{1,2}-\d{1,2})[ T].*", re.DOTALL)
_DATE_AND_TIME = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?)?)?"
)
_WITH_ZONE = re.compile(
    r"(\S+[ T]\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{1,6})?) ?(Z|[+-]\d\d:\d\d|[A-Z]\S+)"
)
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_BLANKS = " \t\n\r\f\v"


# --- Numbers ------------------------------------------------------------------------------------


def iso_time(time: int) -> str:
    """Return an instant in microseconds since 1970 as ISO 8601 in UTC."""
    return moment_of(time).isoformat()


def moment_of(time: int) -> datetime.datetime:
    """Return an instant in microseconds since 1970 as a datetime in UTC."""
    return _EPOCH + time * _MICROSECOND


def seconds_of(name: str, duration: int | str) -> int:
    """Return a duration in seconds. OptionError unless it is whole seconds, or a text of them.

    ``name``: that of the argument, for the message.
    """
    seconds = seconds_in(name, duration)
    if type(seconds) is not int or not 0 <= seconds <= MOST_SECONDS:
        raise OptionError(
            f"{name} is a whole number of seconds from 0 to {MOST_SECONDS}, or a text such as "
            f"'7 days', not {duration!r}"
        )
    return seconds


def seconds_in(name: str, duration: int | str) -> int:
    """Return a duration given as a text in seconds, and anything else as it is.

    OptionError for a text that is no duration; ``name``: that of the argument.
    """
    if not isinstance(duration, str):
        return duration
    try:
        return whole_seconds(duration)
    except ValueError as error:
        raise OptionError(f"{name} is {duration!r}: {error}") from None


def optional_seconds_in(name: str, duration: int | str | None) -> int | None:
    """Return `seconds_in`, or None for None. OptionError."""
    return None if duration is None else seconds_in(name, duration)


def micros_of(time: datetime.datetime) -> int:
    """Return a time in microseconds since 1970. OptionError if it has no time zone."""
    if not isinstance(time, datetime.datetime):
        raise OptionError(f"a time is a datetime with a time zone, not {time!r}")
    if time.tzinfo is None:
        raise OptionError(f"{time.isoformat()} has no time zone, so it is not an instant; add one")
    return (time - _EPOCH) // _MICROSECOND


# --- Time zones ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone. ``offset``: microseconds east of UTC; None where it changes with time."""

    name: str
    offset: int | None

    def instant(self, local: int) -> int:
        """Return the instant of a local time, both in microseconds since 1970.

        UnsupportedExpressionError if the zone's rules at that time are not certain.
        """
        if self.offset is not None:
            return local - self.offset
        time = _LOCAL_EPOCH + local * _MICROSECOND
        if not _FIRST_YEAR <= time.year < _LAST_YEAR:
            raise UnsupportedExpressionError(
                f"{time} in the time zone {self.name}: zone databases disagree before "
                f"{_FIRST_YEAR} and from {_LAST_YEAR} on; write the offset after the time"
            )
        offset = time.replace(tzinfo=ZoneInfo(self.name)).utcoffset()
        assert offset is not None
        return local - offset // _MICROSECOND


UTC = Zone("UTC", 0)


def zone_of(name: str) -> Zone:
    """Return the zone of a name. OptionError if there is none."""
    if not isinstance(name, str):
        raise OptionError(f"a time zone is a text such as 'Europe/Rome', not {name!r}")
    return _zone_of(name)


@cache
def _zone_of(name: str) -> Zone:
    if name.upper() in _UTC_NAMES:
        return UTC
    match = _OFFSET.fullmatch(name)
    if match is not None:
        hours, minutes, seconds = int(match[2]), int(match[3]), int(match[4] or 0)
        size = hours * 3600 + minutes * 60 + seconds
        if minutes < 60 and seconds < 60 and size <= _LONGEST_OFFSET:
            return Zone(name, (-size if match[1] == "-" else size) * 1_000_000)
    else:
        try:
            return Zone(ZoneInfo(name).key, None)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise OptionError(
        f"there is no time zone {name!r}; name an offset such as +02:00, UTC, or a region such as "
        "Europe/Rome"
    )


# --- Text ---------------------------------------------------------------------------------------


def parse_instant(text: str, time_zone: str = "UTC") -> datetime.datetime:
    """Return the instant of a text such as ``2026-03-01`` or ``2026-03-01T08:30:00.5+01:00``.

    ``time_zone``: where it is local time if it names no zone. OptionError if it is not an instant,
    or there is no such zone.
    """
    try:
        instant = parse_timestamp(text, zone_of(time_zone))
    except UnsupportedExpressionError as error:
        raise OptionError(str(error)) from None
    if instant is None:
        raise OptionError(
            f"{text!r} is not a time such as 2026-03-01, 2026-03-01 08:30:00 or "
            "2026-03-01T08:30:00.5+01:00"
        )
    return moment_of(instant)


def parse_timestamp(text: str, zone: Zone) -> int | None:
    """Return the instant of a text in microseconds since 1970, None if it is not a timestamp.

    ``zone``: where it is local time if it names no zone itself. UnsupportedExpressionError if the
    zone is not known, or its rules at that time are not certain.
    """
    match = _WITH_ZONE.fullmatch(text.strip(_BLANKS))
    if match is not None:
        try:
            zone, text = zone_of(match[2]), match[1]
        except OptionError as error:
            raise UnsupportedExpressionError(f"{text!r}: {error}") from None
    local = parse_local_timestamp(text)
    return None if local is None else zone.instant(local)


def parse_local_timestamp(text: str) -> int | None:
    """Return the local time of a text in microseconds since 1970; None if it is not one."""
    match = _DATE_AND_TIME.fullmatch(text.strip(_BLANKS))
    return None if match is None else _local(*match.groups())


def parse_date(text: str) -> int | None:
    """Return the date of a text, which may have a time, in days since 1970; None if none."""
    text = text.strip(_BLANKS)
    dated = _DATE_AND_REST.fullmatch(text)
    match = _DATE.fullmatch(text if dated is None else dated[1])
    local = None if match is None else _local(*match.groups())
    return None if local is None else local // MICROSECONDS_PER_DAY


def parse_time(text: str) -> int | None:
    """Return the time of day of a text, in nanoseconds; None if it is not one."""
    match = _TIME.fullmatch(text.strip(_BLANKS))
    local = None if match is None else _local("1970", None, None, *match.groups())
    return None if local is None else local * _NANOSECONDS_PER_MICROSECOND


def _local(
    year: str,
    month: str | None = None,
    day: str | None = None,
    hour: str | None = None,
    minute: str | None = None,
    second: str | None = None,
    fraction: str | None = None,
) -> int | None:
    """Return a local time in microseconds since 1970; None if there is no such time."""
    numbers = [int(part or least) for part, least in ((year, 0), (month, 1), (day, 1))]
    numbers += [int(part or 0) for part in (hour, minute, second)]
    try:
        time = datetime.datetime(*numbers)  # type: ignore[arg-type]
    except ValueError:
        return None
    return (time - _LOCAL_EPOCH) // _MICROSECOND + int((fraction or "").ljust(6, "0"))
