"""The row encoding: one entry per row, with all columns that are not in its key in the value.

Promises: whole batches are encoded and decoded column by column, and what the key holds is not in
the value again, except for the columns of `TableSchema.stored_keys`. Only the columns that are read
are decoded.
Does not know: files, epochs, or which of several versions is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Bytes, Positions, first_of_equal
from ..codec.row_function import RowFunction
from ..errors import (
    NullKeyError,
    NullValueError,
    OptionError,
    SchemaMismatchError,
    UnknownOperationError,
)
from ..log.segment_record import TableStatistics
from ..log.table_definition import TableDefinition
from ..schema.schema import Column, TableSchema
from ..segment.block import Block
from ..segment.key import (
    Kind,
)
from .expiry_columns import ExpiryColumn
from .header import EXPIRY, NEVER, Headers, delete_value
from .keyencoding import KeyEncoding
from .record import Row, row_type
from .resolve import Keep, Resolver, folded_by_key
from .value import ValueEncoding


class RowEncoding(KeyEncoding):
    """The row encoding of one table: see `encoding.Encoding`, whose methods these are."""

    has_parts = False

    def __init__(
        self,
        definition: TableDefinition,
        vnode_count: int,
        expiry_columns: Sequence[ExpiryColumn] = (),
    ) -> None:
        """Prepare the codec; ``expiry_columns``: those of the definition that are not stored.

        UnsupportedTypeError if a column's type cannot be stored. The errors of `finder` for paths.
        """
        super().__init__(definition, vnode_count)
        schema = definition.schema
        self._values = ValueEncoding(definition)
        self.upsert = self._values.upsert
        self.fold = self._values.fold
        self._is_known_kind = np.zeros(256, np.bool_)
        self._is_known_kind[[Kind.PUT, Kind.DELETE, self.upsert]] = True
        self._delete_value = delete_value(schema.version)
        self._expiry_sources = {
            expiry.column.name: self._whole_column(expiry.path) for expiry in expiry_columns
        }
        self._row_type = row_type([column.name for column in schema.visible_columns])
        self._value_names = frozenset(self._values.names)
        self._has_stored_keys = not self._value_names.isdisjoint(self.key_names)
        self._order = _row_order(schema)
        self._arranged = _arrangement(
            [
                index if in_key else len(self.key_names) + index
                for (in_key, index), column in zip(self._order, schema.columns, strict=True)
                if not column.hidden
            ],
            len(schema.columns),
        )
        self._required = [
            index for index, column in enumerate(schema.columns) if not column.nullable
        ]

    # Whole batches

    def encode(
        self,
        batch: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        expiries: Positions | None = None,
    ) -> tuple[Bytes, Bytes]:
        """Return (full keys, values) of the rows of a batch, in its order.

        ``kinds``: a `Kind` a row, None if all are the table's upserts. ``expiries``: microseconds
        since 1970 (int64) a row, `NEVER` for none. Columns are matched by name and cast exactly; of
        a deleted row only the key, and the version column if there is one, are used.
        SchemaMismatchError, NullKeyError, NullValueError or ValueRangeError if a row does not fit
        the table, UnknownOperationError for an unknown kind.
        """
        if kinds is None:
            rows = self.schema.conform(batch)
            return self.encode_keys(rows), self._values.encode(rows, None, expiries)
        if len(kinds) == batch.num_rows and (kinds == self._values.upsert).all():
            return self.encode(batch, None, expiries)
        self._check_kinds(batch, kinds)
        is_delete = kinds == Kind.DELETE
        if is_delete.all():
            return self.encode_deletes(batch, expiries)
        puts, deletes = np.flatnonzero(~is_delete), np.flatnonzero(is_delete)
        rows = self.schema.conform(batch.take(pa.array(puts)))
        values = self._values.encode(rows, kinds[puts], _taken(expiries, puts))
        deleted = self._values.encode_deletes(batch, _taken(expiries, deletes), deletes)
        indices = np.empty(batch.num_rows, np.int64)
        indices[puts] = np.arange(len(puts))
        indices[deletes] = len(puts) + np.arange(len(deletes))
        keys = self.encode_keys(self.conform_keys(batch))
        return keys, pa.concat_arrays([values, deleted]).take(pa.array(indices))

    def _check_kinds(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8]) -> None:
        if len(kinds) != batch.num_rows or not self._is_known_kind[kinds].all():
            known_kinds = [Kind(kind) for kind in np.flatnonzero(self._is_known_kind).tolist()]
            raise UnknownOperationError(
                f"table {self.name}: {batch.num_rows} rows need as many kinds, each of "
                f"{', '.join(f'{kind:d} ({kind.name.lower()})' for kind in known_kinds)}; there "
                f"are {len(kinds)}, {np.unique(kinds).tolist()}"
            )

    def encode_deletes(
        self, batch: pa.RecordBatch, expiries: Positions | None = None
    ) -> tuple[Bytes, Bytes]:
        """Return (full keys, values) that delete the rows whose keys a batch holds.

        Errors as `encode`, for the primary key's columns and the version column only.
        """
        keys = self.conform_keys(batch)
        return self.encode_keys(keys), self._values.encode_deletes(batch, expiries)

    def decode(self, block: Block, columns: Sequence[Column]) -> pa.RecordBatch:
        """Return some columns of the rows of a block as a batch, in its order.

        `EXPIRY` may be the last of them. Requires at least one other. ValueError or IndexError if
        the bytes are not such rows.
        """
        if columns[-1] is EXPIRY:
            rows = self.decode(block, columns[:-1])
            return rows.append_column(EXPIRY.name, pa.array(Headers(block).expiries))
        if not self._expiry_sources.keys().isdisjoint(column.name for column in columns):
            return self._decode_with_expiries(block, columns)
        by_name: dict[str, pa.Array] = {}
        value_columns = [column for column in columns if column.name in self._value_names]
        if len(value_columns) < len(columns):
            by_name |= zip(self.key_names, self._decode_keys(block), strict=True)
        if value_columns:
            by_name |= self._decode_values(block, value_columns)
        # The fields of the whole schema are made once.
        whole = self.schema.arrow_schema
        schema = pa.schema([whole.field(column.name) for column in columns])
        return pa.RecordBatch.from_arrays(
            [by_name[column.name] for column in columns], schema=schema
        )

    def _decode_values(self, block: Block, columns: Sequence[Column]) -> dict[str, pa.Array]:
        """Return columns that are in the value; of a delete those that its key holds, too."""
        if not self._has_stored_keys or {column.name for column in columns} - set(self.key_names):
            return self._values.decode(block, columns)
        kinds = Headers(block).kinds
        if not (kinds == Kind.DELETE).any():
            return self._values.decode(block, columns)
        by_key = dict(zip(self.key_names, self._decode_keys(block), strict=True))
        rows = np.flatnonzero(kinds != Kind.DELETE)
        values = self._values.decode(block.take(rows), columns) if len(rows) else {}
        indices = np.arange(len(block))
        indices[rows] = len(block) + np.arange(len(rows))
        return {
            column.name: pa.concat_arrays(
                [by_key[column.name], *([values[column.name]] if values else [])]
            ).take(pa.array(indices))
            for column in columns
        }

    def _decode_with_expiries(self, block: Block, columns: Sequence[Column]) -> pa.RecordBatch:
        """Return columns of rows, some of which say when the row expires, if a column is there."""
        sources = self._expiry_sources
        shown = {column.name for column in columns} & sources.keys()
        needed = [column for column in columns if column.name not in shown]
        needed += [sources[name] for name in sorted(shown) if sources[name] not in needed]
        rows = self.decode(block, list(dict.fromkeys(needed)))
        expiries = Headers(block).expiries
        arrays = []
        for column in columns:
            if column.name in shown:
                is_there = np.asarray(rows.column(sources[column.name].name).is_valid())
                arrays.append(pa.array(expiries, mask=~is_there | (expiries == NEVER)))
            else:
                arrays.append(rows.column(column.name))
        whole = self.schema.arrow_schema
        schema = pa.schema([whole.field(column.name) for column in columns])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def is_key_path(self, path: Sequence[Any]) -> bool:
        """Return whether a path is a column of the primary key, which is there as the row is."""
        names = {name.lower() for name in self.key_names}
        return len(path) == 1 and isinstance(path[0], str) and path[0].lower() in names

    def finder(self, path: Sequence[Any]) -> Callable[[Block], bool]:
        """Return the function that says of a block of one row whether something is at a path.

        SchemaMismatchError for an unknown column, OptionError for a path below a column.
        """
        column = self._whole_column(path)
        return lambda row: bool(self.decode(row, [column]).column(0)[0].is_valid)

    def _whole_column(self, path: Sequence[Any]) -> Column:
        """Return the column at a path. SchemaMismatchError, OptionError."""
        name = path[0].lower() if isinstance(path[0], str) else path[0]
        column = next((c for c in self.schema.columns if c.name.lower() == name), None)
        if column is None:
            names = ", ".join(column.name for column in self.schema.visible_columns)
            raise SchemaMismatchError(
                f"table {self.name}: unknown column {path[0]!r}; the columns are {names}"
            )
        if len(path) > 1:
            raise OptionError(
                f"table {self.name}: {path!r} is a part of the column {column.name!r}, and in a "
                "table of rows a row expires whole; name the column, or create the table with "
                "encoding = 'document'"
            )
        return column

    def reencode_values(self, block: Block) -> Bytes:
        """Return the values of the rows of a block, encoded under the present schema.

        None of the rows is a delete. ValueError or IndexError if the bytes are not such rows.
        """
        return self._values.encode(self.decode(block, self.schema.columns))

    def canonical_values(self, block: Block) -> Bytes:
        """Return the values of whole rows and deletes as they are written: see `Encoding`."""
        return self._values.canonical(block)

    # Several entries of one row

    def may_divide(self, statistics: TableStatistics) -> bool:
        """Return False: see `Encoding.may_divide`."""
        return False

    def resolver(
        self, keep: Keep, time: Callable[[], int], columns: Collection[Column] | None = None
    ) -> Resolver:
        """Return what makes one entry of the versions of a row: see `Encoding.resolver`."""
        return Resolver(keep, self.fold)

    def remains_resolver(self, keep: Keep, is_bottom: bool, time: int) -> Resolver:
        """Return what makes of the versions of a row the one that remains."""
        return Resolver(keep, self.fold)

    def resolve(self, blocks: Sequence[Block]) -> Block:
        """Return one entry for each row of some blocks, the newest block first, in key order."""
        entries = Block.joined(blocks)
        keys = entries.key_bytes()
        if self.fold is None:
            return entries.take(first_of_equal(keys))
        return folded_by_key(self.fold, entries, keys)

    def row_keys(self, block: Block) -> Bytes:
        """Return the full key of the row of every entry."""
        return block.key_bytes()

    def decode_entries(
        self,
        key: Sequence[Any],
        files: Sequence[Sequence[tuple[bytes, bytes]]],
        time: Callable[[], int],
    ) -> Row | None:
        """Return the row with a primary key and some entries: see `Encoding.decode_entries`."""
        return self.decode_row(key, files[0][0][1])

    def _row_of(self, key: Sequence[Any], columns: Sequence[Any]) -> Row:
        """Return the visible columns of a row, given its key and all other columns."""
        return self._row_type(self._arranged((*key, *columns)))

    # One row

    def encode_row(self, values: Sequence[Any]) -> bytes:
        """Return the value (a put) of a row with these values, in the order of the columns.

        SchemaMismatchError for too few or many values or one of another type, ValueRangeError for
        one that does not fit, NullKeyError or NullValueError for None where none may be.
        """
        if len(values) != len(self._order):
            names = ", ".join(column.name for column in self.schema.columns)
            raise SchemaMismatchError(
                f"table {self.name}: {len(values)} values for the columns {names}"
            )
        for index in self._required:
            if values[index] is None:
                self._fail_null(index)
        body = [value for value, (in_key, _) in zip(values, self._order, strict=True) if not in_key]
        return self._values.encode_row(body)

    def _fail_null(self, index: int) -> NoReturn:
        name = self.schema.columns[index].name
        kind = NullKeyError if name in self.key_names else NullValueError
        raise kind(f"table {self.name}: the column {name!r} is NOT NULL, but its value is None")

    def encode_delete(self) -> bytes:
        """Return the value that deletes a row."""
        return self._delete_value

    @cached_property
    def plain_rows(self) -> tuple[range, RowFunction]:
        """What decodes the usual values: see `Encoding.plain_rows`."""
        places = [
            place
            for place, column in zip(self._order, self.schema.columns, strict=True)
            if not column.hidden
        ]
        decode_fields, header = self._values.decode_fields, self._values.header
        general = _row_decoder(self._row_type, self._arranged, header, decode_fields)
        decode = self._values.row_function(places, header, self._row_type, general)
        return self._values.plain_heads, decode

    def plain_rows_of(self, columns: Sequence[str]) -> tuple[range, RowFunction]:
        """Return what decodes some columns of the usual values: see `Encoding.plain_rows_of`."""
        by_name = dict(zip((c.name for c in self.schema.columns), self._order, strict=True))
        places = [by_name[name] for name in columns]
        stored = [index for in_key, index in places if not in_key]
        decode_fields = self._values.decoder_of(stored)
        key_count = len(self.key_names)
        arrange = _arrangement(
            [index if in_key else key_count + stored.index(index) for in_key, index in places],
            key_count + len(stored),
        )
        row_class, header = row_type(columns), self._values.header
        general = _row_decoder(row_class, arrange, header, decode_fields)
        decode = self._values.row_function(places, header, row_class, general)
        return self._values.plain_heads, decode

    def decode_row(self, key: Sequence[Any], value: bytes) -> Row | None:
        """Return the row with a primary key and a stored value; None if the value is a delete.

        It has the visible columns.
        """
        body = self._values.decode_row(value)
        return None if body is None else self._row_of(key, body)


def _taken(expiries: Positions | None, rows: Positions) -> Positions | None:
    return None if expiries is None else expiries[rows]


def _row_decoder(
    row_class: type[Row],
    arrange: Callable[[tuple[Any, ...]], tuple[Any, ...]],
    header: bytes,
    decode_fields: Callable[[bytes, int, int], list[Any]],
) -> Callable[[Sequence[Any], bytes], Row]:
    """Return the function from a primary key's values and a value to the row.

    ValueError for a value with another header than ``header``, else the errors of
    ``decode_fields``.
    """
    # Half the time of a call of the class.
    start, new = len(header), tuple.__new__

    def decode(key: Sequence[Any], value: bytes) -> Row:
        if start and not value.startswith(header):
            raise ValueError("the row is encoded under another schema")
        return new(row_class, arrange((*key, *decode_fields(value, start, len(value)))))

    return decode


def _row_order(schema: TableSchema) -> list[tuple[bool, int]]:
    """Return for every column whether the key has it, and its index there or in the value."""
    key_names = [column.name for column in schema.key_columns]
    value_names = [column.name for column in schema.value_columns]
    return [
        (False, value_names.index(column.name))
        if column.name in value_names
        else (True, key_names.index(column.name))
        for column in schema.columns
    ]


def _arrangement(
    indices: Sequence[int], count: int
) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return the function that takes the values at ``indices`` of ``count``, in that order."""
    if list(indices) == list(range(count)):
        return tuple
    if len(indices) == 1:
        (index,) = indices
        return lambda values: (values[index],)
    return itemgetter(*indices)
