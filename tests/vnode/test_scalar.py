"""The hash of one row of Python values equals the hash of columns."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.vnode import scalar_hasher, xxhash64
from support.hashing import KINDS, Kind


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_one_value_hashes_as_its_column_does(name: str, data: st.DataObject) -> None:
    """For every type, scalar and vectorised hash agree, NULL included."""
    kind = KINDS[name]
    hash_row = scalar_hasher([kind.arrow])
    value = data.draw(st.none() | kind.values)

    assert hash_row((value,)) == xxhash64([pa.array([value], kind.arrow)])[0]


@given(st.lists(st.sampled_from(list(KINDS.values())), min_size=2, max_size=4), st.data())
def test_a_row_hashes_as_its_columns_do(kinds: list[Kind], data: st.DataObject) -> None:
    """For any columns, in any order, scalar and vectorised hash agree."""
    row = [data.draw(st.none() | kind.values) for kind in kinds]
    columns = [pa.array([value], kind.arrow) for value, kind in zip(row, kinds, strict=True)]

    assert scalar_hasher([kind.arrow for kind in kinds])(row) == xxhash64(columns)[0]


def test_a_struct_may_be_a_sequence() -> None:
    """A struct's value may be a dict by name or a sequence in the order of its fields."""
    hash_row = scalar_hasher([pa.struct({"number": pa.int32(), "text": pa.string()})])

    assert hash_row([(1, "x")]) == hash_row([{"text": "x", "number": 1}])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 2**63),
        (pa.int64(), "1"),
        (pa.int64(), 1.0),
        (pa.int32(), -(2**31) - 1),
        (pa.int16(), 2**15),
        (pa.int8(), 128),
        (pa.bool_(), 2),
        (pa.float64(), "x"),
        (pa.float32(), 1e300),
        (pa.string(), 5),
        (pa.string(), b"x"),
        (pa.string(), "\ud800"),
        (pa.binary(), 5),
        (pa.binary(), "x"),
        (pa.date32(), 5),
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 1)),
        (pa.timestamp("us"), date(2024, 1, 1)),
        (pa.time64("ns"), 5),
        (pa.duration("us"), 5),
        (pa.decimal128(5, 2), Decimal("1.234")),
        (pa.decimal128(5, 2), Decimal("1000")),
        (pa.decimal128(5, 2), Decimal("1." + "0" * 99 + "1")),
        (pa.decimal128(38, 2), Decimal("NaN")),
        (pa.decimal128(38, 2), Decimal("Infinity")),
        (pa.decimal128(5, 2), "1"),
        (pa.null(), 1),
        (pa.list_(pa.int32()), 5),
        (pa.list_(pa.int32()), ["x"]),
        (pa.struct({"a": pa.int32()}), {"b": 1}),
        (pa.struct({"a": pa.int32()}), (1, 2)),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(kind: pa.DataType, value: Any) -> None:
    """A value of another type or beyond the type's range is a ValueError that shows the row."""
    with pytest.raises(ValueError, match="does not fit the types"):
        scalar_hasher([kind])((value,))
    with pytest.raises(ValueError, match="does not fit the types"):
        scalar_hasher([pa.int32(), kind])((1, value))


def test_a_row_of_another_width_is_an_error() -> None:
    """A row has one value for each type."""
    for types in ([pa.int64()], [pa.int64(), pa.int64()]):
        for row in ((), (1, 2, 3)):
            with pytest.raises(ValueError, match="does not fit the types"):
                scalar_hasher(types)(row)


@pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.int32()), pa.uint8(), pa.time64("us")])
def test_a_type_without_hash_is_refused(kind: pa.DataType) -> None:
    """Types are checked once, when the hasher is made, at any depth."""
    for outer in (kind, pa.list_(kind), pa.struct({"field": kind})):
        with pytest.raises(TypeError, match="there is no hash"):
            scalar_hasher([outer])


def test_a_row_without_columns_is_refused() -> None:
    """A hash needs a column."""
    with pytest.raises(ValueError, match="at least one column"):
        scalar_hasher([])
