"""The parts of an aggregate's state: columns of a group's row, and how an epoch changes them.

    Part
    ├── Count           the number of values
    ├── WholeSum        the exact sum of integers, decimals or intervals
    ├── FloatSum        the sum of the finite floats, and the number of each kind (floats)
    ├── SquareSum       the sum of the squares of the finite floats (floats)
    ├── ProductSum      the sums of pairs of floats and of their products (products)
    ├── BitCounts       the number of values that have each bit (bits)
    └── Extreme         the least or greatest value (extreme)
        └── Mode        the most frequent value (mode)

Several calls share a part if they read the same values. The change of a part in an epoch has
the columns of the part and adds up, so that each task can compute it over some of the rows.
Promises: a part depends on the values alone, not on the epochs in which they were inserted and
deleted; only the last bits of sums of floats do.
Does not know: calls, or their results in Spark (result).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import types

from . import exact
from .deltas import Deltas, Runs

Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = Mapping[str, pa.Array]
"""Columns of the groups' rows, by their names; NULL where there is no row."""

_SHORT_PRECISION = 28
"""Of decimals up to this precision 10 billion rows sum up to 38 digits."""


@dataclass(frozen=True, slots=True)
class ValueSource:
    """The values that a part reads: those of ``argument``, or all rows, that pass ``filter``."""

    argument: str | None
    filter: str | None
    is_distinct: bool


@dataclass(frozen=True)
class Part(ABC):
    """Columns of a group's row; their names begin with ``name``."""

    source: ValueSource
    name: str

    @property
    def kind(self) -> str:
        """A name that is unique among the parts over the same values."""
        return type(self).__name__

    @property
    def argument(self) -> str:
        """The name of the argument, where it has one."""
        assert self.source.argument is not None
        return self.source.argument

    @property
    @abstractmethod
    def fields(self) -> tuple[types.Field, ...]:
        """The columns."""

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the columns that count values: they are never negative."""
        return ()

    @abstractmethod
    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the change of each group by inserted and deleted values, in the part's columns."""

    @abstractmethod
    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sum of the changes of each group; ``changes`` are in group order."""

    @abstractmethod
    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Return the columns after the change."""

    def column(self, suffix: str) -> str:
        """Return the name of a column."""
        return f"{self.name}_{suffix}"

    def _field(self, suffix: str, data_type: types.DataType) -> types.Field:
        return types.Field(self.column(suffix), data_type)


class Count(Part):
    """The number of values."""

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """One count."""
        return (self._field("count", types.BigInt()),)

    @property
    def counts(self) -> tuple[str, ...]:
        """The name of the count's column."""
        return (self.column("count"),)

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the change of the number of values."""
        return [pa.array(deltas.counts)]

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums."""
        return [pa.array(runs.totals(self.of(changes)))]

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add the change."""
        return [pa.array(self.of(before) + self.of(change))]

    def of(self, columns: Columns) -> NDArray[np.int64]:
        """Return the counts."""
        return to_counts(columns[self.column("count")])


@dataclass(frozen=True)
class WholeSum(Part):
    """An exact sum; of long decimals low + high * 10^38, since it may need more than 38 digits."""

    is_long: bool

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The sum's 38 digits and, where there may be more, the rest."""
        low = self._field("sum", types.Decimal(exact.DIGITS, 0))
        return (low, self._field("sum_high", types.BigInt())) if self.is_long else (low,)

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the sums of inserted values minus deleted ones."""
        return self._columns(exact.totals(deltas, deltas.values, deltas.weights))

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the sums."""
        total = exact.totals(runs, changes[self.column("sum")])
        if self.is_long:
            high = runs.totals(to_counts(changes[self.column("sum_high")]))
            total = _join_digits(total, high)
        return self._columns(total)

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Add the change."""
        return self._columns(exact.add(self.of(before), self.of(change)))

    def of(self, columns: Columns) -> exact.Exact:
        """Return the sums; 0 where there are no values."""
        low = exact.from_arrow(columns[self.column("sum")])
        return (
            low
            if not self.is_long
            else _join_digits(low, to_counts(columns[self.column("sum_high")]))
        )

    def _columns(self, total: exact.Exact) -> list[pa.Array]:
        low, high = (total, None) if not self.is_long else _split_digits(total)
        never_null = np.zeros(len(total), np.bool_)
        columns = [exact.to_arrow(low, pa.decimal128(exact.DIGITS, 0), never_null)]
        return columns if high is None else [*columns, pa.array(high)]


def whole_sum(source: ValueSource, name: str, data_type: types.DataType) -> WholeSum:
    """Return the sum of values of a type."""
    is_long = isinstance(data_type, types.Decimal) and data_type.precision > _SHORT_PRECISION
    return WholeSum(source, name, is_long)


def to_counts(column: pa.Array) -> NDArray[np.int64]:
    """Return a column of counts as numbers; NULL is 0."""
    return np.asarray(pc.fill_null(column, 0))


def _split_digits(total: exact.Exact) -> tuple[exact.Exact, NDArray[np.int64]]:
    if total.dtype == np.int64:
        return total, np.zeros(len(total), np.int64)
    high = total // 10**exact.DIGITS
    return exact.narrow(total - high * 10**exact.DIGITS), high.astype(np.int64)


def _join_digits(low: exact.Exact, high: NDArray[np.int64]) -> exact.Exact:
    if not high.any():
        return low
    whole: exact.Exact = low.astype(object) + high.astype(object) * 10**exact.DIGITS
    return whole
