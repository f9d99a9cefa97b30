"""The temporal filter: rows whose moment is between bounds that follow the clock.

``WHERE ts > now() - INTERVAL 1 HOUR`` is a filter whose rows come and go as time passes. The moment
of a row never changes; the bounds do, from refresh to refresh. With a flag it passes all rows on,
each with a field that is true while its moment is between the bounds.

Does not know: how it is maintained (executor), or what time it is (clock).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from relstate.storage import MomentRange, types

from .node import (
    Expression,
    FieldsOf,
    Json,
    Names,
    Node,
    ReadNode,
    Unary,
    check_names,
    read_number,
    read_text,
    require,
)

CLOCK = types.Field("now", types.Timestamp())
"""The field over which bounds are expressions: the present time."""
DAY = 24 * 3600 * 1_000_000
"""A day in microseconds: the unit of the moments of dates; that of times is 1."""
_MOST_DAYS = 10_000


@dataclass(frozen=True, slots=True)
class ClockBound:
    """A bound of moments: ``text`` in Spark's SQL over `CLOCK`, a BIGINT.

    ``margin``: in days, how long it may be below a value that it has had: a change to daylight
    saving time, or months of different lengths, move it back. 0 if it never goes back.
    """

    text: str
    margin: int

    @property
    def expression(self) -> Expression:
        """What Spark evaluates for it."""
        return Expression(self.text, types.BigInt())

    def to_json(self) -> list[Any]:
        """Return the bound as JSON values. On disk: never change the order."""
        return [self.text, self.margin]

    @classmethod
    def from_json(cls, value: Any) -> ClockBound:
        """Return the bound that `to_json` described."""
        text, margin = value
        return cls(read_text(text), read_number(margin, _MOST_DAYS))


@dataclass(frozen=True, slots=True)
class ClockStep:
    """What passes a filter before a refresh, and after it."""

    before: MomentRange
    after: MomentRange

    @property
    def done(self) -> ClockStep:
        """The step in which no time passes."""
        return ClockStep(self.after, self.after)


@dataclass(frozen=True)
class TemporalFilter(Unary):
    """The rows with ``low <= moment < high``; at least one bound is there.

    ``moment``: a BIGINT field of the child; a row for which it is NULL never passes.
    ``unit``: the microseconds by which one moment is after the one before it. ``step``: set where
    the filter is run, which is one refresh. ``flag``: None, or the BOOLEAN field that says of every
    row whether it passes, NULL if its moment is; then all rows are in the result.
    """

    operator = "temporal_filter"

    moment: str
    low: ClockBound | None
    high: ClockBound | None
    unit: int
    _: KW_ONLY
    step: ClockStep | None = None
    flag: str | None = None

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """As the child, and the flag."""
        flag = () if self.flag is None else (types.Field(self.flag, types.Boolean()),)
        return (*self.child.fields, *flag)

    @property
    def distribution(self) -> Names | None:
        """The child's; its key if it has none."""
        names = self.child.distribution
        return self.child.key if names is None else names

    @property
    def input_distribution(self) -> Names | None:
        """The distribution of the output."""
        return self.distribution

    @property
    def is_append_only(self) -> bool:
        """Whether rows come to the child alone, and only come to pass."""
        never_leaves = self.low is None and self.high is not None and not self.high.margin
        return self.flag is None and never_leaves and self.child.is_append_only

    @property
    def bounds(self) -> tuple[ClockBound, ...]:
        """The bounds that are there."""
        return tuple(bound for bound in (self.low, self.high) if bound is not None)

    def prune(self, read: Set[str], fields_of: FieldsOf) -> Node:
        """Return the filter over what is read by it or above it; the child if no flag is read."""
        if self.flag is not None and self.flag not in read:
            return self.child.prune(read, fields_of)
        needed = {*read, *self.key, self.moment} & set(self.child.names)
        return replace(self, child=self.child.prune(needed, fields_of))

    @property
    def explain_line(self) -> str:
        """``TemporalFilter moment >= … AND moment < …, time costs the rows that come or go``.

        With a flag: ``TemporalFilter flag is moment >= …, time costs the rows whose flag changes``.
        """
        low = [] if self.low is None else [f"{self.moment} >= {self.low.text}"]
        high = [] if self.high is None else [f"{self.moment} < {self.high.text}"]
        condition = " AND ".join(low + high)
        if self.flag is not None:
            return (
                f"TemporalFilter {self.flag} is {condition}, time costs the rows whose flag changes"
            )
        return f"TemporalFilter {condition}, time costs the rows that come or go"

    def to_json(self) -> dict[str, Any]:
        """Return the plan from here down as JSON values."""
        low, high = (None if b is None else b.to_json() for b in (self.low, self.high))
        return {
            "operator": self.operator,
            "child": self.child.to_json(),
            "moment": self.moment,
            "low": low,
            "high": high,
            "unit": self.unit,
            **({} if self.flag is None else {"flag": self.flag}),
        }

    @classmethod
    def from_json(cls, value: Json, read: ReadNode) -> Node:
        """Return the filter that `to_json` described."""
        low, high = (
            None if value[name] is None else ClockBound.from_json(value[name])
            for name in ("low", "high")
        )
        unit = read_number(value["unit"], DAY)
        flag = read_text(value["flag"]) if "flag" in value else None
        return cls(read(value["child"]), read_text(value["moment"]), low, high, unit, flag=flag)

    def check(self) -> None:
        """ValueError, too, if it has no bound, or its moment is not a BIGINT of the input."""
        super().check()
        check_names([self.moment], self.child.names, "the moment of a temporal filter")
        is_whole = self.child.type_of(self.moment) == types.BigInt()
        require(is_whole, "the moment of a temporal filter is not a BIGINT")
        require(bool(self.bounds), "a temporal filter has no bound")
        require(self.unit in (1, DAY), f"{self.unit} is not the unit of a temporal filter")
