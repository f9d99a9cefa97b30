"""The laws of Spark's JSON form: an exact round trip, and an error for any other value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from relstate.storage import types as t
from relstate.storage.errors import SchemaError, UnsupportedTypeError
from relstate.storage.schema.type_json import from_json, to_json
from support.datatypes import all_types


@given(all_types())
def test_every_type_survives_json_exactly(data_type: t.DataType) -> None:
    """What is written as JSON text is read back, element nullability and collations included."""
    assert from_json(json.loads(json.dumps(to_json(data_type)))) == data_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("char(5)", t.String()),
        ("varchar( 5 )", t.String()),
        ("interval hour", t.DayTimeInterval("hour", "hour")),
    ],
)
def test_spark_forms_that_are_never_written_are_read(text: str, expected: t.DataType) -> None:
    """Strings with a length are strings here."""
    assert from_json(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"type": "array"},
        {"type": "array", "elementType": "integer", "containsNull": []},
        {"type": "map", "keyType": "integer"},
        {"type": "struct", "fields": [{"name": "a"}]},
        {"type": "struct", "fields": [5]},
        {"type": "struct", "fields": None},
        None,
        7,
        [],
    ],
)
def test_what_is_not_a_type_is_refused(value: Any) -> None:
    """A value that is not Spark's JSON form raises SchemaError."""
    with pytest.raises(SchemaError):
        from_json(value)


@pytest.mark.parametrize("value", ["udt", "geometry(4326)", {"type": "udt"}, "decimal(50,0)"])
def test_unknown_types_are_refused(value: Any) -> None:
    """A type that relstate does not store raises UnsupportedTypeError."""
    with pytest.raises(UnsupportedTypeError):
        from_json(value)
