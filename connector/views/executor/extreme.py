"""The least or greatest value of each group.

Over rows that are only inserted it is in the group's row. Otherwise all values are in a table of
their own, sorted so that the extreme is the first of its group; it is read only for groups in which
a row with the extreme was deleted and no value as extreme was inserted.

Promises: values compare as Spark's do: by the key codec, NaN the greatest, -0 as 0.
Does not know: the other parts of a group's row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import KeyCodec, errors, ragged, types

from ..plan.node import Order
from ..plan.stateful import Aggregate
from .deltas import Deltas, Runs
from .executor import StateTableSpec
from .group import Groups
from .matching import Codes, firsts_of
from .part import Columns, Part
from .rowkeys import RowKeys
from .state import Positions, State

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Extreme(Part):
    """The least or the greatest value, of type ``type``.

    ``is_running``: values are only inserted, and no table has them.
    """

    type: types.DataType
    is_greatest: bool
    is_running: bool

    @property
    def kind(self) -> str:
        """The least and the greatest of the same values are two parts."""
        return self.suffix

    @property
    def suffix(self) -> str:
        """What the name of the column ends in."""
        return "max" if self.is_greatest else "min"

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
        found = values.take(pa.array(rows))
        return self.changed(Deltas(runs.groups, runs.codes[rows], np.ones_like(rows), rows, found))

    def advance(self, before: Columns, change: Columns) -> list[pa.Array]:
        """Return the better of the old value and the inserted one."""
        return [self.decode(_better(self.standing(before), self.standing(change)))]

    def of(self, columns: Columns) -> pa.Array:
        """Return the values."""
        return columns[self.column(self.suffix)]

    def standing(self, columns: Columns) -> ragged.Bytes:
        """Return the values as bytes of which the lesser are better; NULL where there are none."""
        values = self.of(columns)
        return _where(np.asarray(values.is_valid()), self.encode(values))

    def best(self, deltas: Deltas) -> ragged.Bytes:
        """Return the best inserted value of each group, as bytes."""
        comes = deltas.weights > 0
        if not comes.any():
            return pa.nulls(deltas.groups, pa.large_binary())
        codes = deltas.codes[comes]
        keys = self.encode(deltas.values.filter(pa.array(comes)))
        order = ragged.sort_order(_under(codes, keys))
        firsts = order[firsts_of(codes)]
        return _spread(keys.take(pa.array(firsts)), codes[firsts], deltas.groups)

    def encode(self, values: pa.Array) -> ragged.Bytes:
        """Return values as bytes of which the lesser are better."""
        return self._codec.encode([values])

    def decode(self, keys: ragged.Bytes) -> pa.Array:
        """Return the values of such bytes, NULL for NULL."""
        found = self._codec.decode(keys.drop_null())[0]
        is_there = np.asarray(keys.is_valid())
        places = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
        return found.take(places)

    @property
    def _codec(self) -> KeyCodec:
        return KeyCodec([self.type], [value_order("", self.is_greatest)])


def value_order(name: str, is_greatest: bool) -> Order:
    """Return the order in which the best value comes first."""
    return Order(name, descending=is_greatest, nulls_first=False)


def extreme_table(node: Aggregate, extreme: Extreme, role: str) -> StateTableSpec:
    """Return the table of an extreme's values: group / value / the child's key."""
    argument = extreme.argument
    orders = {name: Order(name) for name in (*node.group, argument, *node.child.key)}
    if argument not in node.group:
        orders[argument] = value_order(argument, extreme.is_greatest)
    fields = tuple(types.Field(name, node.child.type_of(name)) for name in orders)
    return StateTableSpec(role, fields, tuple(orders.values()), node.distribution or ())


class ExtremeTable:
    """The values of an extreme over rows that may be deleted, in one epoch."""

    def __init__(self, extreme: Extreme, spec: StateTableSpec, state: State) -> None:
        self._extreme = extreme
        self._spec = spec
        self._state = state
        self._row_keys = RowKeys(spec.fields, spec.primary_key)

    def advance(
        self,
        before: Columns,
        deltas: Deltas,
        chunk: pa.RecordBatch,
        groups: Groups,
        lives: Mask,
    ) -> pa.Array:
        """Write the changes of the values; return the extreme of each group.

        ``lives``: which groups still have rows. ConsistencyError if a deleted value is better than
        the extreme, so that it cannot have existed.
        """
        rows = chunk.select(list(self._row_keys.names)).take(pa.array(deltas.rows))
        standing = self._extreme.standing(before)
        if (deltas.weights > 0).all():
            # As in a backfill: nothing cancels, and an inserted value can only be better.
            self._write(rows, deltas.weights, np.ones(len(rows), np.bool_))
            return self._extreme.decode(_better(standing, self._extreme.best(deltas)))
        keys = self._row_keys.encode(rows)
        changed = _not_paired(keys)
        self._write(rows, deltas.weights, changed)
        goes = (deltas.weights < 0) & changed
        codes, values = deltas.codes[goes], deltas.values.filter(pa.array(goes))
        hit = self._hit(standing, codes, self._extreme.encode(values), groups)
        found = _better(_where(~hit, standing), self._extreme.best(_only(deltas, changed)))
        # If a value as good as the deleted one is inserted, no remaining one is better.
        is_better = np.asarray(pc.fill_null(pc.less_equal(found, standing), False))
        wanted = np.flatnonzero(hit & lives & ~is_better)
        if len(wanted):
            gone = keys.filter(pa.array(goes))
            counts = np.bincount(codes, minlength=len(groups))[wanted]
            kept = self._kept(groups.keys.take(pa.array(wanted)), counts + 1, gone)
            found = _better(found, _spread(kept[1], wanted[kept[0]], len(groups)))
        return self._extreme.decode(found)

    def _write(self, rows: pa.RecordBatch, weights: NDArray[np.int64], changed: Mask) -> None:
        if changed.any():
            mask = pa.array(changed)
            self._state.write(rows.filter(mask), weights[changed] < 0)

    def _hit(
        self, standing: ragged.Bytes, codes: Codes, keys: ragged.Bytes, groups: Groups
    ) -> Mask:
        """Return in which groups a row with the extreme is deleted."""
        extremes = standing.take(pa.array(codes))
        wrong = np.asarray(pc.fill_null(pc.less(keys, extremes), True))
        if wrong.any():
            group = codes[np.flatnonzero(wrong)[0]]
            row_keys = RowKeys(
                self._spec.fields, [Order(name) for name in groups.keys.schema.names]
            )
            raise errors.ConsistencyError(
                f"in the state table {self._spec.role} of an aggregate, the group with "
                f"{row_keys.described(groups.keys, int(group))} loses a value that it does not "
                "have; the state does not fit the view's inputs: drop the view and create it again"
            )
        hit = np.zeros(len(groups), np.bool_)
        hit[codes[np.asarray(pc.equal(keys, extremes))]] = True
        return hit

    def _kept(
        self, prefixes: pa.RecordBatch, counts: Positions, gone: ragged.Bytes
    ) -> tuple[Positions, ragged.Bytes]:
        """Return (prefixes, values): the best value of each prefix that is not deleted."""
        indices, rows = self._state.first_per_prefix(prefixes, counts)
        stays = ~np.asarray(pc.is_in(self._row_keys.encode(rows), value_set=gone))
        indices = indices[stays]
        firsts = firsts_of(indices)
        values = rows.column(self._extreme.argument).filter(pa.array(stays))
        return indices[firsts], self._extreme.encode(values.take(pa.array(firsts)))


def _only(deltas: Deltas, kept: Mask) -> Deltas:
    values = deltas.values.filter(pa.array(kept))
    return Deltas(
        deltas.groups, deltas.codes[kept], deltas.weights[kept], deltas.rows[kept], values
    )


def _not_paired(keys: ragged.Bytes) -> Mask:
    """Return which rows are not a delete and an insert of one key, which change nothing."""
    order = ragged.sort_order(keys)
    single = np.ones(len(keys), np.bool_)
    if len(keys) > 1:
        same = ragged.equal_neighbours(keys.take(pa.array(order)))
        single[order[np.append(same, False)]] = False
        single[order[np.append(False, same)]] = False
    return single


def _under(codes: Codes, keys: ragged.Bytes) -> ragged.Bytes:
    """Return keys with their groups before them."""
    prefixes = ragged.from_matrix(codes.astype(">u4").view(np.uint8).reshape(len(codes), 4))
    return ragged.concat([prefixes, keys])


def _spread(keys: ragged.Bytes, codes: Codes, groups: int) -> ragged.Bytes:
    """Return the key of each group, NULL where it has none."""
    places = np.full(groups, -1, np.int64)
    places[codes] = np.arange(len(codes))
    return keys.take(pa.array(places, mask=places < 0))


def _better(one: ragged.Bytes, other: ragged.Bytes) -> ragged.Bytes:
    """Return the lesser of two keys; of a key and NULL the key."""
    takes_other = np.asarray(pc.fill_null(pc.less(other, one), False)) | ~np.asarray(one.is_valid())
    return pc.if_else(pa.array(takes_other), other, one)


def _where(mask: Mask, keys: ragged.Bytes) -> ragged.Bytes:
    return pc.if_else(pa.array(mask), keys, pa.scalar(None, pa.large_binary()))
