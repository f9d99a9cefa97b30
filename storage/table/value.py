"""The value encoding of one table: the columns that are not in the key, to values and back.

Promises: a value is a header (header.py) and, except for a delete, the row's body (codec/row.py).
Rows that were written under an earlier schema of the table are read under its present one: columns
are known by their ids, columns added since are NULL, columns widened since are widened.
Does not know: keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.memcomparable import KeyCodec
from ..codec.ragged import Bytes, Positions, concat, constant, lengths_of
from ..codec.row import RowCodec
from ..errors import ValueRangeError
from ..log.table_definition import TableDefinition
from ..schema.arrow import arrow_type
from ..schema.batch import described_row
from ..schema.cast import exact_cast
from ..schema.schema import Column, KeyColumn, TableSchema, default_values
from ..segment.block import Block
from ..segment.key import EXPIRES, HEADER, Kind
from .header import (
    BY_COLUMNS,
    MAX_VERSION_BYTES,
    VERSIONED,
    Headers,
    encode_headers,
    is_delete,
    read_header,
)
from .resolve import Fold

_ROW_FLAGS = np.uint8(EXPIRES | VERSIONED | BY_COLUMNS)

UPSERTS = {"overwrite": Kind.PUT, "partial": Kind.PARTIAL, "ignore": Kind.IGNORE}
"""The kind of an entry that upserts a row, by the table's merge behaviour."""


@dataclass(frozen=True)
class _Layout:
    """How the bodies of rows under one schema are laid out."""

    schema: TableSchema

    @cached_property
    def codec(self) -> RowCodec:
        return RowCodec([column.type for column in self.schema.value_columns])

    @cached_property
    def indices(self) -> dict[int, int]:
        """The index of each column in a body, by the column's id."""
        return {column.id: index for index, column in enumerate(self.schema.value_columns)}


class ValueEncoding:
    """The codec of one table's values. Immutable; safe between threads.

    ``header``: that of the values which `encode_row` returns; ``decode_fields``: the function from
    (data, start, end) to the values of the columns not in the key, of a body under the present
    schema, ``decoder_of`` makes it of some of them, ``row_function`` makes rows; see `RowCodec`.
    """

    def __init__(self, definition: TableDefinition) -> None:
        """Prepare the codec. UnsupportedTypeError if a column's type cannot be stored."""
        schema, properties = definition.schema, definition.properties
        self._definition = definition
        self._schema = schema
        self._layout = _Layout(schema)
        self._codec = self._layout.codec
        self.decode_fields = self._codec.decode_fields
        self.decoder_of = self._codec.decoder_of
        self.row_function = self._codec.row_function
        self.names = [column.name for column in schema.value_columns]
        self.upsert = UPSERTS[properties.merge]
        self.header: bytes = encode_headers(self.upsert, schema.version, 1)[0].as_py()
        self._head = HEADER | self.upsert
        self._versions = schema.version_columns(properties.version_columns)
        self.fold = None if properties.is_plain else Fold(properties, self.coalesce)

    @cached_property
    def _layouts(self) -> dict[int, _Layout]:
        older = {schema.version: _Layout(schema) for schema in self._definition.older_schemas}
        return older | {self._schema.version: self._layout}

    # Whole batches

    def encode(
        self,
        rows: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        expiries: Positions | None = None,
    ) -> Bytes:
        """Return the values of rows in the table's schema, none of them a delete.

        ``kinds``: one `Kind` per row, None for upserts. ``expiries``: int64, see `encode_headers`.
        """
        columns = [rows.column(name) for name in self.names]
        if kinds is not None and (kinds == self.upsert).all():
            kinds = None
        versions = self._version_bytes(rows) if self._versions else None
        return self.encode_columns(columns, rows.num_rows, kinds, expiries, versions)

    def encode_columns(
        self,
        columns: Sequence[pa.Array],
        count: int,
        kinds: NDArray[np.uint8] | None = None,
        expiries: Positions | None = None,
        versions: Bytes | None = None,
        flags: NDArray[np.uint8] | None = None,
    ) -> Bytes:
        """Return the values of ``count`` rows, given their columns that are not in the key.

        ``versions``: the memcomparable values of the version columns, None if there are none;
        ``flags``: others of each row's header.
        """
        header = None if flags is not None else self._common_header(kinds, expiries)
        if header is not None:
            return self._bodies(columns, count, header)
        row_headers = encode_headers(
            self.upsert if kinds is None else kinds,
            self._schema.version,
            count,
            expiries,
            versions,
            0 if flags is None else flags,
        )
        return concat([row_headers, self._bodies(columns, count)])

    def _bodies(self, columns: Sequence[pa.Array], count: int, header: bytes = b"") -> Bytes:
        """Return the bodies of ``count`` rows, each after ``header``."""
        if columns:
            return self._codec.encode(columns, header)
        return constant(header + self._codec.encode_row([]), count)

    def _common_header(
        self, kinds: NDArray[np.uint8] | None, expiries: Positions | None
    ) -> bytes | None:
        """Return the header of all rows; None if they do not have the same."""
        if self._versions or kinds is not None:
            return None
        if expiries is None:
            return self.header
        if not len(expiries) or (expiries != expiries[0]).any():
            return None
        headers = encode_headers(self.upsert, self._schema.version, 1, expiries[:1])
        header: bytes = headers[0].as_py()
        return header

    def encode_deletes(
        self,
        batch: pa.RecordBatch,
        expiries: Positions | None = None,
        rows: Positions | None = None,
    ) -> Bytes:
        """Return values that delete some ``rows`` of a batch, by default all.

        Of the batch only the version columns are used, if the table has some; one that it lacks has
        its default, else NULL.
        """
        count = batch.num_rows if rows is None else len(rows)
        versions = None
        if self._versions:
            versions = self._version_bytes(batch if rows is None else batch.take(pa.array(rows)))
        return encode_headers(Kind.DELETE, self._schema.version, count, expiries, versions)

    def _version_bytes(self, batch: pa.RecordBatch) -> Bytes:
        """Return the version columns of a batch as bytes that compare as their values do.

        ValueRangeError for a version of more bytes than a header has room for.
        """
        columns = [self._version_values(batch, column) for column in self._versions]
        versions = self._version_codec.encode(columns)
        lengths = lengths_of(versions)
        if len(lengths) and lengths.max() > MAX_VERSION_BYTES:
            self._fail_long_version(batch, lengths)
        return versions

    @cached_property
    def _version_codec(self) -> KeyCodec:
        return KeyCodec(
            [column.type for column in self._versions],
            [KeyColumn(column.id) for column in self._versions],
        )

    def _fail_long_version(self, batch: pa.RecordBatch, lengths: Positions) -> NoReturn:
        """Raise the error of the first row whose version is too long."""
        row = int(np.flatnonzero(lengths > MAX_VERSION_BYTES)[0])
        key_names = [column.name for column in self._schema.key_columns]
        names = " and ".join(repr(column.name) for column in self._versions)
        raise ValueRangeError(
            f"table {self._definition.name}: the version {names} of "
            f"{described_row(batch, key_names, row)} takes {lengths[row]} bytes, and a version "
            f"has at most {MAX_VERSION_BYTES} (a text of {MAX_VERSION_BYTES - 3}, where a zero "
            "byte counts twice): order the rows by a shorter value"
        )

    def _version_values(self, batch: pa.RecordBatch, column: Column) -> pa.Array:
        """Return a version column of a batch; its default if the batch does not have it."""
        version_type = arrow_type(column.type)
        names = [name.lower() for name in batch.schema.names]
        if column.name.lower() not in names:
            default = default_values([column]).get(column.name, pa.scalar(None, version_type))
            return pa.repeat(default, batch.num_rows)
        values = batch.column(names.index(column.name.lower()))
        try:
            return exact_cast(values.type, version_type)(values)
        except pa.ArrowInvalid as error:
            raise ValueRangeError(
                f"table {self._definition.name}: the version column {column.name!r} "
                f"cannot hold these values: {error}"
            ) from None

    def decode(self, block: Block, columns: Sequence[Column]) -> dict[str, pa.Array]:
        """Return the values of some columns of the rows of a block, in its order, by name.

        ValueError or IndexError if the bytes are not such rows.
        """
        row_headers = Headers(block)
        if row_headers.are_all(self._head, self._schema.version):
            starts, lengths = row_headers.body_starts, row_headers.body_lengths
            return self._decode(self._layout, block, starts, lengths, columns)
        _check_headers(row_headers)
        versions = np.unique(row_headers.schema_versions).tolist()
        parts, row_indices = [], []
        for version in versions:
            rows = np.flatnonzero(row_headers.schema_versions == version)
            starts, lengths = row_headers.body_starts[rows], row_headers.body_lengths[rows]
            layout = self._layout_of(version)
            parts.append(self._decode(layout, block, starts, lengths, columns))
            row_indices.append(rows)
        if len(parts) == 1:
            return parts[0]
        order = pa.array(np.argsort(np.concatenate(row_indices), kind="stable"))
        return {
            column.name: pa.concat_arrays([part[column.name] for part in parts]).take(order)
            for column in columns
        }

    def _layout_of(self, version: int) -> _Layout:
        layout = self._layouts.get(version)
        if layout is None:
            raise ValueError(f"a row is encoded under the unknown schema version {version}")
        return layout

    def _decode(
        self,
        layout: _Layout,
        block: Block,
        starts: Positions,
        lengths: Positions,
        columns: Sequence[Column],
    ) -> dict[str, pa.Array]:
        """Return columns of rows that are encoded under one schema."""
        stored = [column for column in columns if column.id in layout.indices]
        indices = [layout.indices[column.id] for column in stored]
        arrays = layout.codec.decode(block.values, starts, indices, lengths) if indices else []
        by_name = {
            column.name: _widened(array, arrow_type(column.type))
            for column, array in zip(stored, arrays, strict=True)
        }
        for column in columns:
            if column.id not in layout.indices:
                by_name[column.name] = pa.nulls(len(starts), arrow_type(column.type))
        return by_name

    def coalesce(
        self, entries: Block, firsts: Positions, kinds: NDArray[np.uint8], newest: Block
    ) -> Bytes:
        """Return one value for each group of entries: of each column the first that is not NULL.

        ``firsts``: the first entry of each group, int64; ``kinds``: those of the results;
        ``newest``: the entries whose versions the results have.
        """
        arrays = self.decode(entries, self._schema.value_columns)
        columns = [_first_valid(arrays[name], firsts) for name in self.names]
        versions = None
        if self._versions:
            versions = Headers(newest).versions
        row_headers = encode_headers(kinds, self._schema.version, len(firsts), None, versions)
        return concat([row_headers, self._bodies(columns, len(firsts))])

    def canonical(self, block: Block) -> Bytes:
        """Return the values of whole rows and deletes, read and encoded again.

        Each is under the schema that it names. One that differs from the block's is damaged.
        ValueError, IndexError or a RelstateError if the bytes are not such rows.
        """
        row_headers = Headers(block)
        _check_headers(row_headers, (Kind.PUT, Kind.DELETE, Kind.PARTIAL, Kind.IGNORE))
        is_delete = row_headers.kinds == Kind.DELETE
        has_version = row_headers.flags & VERSIONED != 0
        groups = (row_headers.schema_versions.astype(np.int64) << 1 | is_delete) << 1 | has_version
        numbers = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        values = [self._canonical_alike(block.take(rows)) for rows in numbers]
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *numbers]), kind="stable")
        return pa.concat_arrays(values).take(pa.array(order)) if values else constant(b"", 0)

    def _canonical_alike(self, block: Block) -> Bytes:
        """Return the `canonical` values of entries under one schema, all deletes or none."""
        row_headers = Headers(block)
        version, count = int(row_headers.schema_versions[0]), len(block)
        versions = None
        if row_headers.flags[0] & VERSIONED:
            versions = self._version_codec.encode(self._version_codec.decode(row_headers.versions))
        encoded_headers = encode_headers(
            row_headers.kinds,
            version,
            count,
            row_headers.expiries,
            versions,
            row_headers.flags & np.uint8(BY_COLUMNS),
        )
        if row_headers.kinds[0] == Kind.DELETE:
            return encoded_headers
        layout = self._layout_of(version)
        columns = layout.schema.value_columns
        if not columns:
            return concat([encoded_headers, constant(layout.codec.encode_row([]), count)])
        starts, lengths = row_headers.body_starts, row_headers.body_lengths
        by_name = self._decode(layout, block, starts, lengths, columns)
        bodies = layout.codec.encode([by_name[column.name] for column in columns], b"")
        return concat([encoded_headers, bodies])

    # One row

    @property
    def plain_heads(self) -> range:
        """The first bytes of values under the present schema that neither expire nor delete."""
        return range(self._head, self._head + 1) if self.header else range(HEADER)

    def encode_row(self, values: Sequence[Any]) -> bytes:
        """Return the value (a put) of a row, given the values of the columns not in its key."""
        return self.header + self._codec.encode_row(values)

    def decode_row(self, value: bytes) -> tuple[Any, ...] | None:
        """Return the values of the columns not in the key; None if the value is a delete."""
        if value[0] < HEADER and not self.header:
            return self._codec.decode_row(value, 0)
        if is_delete(value):
            return None
        header = read_header(value)
        if header.version == self._schema.version:
            return self._codec.decode_row(value, header.body_start)
        block = Block.of_pairs([(b"", value)])
        columns = self.decode(block, self._schema.value_columns)
        body = self._codec.encode([columns[name] for name in self.names], b"")
        return self._codec.decode_row(body[0].as_py(), 0)


def _check_headers(
    row_headers: Headers, kinds: Collection[Kind] = (Kind.PUT, Kind.PARTIAL, Kind.IGNORE)
) -> None:
    is_row = np.isin(row_headers.kinds, [*kinds])
    if not is_row.all() or (row_headers.flags & ~_ROW_FLAGS).any():
        raise ValueError("the header of a value is not that of a row")


def _widened(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    return array if array.type == arrow else pc.cast(array, arrow)


def _first_valid(array: pa.Array, firsts: Positions) -> pa.Array:
    """Return of each group of values the first that is not NULL; NULL where all are."""
    count = len(array)
    valid = np.asarray(array.is_valid())
    indices = np.minimum.reduceat(np.where(valid, np.arange(count), count), firsts)
    return array.take(pa.array(indices, mask=indices == count))
