"""Exact casts between Arrow types: other layouts of the same values, wider or checked numbers.

Promises: a cast changes no value. Integers and decimals move to any width or scale that holds
them, times to any unit; a value that does not fit raises ``pa.ArrowInvalid``, and nothing is
rounded. Text is never read as a number, and numbers are never written as text.
Does not know: tables, names of columns, rows (batch.py finds the row that failed).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SchemaMismatchError

Cast: TypeAlias = Callable[[pa.Array], pa.Array]

# Holds every integer; Arrow refuses to cast integers to narrower decimals, whatever their values.
_INTEGERS = pa.decimal128(20, 0)


@cache
def exact_cast(source: pa.DataType, target: pa.DataType) -> Cast:
    """Return the function that casts arrays of ``source`` to ``target`` without changing a value.

    SchemaMismatchError if the pair has no exact cast. The function raises ``pa.ArrowInvalid`` if a
    value does not fit. NULLs stay NULL, even if ``target`` forbids them.
    """
    if source == target:
        return _same
    if isinstance(source, pa.BaseExtensionType):
        return _after(lambda array: array.storage, source.storage_type, target)
    if pa.types.is_dictionary(source):
        return _after(lambda array: array.dictionary_decode(), source.value_type, target)
    if pa.types.is_run_end_encoded(source):
        return _after(pc.run_end_decode, source.value_type, target)
    if pa.types.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if pa.types.is_nested(target):
        return _nested_cast(source, target)
    if pa.types.is_integer(source) and pa.types.is_decimal(target):
        return lambda array: array.cast(_INTEGERS).cast(target)
    if _carries(source, target):
        return lambda array: array.cast(target)
    raise SchemaMismatchError(f"{source} cannot become {target} without changing values")


def _same(array: pa.Array) -> pa.Array:
    return array


def _after(first: Cast, source: pa.DataType, target: pa.DataType) -> Cast:
    then = exact_cast(source, target)
    return lambda array: then(first(array))


def _carries(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow's own checked cast between two flat types changes no value."""
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return bool((source.tz is None) == (target.tz is None))
    if pa.types.is_floating(source) and pa.types.is_floating(target):
        return bool(source.bit_width <= target.bit_width)
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        return True
    return any(
        any(matches(source) for matches in family) and any(matches(target) for matches in family)
        for family in _FAMILIES
    )


_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], ...], ...] = (
    (pa.types.is_integer,),
    (pa.types.is_decimal,),
    (pa.types.is_date,),
    (pa.types.is_time,),
    (pa.types.is_duration,),
    _TEXT,
    _BYTES,
)


def _nested_cast(source: pa.DataType, target: pa.DataType) -> Cast:
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct_cast(source, target)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _map_cast(source, target)
    if _is_list(source) and pa.types.is_list(target):
        return _list_cast(source, target)
    raise SchemaMismatchError(f"{source} cannot become {target} without changing values")


def _is_list(arrow: pa.DataType) -> bool:
    return pa.types.is_nested(arrow) and not (
        pa.types.is_struct(arrow) or pa.types.is_map(arrow) or pa.types.is_union(arrow)
    )


def _list_cast(source: pa.DataType, target: pa.DataType) -> Cast:
    plain = pa.list_(source.value_field)
    cast_values = exact_cast(source.value_type, target.value_type)

    def cast(array: pa.Array) -> pa.Array:
        # Arrow's cast between list types leaves slices of structs of nulls malformed.
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            array = array.cast(plain)
        offsets, start, count = window_of(array)
        values = cast_values(array.values.slice(start, count))
        narrow = offsets.cast(pa.int32())
        return pa.ListArray.from_arrays(narrow, values, type=target, mask=_mask(array))

    return cast


def _map_cast(source: pa.DataType, target: pa.DataType) -> Cast:
    cast_keys = exact_cast(source.key_type, target.key_type)
    cast_items = exact_cast(source.item_type, target.item_type)

    def cast(array: pa.Array) -> pa.Array:
        offsets, start, count = window_of(array)
        keys = cast_keys(array.keys.slice(start, count))
        items = cast_items(array.items.slice(start, count))
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=_mask(array))

    return cast


def _struct_cast(source: pa.DataType, target: pa.DataType) -> Cast:
    parts = [
        (position, exact_cast(source.field(position).type, field.type))
        if position is not None
        else (None, exact_cast(pa.null(), field.type))
        for field, position in zip(target, positions_by_name(source, target), strict=True)
    ]

    def cast(array: pa.Array) -> pa.Array:
        if not parts:
            return pa.Array.from_buffers(target, len(array), [_validity(array)])
        fields = array.flatten()
        absent = pa.nulls(len(array))
        children = [
            convert(absent if position is None else fields[position]) for position, convert in parts
        ]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=_mask(array))

    return cast


def positions_by_name(
    source: pa.Schema | pa.StructType, target: pa.Schema | pa.StructType
) -> list[int | None]:
    """Return for each field of ``target`` the position of its namesake in ``source``.

    Names match in any case, as in Spark; None is the position of a nullable field that ``source``
    lacks. SchemaMismatchError for a missing field that must not be NULL, an unknown field, or two
    fields of one name.
    """
    by_name: dict[str, int] = {}
    for position, field in enumerate(source):
        if by_name.setdefault(field.name.lower(), position) != position:
            raise SchemaMismatchError(f"two columns are named {field.name!r}")
    positions = [by_name.pop(field.name.lower(), None) for field in target]
    if by_name:
        unknown = ", ".join(repr(source.field(position).name) for position in by_name.values())
        column_names = ", ".join(field.name for field in target)
        noun = "columns" if len(by_name) > 1 else "column"
        raise SchemaMismatchError(f"unknown {noun} {unknown}; the columns are {column_names}")
    for field, source_position in zip(target, positions, strict=True):
        if source_position is None and not field.nullable:
            raise SchemaMismatchError(f"the NOT NULL column {field.name!r} is missing")
    return positions


def window_of(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return (offsets from 0, first position, number) of the values of a list or map array."""
    offsets = array.offsets
    start = offsets[0].as_py()
    return pc.subtract(offsets, offsets[0]), start, offsets[-1].as_py() - start


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _validity(array: pa.Array) -> pa.Buffer | None:
    return array.is_valid().buffers()[1] if array.null_count else None
