"""The laws of variants as trees, with the reader and writer of pyspark as the other side."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from relstate.storage.codec.point_variant import check_variant
from relstate.storage.codec.ragged import Bytes
from relstate.storage.codec.variant import (
    MOST_LEVELS,
    NO_KEYS,
    NULL,
    parse,
    parse_stored,
)
from relstate.storage.codec.variant import (
    check as check_many,
)
from relstate.storage.codec.variant_build import build
from relstate.storage.codec.variant_value import members_of, variant_of
from relstate.storage.errors import SchemaMismatchError, ValueRangeError

KEYS = st.sampled_from(["", "a", "a\0", "b", "ä" * 40])
DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    # JSON has no infinity.
    .filter(lambda number: abs(number) < 1e300)
    | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
LARGE: list[Any] = [
    list(range(300)),
    ["x"] * 70_000,
    {f"{number:05d}": number for number in range(70_000)},
    {"k" * 70_000: {"k" * 300: [{"j": "v" * 700}] * 300}},
]


def bytes_of(values: list[bytes]) -> Bytes:
    """Return values as a bytes array."""
    return pa.array(values, pa.large_binary())


def rebuilt(pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return variants that were parsed and built."""
    tree = parse(*(bytes_of(list(column)) for column in zip(*pairs, strict=True)))
    values, metadata = build(tree, np.arange(len(pairs)))
    return list(zip(values.to_pylist(), metadata.to_pylist(), strict=True))


def check(documents: list[Any]) -> None:
    """Assert that what is parsed and built is the same to Spark, and built again the same bytes."""
    pairs = [VariantUtils.parse_json(json.dumps(document)) for document in documents]
    built = rebuilt(pairs)
    for pair, before in zip(built, pairs, strict=True):
        assert VariantUtils.to_python(*pair) == VariantUtils.to_python(*before)
    assert rebuilt(built) == built


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_what_is_built_is_what_was_parsed(documents: list[Any]) -> None:
    """Of objects and arrays at any depth, many at once."""
    check(documents)


def test_all_widths_of_numbers() -> None:
    """Of counts, ids and offsets, beside small values."""
    check([1, *LARGE, {"a": []}])


@given(DOCUMENTS)
@example(-0.0)
def test_python_values_become_what_spark_makes_of_their_json(document: Any) -> None:
    """Except for the order of keys in the metadata, and the sign of zero: decimals have none."""
    spark_form = VariantUtils.parse_json(json.dumps(document))
    stored = variant_of(document)

    assert _json(stored["value"], stored["metadata"]) == _json(*spark_form)


def read_by_spark(stored: dict[str, bytes]) -> Any:
    """Return the value of a variant; what Spark annotates it with is the type of another method."""
    return VariantUtils.to_python(stored["value"], stored["metadata"])


def _json(value: bytes, metadata: bytes) -> str:
    """Return a variant as JSON with sorted keys, in which numbers are doubles and no zero is -0."""

    def double(digits: str) -> float:
        return float(digits) + 0.0

    text = json.dumps(read_by_spark({"value": value, "metadata": metadata}), default=float)
    return json.dumps(json.loads(text, parse_float=double), sort_keys=True)


@pytest.mark.parametrize(
    "value",
    [
        date(1969, 12, 31),
        datetime(2024, 2, 29, 12, 30, 1, 5, UTC),
        datetime(1900, 1, 1, 0, 0, 0, 1),
        Decimal("-1.50"),
        Decimal("1234567890123456789.0000001"),
        b"\0\xff",
        -129,
        1 << 62,
    ],
)
def test_plain_python_values(value: Any) -> None:
    """They come back from Spark's reader as they are."""
    stored = variant_of([value])
    assert read_by_spark(stored) == [value]
    assert variant_of(stored) == stored


def test_the_fields_of_objects() -> None:
    """Each is a variant of its own, with its own keys only."""
    stored = variant_of({"b": {"c": 1}, "a": [{"d": None}]})
    fields = members_of(stored)
    assert fields == {"a": variant_of([{"d": None}]), "b": variant_of({"c": 1})}
    assert members_of(variant_of([1])) is None
    assert members_of({"x": 1}) == {"x": 1}


def test_damaged_variants_are_errors_or_other_values() -> None:
    """Each byte of a variant replaced, or the rest cut off; what parses is written and read."""
    value, metadata = VariantUtils.parse_json('{"a": [1, "x"], "bc": {"a": 1.5}, "d": null}')
    errors = parsed = 0
    for data, damaged in [(value, "value"), (metadata, "metadata")]:
        for index in range(len(data)):
            for byte in (b"", b"\0", b"\x01", b"\xff"):
                rest = data[index + 1 :] if byte else b""
                bad = data[:index] + byte + rest
                pair = (bad, metadata) if damaged == "value" else (value, bad)
                try:
                    built = rebuilt([pair])
                except ValueError:
                    errors += 1
                    continue
                parsed += 1
                assert rebuilt(built) == built
    assert errors > 50
    assert parsed > 10


@given(st.lists(DOCUMENTS, min_size=1, max_size=3), st.data())
def test_one_variant_is_checked_as_many_are(documents: list[Any], data: st.DataObject) -> None:
    """Any bytes replaced, or the rest cut off: both say of them that they are variants, or not."""
    variants = [variant_of(document) for document in documents]
    values, metadata = ([variant[name] for variant in variants] for name in ("value", "metadata"))
    columns = data.draw(st.sampled_from([values, metadata]))
    columns[0] = damaged(columns[0], data)
    is_variant = []
    for pair in zip(values, metadata, strict=True):
        with suppress(ValueError):
            check_variant(*pair)
            is_variant.append(True)
            continue
        is_variant.append(False)

    assert is_accepted(values, metadata) == all(is_variant)
    assert is_accepted(values[:1], metadata[:1]) == is_variant[0]


def damaged(content: bytes, data: st.DataObject) -> bytes:
    """Return some bytes, one of which is replaced, and perhaps the rest cut off."""
    index = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.binary(max_size=1))
    return content[:index] + byte + (content[index + 1 :] if byte else b"")


def is_accepted(values: list[bytes], metadata: list[bytes]) -> bool:
    """Return whether the check of many variants accepts some."""
    try:
        check_many(bytes_of(values), bytes_of(metadata))
    except ValueError:
        return False
    return True


def array_of(offsets: list[int], items: bytes) -> bytes:
    """Return an array in a variant, with offsets of 4 bytes, as bytes."""
    header = bytes([3 | 3 << 2 | 1 << 4]) + (len(offsets) - 1).to_bytes(4, "little")
    return header + b"".join(offset.to_bytes(4, "little") for offset in offsets) + items


def test_fields_are_in_the_order_of_utf16() -> None:
    """Spark's reader in Java searches large objects by it; arrays keep their order."""
    names = [
        *(f"k{number:02d}" for number in range(40)),
        "\U0001f600",
        "\ue000",
        "\uffee",
        "\ud7ff",
    ]
    document = {name: [{"\uffee": 1, "\U0001f600": 2}, 3, 1, 2] for name in names}
    stored_names = ("value", "metadata")
    given = variant_of(document)
    for stored in (
        given,
        dict(zip(stored_names, rebuilt([(given["value"], given["metadata"])])[0], strict=True)),
    ):
        fields = read_by_spark(stored)
        assert fields == document
        assert list(fields) == sorted(names, key=lambda name: name.encode("utf-16-be"))
        assert [*fields["k00"][0]] == ["\U0001f600", "\uffee"]
        assert [*fields][-3:] == ["\U0001f600", "\ue000", "\uffee"]


def test_values_that_share_bytes_are_refused() -> None:
    """A small variant would take memory in proportion to the square of its size, or more."""
    text = bytes([16 << 2]) + (32_000).to_bytes(4, "little") + b"x" * 32_000
    shared = array_of([0] * 8_000 + [len(text)], text)
    twice = array_of([0, 0, 2], b"\x05a")
    tracemalloc.start()
    for value in (shared, twice):
        with pytest.raises(ValueError, match="share bytes"):
            rebuilt([(value, NO_KEYS)])
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert rebuilt([(array_of([2, 0, 4], b"\x05a\x05b"), NO_KEYS)])


def test_a_long_key_in_many_objects_is_refused() -> None:
    """Each object takes a few bytes, and its key many; a key of a usual length is in any number."""
    for length, is_refused in [(30_000, True), (700, False)]:
        value, metadata = VariantUtils.parse_json(json.dumps([{"k" * length: 1}] * 4_000))
        if is_refused:
            with pytest.raises(ValueError, match="too long"):
                rebuilt([(value, metadata)])
        else:
            assert len(rebuilt([(value, metadata)])[0][0]) == len(value)


def nested(levels: int) -> Any:
    """Return a list in a list, so many in all."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_is_bounded() -> None:
    """Of values that are given and of bytes."""
    assert variant_of(variant_of(nested(MOST_LEVELS)))
    with pytest.raises(ValueRangeError, match="more than 1000 times"):
        variant_of(nested(MOST_LEVELS + 1))
    value = b"\0"
    for _ in range(MOST_LEVELS + 1):
        value = array_of([0, len(value)], value)
    with pytest.raises(ValueError, match="more than 1000 times"):
        rebuilt([(value, NO_KEYS)])
    rebuilt([(value[13:], NO_KEYS)])


def test_what_is_stored_and_damaged_is_null() -> None:
    """It, and no other value of a batch."""
    good, bad = variant_of({"a": 1}), (b"\xff\xff", b"")
    pairs = [(good["value"], good["metadata"]), bad, (good["value"], good["metadata"]), bad]
    given, metadata = (bytes_of(list(column)) for column in zip(*pairs, strict=True))
    values, _ = build(parse_stored(given, metadata, MOST_LEVELS), np.arange(4))
    assert values.to_pylist() == [good["value"], NULL, good["value"], NULL]


def test_keys_are_utf8() -> None:
    """They become text, and components of paths."""
    stored = variant_of({"ab": 1})
    bad = stored["metadata"].replace(b"ab", b"\xc3b")
    with pytest.raises(SchemaMismatchError, match="is not a variant"):
        variant_of({"value": stored["value"], "metadata": bad})
    with pytest.raises(SchemaMismatchError, match="is not a variant"):
        members_of({"value": stored["value"], "metadata": bad})


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (object(), SchemaMismatchError, "not a value that a variant holds"),
        ({1: 2}, SchemaMismatchError, "the key 1 of a variant's object is not text"),
        (10**38, ValueRangeError, "up to 38 digits"),
        (Decimal("NaN"), ValueRangeError, "NaN does not fit"),
        ({"value": b"\x02", "metadata": b""}, SchemaMismatchError, "is not a variant"),
        ("\ud800", ValueRangeError, "not Unicode"),
        ({"\ud800": 1}, ValueRangeError, "not Unicode"),
        (ENDLESS, ValueRangeError, "is in itself"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), ValueRangeError, "years 1"),
        ({"value": b"\xfc", "metadata": b"\1\0\0"}, SchemaMismatchError, "of an unknown type"),
    ],
)
def test_values_that_variants_do_not_hold(value: Any, error: type[Exception], message: str) -> None:
    """An error that says why."""
    with pytest.raises(error, match=message):
        variant_of(value)
