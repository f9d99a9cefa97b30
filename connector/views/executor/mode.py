"""The most frequent value of each group.

How many rows have a value is in the table of the distinct values. A second table has these values
sorted by frequency, the most frequent first, and from the least to the greatest among equals: the
extreme of a group is its mode.

Promises: of several most frequent values the least, as `mode(x, true)` in Spark.
Does not know: rows; it sees how the frequencies of values change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import types

from ..plan.aggregate import Aggregate
from ..plan.node import Order, free_name
from .deltas import Deltas, Groups
from .executor import StateTableSpec
from .extreme import Extreme
from .part import Columns, ValueSource
from .state import Positions


@dataclass(frozen=True)
class Mode(Extreme):
    """The least of the *ranks* of a group: structs of a frequency, negated, and the value."""

    rank_name: str
    """The name of the ranks in their table."""

    @classmethod
    def over(
        cls, node: Aggregate, source: ValueSource, name: str, data_type: types.DataType
    ) -> Self:
        """Return the part for the values of a source, which counts each distinct value."""
        rank = types.Struct((types.Field("rows", types.BigInt()), types.Field("value", data_type)))
        rank_name = free_name("rank", {field.lower() for field in node.group})
        return cls(source, name, rank, is_greatest=False, is_running=False, rank_name=rank_name)

    @property
    def suffix(self) -> str:
        """The end of the column's name."""
        return "mode"

    @property
    def value_name(self) -> str:
        """The name of the ranks."""
        return self.rank_name

    @property
    def is_encoded(self) -> bool:
        """False: of the distinct values none is -0."""
        return False

    def modes(self, columns: Columns) -> pa.Array:
        """Return the most frequent values."""
        return pc.struct_field(self.of(columns), [1])


def rank_table(node: Aggregate, mode: Mode, role: str) -> StateTableSpec:
    """Return the table of the ranks: group / rank."""
    fields = (*node.group_fields, types.Field(mode.rank_name, mode.type))
    key = tuple(Order(field.name) for field in fields)
    return StateTableSpec(role, fields, key, node.distribution or ())


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How many rows have each of some values, before and after an epoch.

    ``groups``: by value the number of its group, ascending. ``keys``: the columns of the groups, a
    row per value.
    """

    groups: Positions
    keys: pa.RecordBatch
    values: pa.Array
    before: NDArray[np.int64]
    after: NDArray[np.int64]

    def rank_changes(self, mode: Mode, groups: Groups) -> tuple[pa.RecordBatch, Deltas]:
        """Return (the rows of the rank table, how they change)."""
        changed = self.before != self.after
        lost = np.flatnonzero(changed & (self.before > 0))
        new = np.flatnonzero(changed & (self.after > 0))
        values = np.concatenate([lost, new])
        counts = np.concatenate([self.before[lost], self.after[new]])
        weights = np.repeat(np.array([-1, 1]), [len(lost), len(new)])
        order = np.argsort(self.groups[values], kind="stable")
        values = values[order]
        ranks = _ranks(mode, counts[order], self.values.take(pa.array(values)))
        names = [*groups.keys.schema.names, mode.rank_name]
        keys = self.keys.take(pa.array(values))
        rows = pa.RecordBatch.from_arrays([*keys.columns, ranks], names=names)
        codes, positions = self.groups[values], np.arange(len(values))
        return rows, Deltas(len(groups), codes, weights[order], positions, ranks)


def _ranks(mode: Mode, counts: NDArray[np.int64], values: pa.Array) -> pa.Array:
    assert isinstance(mode.type, types.Struct)
    names: Sequence[str] = [field.name for field in mode.type.fields]
    return pa.StructArray.from_arrays([pa.array(-counts), values], names=names)
