"""A condition is read from its JSON exactly; any other JSON is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relstate.storage import TableSchema
from relstate.storage.errors import OptionError
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns

SCHEMA = TableSchema.build(
    parse_columns(
        "k BIGINT, j BIGINT, v STRING, w DOUBLE, f FLOAT, n DECIMAL(38,10), b BINARY, d DATE, "
        "ts TIMESTAMP, st STRUCT<x: INT, y: STRUCT<z: BOOLEAN>>, m MAP<INT, INT>"
    ),
    ["k"],
)


@pytest.mark.parametrize(
    "text",
    [
        "k = 9223372036854775807 AND k <> -9223372036854775808",
        "k IN (1, 5, NULL) OR NOT (k BETWEEN 3 AND 9)",
        "w = CAST('NaN' AS DOUBLE) OR w < CAST('-Infinity' AS DOUBLE) OR w >= 0.1",
        "f <=> 0.1F",
        "n = 1234567890123456789012345678.0123456789",
        "b >= X'00ff80' AND v = 'ä\0😀' AND v LIKE 'a%b_'",
        "d >= '2024-01-01' AND ts < '9999-12-31 23:59:59.999999'",
        "(k < j) IS NULL OR (st.x > 1) IS NOT TRUE",
        "m IS NULL OR st.y.z OR NULL",
    ],
)
def test_a_condition_comes_back_as_it_was(text: str) -> None:
    """Every digit of a decimal, NaN, bytes, and the greatest values."""
    predicate = Predicate.parse(text, SCHEMA)
    assert Predicate.from_json(predicate.json, SCHEMA) == predicate


MEMBER = {"kind": "member", "column": ["k"], "type": "BIGINT", "cuts": [1, 2], "when_null": None}
COMPARISON = {
    "kind": "comparison", "left": ["k"], "operator": "<", "right": ["j"], "type": "BIGINT",
    "null_safe": False,
}  # fmt: skip
MATCHES = {"kind": "matches", "column": ["v"], "pattern": "a", "expected": True}


@pytest.mark.parametrize("value", [MEMBER, COMPARISON, MATCHES])
def test_the_forms_of_the_refusals_are_right(value: dict[str, Any]) -> None:
    """The JSON that the next test changes is valid."""
    assert Predicate.from_json(json.dumps(value), SCHEMA).json == json.dumps(
        value, separators=(",", ":")
    )


@pytest.mark.parametrize(
    "value",
    [
        5,
        None,
        [],
        "k = 1",
        {},
        {"kind": "java_method"},
        {"kind": ["and"]},
        {"kind": "truth", "value": 1},
        {"kind": "and", "parts": []},
        {"kind": "or", "parts": {"kind": "truth", "value": True}},
        {"kind": "is_true", "of": None, "expected": True},
        MEMBER | {"column": ["unknown"]},
        MEMBER | {"column": "k"},
        MEMBER | {"column": [["k"]]},
        MEMBER | {"column": ["k", "x"]},
        MEMBER | {"column": ["st", "unknown"], "type": "INT"},
        MEMBER | {"type": "INT"},
        MEMBER | {"cuts": [2, 1]},
        MEMBER | {"cuts": [1, 1]},
        MEMBER | {"cuts": [1, True]},
        MEMBER | {"cuts": [1.5]},
        MEMBER | {"cuts": ["00"]},
        MEMBER | {"cuts": [2**63]},
        MEMBER | {"cuts": None},
        MEMBER | {"when_null": "no"},
        MEMBER | {"column": ["v"], "type": "STRING"},
        MEMBER | {"column": ["v"], "type": "STRING", "cuts": ["zz"]},
        MEMBER | {"column": ["m"], "type": "MAP<INT, INT>"},
        COMPARISON | {"right": ["w"]},
        COMPARISON | {"left": ["m"], "right": ["m"], "type": "MAP<INT, INT>"},
        COMPARISON | {"operator": "LIKE"},
        COMPARISON | {"operator": []},
        MATCHES | {"column": ["k"]},
        MATCHES | {"pattern": "("},
        MATCHES | {"pattern": 5},
        MATCHES | {"expected": None},
    ],
)
def test_what_is_not_a_condition_of_the_table_is_refused(value: object) -> None:
    """The option may come from anywhere: it is checked, and no Python error gets through."""
    with pytest.raises(OptionError, match="'where'"):
        Predicate.from_json(json.dumps(value), SCHEMA)


@pytest.mark.parametrize(
    "text",
    ["", "{", "NaN", '{"kind":"is_true","expected":true,"of":' * 100_000, "[" * 100_000],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    """However deep it is nested."""
    with pytest.raises(OptionError, match="'where'"):
        Predicate.from_json(text, SCHEMA)


def test_a_condition_nested_deep_is_refused() -> None:
    """Before the interpreter's stack ends."""
    text = '{"kind":"is_true","expected":true,"of":' * 900 + '{"kind":"truth","value":true}'
    with pytest.raises(OptionError, match="'where'"):
        Predicate.from_json(text + "}" * 900, SCHEMA)


def test_all_of_several_predicates_hold() -> None:
    """The user's condition and the bound one of a read; the sets of one column are one set."""
    both = Predicate.all_of([Predicate.parse("k > 1", SCHEMA), Predicate.parse("k < 3", SCHEMA)])
    assert both == Predicate.parse("k > 1 AND k < 3", SCHEMA)
