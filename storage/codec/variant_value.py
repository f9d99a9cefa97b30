"""Variants of Python values, one at a time.

    None, bool, str, bytes   as they are
    int                      of 8, 16, 32 or 64 bits; beyond these a decimal
    float                    double
    Decimal                  decimal of up to 38 digits
    date, datetime           date; timestamp, without a time zone if it has none
    dict, list, tuple        object with keys of text; array
    {"value": bytes, "metadata": bytes}   a variant in its stored form, as a whole

Does not know: documents, parts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import SchemaMismatchError, ValueRangeError
from ..schema import types as t
from .ragged import Bytes
from .variant import MOST_LEVELS, Node, Tree, parse, parse_stored
from .variant_build import build

_NULL, _TRUE, _FALSE, _DOUBLE, _DATE, _TIMESTAMP, _LOCAL, _BINARY, _TEXT = (
    number << 2 for number in (0, 1, 2, 7, 11, 12, 13, 15, 16)
)
_INTEGERS = ((1, 3 << 2), (2, 4 << 2), (4, 5 << 2), (8, 6 << 2))
_DECIMALS = ((9, 4, 8 << 2), (18, 8, 9 << 2), (38, 16, 10 << 2))
_SHORT_TEXT, _MOST_SHORT = 1, 63
_MOST_SCALE = 38
_EPOCH = datetime(1970, 1, 1)
_WIDE = Context(prec=_MOST_SCALE)


def variant_of(value: Any) -> dict[str, bytes]:
    """Return a Python value as the value and metadata of a variant.

    SchemaMismatchError for a value that no variant holds, or a key that is not text;
    ValueRangeError for a number that is too large, a text that is not Unicode, a timestamp beyond
    the calendar, or what nests too deep.
    """
    if is_stored(value):
        _parsed(value)
        return {"value": value["value"], "metadata": value["metadata"]}
    values, metadata = build(_tree_of(value), np.zeros(1, np.int64))
    return {"value": values[0].as_py(), "metadata": metadata[0].as_py()}


def with_variants(data_type: t.DataType, value: Any) -> Any:
    """Return a Python value of a type with its variants in their stored form.

    What does not fit the type stays as it is. Errors as of `variant_of`.
    """
    if value is None or not _has_variants(data_type):
        return value
    match data_type, value:
        case t.Variant(), _:
            return variant_of(value)
        case t.Array(element, _), list() | tuple():
            return [with_variants(element, item) for item in value]
        case t.Map(_, item_type, _), Mapping():
            return {key: with_variants(item_type, item) for key, item in value.items()}
        case t.Struct(fields), Mapping():
            types = {field.name: field.type for field in fields}
            return {
                name: with_variants(types[name], item) if name in types else item
                for name, item in value.items()
            }
    return value


@cache
def _has_variants(data_type: t.DataType) -> bool:
    match data_type:
        case t.Array(element, _):
            return _has_variants(element)
        case t.Map(_, item, _):
            return _has_variants(item)
        case t.Struct(fields):
            return any(_has_variants(field.type) for field in fields)
    return isinstance(data_type, t.Variant)


def is_stored(value: Any) -> bool:
    """Return whether a Python value is a variant in its stored form."""
    return (
        isinstance(value, Mapping)
        and set(value) == {"value", "metadata"}
        and all(isinstance(part, bytes | bytearray | memoryview) for part in value.values())
    )


def members_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a variant, a Python value or in its stored form; None for no object.

    SchemaMismatchError for bytes that are not a variant.
    """
    if not is_stored(value):
        return value if isinstance(value, Mapping) else None
    return _fields_of(_parsed(value))


def stored_members(value: Mapping[str, bytes], deepest: int) -> Mapping[str, Any]:
    """Return the fields of a variant that was read; none of another value: see `parse_stored`."""
    return _fields_of(parse_stored(*_arrays_of(value), deepest)) or {}


def _fields_of(tree: Tree) -> dict[str, Any] | None:
    """Return the fields of the first value of a tree in their stored form; None for no object."""
    if tree.kinds[0] != Node.OBJECT:
        return None
    items = tree.items(np.zeros(1, np.int64))
    keys = tree.keys.take(pa.array(items)).to_pylist()
    pairs = zip(*(array.to_pylist() for array in build(tree, items)), strict=True)
    return {
        key.decode(): {"value": item, "metadata": metadata}
        for key, (item, metadata) in zip(keys, pairs, strict=True)
    }


def is_null(value: Any) -> bool:
    """Return whether a value is None, or JSON's null in the stored form of a variant."""
    return value is None or (is_stored(value) and bytes(value["value"]) == bytes([_NULL]))


def _parsed(value: Any) -> Tree:
    """Return a variant in its stored form as a tree. SchemaMismatchError if it is not one."""
    try:
        return parse(*_arrays_of(value))
    except ValueError as error:
        raise SchemaMismatchError(f"{value!r} is not a variant: {error}") from None


def _arrays_of(value: Any) -> tuple[Bytes, Bytes]:
    """Return the value and metadata of a variant in its stored form, each as the only one."""
    return (
        pa.array([value["value"]], pa.large_binary()),
        pa.array([value["metadata"]], pa.large_binary()),
    )


def _tree_of(value: Any) -> Tree:
    values, parents, keys, plain = [value], [-1], [b""], []
    levels = [0]
    kinds: list[int] = []
    for number, item in enumerate(values):
        if isinstance(item, Mapping | list | tuple) and not is_stored(item):
            _check_nesting(values, parents, levels, number)
            levels += [levels[number] + 1] * len(item)
        if isinstance(item, Mapping) and not is_stored(item):
            _check_keys(item)
            kinds.append(Node.OBJECT)
            names = sorted(map(_encoded, item))
            values += [item[name.decode()] for name in names]
            keys += names
            parents += [number] * len(names)
        elif isinstance(item, list | tuple):
            kinds.append(Node.ARRAY)
            values += item
            keys += [b""] * len(item)
            parents += [number] * len(item)
        else:
            kinds.append(Node.PLAIN)
        plain.append(_plain(item) if kinds[-1] == Node.PLAIN else b"")
    return Tree(
        np.array(parents),
        pa.array(keys, pa.large_binary()),
        np.array(kinds, np.uint8),
        pa.array(plain, pa.large_binary()),
    )


def _check_nesting(
    values: Sequence[Any], parents: Sequence[int], levels: Sequence[int], number: int
) -> None:
    """ValueRangeError for an object or array that is in itself, or within too many others."""
    if levels[number] >= MOST_LEVELS:
        raise ValueRangeError(
            f"the value nests objects and arrays more than {MOST_LEVELS} times; a variant takes no "
            "more"
        )
    above = parents[number]
    while above >= 0:
        if values[above] is values[number]:
            raise ValueRangeError("an object or array is in itself, which no variant can be")
        above = parents[above]


def _check_keys(item: Mapping[Any, Any]) -> None:
    for name in item:
        if not isinstance(name, str):
            raise SchemaMismatchError(f"the key {name!r} of a variant's object is not text")


def _plain(value: Any) -> bytes:
    """Return the bytes of a value that is neither an object nor an array."""
    match value:
        case None:
            return bytes([_NULL])
        case bool():
            return bytes([_TRUE if value else _FALSE])
        case int():
            return _integer(value)
        case float():
            return bytes([_DOUBLE]) + struct.pack("<d", value)
        case Decimal():
            return _decimal(value)
        case str():
            return _text(_encoded(value))
        case bytes() | bytearray() | memoryview():
            content = bytes(value)
            return bytes([_BINARY]) + struct.pack("<I", len(content)) + content
        case datetime():
            is_local = value.tzinfo is None
            number = (_in_utc(value) - _EPOCH) // timedelta(microseconds=1)
            return bytes([_LOCAL if is_local else _TIMESTAMP]) + struct.pack("<q", number)
        case date():
            return bytes([_DATE]) + struct.pack("<i", (value - _EPOCH.date()).days)
    raise SchemaMismatchError(f"{value!r} is not a value that a variant holds")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueRangeError(f"{text!r} is not Unicode text: {error}") from None


def _in_utc(value: datetime) -> datetime:
    """Return a timestamp in UTC, and one without a time zone as it is; without a time zone."""
    try:
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueRangeError(f"{value} is not within the years 1 to 9999 in UTC") from None


def _text(encoded: bytes) -> bytes:
    if len(encoded) <= _MOST_SHORT:
        return bytes([len(encoded) << 2 | _SHORT_TEXT]) + encoded
    return bytes([_TEXT]) + struct.pack("<I", len(encoded)) + encoded


def _integer(value: int) -> bytes:
    for width, header in _INTEGERS:
        if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
            return bytes([header]) + value.to_bytes(width, "little", signed=True)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> bytes:
    if value.is_finite():
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        scale = max(-exponent, 0)
        precision = max(len(digits) + max(exponent, 0), scale)
        if precision <= _MOST_SCALE:
            unscaled = int(value.scaleb(scale, _WIDE))
            for most, width, header in _DECIMALS:
                if precision <= most:
                    number = unscaled.to_bytes(width, "little", signed=True)
                    return bytes([header, scale]) + number
    raise ValueRangeError(f"{value} does not fit a variant, whose numbers have up to 38 digits")
