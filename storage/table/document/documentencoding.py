"""The document encoding: rows as in the row encoding, and parts of rows as entries above them.

Promises: a row that is written or deleted as a whole is one entry with the bytes that it has in the
row encoding, so a compacted table has those bytes too. Parts are written without reading.
Does not know: files, epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.path import MAX_NUMBER, load_numbers, number_component
from ...codec.ragged import Bytes, Positions, constant
from ...errors import SchemaError
from ...log.segment_record import TableStatistics
from ...log.table_definition import TableDefinition
from ...schema.arrow import arrow_type
from ...schema.schema import Column
from ...segment.block import Block
from ...segment.key import Kind
from ..expiry_columns import ExpiryColumn
from ..header import Headers
from ..record import Row
from ..resolve import Keep, Resolver
from ..rowencoding import RowEncoding
from .canonical import canonical_parts, shapes_of_version
from .change import Action, Change
from .containers import SetShape
from .ends import Ends
from .entries import encode_parts
from .merge_window import row_keys_of
from .part import Parts
from .patch import conform_patch
from .point import Pairs, PointFold
from .remains import Remains
from .resolver import DocumentResolver, RemainsResolver, one_entry_per_row
from .rowfold import RowFold, ShownExpiry
from .shape import put_parts, put_whole
from .target import Target, Targets
from .variantcheck import check_variants, holds_variants


class DocumentEncoding(RowEncoding):
    """The document encoding of one table: see `encoding.Encoding`, whose methods these are."""

    has_parts = True

    def __init__(
        self,
        definition: TableDefinition,
        vnode_count: int,
        expiry_columns: Sequence[ExpiryColumn] = (),
    ) -> None:
        """Prepare the codec; ``expiry_columns``: those of the definition that are not stored.

        SchemaError for columns that documents do not have. The errors of `locate_part` for paths.
        """
        super().__init__(definition, vnode_count)
        _check_columns(definition)
        self._targets = Targets(self.schema, definition.properties)
        self._rows = RowFold(definition, self._values, list(map(self._shown, expiry_columns)))
        self._points = PointFold(definition, self._values)
        self._is_packed = definition.properties.packed
        self._put = put_whole if self._is_packed else put_parts
        self._shapes = {
            column.name: (column.id, self._targets.column(column.name).shape)
            for column in self.schema.value_columns
        }
        self._sets = {
            name: shape for name, (_, shape) in self._shapes.items() if isinstance(shape, SetShape)
        }
        self._variants = [
            column.name
            for column in self.schema.value_columns
            if holds_variants(arrow_type(column.type))
        ]

    # Reading

    def may_divide(self, statistics: TableStatistics) -> bool:
        """Return whether a file may hold parts of rows; if it has, the statistics count them.

        A row without columns is counted among the parts, as it is read like them; a part or row
        that expires is counted among what expires. Without packing nearly every row has parts.
        """
        has_parts = statistics.parts > 0 or statistics.expiring > 0
        return has_parts or not self._is_packed or self._rows.has_lost_columns

    def resolver(
        self, keep: Keep, time: Callable[[], int], columns: Collection[Column] | None = None
    ) -> Resolver:
        """Return what makes one entry of those of a row: see `Encoding.resolver`."""
        rows = self._rows if columns is None else self._rows.reading(columns)
        return DocumentResolver(keep, rows=rows, time=time)

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

    def check_columns(self, block: Block) -> None:
        """ValueError for a part of a column that the table never had. Dropped ones it had."""
        headers = Headers(block)
        parts = np.flatnonzero(headers.is_part)
        ends = block.key_starts + block.key_lengths - headers.path_lengths
        ids = load_numbers(block.keys, ends[parts])
        schemas = (self.schema, *self.definition.older_schemas)
        last = max(column.id for schema in schemas for column in schema.columns)
        unknown = np.flatnonzero((ids < 1) | (ids > last))
        if len(unknown):
            number = ids[unknown[0]]
            raise ValueError(f"a part is of the column {number}, which the table never had")

    def canonical_values(self, block: Block) -> Bytes:
        """Return the values of entries as they are written, those of parts, too: see `Encoding`."""
        is_divided = Headers(block).is_divided
        if not is_divided.any():
            return super().canonical_values(block)
        divided, whole = np.flatnonzero(is_divided), np.flatnonzero(~is_divided)
        parts = canonical_parts(
            block.take(divided), lambda version: shapes_of_version(self.definition, version)
        )
        values = pa.concat_arrays([parts, super().canonical_values(block.take(whole))])
        return values.take(pa.array(np.argsort(np.concatenate([divided, whole]), kind="stable")))

    def decode_entries(
        self,
        key: Sequence[Any],
        files: Sequence[Pairs],
        time: Callable[[], int],
    ) -> Row | None:
        """Return the row with a primary key and some entries: see `Encoding.decode_entries`."""
        columns = self._points.row(files, time)
        return None if columns is None else self._row_of(key, columns)

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
        if kinds is not None and (kinds == Kind.DELETE).all():
            return super().encode(batch, kinds, expiries)
        if self._is_packed:
            self._check_puts(batch, kinds)
            return super().encode(self._with_distinct(batch), kinds, expiries)
        if kinds is None:
            kinds = np.full(batch.num_rows, Kind.PUT, np.uint8)
        self._check_kinds(batch, kinds)
        puts = np.flatnonzero(kinds != Kind.DELETE)
        rows = self.schema.conform(batch.take(pa.array(puts)))
        self._check_variants(rows)
        parts = [_roots(np.where(kinds == Kind.DELETE, kinds, Kind.OBJECT))]
        for name, (column_id, shape) in self._shapes.items():
            column = rows.column(name)
            present = np.flatnonzero(np.asarray(column.is_valid()))
            values = column.take(pa.array(present))
            exploded = shape.explode(values, constant(number_component(column_id), len(present)))
            parts.append(exploded.owned_by(puts[present]))
        keys = self.encode_keys(self.conform_keys(batch))
        return encode_parts(keys, Parts.joined(parts), self.schema.version, expiries)

    def _with_distinct(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows whose sets have each element once, in order."""
        if not self._sets:
            return batch
        rows = self.schema.conform(batch)
        for name, shape in self._sets.items():
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(
                index, rows.schema.field(index), shape.distinct(rows.column(index))
            )
        return rows

    def _check_puts(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None) -> None:
        """Check the variants of the rows of a batch that are not deleted."""
        if not self._variants:
            return
        if kinds is not None:
            self._check_kinds(batch, kinds)
            batch = batch.filter(pa.array(kinds != Kind.DELETE))
        self._check_variants(self.schema.conform(batch))

    def _check_variants(self, rows: pa.RecordBatch) -> None:
        """SchemaMismatchError if the bytes of a variant in some rows are none."""
        for name in self._variants:
            check_variants(f"table {self.name}: {name}", rows.column(name))

    def patch_changes(self, batch: pa.RecordBatch) -> tuple[Bytes, list[Change]]:
        """Return the full keys of the rows that a batch of patches changes, and the changes.

        See patch.py. Errors as of `conform_patch`.
        """
        rows = conform_patch(self.schema, batch)
        numbers = np.arange(rows.num_rows)
        changes = []
        for name in rows.schema.names[len(self.key_names) :]:
            target, _ = self.locate_part([name])
            check_variants(f"table {self.name}: {name}", rows.column(name))
            changes.append(Change(target, Action.MERGE, numbers, (), rows.column(name)))
        return self.encode_keys(rows.select(self.key_names)), changes

    def locate_part(self, path: Sequence[Any]) -> tuple[Target, tuple[Any, ...]]:
        """Return where a path leads: see `Targets.locate`."""
        return self._targets.locate(path)

    def _shown(self, expiry: ExpiryColumn) -> ShownExpiry:
        """Return a column of expiries with its path as bytes."""
        if self.is_key_path(expiry.path):
            return ShownExpiry(expiry.column.id, None, b"")
        target, keys = self.locate_part(expiry.path)
        encoded = target.encode_path_keys(keys)
        return ShownExpiry(expiry.column.id, target, target.path_bytes(encoded))

    def finder(self, path: Sequence[Any]) -> Callable[[Block], bool]:
        """Return the function that says of a block of one row whether something is at a path.

        SchemaMismatchError for a path that the column's type does not have.
        """
        if self.is_key_path(path):
            return lambda row: True
        target, keys = self.locate_part(path)
        encoded = target.encode_path_keys(keys)

        def is_there(row: Block) -> bool:
            value = self.decode(row, [target.column]).column(0)[0].as_py()
            return target.value_in(value, encoded) is not None

        return is_there

    def encode_changes(
        self,
        row_keys: Bytes,
        changes: Sequence[Change],
        ends: Ends,
        expiries: Positions | None = None,
    ) -> tuple[Bytes, Bytes]:
        """Return the entries that change parts of rows; of two changes of a part the later counts.

        ``row_keys``: the full keys of the rows, which the changes know by their numbers; a change
        of a later one is later. ``expiries``: of each, int64, `NEVER` for none. Errors as of
        `Change.parts`; ValueRangeError for keys of maps that are too long.
        """
        parts = Parts.joined([change.parts(self._put, ends) for change in changes])
        return encode_parts(row_keys, parts, self.schema.version, expiries)


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
