"""The laws of parameters in statements."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from relstate.connector.syntax.parameters import bind_arguments, literal
from relstate.storage.errors import OptionError


@pytest.mark.parametrize(
    ("text", "args", "bound"),
    [
        ("SELECT ? + ?", [1, 2], "SELECT 1 + 2"),
        ("SELECT :a, :b_1 WHERE x=:a", {"a": 1, "b_1": "x"}, "SELECT 1, 'x' WHERE x=1"),
        ("SELECT 1 -?", [-1], "SELECT 1 -(-1)"),
        ("SELECT ':a', \"?\", `:a` /* ? */ -- :a", {}, "SELECT ':a', \"?\", `:a` /* ? */ -- :a"),
        ("SELECT v:a, (v):a, v[0]:a, :a", {"a": 1}, "SELECT v:a, (v):a, v[0]:a, 1"),
        ("CREATE TABLE t (s STRUCT<a:INT>)", {}, "CREATE TABLE t (s STRUCT<a:INT>)"),
        ("SELECT a::INT", {}, "SELECT a::INT"),
        ("EXPLAIN SELECT :a", {"a": 1}, "EXPLAIN SELECT 1"),
        ("VALUES (:a, :b)", {"a": None, "b": True}, "VALUES (NULL, TRUE)"),
        ("CASE WHEN :a THEN :b END", {"a": False, "b": 1}, "CASE WHEN FALSE THEN 1 END"),
    ],
)
def test_parameters_become_literals(text: str, args: Any, bound: str) -> None:
    """Only where a value may be: not in quotes, comments, paths and types."""
    assert bind_arguments(text, args) == bound


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**31 - 1, "2147483647"),
        (2**31, "2147483648L"),
        (-(2**63), "(-9223372036854775808L)"),
        (0.1, "0.1D"),
        (-1e300, "(-1e+300D)"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (float("-inf"), "CAST('-inf' AS DOUBLE)"),
        (Decimal("1.50"), "1.50BD"),
        (Decimal("-1E+2"), "(-100BD)"),
        ("it's \\ here", "'it\\'s \\\\ here'"),
        ("'; DROP TABLE t; --", "'\\'; DROP TABLE t; --'"),
        (b"\x00\xff", "X'00ff'"),
        (date(2026, 1, 2), "DATE'2026-01-02'"),
        (datetime(2026, 1, 2, 3, 4, 5, 6), "TIMESTAMP'2026-01-02 03:04:05.000006'"),
        (datetime(2026, 1, 2, tzinfo=UTC), "TIMESTAMP'2026-01-02 00:00:00Z'"),
        (
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "TIMESTAMP'2026-01-01 22:00:00Z'",
        ),
    ],
)
def test_a_value_is_one_literal(value: Any, text: str) -> None:
    """With the type that Spark gives the value of a parameter; quotes end no text."""
    assert literal(value) == text


@pytest.mark.parametrize(
    ("text", "args", "reason"),
    [
        ("SELECT :a", {}, "the parameter :a has no value"),
        ("SELECT :a", {"a": 1, "b": 2}, "no parameter :b; its parameters are: :a"),
        ("SELECT 1", {"b": 2}, "no parameter :b; its parameters are: none"),
        ("SELECT ?", {"a": 1}, "has parameters \\?: give a list"),
        ("SELECT :a", [1], "has the parameter :a: give a dict"),
        ("SELECT ?, ?", [1], "2 parameters \\?, and args has 1 values"),
        ("SELECT ?", "x", "args is a dict"),
        ("SELECT ?", [object()], "is a object; it can be None"),
        ("SELECT ?", [2**63], "does not fit a BIGINT"),
        ("SELECT ?", [Decimal("NaN")], "is not a number"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(text: str, args: Any, reason: str) -> None:
    """The error names the parameter or the value."""
    with pytest.raises(OptionError, match=reason):
        bind_arguments(text, args)
