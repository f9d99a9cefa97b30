"""Instants: microseconds since 1970 as the log counts them, and the text of people.

Promises: a text means the instant that Spark's cast to TIMESTAMP makes of it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .errors import OptionError, UnsupportedExpressionError
from .predicate import zone
from .predicate.constant import Constant, cast
from .schema.types import String, Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(time: int) -> str:
    """Return a moment in microseconds since 1970 as ISO 8601 in UTC."""
    return moment_of(time).isoformat()


def moment_of(time: int) -> datetime:
    """Return a moment in microseconds since 1970, in UTC."""
    return _EPOCH + timedelta(microseconds=time)


def micros_of(time: datetime) -> int:
    """Return a time in microseconds since 1970. OptionError if it has no time zone."""
    if time.tzinfo is None:
        raise OptionError(f"{time.isoformat()} has no time zone, so it is no moment; add one")
    return (time - _EPOCH) // timedelta(microseconds=1)


def parse_instant(text: str, time_zone: str = "UTC") -> datetime:
    """Return the instant of a text such as ``2026-03-01`` or ``2026-03-01T08:30:00.5+01:00``.

    ``time_zone``: where it is local time if it names no zone. OptionError if it is no instant, or
    there is no such zone.
    """
    local_zone = zone.zone_of(time_zone)
    constant = Constant(text, String())
    try:
        local = cast(constant, Timestamp(), zone.UTC)
    except UnsupportedExpressionError:
        raise OptionError(
            f"{text!r} is not a time such as 2026-03-01, 2026-03-01 08:30:00 or "
            "2026-03-01T08:30:00.5+01:00"
        ) from None
    try:
        return moment_of(
            (local if local_zone == zone.UTC else cast(constant, Timestamp(), local_zone)).value
        )
    except UnsupportedExpressionError as error:
        raise OptionError(str(error)) from None
