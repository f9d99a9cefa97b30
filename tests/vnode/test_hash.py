"""The hash of columns and of single rows: golden values, NULL, slices, and what is refused."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.vnode import MAX_VNODE_COUNT, scalar_hasher, vnodes_of, xxhash64
from support.hashing import KINDS, Kind

# Printed by Spark 4.3.0: SELECT xxhash64(...). Where rows are depends on them: never change one.
GOLDEN: list[tuple[pa.DataType, Any, int]] = [
    (pa.int64(), 1, -7001672635703045582),
    (pa.int64(), -1, 3858142552250413010),
    (pa.int32(), 1, -6698625589789238999),
    (pa.bool_(), True, -6698625589789238999),
    (pa.string(), "a", -8582455328737087284),
    (pa.string(), "", -7444071767201028348),
    (pa.string(), "relstate", 5827251088368458418),
    (pa.string(), "relstate" * 20, -8141839586066822619),
    (pa.binary(), b"\x00\xff", 879945414100663330),
    (pa.float64(), 1.5, 7738255526519901366),
    (pa.float64(), 0.0, -5252525462095825812),
    (pa.float64(), -0.0, -5252525462095825812),
    (pa.float64(), float("nan"), -3127944061524951246),
    (pa.float32(), 1.5, 6163473420726370430),
    (pa.decimal128(3, 2), Decimal("1.23"), -3178482946328430151),
    (pa.decimal128(38, 2), Decimal("1.23"), 1973765065063347049),
    (pa.decimal128(38, 2), Decimal("-1.23"), 3359051433950298639),
    (pa.date32(), date(2024, 2, 29), 4183429117450946631),
    (pa.timestamp("us", "UTC"), datetime(2024, 2, 29, 12), 2906971207710284459),
    (pa.duration("us"), timedelta(days=1), 5650310968337874586),
    (pa.int32(), 14, -3715488255824917081),  # INTERVAL '14' MONTH
    (pa.time64("ns"), time(12, 34, 56, 789_000), 3761060651865760818),
    (pa.list_(pa.int32()), [1, 2, None, 3], 8592097078962733837),
    (pa.struct({"a": pa.int32(), "b": pa.string()}), {"a": 1, "b": "x"}, 8510603489595372987),
    (pa.int64(), None, 42),
    (pa.null(), None, 42),
]


@pytest.mark.parametrize(("kind", "value", "expected"), GOLDEN)
def test_values_hash_as_they_always_did(kind: pa.DataType, value: Any, expected: int) -> None:
    """A value's hash is the one that Spark 4.3.0 printed."""
    hashed = xxhash64([pa.array([value], kind)])

    assert hashed.dtype == np.int64
    assert hashed.tolist() == [expected]


def test_columns_are_chained_left_to_right() -> None:
    """Each column hashes under the hash so far; a NULL one leaves it."""
    numbers = pa.array([1, None, 1, None], pa.int64())
    letters = pa.array(["a", "a", None, None])

    assert xxhash64([numbers, letters]).tolist() == [
        -8527884376001292090,
        -8582455328737087284,
        -7001672635703045582,
        42,
    ]


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_row_hashes_as_it_does_alone(name: str, data: st.DataObject) -> None:
    """Neither the rows around it nor where an array's slice begins change a row's hash."""
    kind = KINDS[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=1, max_size=12))
    array = pa.array(values, kind.arrow)
    alone = [int(xxhash64([pa.array([value], kind.arrow)])[0]) for value in values]
    first = data.draw(st.integers(0, len(values) - 1))

    assert xxhash64([array]).tolist() == alone
    assert xxhash64([array.slice(first)]).tolist() == alone[first:]
    assert xxhash64([array.slice(0, first)]).tolist() == alone[:first]


@pytest.mark.parametrize("name", KINDS)
def test_no_rows_have_no_hashes(name: str) -> None:
    """An empty column of any type gives an empty result."""
    assert len(xxhash64([pa.array([], KINDS[name].arrow)])) == 0


@given(st.lists(st.none() | st.text(), max_size=5))
def test_the_width_of_offsets_does_not_matter(values: list[str | None]) -> None:
    """A large string or binary hashes as the plain one of the same bytes."""
    plain = pa.array(values, pa.string())
    large = plain.cast(pa.large_string())

    assert xxhash64([large]).tolist() == xxhash64([plain]).tolist()
    assert xxhash64([large.cast(pa.large_binary())]).tolist() == xxhash64([plain]).tolist()


def test_there_is_one_nan_and_one_zero() -> None:
    """A NaN's sign and payload are not hashed, nor is the sign of zero."""
    doubles = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000ABC], np.uint64)
    floats = np.array([0x7FC00000, 0x7F800001, 0xFFC00ABC], np.uint32)

    for values in (doubles.view(np.float64), floats.view(np.float32)):
        zeros = np.array([0.0, -0.0], values.dtype)
        assert len(set(xxhash64([pa.array(values)]).tolist())) == 1
        assert len(set(xxhash64([pa.array(zeros)]).tolist())) == 1


def test_the_buffers_under_a_null_are_not_seen() -> None:
    """A NULL struct or array is NULL, whatever its buffers hold."""
    fields = [pa.array([1, 2]), pa.array(["a", "b"])]
    hidden = pa.array([False, True])
    struct = pa.StructArray.from_arrays(fields, ["number", "text"], mask=hidden)
    array = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), fields[0], mask=hidden)

    assert xxhash64([struct])[1] == 42
    assert xxhash64([array])[1] == 42


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, MAX_VNODE_COUNT))
def test_the_vnode_is_the_positive_remainder_of_the_hash(values: list[int], count: int) -> None:
    """``vnode = pmod(xxhash64(key), vnode_count)``, also for negative hashes."""
    columns = [pa.array(values, pa.int64())]
    vnodes = vnodes_of(columns, count)

    assert vnodes.dtype == np.uint16
    assert vnodes.tolist() == [value % count for value in xxhash64(columns).tolist()]


def test_vnodes_spread_evenly() -> None:
    """Consecutive keys are in all vnodes, none of which has twice its share."""
    loads = np.bincount(vnodes_of([pa.array(np.arange(256_000))], 256), minlength=256)

    assert loads.min() > 800
    assert loads.max() < 1200


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int32()),
        pa.list_(pa.map_(pa.string(), pa.int32())),
        pa.struct({"inner": pa.uint64()}),
        pa.month_day_nano_interval(),
        pa.uint32(),
        pa.timestamp("ms"),
        pa.timestamp("ns", "UTC"),
        pa.time64("us"),
        pa.time32("ms"),
        pa.duration("ns"),
        pa.date64(),
        pa.decimal256(40, 2),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_a_type_without_hash_is_refused(kind: pa.DataType) -> None:
    """What Spark cannot hash, or would hash from other bytes, is a TypeError that names it."""
    value = [[None]] if pa.types.is_list(kind) else [None]
    with pytest.raises(TypeError, match="there is no hash for the Arrow type"):
        xxhash64([pa.array(value, kind)])


def test_columns_of_unequal_length_are_refused() -> None:
    """Columns of a batch have one length, and there is at least one."""
    with pytest.raises(ValueError, match=r"one length, not \[1, 2\]"):
        xxhash64([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(ValueError, match="one length"):
        xxhash64([])


@pytest.mark.parametrize("count", [-1, 0, MAX_VNODE_COUNT + 1])
def test_an_impossible_vnode_count_is_refused(count: int) -> None:
    """There are 1 to 32768 vnodes."""
    with pytest.raises(ValueError, match="1 to 32768"):
        vnodes_of([pa.array([1])], count)


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
def test_a_hasher_of_a_type_without_hash_is_refused(kind: pa.DataType) -> None:
    """Types are checked once, when the hasher is made, at any depth."""
    for outer in (kind, pa.list_(kind), pa.struct({"field": kind})):
        with pytest.raises(TypeError, match="there is no hash"):
            scalar_hasher([outer])


def test_a_row_without_columns_is_refused() -> None:
    """A hash needs a column."""
    with pytest.raises(ValueError, match="at least one column"):
        scalar_hasher([])
