"""The document encoding: rows as in the row encoding, and parts of rows as entries above them.

Promises: a row that is written or deleted as a whole is one entry with the bytes that it has in the
row encoding, so a compacted table has those bytes too. Parts are written without reading.
Does not know: files, epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.path import MAX_NUMBER, number_component
from ...codec.ragged import Bytes, Positions, constant
from ...errors import SchemaError
from ...log.table_definition import TableDefinition
from ...segment.block import Block
from ...segment.key import Kind
from ..resolve import Keep, Resolver
from ..rowencoding import RowEncoding
from .entries import encode_parts
from .part import Parts
from .patch import conform_patch
from .remains import Remains
from .resolver import DocumentResolver, RemainsResolver, one_entry_per_row, row_keys_of
from .rowfold import RowFold
from .shape import put_parts, put_whole, shape_of


class DocumentEncoding(RowEncoding):
    """The document encoding of one table: see `encoding.Encoding`, whose methods these are."""

    has_parts = True

    def __init__(self, definition: TableDefinition, vnode_count: int) -> None:
        """Prepare the codec. SchemaError for columns that documents do not have."""
        super().__init__(definition, vnode_count)
        _check_columns(definition)
        self._rows = RowFold(definition, self._values)
        self._is_packed = definition.properties.packed
        self._put = put_whole if self._is_packed else put_parts
        self._shapes = {
            column.name: (column.id, shape_of(column.type, 1))
            for column in self.schema.value_columns
        }

    # Reading

    def resolver(self, keep: Keep, time: Callable[[], int]) -> Resolver:
        """Return what makes one entry of those of a row."""
        return DocumentResolver(keep, rows=self._rows, time=time)

    def remains_resolver(self, keep: Keep, is_bottom: bool, time: int) -> Resolver:
        """Return what makes of the entries of a row those that remain."""
        remains = Remains(self._rows, is_bottom, self._is_packed, time)
        return RemainsResolver(keep, rows=self._rows, remains=remains)

    def resolve(self, blocks: Sequence[Block]) -> Block:
        """Return one entry for each row of some blocks, the newest block first, in key order."""
        return one_entry_per_row(self._rows, blocks)

    def row_keys(self, block: Block) -> Bytes:
        """Return the full key of the row of every entry."""
        return row_keys_of(block)

    def is_whole_row(self, value: bytes) -> bool:
        """Return whether an entry with this value, the only one of its row, is the row."""
        return self._rows.is_whole_row(value)

    # Writing

    def encode(
        self,
        batch: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        expiries: Positions | None = None,
    ) -> tuple[Bytes, Bytes]:
        """Return the entries of the rows of a batch: see `RowEncoding.encode`.

        Unless the table is packed, a row is an entry for itself and one for each part.
        """
        if self._is_packed or (kinds is not None and (kinds == Kind.DELETE).all()):
            return super().encode(batch, kinds, expiries)
        if kinds is None:
            kinds = np.full(batch.num_rows, Kind.PUT, np.uint8)
        self._check_kinds(batch, kinds)
        puts = np.flatnonzero(kinds != Kind.DELETE)
        rows = self.schema.conform(batch.take(pa.array(puts)))
        parts = [_roots(np.where(kinds == Kind.DELETE, kinds, Kind.OBJECT))]
        for name, (column_id, shape) in self._shapes.items():
            column = rows.column(name)
            present = np.flatnonzero(np.asarray(column.is_valid()))
            values = column.take(pa.array(present))
            exploded = shape.explode(values, constant(number_component(column_id), len(present)))
            parts.append(exploded.owned_by(puts[present]))
        keys = self.encode_keys(self.conform_keys(batch))
        return encode_parts(keys, Parts.joined(parts), self.schema.version, expiries)

    def encode_patch(
        self, batch: pa.RecordBatch, expiries: Positions | None = None
    ) -> tuple[Bytes, Bytes]:
        """Return the entries that change parts of some rows: see patch.py.

        ``expiries``: of each row of the batch, int64, `NEVER` for none. Errors as of
        `conform_patch`; ValueRangeError for keys of maps that are too long.
        """
        rows = conform_patch(self.schema, batch)
        parts = []
        for name in rows.schema.names[len(self.key_names) :]:
            column_id, shape = self._shapes[name]
            paths = constant(number_component(column_id), rows.num_rows)
            parts.append(shape.patch(rows.column(name), paths, self._put))
        keys = self.encode_keys(rows.select(self.key_names))
        return encode_parts(keys, Parts.joined(parts), self.schema.version, expiries)


def _roots(kinds: NDArray[np.uint8]) -> Parts:
    """Return rows of no columns, or deletes of rows, as parts of themselves."""
    count = len(kinds)
    nothing = constant(b"", count)
    depths = np.zeros(count, np.uint8)
    return Parts(np.arange(count), nothing, depths, kinds.astype(np.uint8), nothing)


def _check_columns(definition: TableDefinition) -> None:
    """SchemaError for columns that documents do not have."""
    for column in definition.schema.value_columns:
        if not column.nullable:
            raise SchemaError(
                f"the column {column.name!r} of a document table is NOT NULL, but outside of the "
                "key each column can be removed by itself: leave NOT NULL out, or take encoding = "
                "'row'"
            )
        if column.id > MAX_NUMBER:
            raise SchemaError(
                f"the column {column.name!r} would be the {column.id}th of a document table, which "
                f"has had {MAX_NUMBER} columns at most; copy it to a new one"
            )
