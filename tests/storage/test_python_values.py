"""Values of Python that Arrow would change are refused, others are stored as they are."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relstate.storage import Store, errors

COLUMNS = (
    "id BIGINT, i INT, b TINYINT, f FLOAT, d DOUBLE, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "clock TIME(6), n DECIMAL(5,2), text STRING, yes BOOLEAN, ns ARRAY<DECIMAL(5,2)>, "
    "span INTERVAL DAY TO SECOND, words ARRAY<STRING>, days ARRAY<DATE>, "
    "s STRUCT<a: INT, b: STRING>, m MAP<STRING, STRUCT<a: INT>>"
)
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
MIDNIGHT = dt.datetime(2024, 1, 1)
CHANGED = [
    ("i", 1.7, "1.7 is not a whole number"),
    ("i", Decimal("1.5"), "is not a whole number"),
    ("i", np.float32(0.5), "is not a whole number"),
    ("i", float("inf"), "is not a whole number"),
    ("b", np.bool_(True), "is a BOOLEAN"),
    ("f", 1e300, "is beyond"),
    ("d", True, "is a BOOLEAN"),
    ("day", NOON, "give its date"),
    ("day", pd.NaT, "give None"),
    ("day", np.timedelta64(5, "D"), "is not a date"),
    ("day", 19_000, "is not a date"),
    ("at", 1_700_000_000, "is a number: give a datetime"),
    ("at", pd.Timestamp("2024-01-01T00:00:00.000000001"), "has nanoseconds"),
    ("local", NOON, "has a time zone"),
    ("clock", 5, "is not a time"),
    ("clock", NOON.timetz(), "has a time zone"),
    ("span", 5.5, "is a number: give a timedelta"),
    ("span", pd.Timedelta(5, unit="ns"), "has nanoseconds"),
    ("words", "abc", "'abc' is not a list"),
    ("days", [NOON], "give its date"),
    ("s", {"a": 1, "x": 2}, "has a field 'x'; the fields are a, b"),
    ("s", {"A": 1}, "has a field 'A'"),
    ("s", {"a": 1.5}, "is not a whole number"),
    ("s", (1.5, "b"), "is not a whole number"),
    ("s", [("a", 1), ("x", 2)], "has a field 'x'"),
    ("m", [("a", None), ("a", None)], "has a key twice"),
    ("i", "7", "'7' is text: give a number, as int() reads it"),
    ("f", "1.5", "is text: give a number, as float() reads it"),
    ("n", "1.50", "'1.50' is text: give a number, as Decimal() reads it"),
    ("n", 1.125, "1.125 has more than 2 digits after the point: round it"),
    ("n", np.float32(1.1), "has more than 2 digits after the point"),
    ("n", Decimal("1.001"), "has more than 2 digits after the point"),
    ("n", 1000, "1000 has more than 3 digits before the point"),
    ("n", float("nan"), "is not a number that a DECIMAL has"),
    ("n", Decimal("Infinity"), "is not a number that a DECIMAL has"),
    ("n", True, "is a BOOLEAN"),
    ("ns", [1, 1.125], "1.125 has more than 2 digits"),
    ("d", Decimal("0.12345678901234567890"), "has more digits than a DOUBLE"),
    ("f", Decimal("1.23456789"), "has more digits than a FLOAT"),
    ("at", "2024-01-01 12:00:00", "is text: give a datetime"),
    ("local", "2024-01-01 12:00:00", "is text: give a datetime"),
    ("day", "2024-01-01", "is not a date of Python"),
    ("text", 1.5, "1.5 is not text, and has several spellings"),
    ("text", NOON, "is not text"),
    ("yes", 1, "1 is not True or False"),
    ("yes", "true", "'true' is not True or False"),
    ("words", ["a", 1.5], "1.5 is not text"),
    ("s", {"a": "1"}, "'1' is text"),
    ("m", {1: None, "1": None}, "has a key twice"),
    ("m", {"k": {"x": 1}}, "has a field 'x'; the fields are a"),
]
STORED = [
    ("i", 2.0, 2),
    ("i", np.int16(3), 3),
    ("i", Decimal(4), 4),
    ("f", float("-inf"), float("-inf")),
    ("d", 2, 2.0),
    ("day", MIDNIGHT, dt.date(2024, 1, 1)),
    ("at", MIDNIGHT, MIDNIGHT.replace(tzinfo=dt.UTC)),
    ("at", NOON.astimezone(dt.timezone(dt.timedelta(hours=3))), NOON),
    ("local", pd.Timestamp("2024-01-01"), MIDNIGHT),
    ("clock", dt.time(1, 2, 3), dt.time(1, 2, 3)),
    ("span", np.timedelta64(5, "us"), dt.timedelta(microseconds=5)),
    ("words", ("a", None), ["a", None]),
    ("words", np.array(["a", "b"]), ["a", "b"]),
    ("s", {"b": "x"}, {"a": None, "b": "x"}),
    ("s", (1, "x"), {"a": 1, "b": "x"}),
    ("m", [("k", {"a": 1})], {"k": {"a": 1}}),
    ("m", {"k": None}, {"k": None}),
    ("n", 1.1, Decimal("1.10")),
    ("n", 7, Decimal("7.00")),
    ("n", np.int64(7), Decimal("7.00")),
    ("n", np.float64(-0.25), Decimal("-0.25")),
    ("n", Decimal("1.500"), Decimal("1.50")),
    ("n", Decimal("1E+2"), Decimal("100.00")),
    ("n", 1e2, Decimal("100.00")),
    ("n", 0.0, Decimal("0.00")),
    ("ns", [1.1, None, Decimal(2)], [Decimal("1.10"), None, Decimal("2.00")]),
    ("d", Decimal("1.5"), 1.5),
    ("d", Decimal("0.1"), 0.1),
    ("f", Decimal("1.5"), 1.5),
    ("at", dt.date(2024, 1, 1), MIDNIGHT.replace(tzinfo=dt.UTC)),
    ("local", dt.date(2024, 1, 1), MIDNIGHT),
    ("text", 7, "7"),
    ("text", np.int8(7), "7"),
    ("text", True, "true"),
    ("text", Decimal("1E-7"), "0.0000001"),
    ("text", dt.date(2024, 1, 1), "2024-01-01"),
    ("words", [1, None, "b"], ["1", None, "b"]),
    ("s", {"a": 1.0, "b": 2}, {"a": 1, "b": "2"}),
    ("s", (1, 2), {"a": 1, "b": "2"}),
    ("m", {1: {"a": 1}}, {"1": {"a": 1}}),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store with a table of many types."""
    store = Store.create(str(tmp_path_factory.mktemp("values") / "store"))
    store.create_table("t", COLUMNS, primary_key=["id"])
    return store


@pytest.mark.parametrize(("name", "value", "reason"), CHANGED)
def test_a_value_that_would_be_changed_is_refused(
    store: Store, name: str, value: Any, reason: str
) -> None:
    """A write of dicts loses nothing of a value: it is an error that names column and value."""
    with pytest.raises(
        errors.DataError, match=f"the column '{name}' cannot be .*{re.escape(reason)}"
    ):
        store.write("t", [{"id": 1, name: None}, {"id": 2, name: value}])
    assert store.table("t").get(2) is None


@pytest.mark.parametrize(("name", "value", "stored"), STORED)
def test_a_value_that_fits_is_stored(store: Store, name: str, value: Any, stored: Any) -> None:
    """A write of dicts takes each value that its column holds, in other types of Python too."""
    store.write("t", [{"id": 3, name: value}])
    row = store.table("t").get(3)
    assert row is not None
    assert row[name] == stored


def test_the_row_of_a_value_is_named(store: Store) -> None:
    """By its key, or by its number if the table has none or the row has not; nothing is written."""
    rows = [{"id": number, "i": number} for number in range(1000)]
    rows[777] = {"id": 1777, "i": "x"}  # type: ignore[dict-item]
    with pytest.raises(
        errors.DataError,
        match=r"the value of the column 'i' cannot be INT: 'x' is text: .* It is in the row with "
        r"id = 1777 \(row 777\); nothing was written$",
    ):
        store.write("t", rows)
    with pytest.raises(errors.DataError, match=r"'id' cannot be BIGINT: 'x' .* id = 'x' \(row 0"):
        store.write("t", [{"id": "x"}])
    with pytest.raises(errors.NullKeyError, match=r"NULL in the row with i = 5 \(row 1 of"):
        store.write("t", [{"id": 800, "i": 4}, {"id": None, "i": 5}])
    assert store.table("t").get(800) is None


def test_a_patch_converts_too(tmp_path: Any) -> None:
    """In the fields that it has, and no others."""
    with Store.create(str(tmp_path / "s")) as documents:
        documents.create_table(
            "d",
            "id INT, s STRUCT<n: DECIMAL(5,2), text: STRING>",
            primary_key=["id"],
            encoding="document",
        )
        documents.patch("d", [{"id": 1, "s": {"n": 1.1}}, {"id": 1, "s": {"text": 7}}])
        assert documents.table("d").to_dicts() == [
            {"id": 1, "s": {"n": Decimal("1.10"), "text": "7"}}
        ]
