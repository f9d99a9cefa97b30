"""Spark's own filter pushdown, for who asks for it with ``pushdown=true``.

Spark 4.3 answers wrongly where one relation with pushed filters is used twice: it plans such a
relation once and gives the rows of the last filter to every use (a self-join, a union, a common
table expression, a temporary view, a count after a filtered count). So this is a reader of its own;
the usual one has no filters to push. A relation that is loaded anew for each use is safe.

Promises: a filter is kept from Spark only if the read evaluates it exactly as Spark would.
Does not know: how a condition is evaluated, or what it prunes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as s

from relstate.storage import ReadPlan, errors

from .reader import TableReader

_COMPARISONS: dict[type[s.Filter], str] = {
    s.EqualTo: "=",
    s.EqualNullSafe: "<=>",
    s.GreaterThan: ">",
    s.GreaterThanOrEqual: ">=",
    s.LessThan: "<",
    s.LessThanOrEqual: "<=",
}
_PATTERNS: dict[type[s.Filter], str] = {
    s.StringStartsWith: "{}%",
    s.StringEndsWith: "%{}",
    s.StringContains: "%{}%",
}


class PushdownReader(TableReader):
    """A reader that takes the filters of one query."""

    def pushFilters(self, filters: list[s.Filter]) -> Iterable[s.Filter]:  # noqa: N802 - Spark's
        """Take what the read can evaluate exactly, and return the rest for Spark to evaluate."""
        assert isinstance(self._plan, ReadPlan)
        kept = [] if self._plan.where is None else [self._plan.where.text]
        rest = []
        for given in filters:
            text = condition_of(given)
            if text is None or not _is_evaluated(self._plan, text):
                rest.append(given)
            else:
                kept.append(text)
        if kept:
            zone = "UTC" if self._plan.where is None else self._plan.where.time_zone
            joined = " AND ".join(f"({one})" for one in kept)
            self._plan = replace(self._plan, where=None).filtered(joined, zone)
        return rest


def _is_evaluated(plan: ReadPlan, text: str) -> bool:
    try:
        replace(plan, where=None).filtered(text, "UTC")
    except (errors.UsageError, errors.SchemaMismatchError):
        return False
    return True


def condition_of(given: s.Filter) -> str | None:
    """Return a filter of Spark's as a condition in its SQL; None if there is none for it."""
    if isinstance(given, s.Not):
        child = condition_of(given.child)
        return None if child is None else f"NOT ({child})"
    attribute = getattr(given, "attribute", None)
    if attribute is None:
        return None
    column = ".".join(map(_quoted, attribute))
    if isinstance(given, s.IsNull):
        return f"{column} IS NULL"
    if isinstance(given, s.IsNotNull):
        return f"{column} IS NOT NULL"
    return _compared(column, given)


def _compared(column: str, given: s.Filter) -> str | None:
    value: Any = getattr(given, "value", None)
    sign, pattern = _COMPARISONS.get(type(given)), _PATTERNS.get(type(given))
    if pattern is not None:
        escaped = "".join(f"\\{one}" if one in "\\%_" else one for one in value)
        return f"{column} LIKE {_text(pattern.format(escaped))}"
    if isinstance(given, s.In):
        literals = list(map(literal_of, value))
        known = [one for one in literals if one is not None]
        return f"{column} IN ({', '.join(known)})" if known and len(known) == len(value) else None
    literal = literal_of(value)
    return None if sign is None or literal is None else f"{column} {sign} {literal}"


def literal_of(value: Any) -> str | None:
    """Return a value of a filter as a literal of Spark's SQL; None if there is none for it."""
    for kind, spelled in _LITERALS:
        if isinstance(value, kind):
            return spelled(value)
    return None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
    return f"TIMESTAMP '{value.astimezone(UTC).isoformat(' ')}'"


# A bool is an int to Python, and a datetime a date: the narrower comes first.
_LITERALS: tuple[tuple[type, Callable[[Any], str | None]], ...] = (
    (bool, lambda value: str(value).upper()),
    (int, lambda value: f"{value}L" if -(2**63) < value < 2**63 else None),
    (Decimal, lambda value: f"{value:f}BD"),
    (float, lambda value: f"{value!r}D" if value == value and abs(value) != float("inf") else None),
    (str, _text),
    (bytes, lambda value: f"X'{value.hex()}'"),
    (datetime, _moment),
    (date, lambda value: f"DATE '{value.isoformat()}'"),
)
