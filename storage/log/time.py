"""Moments: as the log counts them, and as people read and write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..errors import OptionError

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
