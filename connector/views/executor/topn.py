"""Top n: the rows of each group at a range of ranks in an order.

Promises: of a changed group only the first rows are read, those that can be in the window, and the
rows that tie with the last of them. A row that keeps its rank is not emitted. If rows are only
inserted, the state holds only the window and the rows before it.
Does not know: what the rows mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.storage import arrow

from ..plan.node import Order, sorted_key
from ..plan.topn import Ranking, TopN
from .changes import (
    Changes,
    Mask,
    chunk_schema,
    empty_chunk,
    equal_rows,
    insert_mask,
    make_chunk,
    with_schema,
)
from .executor import Executor, StateTableSpec, state_mismatch_error
from .rowkeys import (
    Codes,
    RowKeys,
    Rows,
    first_positions,
    mark_codes,
    number_keys,
    number_runs,
    number_sorted_keys,
    offsets_in_runs,
)
from .state import State, StoredRows


class TopNExecutor(Executor[TopN]):
    """The first rows of all rows or of each group; its chunks have the fields of the child."""

    label = "top_n"

    def __init__(self, node: TopN, states: Sequence[State], is_ansi: bool = True) -> None:
        super().__init__(node, states, is_ansi)
        self._end = node.offset + node.limit
        order = sorted_key(node.group, node.order, list(map(Order, node.child.key)))
        self._keys = RowKeys(node.child.fields, order)
        self._groups = RowKeys(node.child.fields, order[: len(node.group)])
        names = {*node.group, *(column.name for column in node.order)}
        self._places = RowKeys(node.child.fields, order[: len(names)])
        self._values = self._keys.values(node.child.fields)
        self._schema = chunk_schema(node.fields)

    @classmethod
    def maintains(cls, node: TopN) -> bool:
        """Return whether a node takes the first rows of all rows."""
        return node.is_global

    @classmethod
    def tables(cls, node: TopN) -> tuple[StateTableSpec, ...]:
        """The child's rows, by their groups and in order."""
        order = sorted_key(node.group, node.order, list(map(Order, node.child.key)))
        fields, distribution = node.child.fields, node.distribution or ()
        return (StateTableSpec.of_rows("rows", fields, order, distribution),)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes of the windows.

        ConsistencyError if a deleted row that should be in the state does not exist, or an inserted
        one already exists.
        """
        rows = chunk.select(list(self.node.child.names))
        changes = Changes.of(rows, insert_mask(chunk), self._keys, self.label)
        if not self.node.limit or not len(changes):
            return empty_chunk(self._schema)
        ranks = number_sorted_keys(self._groups.encode(changes.rows))
        first_rows, first_groups, is_whole = self._read_first_rows(changes, ranks)
        first_keys = changes.keys.slice(0, 0) if first_rows is None else first_rows.keys
        (first_codes, codes), count = number_keys([first_keys, changes.keys])
        changed = _ChangedGroups(changes, codes, ranks, first_codes, first_groups, is_whole, count)
        self._check(changed)
        rows = _Rows(first_rows, changes.rows)
        old, new = (self._ranked(members, rows) for members in (changed.before(), changed.after()))
        self._write(changed, new, rows)
        return self._difference(old, new, rows)

    def _read_first_rows(
        self, changes: Changes, ranks: Codes
    ) -> tuple[StoredRows | None, Codes, Mask]:
        """Return (first rows, their groups, for each group whether these are all of its rows)."""
        firsts = first_positions(ranks)
        (state,) = self.states
        if state.is_empty:
            is_whole = np.ones(len(firsts), np.bool_)
            return None, np.empty(0, np.int64), is_whole
        groups = changes.rows.take(pa.array(firsts)).select(list(self._groups.names))
        # So many that the limit is reached without the deleted rows.
        needed = self._end + np.bincount(ranks[~changes.inserts], minlength=len(firsts))
        return self._read_ranked(state, groups, needed)

    def _read_ranked(
        self, state: State, groups: pa.RecordBatch, needed: Rows
    ) -> tuple[StoredRows, Codes, Mask]:
        """Return the groups' first rows, up to all with the rank ``needed``, as the caller does."""
        if self.node.ranking is Ranking.ROW_NUMBER:
            indices, rows = state.first_encoded_per_prefix(groups, needed)
            return rows, indices, np.bincount(indices, minlength=len(needed)) < needed
        counts = needed + 1
        while True:
            indices, rows = state.first_encoded_per_prefix(groups, counts)
            is_whole = np.bincount(indices, minlength=len(needed)) < counts
            highest = np.zeros(len(needed), np.int64)
            places = rows.take(np.arange(len(rows)), self._places.names)
            highest[indices] = self._ranks(places, indices)  # they ascend: the last of a group wins
            is_short = ~is_whole & (highest < needed)
            if not is_short.any():
                return rows, indices, is_whole
            counts = np.where(is_short, 2 * counts, counts)

    def _ranked(self, members: _Members, rows: _Rows) -> _Ranked:
        """Return the ranks of the first rows of groups, which are numbers of ``rows``."""
        if self.node.ranking is Ranking.ROW_NUMBER:
            return _Ranked(members.rows, members.codes, offsets_in_runs(members.groups))
        ranks = self._ranks(rows.take(members.rows, self._places.names), members.groups)
        return _Ranked(members.rows, members.codes, ranks)

    def _ranks(self, rows: pa.RecordBatch, groups: Codes) -> Rows:
        """Return the rank, from 0, of each of the sorted first rows of groups."""
        places = number_sorted_keys(self._places.encode(rows))
        if self.node.ranking is Ranking.DENSE_RANK:
            return places - places[first_positions(groups)][number_runs(groups)]
        return offsets_in_runs(groups) - offsets_in_runs(places)

    def _check(self, changed: _ChangedGroups) -> None:
        # Rows after the first ones are unknown; if rows are only inserted, they are not stored.
        missing = changed.missing if not self.node.child.is_append_only else ~changed.inserts
        is_invalid = missing | changed.repeated
        if is_invalid.any():
            row = int(np.flatnonzero(is_invalid)[0])
            change, fact = ("deleted", "does not exist") if missing[row] else ("inserted", "exists")
            raise state_mismatch_error(
                f"{self.label}: the row with {self._keys.describe(changed.changes.rows, row)} "
                f"is {change} but {fact}"
            )

    def _write(self, changed: _ChangedGroups, new: _Ranked, rows: _Rows) -> None:
        (spec,) = self.tables(self.node)
        names = [field.name for field in spec.fields]
        if not self.node.child.is_append_only:
            changed.changes.write_to(self.states[0], names)
            return
        # If rows are only inserted, a row after the window never enters it.
        first_count = len(changed.first_codes)
        is_inside = new.ranks < self._end
        entering, leaving = (
            new.rows[is_inside & (new.rows >= first_count)],
            new.rows[~is_inside & (new.rows < first_count)],
        )
        if len(entering) or len(leaving):
            written = rows.take(np.concatenate([entering, leaving]), names)
            self.states[0].write(written, np.arange(written.num_rows) >= len(entering))

    def _difference(self, old: _Ranked, new: _Ranked, rows: _Rows) -> pa.RecordBatch:
        old, new = (
            old.between(self.node.offset, self._end),
            new.between(self.node.offset, self._end),
        )
        _, old_positions, new_positions = np.intersect1d(
            old.codes, new.codes, assume_unique=True, return_indices=True
        )
        is_unchanged = self._equal(rows, old.rows[old_positions], new.rows[new_positions])
        if self.node.rank is not None:
            is_unchanged &= old.ranks[old_positions] == new.ranks[new_positions]
        is_deleted, is_inserted = np.ones(len(old.rows), np.bool_), np.ones(len(new.rows), np.bool_)
        is_deleted[old_positions[is_unchanged]] = is_inserted[new_positions[is_unchanged]] = False
        changed_rows = rows.take(
            np.concatenate([old.rows[is_deleted], new.rows[is_inserted]]), self.node.child.names
        )
        if self.node.rank is not None:
            ranks = pa.array(np.concatenate([old.ranks[is_deleted], new.ranks[is_inserted]]) + 1)
            rank_type = arrow.arrow_type(self.node.rank.type)
            changed_rows = changed_rows.append_column(self.node.rank.name, ranks.cast(rank_type))
        return make_chunk(
            self._schema, changed_rows, np.arange(changed_rows.num_rows) >= is_deleted.sum()
        )

    def _equal(self, rows: _Rows, left: Rows, right: Rows) -> Mask:
        """Return for each pair of rows with one key whether they are equal."""
        if not self._values:
            return np.ones(len(left), np.bool_)
        equal: Mask = left == right
        undecided = np.flatnonzero(~equal)
        names = [field.name for field in self._values]
        lefts, rights = (rows.take(side[undecided], names) for side in (left, right))
        numbers = np.arange(len(undecided))
        equal[undecided] = equal_rows(self._values, lefts, numbers, rights, numbers)
        return equal


class GroupTopNExecutor(TopNExecutor):
    """The first rows of each group, with its own name in EXPLAIN."""

    label = "group_top_n"

    @classmethod
    def maintains(cls, node: TopN) -> bool:
        """Return whether a node takes the first rows of each group."""
        return not node.is_global


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows by number: stored ones, None for none, which are not yet decoded, then changed ones."""

    stored: StoredRows | None
    changed: pa.RecordBatch

    def take(self, numbers: Rows, names: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of the rows with some numbers, in that order."""
        changed = self.changed.select(list(names))
        if self.stored is None:
            return changed.take(pa.array(numbers))
        is_stored = numbers < len(self.stored)
        stored_numbers, changed_numbers = np.flatnonzero(is_stored), np.flatnonzero(~is_stored)
        stored = self.stored.take(numbers[stored_numbers], names)
        changed = changed.take(pa.array(numbers[changed_numbers] - len(self.stored)))
        rows = pa.concat_batches([with_schema(stored, changed.schema), changed])
        positions = np.empty_like(numbers)
        positions[stored_numbers] = np.arange(len(stored_numbers))
        positions[changed_numbers] = len(stored_numbers) + np.arange(len(changed_numbers))
        return rows.take(pa.array(positions))


@dataclass(frozen=True, slots=True)
class _Members:
    """Sorted rows by number, the codes of their keys, and their groups."""

    rows: Rows
    codes: Codes
    groups: Codes


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Rows by number, the codes of their keys, and their ranks in their groups, from 0."""

    rows: Rows
    codes: Codes
    ranks: Rows

    def between(self, start: int, stop: int) -> _Ranked:
        """Return the rows with the ranks from ``start`` to ``stop``."""
        inside = (self.ranks >= start) & (self.ranks < stop)
        return _Ranked(self.rows[inside], self.codes[inside], self.ranks[inside])


@dataclass(frozen=True, slots=True)
class _ChangedGroups:
    """Changes and the first stored rows of their groups, as row numbers and codes.

    The first rows are numbered before the changes. ``codes``, ``first_codes``: codes below
    ``count`` of their keys; ``groups``, ``first_groups``: their groups; ``is_whole``: for each
    group whether its first rows are all that it has.
    """

    changes: Changes
    codes: Codes
    groups: Codes
    first_codes: Codes
    first_groups: Codes
    is_whole: Mask
    count: int

    @property
    def inserts(self) -> Mask:
        """For each change whether it is an insert."""
        return self.changes.inserts

    @property
    def missing(self) -> Mask:
        """For each change whether it deletes a row that is missing among the first of its group."""
        last = np.full(len(self.is_whole), -1, np.int64)
        last[self.first_groups] = self.first_codes  # they ascend: the last code of a group wins
        is_read = self.is_whole[self.groups] | (self.codes <= last[self.groups])
        return ~self.inserts & ~mark_codes(self.first_codes, self.count)[self.codes] & is_read

    @property
    def repeated(self) -> Mask:
        """For each change whether it inserts a row that is among the first and is not deleted."""
        remains = mark_codes(self.first_codes, self.count)
        remains[self.codes[~self.inserts]] = False
        return self.inserts & remains[self.codes]

    def before(self) -> _Members:
        """Return the first rows before the epoch."""
        return _Members(np.arange(len(self.first_codes)), self.first_codes, self.first_groups)

    def after(self) -> _Members:
        """Return the first rows after the epoch, with all inserted rows."""
        deleted = mark_codes(self.codes[~self.inserts], self.count)
        remaining = np.flatnonzero(~deleted[self.first_codes])
        inserted = np.flatnonzero(self.inserts)
        rows = np.concatenate([remaining, inserted + len(self.first_codes)])
        codes = np.concatenate([self.first_codes[remaining], self.codes[inserted]])
        groups = np.concatenate([self.first_groups[remaining], self.groups[inserted]])
        order = np.argsort(codes, kind="stable")
        return _Members(rows[order], codes[order], groups[order])
