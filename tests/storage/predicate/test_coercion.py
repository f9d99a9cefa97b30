"""Values of different types are compared in the type in which Spark compares them."""

from __future__ import annotations

import pytest

from relstate.storage.errors import UnsupportedExpressionError
from relstate.storage.predicate.coercion import common_type
from relstate.storage.schema.ddl import parse_type


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("INT; INT", "INT"),
        ("TINYINT; BIGINT", "BIGINT"),
        ("INT; FLOAT", "DOUBLE"),
        ("FLOAT; FLOAT", "FLOAT"),
        ("FLOAT; DOUBLE", "DOUBLE"),
        ("INT; DECIMAL(2,1)", "DECIMAL(11,1)"),
        ("BIGINT; DECIMAL(10,2)", "DECIMAL(22,2)"),
        ("DECIMAL(10,2); DECIMAL(5,4)", "DECIMAL(12,4)"),
        ("DECIMAL(10,2); DOUBLE", "DOUBLE"),
        ("STRING; INT", "BIGINT"),
        ("DECIMAL(2,1); STRING", "DOUBLE"),
        ("DATE; STRING", "DATE"),
        ("STRING; BINARY", "BINARY"),
        ("BOOLEAN; STRING", "BOOLEAN"),
        ("DATE; TIMESTAMP", "TIMESTAMP"),
        ("DATE; TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("TIMESTAMP_NTZ; TIMESTAMP", "TIMESTAMP"),
        ("INT; VOID", "INT"),
    ],
)
def test_types_meet_in_one(types: str, expected: str) -> None:
    """Whatever their order."""
    parsed = [parse_type(one.strip()) for one in types.split(";")]

    assert str(common_type(parsed)) == expected
    assert str(common_type(parsed[::-1])) == expected


def test_text_meets_the_first_number_first() -> None:
    """So that the order of a list of text, integers and decimals decides, as in Spark."""
    types = [parse_type(one) for one in ("INT", "STRING", "DECIMAL(2,1)")]

    assert str(common_type(types)) == "DECIMAL(21,1)"
    assert str(common_type(types[::-1])) == "DOUBLE"


@pytest.mark.parametrize(
    "types",
    [
        "INT; BOOLEAN", "INT; DATE", "BINARY; INT", "STRING; INTERVAL DAY", "DATE; TIME(6)",
        "DECIMAL(38,0); DECIMAL(1,1)", "STRING; STRING COLLATE UTF8_LCASE", "INT; ARRAY<INT>",
    ],
)  # fmt: skip
def test_types_that_do_not_compare_are_named(types: str) -> None:
    """And decimals that Spark would round to meet."""
    parsed = [parse_type(one.strip()) for one in types.split(";")]
    with pytest.raises(UnsupportedExpressionError) as raised:
        common_type(parsed)
    assert all(str(one) in str(raised.value) for one in parsed)
