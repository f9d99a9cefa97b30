"""The full key of one row in as few steps as there can be, for the usual keys.

Promises: the bytes are those of `RowEncoding.encode_key`; a key that is not usual is refused.
Does not know: what is wrong with a key.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from relstate.vnode import canonical_hasher

from ..codec.key_field import ESCAPED_ZERO, TERMINATOR, VALUE_TAG, ZERO
from ..schema import types as t
from ..schema.arrow import arrow_type
from ..schema.schema import TableSchema
from ..segment.key import KeyPrefix

KeyEncoder: TypeAlias = Callable[[Sequence[Any]], tuple[int, bytes]]
"""Takes the values of a primary key; returns the vnode and the full key."""

MISFITS = (struct.error, TypeError, ValueError)
"""What a `KeyEncoder` raises for a key that is not usual."""

# The type's code in a key, as an unsigned number, and how many bits it has.
_INTEGERS: dict[type[t.DataType], tuple[str, int]] = {
    t.TinyInt: ("B", 8),
    t.SmallInt: ("H", 16),
    t.Int: ("I", 32),
    t.BigInt: ("Q", 64),
}
_TAG = bytes([VALUE_TAG])


def key_encoder(prefix: KeyPrefix, schema: TableSchema) -> KeyEncoder | None:
    """Return the encoder of the usual keys of a table; None if it has no such keys.

    These are whole numbers, or one text, none NULL, ascending, which are the distribution key too.
    For others the function raises one of `MISFITS`.
    """
    if any(key.descending for key in schema.primary_key) or [
        column.id for column in schema.key_columns
    ] != [column.id for column in schema.distribution_columns]:
        return None
    types = [column.type for column in schema.key_columns]
    hash_forms = canonical_hasher([arrow_type(data_type) for data_type in types])
    codes = [_INTEGERS.get(type(data_type)) for data_type in types]
    integers = [code for code in codes if code is not None]
    if len(integers) == len(types) == 1:
        return _number_encoder(prefix, integers[0], hash_forms)
    if len(integers) == len(types):
        return _numbers_encoder(prefix, integers, hash_forms)
    if len(types) == 1 and type(types[0]) is t.String:
        return _text_encoder(prefix, hash_forms)
    return None


_Hasher: TypeAlias = Callable[[Sequence[Any]], int]


def _prefix_format(prefix: KeyPrefix) -> str:
    """Return how ``struct`` packs the bytes of the table's id and a vnode."""
    return f">{len(prefix.id_bytes)}s{'B' if prefix.vnode_bytes == 1 else 'H'}"


def _number_encoder(prefix: KeyPrefix, integer: tuple[str, int], hash_forms: _Hasher) -> KeyEncoder:
    code, bits = integer
    pack, sign = struct.Struct(f"{_prefix_format(prefix)}B{code}").pack, 1 << (bits - 1)
    table, vnode_count = prefix.id_bytes, prefix.vnode_count

    def encode(values: Sequence[Any]) -> tuple[int, bytes]:
        (value,) = values
        if type(value) is not int:
            raise TypeError("expected an int")
        vnode = hash_forms(values) % vnode_count
        return vnode, pack(table, vnode, VALUE_TAG, value + sign)

    return encode


def _numbers_encoder(
    prefix: KeyPrefix, integers: Sequence[tuple[str, int]], hash_forms: _Hasher
) -> KeyEncoder:
    columns = "".join(f"B{code}" for code, _ in integers)
    pack = struct.Struct(_prefix_format(prefix) + columns).pack
    table, vnode_count = prefix.id_bytes, prefix.vnode_count
    signs = [1 << (bits - 1) for _, bits in integers]

    def encode(values: Sequence[Any]) -> tuple[int, bytes]:
        slots: list[int] = []
        for value, sign in zip(values, signs, strict=True):
            if type(value) is not int:
                raise TypeError("expected an int")
            slots += (VALUE_TAG, value + sign)
        vnode = hash_forms(values) % vnode_count
        return vnode, pack(table, vnode, *slots)

    return encode


def _text_encoder(prefix: KeyPrefix, hash_forms: _Hasher) -> KeyEncoder:
    pack, vnode_count = struct.Struct(_prefix_format(prefix)).pack, prefix.vnode_count
    table = prefix.id_bytes

    def encode(values: Sequence[Any]) -> tuple[int, bytes]:
        (value,) = values
        if type(value) is not str:
            raise TypeError("expected a str")
        form = value.encode()
        vnode = hash_forms((form,)) % vnode_count
        key = form.replace(ZERO, ESCAPED_ZERO)
        return vnode, pack(table, vnode) + _TAG + key + TERMINATOR

    return encode
