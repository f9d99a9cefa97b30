"""Conditions over the columns of a table, and which rows of a batch fulfil them.

    Truth                 true, false or unknown for every row
    Member                a column's value is in a set; NULL has an answer of its own
    Comparison            a comparison of two columns
    Matches               a text matches a pattern
    And, Or               all of several conditions, any of them
    IsTrue                another condition is true, or it is not: never unknown

There is no NOT: ``negated`` returns the condition that is true where this one is false. So a
condition only says for which rows it is true, and three-valued logic needs two values: an unknown
condition is not true, and its negation is not true either.

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
    """What is true, false or unknown for a row. Immutable; picklable."""

    __slots__ = ()

    @abstractmethod
    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return, for each row of a batch with the columns, whether the condition is true."""

    @abstractmethod
    def negated(self) -> Condition:
        """Return the condition that is true where this one is false."""

    @abstractmethod
    def columns(self) -> Iterator[str]:
        """Yield the names of the columns it reads, possibly several times."""


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """The same for every row; None is unknown."""

    value: bool | None

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the same for all rows."""
        return np.full(batch.num_rows, self.value is True)

    def negated(self) -> Condition:
        """Return the opposite; unknown stays unknown."""
        return Truth(None if self.value is None else not self.value)

    def columns(self) -> Iterator[str]:
        """Yield nothing."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Member(Condition):
    """A column's value is in a set. ``when_null``: the answer for NULL; None is unknown."""

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
        """Return that the value is not in the set."""
        when_null = None if self.when_null is None else not self.when_null
        return Member(self.path, self.type, self.values.complement(), when_null)

    def columns(self) -> Iterator[str]:
        """Yield the column."""
        yield self.path[0]


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """A comparison of two columns of one type.

    With ``null_safe``, NULL equals NULL and nothing else, and is never unknown.
    """

    left: Path
    operator: str
    right: Path
    type: t.DataType
    null_safe: bool = False

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return where neither is NULL and both compare so; if null-safe, also for NULLs."""
        left, right = column_at(batch, self.left), column_at(batch, self.right)
        has_left, has_right = valid_rows(left), valid_rows(right)
        are_present = has_left & has_right
        flags: Flags = are_present & compare_values(left, self.operator, right, self.type)
        if self.null_safe:
            are_alike = has_left == has_right if self.operator == "=" else has_left != has_right
            flags |= ~are_present & are_alike
        return flags

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
    """A text matches a regular expression of RE2; with ``expected`` False, it does not."""

    path: Path
    pattern: str
    expected: bool = True

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return which texts match."""
        array = column_at(batch, self.path)
        matches = pc.match_substring_regex(array, self.pattern).fill_null(not self.expected)
        flags: Flags = matches.to_numpy(zero_copy_only=False)
        return flags if self.expected else ~flags

    def negated(self) -> Condition:
        """Return that the text does not match."""
        return Matches(self.path, self.pattern, not self.expected)

    def columns(self) -> Iterator[str]:
        """Yield the column."""
        yield self.path[0]


@dataclass(frozen=True, slots=True)
class And(Condition):
    """All parts are true; `all_of` makes it."""

    parts: tuple[Condition, ...]

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which all parts are true."""
        return reduce(np.logical_and, (part.holds(batch) for part in self.parts))

    def negated(self) -> Condition:
        """Return that some part is false."""
        return any_of([part.negated() for part in self.parts])

    def columns(self) -> Iterator[str]:
        """Yield those of the parts."""
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class Or(Condition):
    """Any part is true; `any_of` makes it."""

    parts: tuple[Condition, ...]

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which any part is true."""
        return reduce(np.logical_or, (part.holds(batch) for part in self.parts))

    def negated(self) -> Condition:
        """Return that every part is false."""
        return all_of([part.negated() for part in self.parts])

    def columns(self) -> Iterator[str]:
        """Yield those of the parts."""
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class IsTrue(Condition):
    """Another condition is true; with ``expected`` False, it is false or unknown."""

    condition: Condition
    expected: bool = True

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return the rows for which the condition is true, or those for which it is not."""
        flags = self.condition.holds(batch)
        return flags if self.expected else ~flags

    def negated(self) -> Condition:
        """Return the opposite."""
        return IsTrue(self.condition, not self.expected)

    def columns(self) -> Iterator[str]:
        """Yield those of the condition."""
        return self.condition.columns()


def is_unknown(condition: Condition) -> Condition:
    """Return the condition that another one is unknown."""
    return And((IsTrue(condition, False), IsTrue(condition.negated(), False)))


def all_of(parts: Sequence[Condition]) -> Condition:
    """Return the AND of some conditions, in which the sets of one column become one set."""
    return _joined(parts, And, intersection)


def any_of(parts: Sequence[Condition]) -> Condition:
    """Return the OR of some conditions, in which the sets of one column become one set."""
    return _joined(parts, Or, union)


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
    kind: type[And] | type[Or],
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


def compare_values(left: pa.Array, operator: str, right: pa.Array, data_type: t.DataType) -> Flags:
    """Return how values compare; for a NULL the answer means nothing."""
    domain = domain_of(data_type)
    assert domain is not None
    left_keys, right_keys = domain.sort_keys(left), domain.sort_keys(right)
    if isinstance(left_keys, pa.Array):
        answers = _COMPARE_BYTES[operator](left_keys, right_keys).fill_null(False)
        flags: Flags = answers.to_numpy(zero_copy_only=False)
        return flags
    compared: Flags = _COMPARE[operator](left_keys, right_keys)
    return compared
