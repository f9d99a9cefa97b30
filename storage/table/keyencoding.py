"""The full keys of one table's rows: table id, vnode and primary key.

Promises: keys of whole batches are encoded and decoded column by column; a single key has the same
bytes.
Does not know: what is stored under a key.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import (
    cached_property,
    canonical_hasher,
    scalar_hasher,
    vnodes_of,
    xxhash64,
)

from ..codec.key_field import Part
from ..codec.memcomparable import KeyCodec
from ..codec.point_key import key_decoder
from ..codec.point_value import BinaryPoint, FixedPoint, TextPoint, point_value
from ..codec.ragged import Buffer, Bytes, Positions, gather
from ..errors import NullKeyError, SchemaMismatchError
from ..log.table_definition import TableDefinition
from ..schema import types as t
from ..schema.arrow import arrow_schema, arrow_type
from ..schema.batch import BatchShape
from ..schema.schema import KeyRange, TableSchema
from ..segment.block import Block
from ..segment.key import KeyPrefix, successor
from .fullkey import KeyEncoder, KeyLocator, KeyReader, key_encoder, key_locator, key_reader
from .scan import Bounds


class KeyEncoding:
    """The codec of the keys of one table at one schema version. Immutable; safe between threads."""

    def __init__(self, definition: TableDefinition, vnode_count: int) -> None:
        """Prepare the codec. SchemaError for a key whose values have no order."""
        schema = definition.schema
        self.definition = definition
        self.table_id = definition.table_id
        self.name = definition.name
        self.schema: TableSchema = schema
        self.vnode_count = vnode_count
        self.prefix = KeyPrefix(definition.table_id, vnode_count)
        self._keys = KeyCodec([column.type for column in schema.key_columns], schema.primary_key)
        self.key_names = [column.name for column in schema.key_columns]
        self._key_shape = BatchShape(
            arrow_schema(column.field for column in schema.key_columns), self.key_names
        )
        self._hashed = [self.key_names.index(column.name) for column in schema.distribution_columns]
        hashed_types = [arrow_type(column.type) for column in schema.distribution_columns]
        self._hash_one = scalar_hasher(hashed_types) if hashed_types else _no_hash
        self._hash_key = _key_hasher(hashed_types, self._hashed, len(self.key_names))
        self._required_keys = [
            index for index, column in enumerate(schema.key_columns) if not column.nullable
        ]
        self._prefix_codecs = [
            KeyCodec(
                [column.type for column in schema.key_columns[:count]], schema.primary_key[:count]
            )
            for count in range(len(schema.primary_key) + 1)
        ]
        names = [column.name for column in schema.columns]
        self._key_indices = [names.index(name) for name in self.key_names]

    # Whole batches

    def vnodes(self, batch: pa.RecordBatch) -> NDArray[np.uint16]:
        """Return the vnode of every row of a batch with the table's key columns, uint16."""
        columns = [batch.column(column.name) for column in self.schema.distribution_columns]
        if not columns:
            return np.zeros(batch.num_rows, np.uint16)
        return vnodes_of(columns, self.vnode_count)

    def encode_keys(self, batch: pa.RecordBatch) -> Bytes:
        """Return the full key of every row of a batch that has the table's key columns."""
        columns = [batch.column(name) for name in self.key_names]
        return self._keys.encode(columns, self._prefixes(batch))

    def primary_keys(self, batch: pa.RecordBatch) -> Bytes:
        """Return the primary keys of a batch that has its columns, as bytes that compare alike."""
        return self._keys.encode([batch.column(name) for name in self.key_names])

    def _prefixes(self, batch: pa.RecordBatch) -> list[Part]:
        """Return what precedes the primary keys of a batch with the distribution key's columns."""
        return self.prefix.parts(self.vnodes(batch))

    def _decode_keys(self, block: Block) -> list[pa.Array]:
        return self._keys.decode(self.primary_keys_in(block))

    def primary_keys_in(self, block: Block) -> Bytes:
        """Return the primary keys of the rows of a block; ValueError if a key is too short."""
        return self._primary_keys_at(block.keys, block.key_starts, block.key_lengths)

    def _primary_keys_at(self, buffer: Buffer, starts: Positions, lengths: Positions) -> Bytes:
        lengths = lengths - self.prefix.size
        if len(lengths) and int(lengths.min()) < 0:
            raise ValueError("a key is too short to be a row's")
        return gather(buffer, starts + self.prefix.size, lengths)

    def key_hashes(
        self, buffer: Buffer, starts: Positions, lengths: Positions
    ) -> NDArray[np.uint64]:
        """Return the hash of the distribution key of every row: see `Encoding.key_hashes`."""
        width = self._keys.even_width
        if width is not None and (lengths == self.prefix.size + width).all():
            columns = self._keys.columns_at(buffer, starts + self.prefix.size, self._hashed)
        else:
            columns = self._keys.decode(self._primary_keys_at(buffer, starts, lengths))
            columns = [columns[index] for index in self._hashed]
        return xxhash64(columns).view(np.uint64)

    def conform_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the primary key's columns of a batch, in the key's order and exact types."""
        key_names = {name.lower() for name in self.key_names}
        names = [name.lower() for name in batch.schema.names]
        indices = [index for index, name in enumerate(names) if name in key_names]
        return self._key_shape.conform(batch.select(indices))

    # Ranges of keys

    def encode_prefixes(self, batch: pa.RecordBatch) -> Bytes:
        """Return what the full keys of all rows begin with whose first key columns a batch has.

        NULL is a value here. SchemaMismatchError unless these are the first columns of the primary
        key, all of the distribution key among them; ValueRangeError for a value that does not fit.
        """
        count = batch.num_columns
        names = self.key_names[:count]
        if {name.lower() for name in batch.schema.names} != {
            name.lower() for name in names
        } or count <= max(self._hashed, default=0):
            raise SchemaMismatchError(
                f"table {self.name}: ({', '.join(batch.schema.names)}) is not a prefix of the "
                f"primary key ({', '.join(self.key_names)}), or not all of the distribution key "
                f"({', '.join(self.key_names[index] for index in self._hashed)}) is in it"
            )
        columns = [replace(column, nullable=True) for column in self.schema.key_columns[:count]]
        fields = [column.field for column in columns]
        rows = BatchShape(arrow_schema(fields), names).conform(batch)
        return self._prefix_codecs[count].encode(rows.columns, self._prefixes(rows))

    def encode_ranges(
        self, lows: pa.Array, highs: pa.Array, vnodes: NDArray[np.int64]
    ) -> tuple[Bytes, Bytes]:
        """Return (lows, highs) of full keys: ``lows[i]`` to ``highs[i]`` in each of some vnodes.

        They bound the first key column, and have its type; NULL is no bound.
        """
        owners = np.repeat(vnodes.astype(np.uint16), len(lows))
        indices = pa.array(np.tile(np.arange(len(lows)), len(vnodes)))
        low_keys, high_keys = (
            self.prefix.compose(owners, self._bounds_of(values).take(indices))
            for values in (lows, highs)
        )
        return low_keys, high_keys

    def _bounds_of(self, values: pa.Array) -> Bytes:
        """Return values of the first key column as the first bytes of primary keys; NULL: none."""
        keys = self._prefix_codecs[1].encode([values])
        if not values.null_count:
            return keys
        return pc.if_else(values.is_null(), pa.scalar(b"", pa.large_binary()), keys)

    def vnode_bounds(self, vnodes: range) -> Bounds:
        """Return the bounds of the full keys of a range of vnodes."""
        return self.prefix.of(vnodes.start), self.prefix.of(vnodes.stop)

    def vnode_of_range(self, keys: KeyRange) -> int | None:
        """Return the vnode of all rows of a range; None if they may have several."""
        if keys.distribution is not None:
            return self._hash_one(keys.distribution) % self.vnode_count
        if len(keys.prefix) <= max(self._hashed, default=-1):
            return None
        return self._vnode_of(keys.prefix)

    def key_bounds(self, keys: KeyRange) -> Bounds:
        """Return the bounds of the primary keys of a range."""
        prefix = self._encode_prefix(keys.prefix)
        low, high = prefix, successor(prefix)
        if keys.start:
            start = self._encode_prefix(keys.start)
            low = max(low, _beyond(start) if keys.after_start else start)
        if keys.stop:
            stop = self._encode_prefix(keys.stop)
            stop = _beyond(stop) if keys.with_stop else stop
            high = stop if high is None else min(high, stop)
        return low, high

    def _encode_prefix(self, values: Sequence[Any]) -> bytes:
        if len(values) > len(self.key_names):
            raise SchemaMismatchError(
                f"table {self.name}: {len(values)} values where the primary key has "
                f"{len(self.key_names)}, {', '.join(self.key_names)}"
            )
        return self._prefix_codecs[len(values)].encode_key(values) if values else b""

    def encode_key_prefix(self, values: Sequence[Any]) -> bytes:
        """Return the bytes that the full keys of rows begin with whose first key values these are.

        The columns of the distribution key are among the first ones; None is a value. Errors as of
        `encode_key`.
        """
        codec = self._prefix_codecs[len(values)]
        forms = codec.canonical(values)
        vnode = self._hash_forms([forms[index] for index in self._hashed]) % self.vnode_count
        return self.prefix.of(vnode) + codec.encode_canonical(forms)

    # Single keys

    def encode_key(self, values: Sequence[Any]) -> bytes:
        """Return the full key of the row whose primary key has these values.

        SchemaMismatchError for too few or many values or one of another type, ValueRangeError for
        one that does not fit, NullKeyError for None in a column that is NOT NULL.
        """
        # First, because this finds values that are not of the key's types.
        forms = self._keys.canonical(values)
        if None in values:
            self._check_required(values)
        vnode = self._hash_key(forms) % self.vnode_count
        return self.prefix.of(vnode) + self._keys.encode_canonical(forms)

    def _check_required(self, values: Sequence[Any]) -> None:
        if any(values[index] is None for index in self._required_keys):
            raise NullKeyError(
                f"table {self.name}: a primary key ({', '.join(self.key_names)}) holds no NULL; "
                f"found {tuple(values)!r}"
            )

    def stored_key(self, values: Sequence[Any]) -> tuple[Sequence[Any], bytes]:
        """Return (stored values, full key) of the row whose primary key has these values.

        The stored values are those that every read returns, plain Python values of the column's
        type: 1.0 for a DOUBLE given as 1, a TIMESTAMP in UTC, a DECIMAL with all its digits. Errors
        as of `encode_key`.
        """
        forms = self._keys.canonical(values)
        if None in values:
            self._check_required(values)
        vnode = self._hash_key(forms) % self.vnode_count
        full_key = self.prefix.of(vnode) + self._keys.encode_canonical(forms)
        if all(map(is_, map(type, values), self._exact_types)):
            return values, full_key
        decoders = self._value_decoders
        if decoders is None:
            return self.decode_key(full_key), full_key
        stored = [
            None if form is None else decode(form)
            for decode, form in zip(decoders, forms, strict=True)
        ]
        return stored, full_key

    @cached_property
    def _exact_types(self) -> list[type | None]:
        """The Python types whose values are what is stored, of every key column; None if none."""
        return [_EXACT_TYPES.get(type(column.type)) for column in self.schema.key_columns]

    @cached_property
    def _value_decoders(self) -> list[Callable[[Any], Any]] | None:
        """The functions from canonical forms to values of the key columns; None if one has none."""
        decoders = [_value_decoder(column.type) for column in self.schema.key_columns]
        return None if None in decoders else [decoder for decoder in decoders if decoder]

    @cached_property
    def key_encoder(self) -> KeyEncoder | None:
        """The quickest encoder of one key: see `Encoding.key_encoder`."""
        return key_encoder(self.prefix, self.schema)

    def prefix_encoder(self, count: int) -> KeyEncoder | None:
        """Return the quickest encoder of a prefix: see `Encoding.prefix_encoder`."""
        return key_encoder(self.prefix, self.schema, count)

    @cached_property
    def key_locator(self) -> KeyLocator | None:
        """The quickest way to do what `locate` does: see `Encoding.key_locator`."""
        return key_locator(self.prefix, self.schema)

    @cached_property
    def key_reader(self) -> KeyReader | None:
        """The quickest decoder of a primary key: see `Encoding.key_reader`."""
        return key_reader(self.prefix, self.schema)

    def locate(self, primary_key: bytes) -> tuple[list[Any], bytes]:
        """Return (values, full key) of a primary key given as its bytes.

        ValueError, IndexError or struct.error if the bytes are not such a key.
        """
        values = self._decode_key(primary_key)
        vnode = self._hash_key(self._keys.canonical(values)) % self.vnode_count
        return values, self.prefix.of(vnode) + primary_key

    def decode_key(self, full_key: bytes) -> list[Any]:
        """Return the primary key's values of a full key.

        ValueError, IndexError or struct.error if the bytes are not such a key.
        """
        return self._decode_key(full_key[self.prefix.size :])

    def key_of(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the primary key's values of a row, in the key's order."""
        return tuple(values[index] for index in self._key_indices)

    def describe(self, full_key: bytes) -> str:
        """Return the table and the primary key of a full key, for an error's message."""
        primary = pa.array([full_key[self.prefix.size :]], pa.large_binary())
        values = [column[0].as_py() for column in self._keys.decode(primary)]
        assignments = ", ".join(map("{}={!r}".format, self.key_names, values))
        return f"table {self.name}, row {assignments}"

    @cached_property
    def _decode_key(self) -> Callable[[bytes], list[Any]]:
        types = [column.type for column in self.schema.key_columns]
        return key_decoder(self._keys, types, self.schema.primary_key)

    @cached_property
    def _hash_forms(self) -> Callable[[Sequence[Any]], int]:
        types = [arrow_type(column.type) for column in self.schema.distribution_columns]
        return canonical_hasher(types) if types else _no_hash

    def _vnode_of(self, values: Sequence[Any]) -> int:
        try:
            return self._hash_one([values[index] for index in self._hashed]) % self.vnode_count
        except ValueError as error:
            raise SchemaMismatchError(f"table {self.name}: not a key: {error}") from error


_EXACT_TYPES: dict[type[t.DataType], type] = {
    t.Boolean: bool,
    t.TinyInt: int,
    t.SmallInt: int,
    t.Int: int,
    t.BigInt: int,
    t.String: str,
    t.Binary: bytes,
    t.Date: dt.date,
    t.Time: dt.time,
    t.DayTimeInterval: dt.timedelta,
}


def _value_decoder(data_type: t.DataType) -> Callable[[Any], Any] | None:
    """Return the function from the canonical form of a value to the value; None if it is nested."""
    if isinstance(data_type, t.Float | t.Double):
        return _without_sign_of_zero
    match point_value(arrow_type(data_type)):
        case FixedPoint(format=slot, decode=decode):
            # The form of a long decimal is packed as bytes, which `decode` takes.
            return None if slot.endswith("s") else decode or _unchanged
        case TextPoint():
            return bytes.decode
        case BinaryPoint():
            return bytes
    return None


def _unchanged(value: Any) -> Any:
    return value


def _without_sign_of_zero(value: float) -> float:
    return value + 0.0


def _beyond(prefix: bytes) -> bytes:
    """Return the least bytes above all keys that begin with ``prefix``, which is not empty."""
    above = successor(prefix)
    # At least one byte is not 0xff: the tag of a value, inverted or not.
    assert above is not None
    return above


def _key_hasher(
    types: Sequence[pa.DataType], indices: Sequence[int], count: int
) -> Callable[[Sequence[Any]], int]:
    """Return the hash of a key of ``count`` canonical forms by the ones at ``indices``."""
    if not types:
        return _no_hash
    hash_forms = canonical_hasher(types)
    if list(indices) == list(range(count)):
        return hash_forms
    return lambda forms: hash_forms([forms[index] for index in indices])


def _no_hash(values: Sequence[Any]) -> int:
    """Return the hash of rows of a table without a distribution key."""
    return 0
