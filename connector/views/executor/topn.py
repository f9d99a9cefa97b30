"""Top n: of each group the rows at some places of an order.

Promises: of each group that changes it reads no more than the first rows that can get into the
window. A row that keeps its position is not emitted. Over rows that are only inserted the state is
no more than the window and the rows before it.
Does not know: what the rows mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import RowCodec, arrow, errors

from ..plan.node import Node, Order
from ..plan.stateful import TopN
from .changes import Changes, Mask, chunk_schema, chunk_with, empty_chunk, with_schema
from .executor import Executor, StateTableSpec, inserts_of
from .matching import Codes, Rows, codes_of, firsts_of, marked, ranks_of
from .rowkeys import RowKeys
from .state import State


class TopNExecutor(Executor[TopN]):
    """The first rows of one group, or of each; its chunks have the fields of the child."""

    label = "top_n"
    node_type = TopN

    def __init__(self, node: TopN, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._end = node.offset + node.limit
        order = _state_order(node)
        self._keys = RowKeys(node.child.fields, order)
        self._groups = RowKeys(node.child.fields, order[: len(node.group)])
        self._values = [field for field in node.child.fields if field.name not in self._keys.names]
        self._schema = chunk_schema(node.fields)

    @classmethod
    def maintains(cls, node: Node) -> bool:
        """Return whether a node takes the first rows of all."""
        return isinstance(node, TopN) and node.is_global

    @classmethod
    def tables(cls, node: TopN) -> tuple[StateTableSpec, ...]:
        """The child's rows, by their groups and in order."""
        order = _state_order(node)
        names = dict.fromkeys((*(one.name for one in order), *node.child.names))
        by_name = {field.name: field for field in node.child.fields}
        fields = tuple(by_name[name] for name in names)
        return (StateTableSpec("rows", fields, order, node.distribution or ()),)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes of the windows.

        ConsistencyError if a deleted row that should be before a group's end is not there, or an
        inserted one is there already.
        """
        rows = chunk.select(list(self.node.child.names))
        changes = Changes.of(rows, inserts_of(chunk), self._keys, self.label)
        if not self.node.limit or not len(changes):
            return empty_chunk(self._schema)
        ranks = ranks_of(self._groups.encode(changes.rows))
        head, head_groups, is_whole = self._head(changes, ranks)
        (head_codes, codes), count = codes_of([self._keys.encode(head), changes.keys])
        touched = _Touched(changes, codes, ranks, head_codes, head_groups, is_whole, count)
        self._check(touched)
        subjects = pa.concat_batches([head, changes.rows])
        old, new = touched.before(), touched.after()
        self._write(touched, new, subjects)
        return self._difference(old, new, subjects)

    def _head(self, changes: Changes, ranks: Codes) -> tuple[pa.RecordBatch, Codes, Mask]:
        """Return (rows, their groups, of each group whether these are all of its rows)."""
        firsts = firsts_of(ranks)
        (state,) = self.states
        if state.is_empty:
            whole = np.ones(len(firsts), np.bool_)
            return changes.rows.slice(0, 0), np.empty(0, np.int64), whole
        groups = changes.rows.take(pa.array(firsts)).select(list(self._groups.names))
        wanted = self._end + np.bincount(ranks[~changes.inserts], minlength=len(firsts))
        schema = changes.rows.schema
        found, head = state.first_per_prefix(groups, wanted, schema.names)
        return with_schema(head, schema), found, np.bincount(found, minlength=len(firsts)) < wanted

    def _check(self, touched: _Touched) -> None:
        # Rows after a head that is not whole are not known, nor, if they only come, kept.
        missing = touched.missing if not self.node.child.is_append_only else ~touched.inserts
        wrong = missing | touched.repeated
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            state = "is deleted but not there" if missing[row] else "is inserted but already there"
            raise errors.ConsistencyError(
                f"{self.label}: the row with {self._keys.described(touched.changes.rows, row)} "
                f"{state}; the state of the view is not that of its inputs: "
                "drop it and create it again"
            )

    def _write(self, touched: _Touched, new: _Places, subjects: pa.RecordBatch) -> None:
        names = [*self._keys.names, *(field.name for field in self._values)]
        if not self.node.child.is_append_only:
            touched.changes.write_to(self.states[0], names)
            return
        # Of rows that only come those behind the window never come into it.
        heads = len(touched.head_codes)
        stays = new.places < self._end
        put, pushed = new.rows[stays & (new.rows >= heads)], new.rows[~stays & (new.rows < heads)]
        if len(put) or len(pushed):
            rows = subjects.take(pa.array(np.concatenate([put, pushed])))
            self.states[0].write(rows.select(names), np.arange(rows.num_rows) >= len(put))

    def _difference(self, old: _Places, new: _Places, rows: pa.RecordBatch) -> pa.RecordBatch:
        old, new = (
            old.between(self.node.offset, self._end),
            new.between(self.node.offset, self._end),
        )
        _, old_at, new_at = np.intersect1d(
            old.codes, new.codes, assume_unique=True, return_indices=True
        )
        same = self._equal(rows, old.rows[old_at], new.rows[new_at])
        if self.node.rank is not None:
            same &= old.places[old_at] == new.places[new_at]
        gone, come = np.ones(len(old.rows), np.bool_), np.ones(len(new.rows), np.bool_)
        gone[old_at[same]] = come[new_at[same]] = False
        taken = rows.take(pa.array(np.concatenate([old.rows[gone], new.rows[come]])))
        if self.node.rank is not None:
            ranks = pa.array(np.concatenate([old.places[gone], new.places[come]]) + 1)
            rank_type = arrow.arrow_type(self.node.rank.type)
            taken = taken.append_column(self.node.rank.name, ranks.cast(rank_type))
        return chunk_with(self._schema, taken, np.arange(taken.num_rows) >= gone.sum())

    def _equal(self, rows: pa.RecordBatch, left: Rows, right: Rows) -> Mask:
        """Return of pairs of rows with one key whether they are equal."""
        equal: Mask = left == right
        doubtful = np.flatnonzero(~equal)
        if not len(doubtful):
            return equal
        if not self._values:
            return np.ones(len(left), np.bool_)
        codec = RowCodec([field.type for field in self._values])
        values = rows.select([field.name for field in self._values])
        encoded = [
            codec.encode(values.take(pa.array(side[doubtful])).columns, b"")
            for side in (left, right)
        ]
        equal[doubtful] = np.asarray(pc.equal(*encoded))
        return equal


class GroupTopNExecutor(TopNExecutor):
    """The same, of each group: named apart in EXPLAIN."""

    label = "group_top_n"

    @classmethod
    def maintains(cls, node: Node) -> bool:
        """Return whether a node takes the first rows of each group."""
        return isinstance(node, TopN) and not node.is_global


@dataclass(frozen=True, slots=True)
class _Places:
    """Rows by number, the codes of their keys, and their places in their groups, from 0."""

    rows: Rows
    codes: Codes
    places: Rows

    @classmethod
    def of(cls, rows: Rows, codes: Codes, groups: Codes) -> _Places:
        """Return the places of rows that are sorted."""
        firsts = firsts_of(groups)
        sizes = np.diff(np.append(firsts, len(rows)))
        return cls(rows, codes, np.arange(len(rows)) - np.repeat(firsts, sizes))

    def between(self, start: int, stop: int) -> _Places:
        """Return those at the places from ``start`` to ``stop``."""
        inside = (self.places >= start) & (self.places < stop)
        return _Places(self.rows[inside], self.codes[inside], self.places[inside])


@dataclass(frozen=True, slots=True)
class _Touched:
    """Changes and the heads of their groups, in numbers.

    The rows of the heads are numbered first, then the changes. ``codes``, ``head_codes``: those
    of ``count`` keys; ``groups``, ``head_groups``: their groups; ``is_whole``: of each group
    whether its head is all of it.
    """

    changes: Changes
    codes: Codes
    groups: Codes
    head_codes: Codes
    head_groups: Codes
    is_whole: Mask
    count: int

    @property
    def inserts(self) -> Mask:
        """Of each change whether it is an insert."""
        return self.changes.inserts

    @property
    def missing(self) -> Mask:
        """Of each change whether it deletes what should be in its group's head and is not."""
        last = np.full(len(self.is_whole), -1, np.int64)
        last[self.head_groups] = self.head_codes  # they ascend: the last one of a group stays
        known = self.is_whole[self.groups] | (self.codes <= last[self.groups])
        return ~self.inserts & ~marked(self.head_codes, self.count)[self.codes] & known

    @property
    def repeated(self) -> Mask:
        """Of each change whether it inserts what is in its group's head and not deleted."""
        stands = marked(self.head_codes, self.count)
        stands[self.codes[~self.inserts]] = False
        return self.inserts & stands[self.codes]

    def before(self) -> _Places:
        """Return the heads as they were."""
        return _Places.of(np.arange(len(self.head_codes)), self.head_codes, self.head_groups)

    def after(self) -> _Places:
        """Return the heads as they are, with all that was inserted."""
        deleted = marked(self.codes[~self.inserts], self.count)
        standing = np.flatnonzero(~deleted[self.head_codes])
        added = np.flatnonzero(self.inserts)
        rows = np.concatenate([standing, added + len(self.head_codes)])
        codes = np.concatenate([self.head_codes[standing], self.codes[added]])
        groups = np.concatenate([self.head_groups[standing], self.groups[added]])
        order = np.argsort(codes, kind="stable")
        return _Places.of(rows[order], codes[order], groups[order])


def _state_order(node: TopN) -> tuple[Order, ...]:
    """Return the primary key of the rows: the group, the order, what is left of the child's key."""
    found = {name: Order(name) for name in node.group}
    for order in (*node.order, *map(Order, node.child.key)):
        found.setdefault(order.name, order)
    return tuple(found.values())
