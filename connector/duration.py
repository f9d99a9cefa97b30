"""Lengths of time as options and properties give them: '3600', or '7 days 12 hours'.

Does not know: what lasts so long.
"""

from __future__ import annotations

import re

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_UNITS = "|".join(_SECONDS)
_PART = re.compile(rf"([0-9]{{1,18}})\s*({_UNITS})s?\b", re.IGNORECASE)
_WHOLE = re.compile(
    rf"\s*(?:interval\s+)?(?:[0-9]{{1,18}}\s*(?:{_UNITS})s?\b[\s,]*)+", re.IGNORECASE
)
_DIGITS = re.compile(r"\s*[0-9]{1,18}\s*")
# An interval of Spark's has more: what is shorter than a second, fractions of one, and signs.
_SHARES = {"microsecond": 1e-6, "millisecond": 1e-3} | _SECONDS
_INTERVAL = re.compile(r"\s*(?:interval\b\s*)?", re.IGNORECASE)
_INTERVAL_PART = re.compile(
    rf"([+-]?)\s*([0-9]{{1,18}}|[0-9]{{0,18}}\.[0-9]{{1,9}}(?=\s*second))\s*({'|'.join(_SHARES)})s?"
    r"\b[\s,]*",
    re.IGNORECASE,
)


def seconds_of(text: str) -> int:
    """Return a length of time in seconds; ValueError if the text is none."""
    if _DIGITS.fullmatch(text):
        return int(text)
    if not _WHOLE.fullmatch(text):
        raise ValueError(
            "it must be a number of seconds, or numbers of weeks, days, hours, minutes and "
            "seconds, as in '7 days' or '1 hour 30 minutes'"
        )
    return sum(int(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(text))


def positive_seconds_of(text: str) -> int:
    """Return a length of time of at least a second; ValueError if the text is none."""
    seconds = seconds_of(text)
    if seconds < 1:
        raise ValueError("it must be at least one second")
    return seconds


def interval_of(text: str) -> float:
    """Return in seconds a length of time as Spark's intervals are written; ValueError if none."""
    if _DIGITS.fullmatch(text):
        return float(text)
    start = _INTERVAL.match(text)
    place, parts = start.end() if start else 0, []
    while found := _INTERVAL_PART.match(text, place):
        sign, number, unit = found.groups()
        parts.append(float(f"{sign}{number}") * _SHARES[unit.lower()])
        place = found.end()
    if not parts or place < len(text):
        raise ValueError(
            "it must be a number of seconds, or an interval, as in '10 seconds', '1 minute 30 "
            "seconds' or '200 milliseconds'"
        )
    return sum(parts)
