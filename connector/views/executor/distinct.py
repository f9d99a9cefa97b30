"""The distinct values of an argument in each group, and how many rows have them.

Promises: a value is passed on once when its first row is inserted, and once when its last row is
deleted.
Does not know: which functions read the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import types

from ..plan.aggregate import Aggregate
from ..plan.node import Order, free_name
from .deltas import Deltas, Groups, group_rows, passing_rows
from .executor import StateTableSpec, state_mismatch_error
from .mode import Frequencies
from .part import ValueSource, to_counts
from .rowkeys import RowKeys
from .state import State


@dataclass(frozen=True, slots=True)
class DistinctChanges:
    """What an epoch changes of the distinct values, by filter.

    ``deltas``: the values that appear and disappear. ``frequencies``: how many rows have a value.
    """

    deltas: dict[ValueSource, Deltas]
    frequencies: dict[ValueSource, Frequencies]


@dataclass(frozen=True)
class Distinct:
    """The table of an argument's distinct values.

    ``filters``: pairs of a filter (None: all rows) and the column that counts the rows passing it.
    """

    argument: str
    filters: tuple[tuple[str | None, str], ...]
    spec: StateTableSpec


def distinct_table(
    node: Aggregate, argument: str, filters: Sequence[str | None], role: str
) -> Distinct:
    """Return the table of an argument's values: group / value."""
    key = tuple(dict.fromkeys((*node.group, argument)))
    used_names = {name.lower() for name in key}
    columns = []
    for number, condition in enumerate(filters):
        name = "rows" if condition is None else f"rows_{number}"
        columns.append((condition, free_name(name, used_names)))
    fields = (
        *(types.Field(name, node.child.type_of(name)) for name in key),
        *(types.Field(name, types.BigInt()) for _, name in columns),
    )
    spec = StateTableSpec(role, fields, tuple(map(Order, key)), node.distribution or ())
    return Distinct(argument, tuple(columns), spec)


def distinct_changes(
    table: Distinct,
    state: State,
    chunk: pa.RecordBatch,
    groups: Groups,
    weights: NDArray[np.int64],
) -> DistinctChanges:
    """Write the counts; return what changes.

    ConsistencyError if more rows with a value are deleted than there are.
    """
    masks = [passing_rows(chunk, table.argument, condition) for condition, _ in table.filters]
    is_counted = np.logical_or.reduce([_mask_or_all(mask, chunk.num_rows) for mask in masks])
    rows = np.flatnonzero(is_counted)
    row_keys = RowKeys(table.spec.fields, table.spec.primary_key)
    pairs = group_rows(chunk.select(list(row_keys.names)).take(pa.array(rows)), row_keys)
    chunk_rows = rows[pairs.order]
    before = _counts_before(table, state, pairs.keys)
    codes = groups.code_of_rows[rows[pairs.firsts]]
    changes, after = DistinctChanges({}, {}), []
    for (condition, _), mask, old in zip(table.filters, masks, before, strict=True):
        signed_weights = weights[chunk_rows] * _mask_or_all(mask, chunk.num_rows)[chunk_rows]
        change = Deltas(len(pairs), pairs.codes, signed_weights, chunk_rows, None)
        new = old + change.counts
        _check(table, pairs.keys, row_keys, new)
        after.append(new)
        source = ValueSource(table.argument, condition, True)
        changes.deltas[source] = _transitions(table, groups, pairs, rows, old > 0, new > 0)
        changes.frequencies[source] = Frequencies(
            codes,
            pairs.keys.select(groups.keys.schema.names),
            pairs.keys.column(table.argument),
            old,
            new,
        )
    _write(table, state, pairs.keys, before, after)
    return changes


def _transitions(
    table: Distinct,
    groups: Groups,
    pairs: Groups,
    rows: NDArray[np.int64],
    existed: NDArray[np.bool_],
    exists: NDArray[np.bool_],
) -> Deltas:
    changed = np.flatnonzero(existed != exists)
    firsts = rows[pairs.firsts[changed]]
    values = pairs.keys.column(table.argument).take(pa.array(changed))
    weights = np.where(exists[changed], 1, -1)
    return Deltas(len(groups), groups.code_of_rows[firsts], weights, firsts, values)


def _counts_before(table: Distinct, state: State, keys: pa.RecordBatch) -> list[NDArray[np.int64]]:
    names = [name for _, name in table.filters]
    counts = [np.zeros(keys.num_rows, np.int64) for _ in names]
    if keys.num_rows and not state.is_empty:
        indices, rows = state.get_rows(keys, names)
        for count, name in zip(counts, names, strict=True):
            count[indices] = to_counts(rows.column(name))
    return counts


def _write(
    table: Distinct,
    state: State,
    keys: pa.RecordBatch,
    before: Sequence[NDArray[np.int64]],
    after: Sequence[NDArray[np.int64]],
) -> None:
    counts = zip(before, after, strict=True)
    changed = np.logical_or.reduce([old != new for old, new in counts])
    if not changed.any():
        return
    exists = np.logical_or.reduce([new > 0 for new in after])
    columns = [*keys.columns, *map(pa.array, after)]
    rows = pa.RecordBatch.from_arrays(columns, names=[field.name for field in table.spec.fields])
    state.write(rows.filter(pa.array(changed)), ~exists[changed])


def _check(
    table: Distinct, keys: pa.RecordBatch, row_keys: RowKeys, counts: NDArray[np.int64]
) -> None:
    if (counts < 0).any():
        row = int(np.flatnonzero(counts < 0)[0])
        raise state_mismatch_error(
            f"in the state table {table.spec.role} of an aggregate, {-counts[row]} more rows with "
            f"{row_keys.describe(keys, row)} are deleted than there are"
        )


def _mask_or_all(mask: NDArray[np.bool_] | None, rows: int) -> NDArray[np.bool_]:
    return np.ones(rows, np.bool_) if mask is None else mask
