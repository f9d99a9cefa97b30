"""Types that a column may have, and arrays of them that hurt.

The arrays are as odd as Arrow allows: values stand under NULLs, NULL arrays have elements, NULL
structs have children that are not NULL, NaNs have payloads, and everything is a slice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from relstate.storage import types as t
from relstate.storage.schema.arrow import arrow_type

_DAY = 86_400_000_000
# The microseconds that Python's datetime spans.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999

PLAIN_TYPES: tuple[t.DataType, ...] = (
    t.Boolean(),
    t.TinyInt(),
    t.SmallInt(),
    t.Int(),
    t.BigInt(),
    t.Float(),
    t.Double(),
    t.Decimal(1, 0),
    t.Decimal(18, 7),
    t.Decimal(19, 0),
    t.Decimal(38, 0),
    t.Decimal(38, 38),
    t.String(),
    t.String("UTF8_LCASE"),
    t.Binary(),
    t.Date(),
    t.Timestamp(),
    t.TimestampNtz(),
    t.Time(),
    t.DayTimeInterval(),
    t.Variant(),
    t.Void(),
)


def _nested(inner: SearchStrategy[t.DataType]) -> SearchStrategy[t.DataType]:
    # A VOID that must not be NULL has no values.
    filled = inner.filter(lambda data_type: data_type != t.Void())
    return st.one_of(
        st.builds(t.Array, inner),
        st.builds(t.Array, filled, st.just(False)),
        st.builds(t.Map, filled, inner),
        st.builds(t.Map, filled, filled, st.just(False)),
        st.lists(
            st.tuples(inner, st.booleans()).filter(lambda part: part[1] or part[0] != t.Void()),
            max_size=10,
        ).map(
            lambda parts: t.Struct(
                tuple(t.Field(f"f{i}", part, null) for i, (part, null) in enumerate(parts))
            )
        ),
    )


def data_types(depth: int = 3) -> SearchStrategy[t.DataType]:
    """Draw a type that Spark hands over, nested at most ``depth`` deep."""
    drawn: SearchStrategy[t.DataType] = st.sampled_from(PLAIN_TYPES)
    for _ in range(depth):
        drawn = st.sampled_from(PLAIN_TYPES) | _nested(drawn)
    return drawn


@st.composite
def arrays(draw: DrawFn, data_type: t.DataType, rows: int, nullable: bool = True) -> pa.Array:
    """Draw an array of ``rows`` values of the type, a slice of a longer one."""
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    whole = _whole(draw, arrow_type(data_type), before + rows + after, nullable)
    return whole.slice(before, rows)


def _whole(draw: DrawFn, arrow: pa.DataType, rows: int, nullable: bool) -> pa.Array:
    if pa.types.is_null(arrow):
        return pa.nulls(rows)
    some = st.lists(st.booleans(), min_size=rows, max_size=rows).map(np.array)
    nulls = draw(st.none() | some) if nullable and rows else None
    if pa.types.is_struct(arrow):
        children = [_whole(draw, field.type, rows, field.nullable) for field in arrow]
        return pa.Array.from_buffers(arrow, rows, [_bitmap(nulls)], children=children)
    if pa.types.is_list(arrow) or pa.types.is_map(arrow):
        counts = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
        offsets = np.cumsum([0, *counts], dtype=np.int32)
        child = arrow.value_field if pa.types.is_list(arrow) else _entry(arrow)
        elements = _whole(draw, child.type, int(offsets[-1]), child.nullable)
        buffers = [_bitmap(nulls), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(arrow, rows, buffers, children=[elements])
    values = draw(st.lists(_numbers(arrow), min_size=rows, max_size=rows))
    return _plain(arrow, values, nulls)


def _entry(arrow: pa.MapType) -> pa.Field:
    return pa.field("entries", pa.struct([arrow.key_field, arrow.item_field]), nullable=False)


def _bitmap(nulls: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


def _numbers(arrow: pa.DataType) -> SearchStrategy[Any]:
    """Draw the stored form of a value: text, bytes, or the integer that its bits are."""
    if pa.types.is_string(arrow):
        return st.text(max_size=6)
    if pa.types.is_binary(arrow):
        return st.binary(max_size=6)
    if pa.types.is_boolean(arrow):
        return st.booleans()
    if pa.types.is_decimal(arrow):
        return _around(1 - 10**arrow.precision, 10**arrow.precision - 1)
    if pa.types.is_timestamp(arrow):
        return _around(_FIRST, _LAST)
    if pa.types.is_date(arrow):
        return _around(_FIRST // _DAY, _LAST // _DAY)
    if pa.types.is_time(arrow):
        return _around(0, _DAY - 1).map(lambda microseconds: microseconds * 1000)
    if pa.types.is_floating(arrow):
        return _float_bits(arrow.bit_width)
    return _around(-(1 << arrow.bit_width - 1), (1 << arrow.bit_width - 1) - 1)


def _around(least: int, most: int) -> SearchStrategy[int]:
    edges = [number for number in (least, -1, 0, 1, most) if least <= number <= most]
    return st.sampled_from(edges) | st.integers(least, most)


def _float_bits(width: int) -> SearchStrategy[int]:
    # The signalling NaNs of 32 bits are left out: passing through Python's float quiets them.
    digits = {32: 23, 64: 52}[width]
    special = [0, 1 << width - 1, ((1 << width - 1 - digits) - 1) << digits]
    nan = special[-1] | 1 << digits - 1
    patterns = [*special, nan, nan | 5, nan | 1 << width - 1]
    ordinary = st.floats(width=32 if width == 32 else 64, allow_nan=False)
    kind = np.float32 if width == 32 else np.float64
    return st.sampled_from(patterns) | ordinary.map(
        lambda number: int(np.array([number], kind).view(f"u{width // 8}")[0])
    )


def _plain(arrow: pa.DataType, values: list[Any], nulls: NDArray[np.bool_] | None) -> pa.Array:
    """Return an array with these stored values, also where it is NULL."""
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow) or pa.types.is_boolean(arrow):
        buffers = pa.array(values, arrow).buffers()
        return pa.Array.from_buffers(arrow, len(values), [_bitmap(nulls), *buffers[1:]])
    width = arrow.bit_width // 8
    data = b"".join((value % (1 << width * 8)).to_bytes(width, "little") for value in values)
    return pa.Array.from_buffers(arrow, len(values), [_bitmap(nulls), pa.py_buffer(data)])


def canonical(array: pa.Array) -> pa.Array:
    """Return the array with floats as the integers that their bits are, so that NaNs are equal.

    What stands under NULLs is taken out, as far as `equals` would not do so.
    """
    arrow = array.type
    if pa.types.is_floating(arrow):
        return array.view(pa.int32() if arrow == pa.float32() else pa.int64())
    if pa.types.is_struct(arrow):
        children = [canonical(child) for child in array.flatten()]
        names = [str(index) for index in range(len(children))]
        if not children:
            return array
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    if pa.types.is_list(arrow) or pa.types.is_map(arrow):
        return canonical_list(array)
    return array


def canonical_list(array: pa.Array) -> pa.Array:
    """Return an array of lists or maps as lists of canonical elements."""
    lists = array
    if pa.types.is_map(array.type):
        entry = pa.struct([array.type.key_field, array.type.item_field])
        lists = pa.Array.from_buffers(
            pa.list_(entry),
            len(array),
            array.buffers()[:2],
            offset=array.offset,
            children=[pa.StructArray.from_arrays([array.keys, array.items], fields=list(entry))],
        )
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.cumsum([0, *counts], dtype=np.int32))
    elements = canonical(lists.flatten())
    return pa.ListArray.from_arrays(offsets, elements, mask=lists.is_null())
