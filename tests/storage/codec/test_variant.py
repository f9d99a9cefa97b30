"""The laws of variants as trees, with the reader and writer of pyspark as the other side."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from relstate.storage.codec.ragged import Bytes
from relstate.storage.codec.variant import build, parse
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
def test_python_values_become_what_spark_makes_of_their_json(document: Any) -> None:
    """Except for the order of keys in the metadata."""
    spark_form = VariantUtils.parse_json(json.dumps(document))
    stored = variant_of(document)
    seen = VariantUtils.to_python(stored["value"], stored["metadata"])
    assert json.dumps(seen, default=float, sort_keys=True) == json.dumps(
        VariantUtils.to_python(*spark_form), default=float, sort_keys=True
    )


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
    seen = VariantUtils.to_python(stored["value"], stored["metadata"])
    assert seen == [value]
    assert variant_of(stored) == stored


def test_the_fields_of_objects() -> None:
    """Each is a variant of its own, with its own keys only."""
    stored = variant_of({"b": {"c": 1}, "a": [{"d": None}]})
    fields = members_of(stored)
    assert fields == {"a": variant_of([{"d": None}]), "b": variant_of({"c": 1})}
    assert members_of(variant_of([1])) is None
    assert members_of({"x": 1}) == {"x": 1}


def test_damaged_variants_are_errors() -> None:
    """Each byte of a variant replaced, or the rest cut off: an error, or other values."""
    value, metadata = VariantUtils.parse_json('{"a": [1, "x"], "bc": {"a": 1.5}, "d": null}')
    for data, damaged in [(value, "value"), (metadata, "metadata")]:
        for index in range(len(data)):
            for bad in [data[:index], data[:index] + b"\xff" + data[index + 1 :]]:
                pair = (bad, metadata) if damaged == "value" else (value, bad)
                with contextlib.suppress(ValueError, IndexError):
                    rebuilt([pair])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (object(), SchemaMismatchError, "not a value that a variant holds"),
        ({1: 2}, SchemaMismatchError, "the key 1 of a variant's object is not text"),
        (10**38, ValueRangeError, "up to 38 digits"),
        (Decimal("NaN"), ValueRangeError, "NaN does not fit"),
        ({"value": b"\x02", "metadata": b""}, SchemaMismatchError, "is not a variant"),
        ({"value": b"\xfc", "metadata": b"\1\0\0"}, SchemaMismatchError, "of an unknown type"),
    ],
)
def test_values_that_variants_do_not_hold(value: Any, error: type[Exception], message: str) -> None:
    """An error that says why."""
    with pytest.raises(error, match=message):
        variant_of(value)
