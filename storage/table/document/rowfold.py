"""The entries of documents as rows: one entry for each row, with all that counts of its parts.

A row that has entries for its parts is made of the row below them, if there is one, and of the
parts that count: what is written at a path replaces what the row has there, and an entry that has
expired removes it. The row exists if it was written whole and has not expired, or if one of its
columns is not NULL. Rows without entries for parts are returned as they are stored.

Promises: rows come in key order, each once; a value is decoded only where a row has parts.
Does not know: files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.ragged import Bytes, Positions, constant
from ...log.table_definition import TableDefinition
from ...schema.arrow import arrow_type
from ...schema.schema import Column
from ...segment.block import Block
from ..header import BY_COLUMNS, NEVER, Headers, delete_value
from ..value import ValueEncoding
from .documents import Documents
from .merging import ColumnMerge
from .shape import scattered
from .target import Target, column_shape

Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ShownExpiry:
    """A column of a read that says when what is at a path expires; None for the row."""

    column_id: int
    target: Target | None
    path: bytes


class RowFold:
    """Makes rows of the entries of one document table. Immutable; safe between threads.

    ``placed_ids``: of the columns of which some parts are elements of arrays. ``read_ids``: of the
    columns that are read; the others may be NULL in the rows. None for all.
    """

    read_ids: frozenset[int] | None = None

    def __init__(
        self,
        definition: TableDefinition,
        values: ValueEncoding,
        shown: Sequence[ShownExpiry] = (),
    ) -> None:
        """``shown``: columns of the definition that are not stored."""
        schema = definition.schema
        self._shown = {expiry.column_id: expiry for expiry in shown}
        self.table_name = definition.name
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

    def reading(self, columns: Collection[Column]) -> RowFold:
        """Return what makes the same rows, of which only some columns are read."""
        fold = copy(self)
        fold.read_ids = frozenset(column.id for column in columns)
        return fold

    @property
    def has_lost_columns(self) -> bool:
        """Whether columns were dropped, of which rows may still have values."""
        return self._last_with_dropped is not None

    def is_divided(self, headers: Headers) -> Flags:
        """Return which entries are not whole rows or deletes of rows.

        Those that expire are not, where their expiry is shown. A row that is there because of its
        columns may have lost all of them when columns were dropped.
        """
        is_divided = headers.is_divided
        if self._shown:
            is_divided = is_divided | (headers.expiries != NEVER)
        if self._last_with_dropped is None:
            return is_divided
        is_before = headers.schema_versions <= self._last_with_dropped
        may_be_empty: Flags = is_before & (headers.flags & BY_COLUMNS != 0)
        return is_divided | may_be_empty

    def documents(self, entries: Block, versions: Positions, time: Callable[[], int]) -> Documents:
        """Return what some entries in key order say at a time: see `Documents.of`.

        Parts of columns that were dropped do not count.
        """
        return Documents.of(entries, versions, self._column_ids, time)

    def rows(self, entries: Block, versions: Positions, time: Callable[[], int]) -> Block:
        """Return one entry for each row of some entries in key order.

        It may be a delete. It expires when anything of the row does. ``versions``: int64, greater
        ones are newer.
        """
        documents = self.documents(entries, versions, time)
        columns = self.columns(documents)
        exists = self.existing(documents, columns)
        values = self.row_values(documents, columns, exists, documents.expiries)
        return Block.over(documents.keys, values)

    def columns(self, documents: Documents) -> list[pa.Array]:
        """Return the columns of all rows that are not in the key; NULL where one is not read."""
        columns = [
            pa.nulls(documents.count, arrow_type(merge.column.type)) for merge in self._merges
        ]
        is_read = self._is_read(documents)
        indices = [index for index, merge in enumerate(self._merges) if is_read(merge)]
        shown = [index for index in indices if self._merges[index].column.id in self._shown]
        read = [index for index in indices if index not in shown]
        wholes = self._wholes(documents, self._needed(read, shown))
        for index in read:
            columns[index] = self._merges[index].merged(documents, wholes[index])
        for index in shown:
            expiry = self._shown[self._merges[index].column.id]
            columns[index] = self._expiries_of(documents, expiry, wholes)
        return columns

    def _needed(self, read: Sequence[int], shown: Sequence[int]) -> list[int]:
        """Return the indices of the stored columns that others are made of."""
        stored = [
            index for index, merge in enumerate(self._merges) if merge.column.id not in self._shown
        ]
        targets = [self._shown[self._merges[index].column.id].target for index in shown]
        if None in targets:
            return stored
        ids = {target.column.id for target in targets if target is not None}
        return [i for i in stored if i in read or self._merges[i].column.id in ids]

    def _wholes(self, documents: Documents, indices: Sequence[int]) -> dict[int, pa.Array]:
        """Return columns, by their indices, of the rows that were written whole; NULL elsewhere."""
        if not indices:
            return {}
        bases, owners = documents.bases, documents.rows[documents.bases]
        decoded = self._values.decode(
            documents.entries.take(bases), [self._merges[index].column for index in indices]
        )
        return {
            index: scattered(decoded[self._merges[index].column.name], owners, documents.count)
            for index in indices
        }

    def _expiries_of(
        self, documents: Documents, expiry: ShownExpiry, wholes: Mapping[int, pa.Array]
    ) -> pa.Array:
        """Return when what is at a path of each row expires: NULL if it stays, or is not there."""
        target = expiry.target
        if target is None:
            times = np.where(documents.is_inserted, documents.row_expiries, 0)
            for index, whole in wholes.items():
                merge = self._merges[index]
                own = merge.last_expiries(documents, whole, merge.path, merge.shape)
                times = np.maximum(times, own)
        else:
            index, merge = next(
                (index, merge)
                for index, merge in enumerate(self._merges)
                if merge.column.id == target.column.id
            )
            times = merge.last_expiries(documents, wholes[index], expiry.path, target.shape)
        return pa.array(times, mask=(times == 0) | (times == NEVER))

    def _is_read(self, documents: Documents) -> Callable[[ColumnMerge], bool]:
        """Return what says if a column is read: all are where rows are there by their columns."""
        read_ids = self.read_ids
        if read_ids is None or (documents.has_entries & ~documents.is_inserted).any():
            return lambda merge: True
        return lambda merge: merge.column.id in read_ids

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
        by_columns = ~documents.is_inserted[rows]
        flags = np.where(by_columns, np.uint8(BY_COLUMNS), np.uint8(0))
        values = self._values.encode_columns(
            present,
            len(rows),
            expiries=expiries[rows],
            flags=flags if by_columns.any() else None,
        )
        if len(rows) == len(exists):
            return values
        positions = np.full(len(exists), len(rows))
        positions[rows] = np.arange(len(rows))
        delete = constant(delete_value(self.schema_version), 1)
        return pa.concat_arrays([values, delete]).take(pa.array(positions))
