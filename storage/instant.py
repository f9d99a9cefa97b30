"""Instants as people write them.

Promises: a text means the instant that Spark's cast to TIMESTAMP makes of it.
Does not know: what it is for.
"""

from __future__ import annotations

from datetime import datetime

from .errors import OptionError, UnsupportedExpressionError
from .log.time import moment_of
from .predicate.constant import Constant, cast
from .predicate.zone import UTC, zone_of
from .schema.types import String, Timestamp


def parse_instant(text: str, time_zone: str = "UTC") -> datetime:
    """Return the instant of a text such as ``2026-03-01`` or ``2026-03-01T08:30:00.5+01:00``.

    ``time_zone``: where it is local time if it names no zone. OptionError if it is no instant, or
    there is no such zone.
    """
    zone = zone_of(time_zone)
    constant = Constant(text, String())
    try:
        local = cast(constant, Timestamp(), UTC)
    except UnsupportedExpressionError:
        raise OptionError(
            f"{text!r} is not a time such as 2026-03-01, 2026-03-01 08:30:00 or "
            "2026-03-01T08:30:00.5+01:00"
        ) from None
    try:
        return moment_of((local if zone == UTC else cast(constant, Timestamp(), zone)).value)
    except UnsupportedExpressionError as error:
        raise OptionError(str(error)) from None
