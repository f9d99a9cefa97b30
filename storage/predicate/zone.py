"""Time zones: what a local date and time means, and the reverse.

A zone is named as Spark's ``spark.sql.session.timeZone`` names it: an offset (``+02:00``), ``UTC``
or ``Z``, or a region (``Europe/Rome``). Of a local time that comes twice, the earlier instant is
meant; one that a clock leaps over is as much later as it leaps: Spark's rules.

Promises to refuse where zone databases disagree: local times of a region before 1970, or after
what is known (2100).
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..errors import OptionError, UnsupportedExpressionError

MICROSECONDS_A_DAY = 86_400_000_000

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):(\d{2})(?::(\d{2}))?")
_UTC_NAMES = frozenset({"UTC", "GMT", "UT", "Z", "ETC/UTC", "ETC/GMT", "ZULU", "ETC/ZULU"})
_FIRST_YEAR, _LAST_YEAR = 1970, 2100
_LONGEST_OFFSET = 18 * 3600


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone. ``offset``: microseconds east of UTC; None where it changes with time."""

    name: str
    offset: int | None

    def instant(self, local: int) -> int:
        """Return the instant of a local time, both in microseconds since 1970.

        UnsupportedExpressionError if the zone's rules of then are not certain.
        """
        if self.offset is not None:
            return local - self.offset
        moment = _EPOCH + local * _MICROSECOND
        if not _FIRST_YEAR <= moment.year < _LAST_YEAR:
            raise UnsupportedExpressionError(
                f"{moment} in the time zone {self.name}: zone databases disagree before "
                f"{_FIRST_YEAR} and from {_LAST_YEAR} on; write the offset behind the time"
            )
        offset = moment.replace(tzinfo=ZoneInfo(self.name)).utcoffset()
        assert offset is not None
        return local - offset // _MICROSECOND


UTC = Zone("UTC", 0)


@cache
def zone_of(name: str) -> Zone:
    """Return the zone of a name. OptionError if there is none."""
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
