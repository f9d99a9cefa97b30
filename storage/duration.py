"""Lengths of time as options, properties and triggers give them: '3600', '7 days 12 hours'.

Does not know: what lasts so long.
"""

from __future__ import annotations

import re
from decimal import Decimal

_SECONDS = {
    "microsecond": Decimal("1e-6"),
    "millisecond": Decimal("1e-3"),
    "second": Decimal(1),
    "minute": Decimal(60),
    "hour": Decimal(3600),
    "day": Decimal(86_400),
    "week": Decimal(604_800),
}
_DIGITS = re.compile(r"\s*[0-9]{1,18}\s*")
_PREFIX = re.compile(r"\s*(?:interval\b\s*)?", re.IGNORECASE)
# As in Spark, only seconds have fractions. A month is not a unit: it has no fixed length.
_PART = re.compile(
    rf"([+-]?)\s*([0-9]{{1,18}}|[0-9]{{0,18}}\.[0-9]{{1,9}}(?=\s*second))\s*({'|'.join(_SECONDS)})s?"
    r"\b[\s,]*",
    re.IGNORECASE,
)


def parse_interval(text: str) -> Decimal:
    """Return in seconds a length of time as Spark writes intervals; ValueError if it is not one."""
    if _DIGITS.fullmatch(text):
        return Decimal(text.strip())
    prefix = _PREFIX.match(text)
    position, parts = prefix.end() if prefix else 0, []
    while part := _PART.match(text, position):
        sign, number, unit = part.groups()
        parts.append(Decimal(f"{sign}{number}") * _SECONDS[unit.lower()])
        position = part.end()
    if not parts or position < len(text):
        raise ValueError(
            "it must be a number of seconds, or an interval, as in '7 days', '1 hour 30 minutes' "
            "or '200 milliseconds'"
        )
    return sum(parts, Decimal(0))


def whole_seconds(text: str) -> int:
    """Return a length of time in whole seconds, 0 or more; ValueError if it is not one."""
    seconds = parse_interval(text)
    if seconds != int(seconds) or seconds < 0:
        raise ValueError("it must be a whole number of seconds, as in '3600' or '7 days'")
    return int(seconds)


def positive_seconds(text: str) -> int:
    """Return a length of time of at least one whole second; ValueError if it is not one."""
    seconds = whole_seconds(text)
    if seconds < 1:
        raise ValueError("it must be at least one second")
    return seconds


_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def duration_text(seconds: int) -> str:
    """Return a length of time as `whole_seconds` reads it: '1 day', '2 hours 30 minutes'."""
    parts = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 seconds"
