"""Values of Python that Arrow would change are refused, others are stored as they are."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from relstate.storage import Store, errors

COLUMNS = (
    "id BIGINT, i INT, b TINYINT, f FLOAT, d DOUBLE, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "clock TIME(6), span INTERVAL DAY TO SECOND, words ARRAY<STRING>, days ARRAY<DATE>, "
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
    ("span", pd.Timedelta("5ns"), "has nanoseconds"),
    ("words", "abc", "'abc' is not a list"),
    ("days", [NOON], "give its date"),
    ("s", {"a": 1, "x": 2}, "has a field 'x'; the fields are a, b"),
    ("s", {"A": 1}, "has a field 'A'"),
    ("s", {"a": 1.5}, "is not a whole number"),
    ("s", (1.5, "b"), "is not a whole number"),
    ("s", [("a", 1), ("x", 2)], "has a field 'x'"),
    ("m", [("a", None), ("a", None)], "has a key twice"),
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
    with pytest.raises(errors.DataError, match=f"the column '{name}' cannot be .*{reason}"):
        store.write("t", [{"id": 1, name: None}, {"id": 2, name: value}])
    assert store.table("t").get(2) is None


@pytest.mark.parametrize(("name", "value", "stored"), STORED)
def test_a_value_that_fits_is_stored(store: Store, name: str, value: Any, stored: Any) -> None:
    """A write of dicts takes each value that its column holds, in other types of Python too."""
    store.write("t", [{"id": 3, name: value}])
    row = store.table("t").get(3)
    assert row is not None
    assert row[name] == stored
