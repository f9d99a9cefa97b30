"""Ranges of sorted sets: by rank, by score, by member."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter

from .command import parse_float, range_of
from .replies import CommandError
from .values import SortedSetValue

Scored = list[tuple[float, bytes]]
_NOT_FLOAT = "ERR min or max is not a float"
_NOT_MEMBER = "ERR min or max not valid string range item"
_SCORE, _MEMBER = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class RankRange:
    """The elements from one index to another, both included, in the order that is asked for."""

    start: int
    stop: int

    def within(self, value: SortedSetValue, *, reverse: bool) -> range:
        """Return the indices of the range in the ascending order."""
        length = len(value)
        indices = range_of(self.start, self.stop, length)
        if reverse:
            return range(length - indices.stop, length - indices.start)
        return indices


@dataclass(frozen=True, slots=True)
class ScoreRange:
    """The elements with scores between two, which may be excluded."""

    low: float
    high: float
    without_low: bool
    without_high: bool

    @classmethod
    def parse(cls, low: bytes, high: bytes) -> ScoreRange:
        """Read the ends, ``(`` before one that is excluded. CommandError."""
        return cls(_score_at(low), _score_at(high), low[:1] == b"(", high[:1] == b"(")

    def within(self, value: SortedSetValue, *, reverse: bool) -> range:
        """Return the indices of the range in the ascending order."""
        start = (bisect_right if self.without_low else bisect_left)(
            value.order, self.low, key=_SCORE
        )
        stop = (bisect_left if self.without_high else bisect_right)(
            value.order, self.high, key=_SCORE
        )
        return range(start, max(start, stop))


def _score_at(end: bytes) -> float:
    """Return the score at an end, read as C reads it: up to a zero byte, and nothing is 0."""
    text = end.removeprefix(b"(").partition(b"\0")[0]
    return parse_float(text.lstrip(), _NOT_FLOAT, may_overflow=True) if text else 0.0


@dataclass(frozen=True, slots=True)
class MemberRange:
    """The elements with members between two, where all scores are the same."""

    low: bytes
    high: bytes

    @classmethod
    def parse(cls, low: bytes, high: bytes) -> MemberRange:
        """Check the ends: ``[`` or ``(`` before a member, ``-`` or ``+``. CommandError."""
        for end in (low, high):
            if end not in (b"-", b"+") and end[:1] not in (b"[", b"("):
                raise CommandError(_NOT_MEMBER)
        return cls(low, high)

    def within(self, value: SortedSetValue, *, reverse: bool) -> range:
        """Return the indices of the range in the ascending order."""
        start = _index(value, self.low, excluded_before=True)
        stop = _index(value, self.high, excluded_before=False)
        return range(start, max(start, stop))


def _index(value: SortedSetValue, end: bytes, *, excluded_before: bool) -> int:
    """Return how many elements are before an end of a range by members."""
    if end in (b"-", b"+"):
        return 0 if end == b"-" else len(value)
    is_after = excluded_before == (end[:1] == b"(")
    return (bisect_right if is_after else bisect_left)(value.order, end[1:], key=_MEMBER)


Range = RankRange | ScoreRange | MemberRange
