"""The least or greatest value of each group.

If rows are only inserted, the extreme is in the group's row. Otherwise all values are also in a
table of their own, sorted so that the extreme is the first of its group. The least and the greatest
of the same values share it: one is the first of the group, the other the last. It is read only for
groups in which a row with the extreme was deleted and no value at least as good was inserted.

Promises: values compare as in Spark, by the key codec: NaN is the greatest. Of -0 and 0, which
are equal, -0 counts as the lesser, so that a group has one extreme whatever the order of its rows.
Does not know: the other parts of a group's row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import KeyCodec, ragged, types

from ..plan.aggregate import Aggregate
from ..plan.node import Order, free_name
from .deltas import Deltas, Groups, Runs
from .executor import StateTableSpec, state_mismatch_error
from .part import Columns, Part
from .rowkeys import Codes, RowKeys, first_positions, last_positions
from .state import Positions, State

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Extreme(Part):
    """The least or the greatest value, of type ``type``.

    ``is_running``: values are only inserted, so that no table stores them.
    """

    type: types.DataType
    is_greatest: bool
    is_running: bool

    @property
    def kind(self) -> str:
        """The suffix: the least and the greatest of the same values are two parts."""
        return self.suffix

    @property
    def suffix(self) -> str:
        """The end of the column's name."""
        return "max" if self.is_greatest else "min"

    @property
    def value_name(self) -> str:
        """The name of the values in their table."""
        return self.argument

    @property
    def is_encoded(self) -> bool:
        """Whether the table has the values as `encode` returns them: a key has no -0."""
        return types.holds_floats(self.type)

    @property
    def fields(self) -> tuple[types.Field, ...]:
        """The value."""
        return (self._field(self.suffix, self.type),)

    def changed(self, deltas: Deltas) -> list[pa.Array]:
        """Return the best value that is inserted; called only if none is deleted."""
        return [self.decode(self.best(deltas))]

    def summed(self, changes: Columns, runs: Runs) -> list[pa.Array]:
        """Return the best of each group."""
        values = self.of(changes)
        rows = np.flatnonzero(np.asarray(values.is_valid()))
        valid_values = values.take(pa.array(rows))
        return self.changed(
            Deltas(runs.groups, runs.codes[rows], np.ones_like(rows), rows, valid_values)
        )

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Return the better of the old value and the inserted one."""
        return [self.decode(_lesser_keys(self.encoded(before), self.encoded(change)))]

    def of(self, columns: Columns) -> pa.Array:
        """Return the values."""
        return columns[self.column(self.suffix)]

    def encoded(self, columns: Columns) -> ragged.Bytes:
        """Return the values as `encode` does; NULL where there are none."""
        values = self.of(columns)
        return _null_unless(np.asarray(values.is_valid()), self.encode(values))

    def best(self, deltas: Deltas) -> ragged.Bytes:
        """Return the best inserted value of each group, as bytes."""
        is_inserted = deltas.weights > 0
        if not is_inserted.any():
            return pa.nulls(deltas.groups, pa.large_binary())
        codes = deltas.codes[is_inserted]
        keys = self.encode(deltas.values.filter(pa.array(is_inserted)))
        order = ragged.sort_order(_prefix_with_groups(codes, keys))
        firsts = order[first_positions(codes)]
        return _key_per_group(keys.take(pa.array(firsts)), codes[firsts], deltas.groups)

    def encode(self, values: pa.Array) -> ragged.Bytes:
        """Return values as bytes that sort from the best value to the worst."""
        return self._codec.encode([values])

    def decode(self, keys: ragged.Bytes) -> pa.Array:
        """Return the values that `encode` encoded; NULL for NULL."""
        values = self._codec.decode(keys.drop_null())[0]
        is_valid = np.asarray(keys.is_valid())
        positions = pa.array(np.cumsum(is_valid) - 1, mask=~is_valid)
        return values.take(positions)

    @property
    def _codec(self) -> KeyCodec:
        return KeyCodec([self.type], [value_order("", self.is_greatest)], tells_zeros=True)


def value_order(name: str, is_greatest: bool) -> Order:
    """Return the order in which the best value comes first."""
    return Order(name, descending=is_greatest, nulls_first=False)


def extreme_table(node: Aggregate, extreme: Extreme, role: str) -> StateTableSpec:
    """Return the table of an extreme's values: group / value / the child's key."""
    argument = extreme.argument
    if extreme.is_encoded:
        return _encoded_table(node, extreme, role)
    orders = {name: Order(name) for name in (*node.group, argument, *node.child.key)}
    if argument not in node.group:
        orders[argument] = value_order(argument, extreme.is_greatest)
    fields = tuple(types.Field(name, node.child.type_of(name)) for name in orders)
    return StateTableSpec(role, fields, tuple(orders.values()), node.distribution or ())


def _encoded_table(node: Aggregate, extreme: Extreme, role: str) -> StateTableSpec:
    """Return the table of an extreme's encoded values: group / value / the child's key.

    The value is the first of its columns.
    """
    names = tuple(dict.fromkeys((*node.group, *node.child.key)))
    name = free_name("value", {other.lower() for other in names})
    fields = [types.Field(other, node.child.type_of(other)) for other in names]
    rest = (other for other in names if other not in node.group)
    key = tuple(map(Order, dict.fromkeys((*node.group, name, *rest))))
    columns = (types.Field(name, types.Binary()), *fields)
    return StateTableSpec(role, columns, key, node.distribution or ())


class ExtremeTable:
    """The values of an extreme, or of both, over rows that may be deleted, in one epoch.

    They are sorted as the first extreme encodes them: it is the first of its group, the other one
    the last.
    """

    def __init__(self, extremes: tuple[Extreme, ...], spec: StateTableSpec, state: State) -> None:
        self._extremes = extremes
        self._first = extremes[0]
        self._spec = spec
        self._state = state
        self._row_keys = RowKeys(spec.fields, spec.primary_key)
        self._value_name = spec.fields[0].name if self._first.is_encoded else self._first.value_name

    def advance(
        self,
        before: Columns,
        deltas: Deltas,
        chunk: pa.RecordBatch,
        groups: Groups,
        exists: Mask,
    ) -> list[pa.Array]:
        """Write the changes of the values; return each extreme of each group.

        ``exists``: which groups still have rows. ConsistencyError if a deleted value is better than
        an extreme, so that it cannot have existed.
        """
        rows = self._rows(chunk, deltas)
        if (deltas.weights > 0).all():
            # As in a backfill: no change cancels another, and an extreme can only improve.
            self._write(rows, deltas.weights, np.ones(len(rows), np.bool_))
            return [
                extreme.decode(_lesser_keys(extreme.encoded(before), extreme.best(deltas)))
                for extreme in self._extremes
            ]
        keys = self._row_keys.encode(rows)
        changed = _is_unpaired(keys)
        self._write(rows, deltas.weights, changed)
        is_removed = (deltas.weights < 0) & changed
        removed = _filter_deltas(deltas, is_removed)
        inserted = _filter_deltas(deltas, changed & ~is_removed)
        removed_keys = keys.filter(pa.array(is_removed))
        return [
            extreme.decode(
                self._after(extreme, before, removed, removed_keys, inserted, groups, exists)
            )
            for extreme in self._extremes
        ]

    def _after(
        self,
        extreme: Extreme,
        before: Columns,
        removed: Deltas,
        removed_keys: ragged.Bytes,
        inserted: Deltas,
        groups: Groups,
        exists: Mask,
    ) -> ragged.Bytes:
        """Return an extreme of each group, encoded; ``removed_keys``: of the removed rows."""
        extremes = extreme.encoded(before)
        lost_extreme = self._lost_extremes(
            extremes, removed.codes, extreme.encode(removed.values), groups
        )
        new_extremes = _lesser_keys(_null_unless(~lost_extreme, extremes), extreme.best(inserted))
        # If a value as good as the deleted one was inserted, no stored value is better.
        is_better = np.asarray(pc.fill_null(pc.less_equal(new_extremes, extremes), False))
        to_read = np.flatnonzero(lost_extreme & exists & ~is_better)
        if not len(to_read):
            return new_extremes
        counts = np.bincount(removed.codes, minlength=len(groups))[to_read]
        prefixes = groups.keys.take(pa.array(to_read))
        indices, best_values = self._best_stored(extreme, prefixes, counts + 1, removed_keys)
        stored = _key_per_group(best_values, to_read[indices], len(groups))
        return _lesser_keys(new_extremes, stored)

    def _rows(self, chunk: pa.RecordBatch, deltas: Deltas) -> pa.RecordBatch:
        """Return the rows of the table that change."""
        positions, names = pa.array(deltas.rows), self._row_keys.names
        if not self._first.is_encoded:
            return chunk.select(list(names)).take(positions)
        values = self._first.encode(deltas.values).cast(pa.binary())
        columns = [
            values if name == self._value_name else chunk.column(name).take(positions)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    def _write(self, rows: pa.RecordBatch, weights: NDArray[np.int64], changed: Mask) -> None:
        if changed.any():
            mask = pa.array(changed)
            self._state.write(rows.filter(mask), weights[changed] < 0)

    def _lost_extremes(
        self, group_extremes: ragged.Bytes, codes: Codes, keys: ragged.Bytes, groups: Groups
    ) -> Mask:
        """Return in which groups a row with the extreme is deleted."""
        extremes = group_extremes.take(pa.array(codes))
        is_invalid = np.asarray(pc.fill_null(pc.less(keys, extremes), True))
        if is_invalid.any():
            group = codes[np.flatnonzero(is_invalid)[0]]
            row_keys = RowKeys(
                self._spec.fields, [Order(name) for name in groups.keys.schema.names]
            )
            raise state_mismatch_error(
                f"in the state table {self._spec.role} of an aggregate, the group with "
                f"{row_keys.describe(groups.keys, int(group))} loses a value that it does not have"
            )
        lost_extreme = np.zeros(len(groups), np.bool_)
        lost_extreme[codes[np.asarray(pc.equal(keys, extremes))]] = True
        return lost_extreme

    def _best_stored(
        self,
        extreme: Extreme,
        prefixes: pa.RecordBatch,
        counts: Positions,
        removed_keys: ragged.Bytes,
    ) -> tuple[Positions, ragged.Bytes]:
        """Return (prefixes' indices, values): the best value of each prefix that is not removed."""
        is_first = extreme is self._first
        read = self._state.first_per_prefix if is_first else self._state.last_per_prefix
        indices, rows = read(prefixes, counts)
        remains = ~np.asarray(pc.is_in(self._row_keys.encode(rows), value_set=removed_keys))
        indices = indices[remains]
        best = first_positions(indices) if is_first else last_positions(indices)
        values = rows.column(self._value_name).filter(pa.array(remains)).take(pa.array(best))
        if not self._first.is_encoded:
            return indices[best], extreme.encode(values)
        stored = values.cast(pa.large_binary())
        return indices[best], stored if is_first else extreme.encode(self._first.decode(stored))


def _filter_deltas(deltas: Deltas, mask: Mask) -> Deltas:
    values = deltas.values.filter(pa.array(mask))
    return Deltas(
        deltas.groups, deltas.codes[mask], deltas.weights[mask], deltas.rows[mask], values
    )


def _is_unpaired(keys: ragged.Bytes) -> Mask:
    """Return which keys occur once; a delete and an insert of one key cancel."""
    order = ragged.sort_order(keys)
    single = np.ones(len(keys), np.bool_)
    if len(keys) > 1:
        equals_next = ragged.equal_neighbours(keys.take(pa.array(order)))
        single[order[np.append(equals_next, False)]] = False
        single[order[np.append(False, equals_next)]] = False
    return single


def _prefix_with_groups(codes: Codes, keys: ragged.Bytes) -> ragged.Bytes:
    """Return keys prefixed with their groups."""
    prefixes = ragged.from_matrix(codes.astype(">u4").view(np.uint8).reshape(len(codes), 4))
    return ragged.concat([prefixes, keys])


def _key_per_group(keys: ragged.Bytes, codes: Codes, groups: int) -> ragged.Bytes:
    """Return the key of each group, NULL where it has none."""
    positions = np.full(groups, -1, np.int64)
    positions[codes] = np.arange(len(codes))
    return keys.take(pa.array(positions, mask=positions < 0))


def _lesser_keys(left: ragged.Bytes, right: ragged.Bytes) -> ragged.Bytes:
    """Return the lesser of two keys; the key if one of them is NULL."""
    takes_right = np.asarray(pc.fill_null(pc.less(right, left), False)) | ~np.asarray(
        left.is_valid()
    )
    return pc.if_else(pa.array(takes_right), right, left)


def _null_unless(mask: Mask, keys: ragged.Bytes) -> ragged.Bytes:
    return pc.if_else(pa.array(mask), keys, pa.scalar(None, pa.large_binary()))
