"""The difference between two results: the second executor of a keyed recompute.

Promises: a row that did not change is neither written nor returned.
Does not know: how the new result was computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from relstate.storage import errors, ragged

from ..plan.node import Order
from ..plan.recompute import KeyedRecompute
from .changes import chunk_schema, empty_chunk, equal_rows, insert_mask, make_chunk, with_schema
from .deltas import group_rows
from .executor import Executor, StateTableSpec
from .rowkeys import RowKeys, number_keys
from .state import State


class DifferenceExecutor(Executor[KeyedRecompute]):
    """The changes of an operator's output, from its output for the keys that changed.

    An insert of an input chunk is an output row of a changed key; a delete is the marker of a key
    that has no output, of which only the key is used.
    """

    label = "difference"

    def __init__(self, node: KeyedRecompute, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._keys = RowKeys(node.fields, [Order(name) for name in node.key])
        self._groups = RowKeys(node.fields, [Order(name) for name in node.group])
        self._values = self._keys.values(node.fields)
        self._schema = chunk_schema(node.fields)

    @classmethod
    def tables(cls, node: KeyedRecompute) -> tuple[StateTableSpec, ...]:
        """The output rows, by their key."""
        key = tuple(map(Order, node.key))
        return (StateTableSpec.of_rows("result", node.fields, key, node.distribution or ()),)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes of the output, after writing them."""
        if not chunk.num_rows:
            return empty_chunk(self._schema)
        new = chunk.filter(pa.array(insert_mask(chunk))).select(list(self.node.names))
        old = self._stored_rows(chunk, new.schema)
        old_keys, new_keys = self._keys.encode(old), self._keys.encode(new)
        (old_codes, new_codes), _ = number_keys([old_keys, new_keys])
        self._check_unique(new, new_keys)
        _, old_rows, new_rows = np.intersect1d(
            old_codes, new_codes, assume_unique=True, return_indices=True
        )
        is_same = equal_rows(self._values, old, old_rows, new, new_rows)
        is_deleted, is_inserted = np.ones(old.num_rows, np.bool_), np.ones(new.num_rows, np.bool_)
        is_deleted[old_rows[is_same]] = is_inserted[new_rows[is_same]] = False
        is_gone = np.ones(old.num_rows, np.bool_)
        is_gone[old_rows] = False
        inserts = new.filter(pa.array(is_inserted))
        self._write(inserts, old.filter(pa.array(is_gone)))
        deletes = old.filter(pa.array(is_deleted))
        rows = pa.concat_batches([deletes, inserts])
        return make_chunk(self._schema, rows, np.arange(rows.num_rows) >= deletes.num_rows)

    def _stored_rows(self, chunk: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return the output rows of the chunk's groups before the epoch."""
        (state,) = self.states
        if state.is_empty:
            return pa.RecordBatch.from_pylist([], schema)
        _, rows = state.prefix_scan(group_rows(chunk, self._groups).keys, schema.names)
        return with_schema(rows, schema)

    def _check_unique(self, rows: pa.RecordBatch, keys: ragged.Bytes) -> None:
        order = ragged.sort_order(keys)
        if len(order) < 2:
            return
        is_repeated = ragged.equal_neighbours(keys.take(pa.array(order)))
        if is_repeated.any():
            row = int(order[np.flatnonzero(is_repeated)[0] + 1])
            raise errors.ConsistencyError(
                f"{self.label}: the result has two rows with {self._keys.describe(rows, row)}; "
                "Spark evaluated a key in parts; nothing was committed: refresh again"
            )

    def _write(self, inserts: pa.RecordBatch, gone: pa.RecordBatch) -> None:
        rows = pa.concat_batches([inserts, gone])
        if not rows.num_rows:
            return
        (spec,) = self.tables(self.node)
        deleted = np.arange(rows.num_rows) >= inserts.num_rows
        names = [field.name for field in spec.fields]
        self.states[0].write(rows.select(names), deleted if deleted.any() else None)
