"""The entries of documents as rows: one entry for each row, with all that counts of its parts.

A row that has entries for its parts is made of the row below them, if there is one, and of the
parts that count: what is written at a path replaces what the row has there, and an entry that has
expired removes it. The row exists if it was written whole and has not expired, or if one of its
columns is not NULL. Rows without entries for parts are returned as they are stored.

Promises: rows come in key order, each once; a value is decoded only where a row has parts.
Does not know: files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...codec.ragged import (
    Bytes,
    Positions,
    constant,
    equal_neighbours,
    gather,
    parts_of,
    sort_order,
)
from ...log.table_definition import TableDefinition
from ...segment.block import Block
from ...segment.key import Kind
from ..header import BY_COLUMNS, FIXED, PART, Headers, with_flag
from ..resolve import Keep, Window, row_keys
from ..value import ValueEncoding
from .documents import Documents
from .merging import ColumnMerge
from .shape import scattered
from .target import column_shape

Flags: TypeAlias = NDArray[np.bool_]

Divided: TypeAlias = Callable[[Headers], Flags]
"""Says which entries are not whole rows or deletes of rows."""
Merge: TypeAlias = Callable[[Block, Positions], tuple[Block, Positions]]
"""Takes the entries of some rows in key order, and their versions; returns what is made of them, in
key order, and the number of the row of each entry."""


class RowFold:
    """Makes rows of the entries of one document table. Immutable; safe between threads.

    ``placed_ids``: of the columns of which some parts are elements of arrays.
    """

    def __init__(self, definition: TableDefinition, values: ValueEncoding) -> None:
        schema = definition.schema
        self.schema_version = schema.version
        self._values = values
        self._column_ids = [0, *(column.id for column in schema.value_columns)]
        older = [(older.version, older.value_columns) for older in definition.older_schemas]
        dropped = [
            version
            for version, columns in older
            if not {column.id for column in columns} <= set(self._column_ids)
        ]
        self._last_with_dropped = max(dropped, default=None)
        self._merges = [
            ColumnMerge(
                column,
                {
                    version: before
                    for version, columns in older
                    for before in columns
                    if before.id == column.id
                },
                column_shape(definition.properties, column),
            )
            for column in schema.value_columns
        ]
        self.placed_ids = [merge.column.id for merge in self._merges if merge.has_places]

    def is_divided(self, headers: Headers) -> Flags:
        """Return which entries are not whole rows or deletes of rows.

        A row that is there because of its columns may have lost all of them when columns were
        dropped.
        """
        is_divided = headers.is_divided
        if self._last_with_dropped is None:
            return is_divided
        is_before = headers.schema_versions <= self._last_with_dropped
        may_be_empty: Flags = is_before & (headers.flags & BY_COLUMNS != 0)
        return is_divided | may_be_empty

    def is_whole_row(self, value: bytes) -> bool:
        """Return whether the value of an entry is that of a row, and all of it."""
        kind, flags, version = FIXED.unpack_from(value)
        if kind == Kind.OBJECT or flags & PART:
            return False
        return not (flags & BY_COLUMNS and version <= (self._last_with_dropped or 0))

    def documents(self, entries: Block, versions: Positions, time: Callable[[], int]) -> Documents:
        """Return what some entries in key order say at a time: see `Documents.of`.

        Parts of columns that were dropped do not count.
        """
        return Documents.of(entries, versions, self._column_ids, time)

    def rows(
        self, entries: Block, versions: Positions, time: Callable[[], int]
    ) -> tuple[Block, Positions]:
        """Return one entry for each row of some entries in key order, and the rows' numbers.

        It may be a delete. It expires when anything of the row does. ``versions``: int64, greater
        ones are newer.
        """
        documents = self.documents(entries, versions, time)
        columns = self.columns(documents)
        exists = self.existing(documents, columns)
        values = self.row_values(documents, columns, exists, documents.expiries)
        return Block.over(documents.keys, values), np.arange(documents.count)

    def columns(self, documents: Documents) -> list[pa.Array]:
        """Return the columns of all rows that are not in the key."""
        if not self._merges:
            return []
        bases, owners = documents.bases, documents.rows[documents.bases]
        wholes = self._values.decode(
            documents.entries.take(bases), [merge.column for merge in self._merges]
        )
        return [
            merge.merged(documents, scattered(wholes[merge.column.name], owners, documents.count))
            for merge in self._merges
        ]

    def existing(self, documents: Documents, columns: Sequence[pa.Array]) -> Flags:
        """Return which rows there are."""
        exists = documents.is_inserted
        for array in columns:
            exists |= np.asarray(array.is_valid())
        return exists

    def row_values(
        self,
        documents: Documents,
        columns: Sequence[pa.Array],
        exists: Flags,
        expiries: Positions,
    ) -> Bytes:
        """Return the value of every row; a delete where there is none.

        A row that is there only because of its columns says so: it may be changed further.
        """
        rows = np.flatnonzero(exists)
        present = [array.take(pa.array(rows)) for array in columns]
        values = self._values.encode_columns(present, len(rows), expiries=expiries[rows])
        values = with_flag(values, BY_COLUMNS, np.flatnonzero(~documents.is_inserted[rows]))
        if len(rows) == len(exists):
            return values
        positions = np.full(len(exists), len(rows))
        positions[rows] = np.arange(len(rows))
        delete = constant(FIXED.pack(Kind.DELETE, 0, self.schema_version), 1)
        return pa.concat_arrays([values, delete]).take(pa.array(positions))


def window_of(
    blocks: Sequence[Block], is_divided: Divided, keep: Keep, merge: Merge
) -> Window | None:
    """Return what remains of some blocks; None if no row has entries for parts.

    The blocks are those of the sources of a merge, the newest first, each in key order, and have
    all entries of their rows. Of a row without entries for parts the newest entry remains if it is
    to be kept; of the others ``merge`` decides.
    """
    headers = [Headers(block) for block in blocks]
    flags = [is_divided(header) for header in headers]
    if not any(flag.any() for flag in flags):
        return None
    runs = _Runs.of(blocks, headers, np.concatenate(flags))
    is_in_divided = runs.row_is_divided[runs.rows]
    positions = runs.order[is_in_divided]
    merged, owners = merge(_taken(blocks, positions), -runs.sources[positions])
    is_chosen = np.zeros(len(runs.order), np.bool_)
    is_chosen[runs.order[runs.is_first & ~is_in_divided]] = True
    is_chosen &= np.concatenate([keep(block) for block in blocks])
    numbers = np.empty(len(runs.order), np.int64)
    numbers[runs.order] = runs.rows
    bounds = np.cumsum([0, *map(len, blocks)])
    plain = (
        block.take(np.flatnonzero(is_chosen[start:stop]))
        for block, (start, stop) in zip(blocks, pairwise(bounds), strict=True)
    )
    all_numbers = np.concatenate([numbers[is_chosen], np.flatnonzero(runs.row_is_divided)[owners]])
    return Window((*plain, merged), np.argsort(all_numbers, kind="stable"))


@dataclass(frozen=True, slots=True)
class _Runs:
    """The entries of some blocks, one block after another, in the order of their keys.

    ``order`` sorts them, the newest of equal keys first; of the entries in that order ``rows`` are
    the numbers of their rows, and ``is_first`` says which are the first of a row. ``sources``: the
    number of the block of each entry. ``row_is_divided``: which rows are not one entry.
    """

    order: Positions
    rows: Positions
    is_first: Flags
    sources: Positions
    row_is_divided: Flags

    @classmethod
    def of(cls, blocks: Sequence[Block], headers: Sequence[Headers], is_divided: Flags) -> _Runs:
        """``headers``: those of the blocks; ``is_divided``: of all entries."""
        keys = pa.concat_arrays([row_keys(block) for block in blocks])
        path_lengths = np.concatenate([header.path_lengths for header in headers])
        order = np.arange(len(keys))
        if len(blocks) > 1:
            order = sort_order(keys)
            keys = keys.take(pa.array(order))
            is_divided, path_lengths = is_divided[order], path_lengths[order]
        is_first = np.append(True, ~equal_neighbours(keys))
        parts = np.flatnonzero(path_lengths[1:]) + 1
        is_first[parts] = ~_same_rows(keys, path_lengths, parts)
        rows = np.cumsum(is_first) - 1
        row_is_divided = np.zeros(int(rows[-1]) + 1, np.bool_)
        row_is_divided[rows[is_divided]] = True
        sources = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
        return cls(order, rows, is_first, sources, row_is_divided)


def _same_rows(keys: Bytes, path_lengths: Positions, indices: Positions) -> Flags:
    """Return whether each of some entries is of the same row as the entry before it."""
    data, offsets = parts_of(keys)
    lengths = np.diff(offsets) - path_lengths
    same: Flags = lengths[indices] == lengths[indices - 1]
    rows = np.flatnonzero(same)
    later, earlier = indices[rows], indices[rows] - 1
    runs = (gather(data, offsets[entries], lengths[later]) for entries in (later, earlier))
    same[rows] = np.asarray(pc.equal(*runs))
    return same


def _taken(blocks: Sequence[Block], positions: Positions) -> Block:
    """Return the entries at some positions in all blocks, one block after another."""
    bounds = np.cumsum([0, *map(len, blocks)])
    order = np.sort(positions)
    cuts = np.searchsorted(order, bounds)
    pieces = [
        block.take(order[start:stop] - bound)
        for block, bound, (start, stop) in zip(blocks, bounds[:-1], pairwise(cuts), strict=True)
    ]
    joined = reduce(Block.followed_by, pieces)
    ranks = np.empty(len(order), np.int64)
    ranks[np.argsort(positions, kind="stable")] = np.arange(len(order))
    return joined.take(ranks)
