"""Conditions over the columns of a table, and which rows of a batch fulfil them.

    Truth                 true, false or unknown, whatever the row
    Member                a column's value is in a set; says what NULL counts as
    Comparison            two columns compare so
    Matches               a text matches a pattern
    Every, Some           all of several conditions, any of them
    Settled               another condition is true, or is not

NOT never stands in a condition: ``negated`` returns the condition that is true where this one is
false. So "is it true?" is all that is ever asked of a part, and three-valued logic needs two
values: what is unknown is not true, and neither is its negation.

Does not know: SQL text, types' rules, keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..schema import types as t
from .domain import domain_of
from .valueset import ValueSet, intersection, union

Flags: TypeAlias = NDArray[np.bool_]
Path: TypeAlias = tuple[str, ...]
"""A column's name, and those of the fields inside it."""

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Condition(ABC):
    """What a row fulfils, or does not, or it is unknown. Immutable; picklable."""

    __slots__ = ()

    @abstractmethod
    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return, for each row of a batch with the columns, whether the condition is true."""

    @abstractmethod
    def negated(self) -> Condition:
        """Return the condition that is true where this one is false."""

    @abstractmethod
    def columns(self) -> Iterator[str]:
        """Yield the names of the columns it looks at, again and again."""


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """A constant; None is unknown."""

    value: bool | None

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the same for all rows."""
        return np.full(batch.num_rows, self.value is True)

    def negated(self) -> Condition:
        """Return the other truth; the negation of the unknown is unknown."""
        return Truth(None if self.value is None else not self.value)

    def columns(self) -> Iterator[str]:
        """Yield nothing."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Member(Condition):
    """A column's value is in a set. ``when_null``: what this is for NULL; None: unknown."""

    path: Path
    type: t.DataType
    values: ValueSet
    when_null: bool | None = None

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return which values are in the set."""
        array = column_at(batch, self.path)
        valid = valid_rows(array)
        domain = domain_of(self.type)
        if self.values.is_empty or self.values.is_everything or domain is None:
            inside = np.full(len(array), not self.values.is_empty)
        else:
            inside = domain.contains(array, self.values)
        return (inside | ~valid) if self.when_null else (inside & valid)

    def negated(self) -> Condition:
        """Return that the value is in none of the set."""
        when_null = None if self.when_null is None else not self.when_null
        return Member(self.path, self.type, self.values.complement(), when_null)

    def columns(self) -> Iterator[str]:
        """Yield the column."""
        yield self.path[0]


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """Two columns of one type compare so.

    With ``null_safe``, NULL equals NULL and nothing else, and is never unknown.
    """

    left: Path
    operator: str
    right: Path
    type: t.DataType
    null_safe: bool = False

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return where both are there and compare so; null-safe, where both are NULL, too."""
        left, right = column_at(batch, self.left), column_at(batch, self.right)
        has_left, has_right = valid_rows(left), valid_rows(right)
        both = has_left & has_right
        found: Flags = both & _compared(left, self.operator, right, self.type)
        if self.null_safe:
            alike = has_left == has_right if self.operator == "=" else has_left != has_right
            found |= ~both & alike
        return found

    def negated(self) -> Condition:
        """Return the opposite comparison."""
        operator = NEGATED[self.operator]
        return Comparison(self.left, operator, self.right, self.type, self.null_safe)

    def columns(self) -> Iterator[str]:
        """Yield both columns."""
        yield self.left[0]
        yield self.right[0]


@dataclass(frozen=True, slots=True)
class Matches(Condition):
    """A text or its bytes match a regular expression of RE2, or do not."""

    path: Path
    pattern: str
    wanted: bool = True

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return which texts match."""
        array = column_at(batch, self.path)
        found = pc.match_substring_regex(array, self.pattern).fill_null(not self.wanted)
        flags: Flags = found.to_numpy(zero_copy_only=False)
        return flags if self.wanted else ~flags

    def negated(self) -> Condition:
        """Return that the text does not match."""
        return Matches(self.path, self.pattern, not self.wanted)

    def columns(self) -> Iterator[str]:
        """Yield the column."""
        yield self.path[0]


@dataclass(frozen=True, slots=True)
class Every(Condition):
    """All parts; make it with `every`."""

    parts: tuple[Condition, ...]

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which all parts are true."""
        return reduce(np.logical_and, (part.holds(batch) for part in self.parts))

    def negated(self) -> Condition:
        """Return that some part is false."""
        return some([part.negated() for part in self.parts])

    def columns(self) -> Iterator[str]:
        """Yield those of the parts."""
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class Some(Condition):
    """Any part; make it with `some`."""

    parts: tuple[Condition, ...]

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which any part is true."""
        return reduce(np.logical_or, (part.holds(batch) for part in self.parts))

    def negated(self) -> Condition:
        """Return that every part is false."""
        return every([part.negated() for part in self.parts])

    def columns(self) -> Iterator[str]:
        """Yield those of the parts."""
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class Settled(Condition):
    """Another condition is true (``wanted``), or is not: it is false or unknown. Never unknown."""

    of: Condition
    wanted: bool = True

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which the condition is true, or those for which it is not."""
        found = self.of.holds(batch)
        return found if self.wanted else ~found

    def negated(self) -> Condition:
        """Return the opposite."""
        return Settled(self.of, not self.wanted)

    def columns(self) -> Iterator[str]:
        """Yield those of the condition."""
        return self.of.columns()


def unknown(condition: Condition) -> Condition:
    """Return the condition that another one is neither true nor false."""
    return Every((Settled(condition, False), Settled(condition.negated(), False)))


def every(parts: Sequence[Condition]) -> Condition:
    """Return the condition that is true where all parts are; sets of one column are made one."""
    return _joined(parts, Every, intersection)


def some(parts: Sequence[Condition]) -> Condition:
    """Return the condition that is true where any part is; sets of one column are made one."""
    return _joined(parts, Some, union)


def column_at(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """Return a column, or a field inside it: NULL where anything around it is."""
    array = batch.column(path[0])
    for name in path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def valid_rows(array: pa.Array) -> Flags:
    """Return where an array is not NULL."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    flags: Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return flags


def _joined(
    parts: Sequence[Condition],
    kind: type[Every] | type[Some],
    join: Callable[[Sequence[ValueSet]], ValueSet],
) -> Condition:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, kind) else [part])]
    members = [part for part in flat if isinstance(part, Member)]
    joined: list[Condition] = [part for part in flat if not isinstance(part, Member)]
    members.sort(key=_column_of)
    for _, group in groupby(members, _column_of):
        same = list(group)
        values = join([member.values for member in same])
        joined.append(Member(same[0].path, same[0].type, values, same[0].when_null))
    return joined[0] if len(joined) == 1 else kind(tuple(joined))


def _column_of(member: Member) -> tuple[Path, str]:
    return member.path, str(member.when_null)


_COMPARE = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_COMPARE_BYTES = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _compared(left: pa.Array, operator: str, right: pa.Array, data_type: t.DataType) -> Flags:
    """Return how values compare that are all there; where one is NULL, anything."""
    domain = domain_of(data_type)
    assert domain is not None
    one, other = (domain.sort_keys(array) for array in (left, right))
    if isinstance(one, pa.Array):
        found = _COMPARE_BYTES[operator](one, other).fill_null(False)
        flags: Flags = found.to_numpy(zero_copy_only=False)
        return flags
    compared: Flags = _COMPARE[operator](one, other)
    return compared
