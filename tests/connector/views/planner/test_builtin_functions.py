"""Every aggregate and window function of Spark, and every one that returns rows.

The list is that of Spark's registry: a function that a later Spark adds is in none of the tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.plan.node import walk
from relstate.storage import errors
from support.builtin_functions import (
    BY_AGGREGATE,
    BY_GENERATE,
    BY_RECOMPUTE,
    BY_RECOMPUTE_OF_SKETCHES,
    BY_WINDOW,
    BY_WINDOW_RECOMPUTE,
    COLUMNS,
    DOCUMENTED,
    QUERIES,
    REFUSED_AGGREGATES,
    REFUSED_ROWS,
    SKETCHES,
    builtin_functions,
)
from support.case_run import run_case
from support.plans import FakeTables
from support.random_tables import Commit, Row, TableSpec
from support.sources import ROOT
from support.versions import COUNTER_FUNCTIONS, has, skip_without
from support.view_cases import Case, Step, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DDL = ", ".join(f"{name} {sql_type}" for name, sql_type in COLUMNS)
_TABLES = FakeTables(t=(_DDL.replace("k INT", "k INT NOT NULL"), "k"))
_FAMILIES = {
    "aggregate": ("aggregates",),
    "window": ("window functions",),
    "rows": ("functions that return rows",),
}
# The operators that keep state, by the SELECT.
_KEEPERS = {
    "by_aggregate": {"aggregate"},
    "by_grouping_sets": {"aggregate"},
    "by_both": {"aggregate", "group_recompute"},
    "by_recompute": {"group_recompute"},
    "of_sketches": {"group_recompute"},
    "by_window": {"window"},
    "by_window_recompute": {"window_recompute"},
    "of_rows": set(),
}
# The lists with functions that only the newest Spark has.
_WITH_NEWEST = ("by_recompute", "of_sketches", "by_window_recompute")
_KEEPER = {"aggregate", "group_recompute", "window", "window_recompute", "join", "topn"}


def keepers(spark: SparkSession, query: str) -> set[str]:
    """Return the operators with state in the plan of a view."""
    from relstate.connector.views.planner.view import plan_view

    return {node.operator for node in walk(plan_view(spark, _TABLES, query))} & _KEEPER


@pytest.mark.parametrize("family", _FAMILIES)
def test_every_function_of_spark_is_in_a_table(family: str, spark: SparkSession) -> None:
    """Spark's registry has no function of the family that is not listed here, and all of these.

    The newest Spark has all of these, another one some.
    """
    (beginning,) = _FAMILIES[family]
    listed = [
        name for title, names in DOCUMENTED.items() if title.startswith(beginning) for name in names
    ]
    assert len(listed) == len(set(listed))
    functions = builtin_functions(spark)[family]
    assert functions <= set(listed)
    assert functions == set(listed) or not has(COUNTER_FUNCTIONS)


def test_the_documentation_lists_every_function() -> None:
    """docs/views.md has the lists of the tables, by what keeps the functions."""
    text = (ROOT / "docs" / "views.md").read_text("utf-8")
    for title, names in DOCUMENTED.items():
        (line,) = re.findall(rf"^\| {title} \|(.*)\|$", text, re.MULTILINE)
        assert re.findall(r"`(\w+)`", line) == sorted(names), title


@pytest.mark.parametrize("name", QUERIES)
def test_functions_are_planned_as_listed(name: str, spark: SparkSession) -> None:
    """A SELECT of all functions of a list is kept by the executors of the list."""
    if name in _WITH_NEWEST:
        skip_without(COUNTER_FUNCTIONS)
    assert keepers(spark, QUERIES[name]) == _KEEPERS[name]


@pytest.mark.parametrize("name", [*REFUSED_AGGREGATES, *REFUSED_ROWS])
def test_a_function_is_refused_with_its_reason(name: str, spark: SparkSession) -> None:
    """No view has it, and the error says why."""
    if name in REFUSED_AGGREGATES:
        call, reason = REFUSED_AGGREGATES[name]
        query = f"SELECT g, {call} AS c FROM t GROUP BY g"
    else:
        query, reason = REFUSED_ROWS[name]
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    try:
        with pytest.raises(errors.UnsupportedStatementError, match=reason):
            keepers(spark, query)
    finally:
        spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")


# A plan takes a fifth of a second; a test with a timeout of its own is slow.
@pytest.mark.timeout(600)
def test_each_function_alone_is_kept_as_listed(spark: SparkSession) -> None:
    """A function is in its list by itself, not by those beside it."""
    singles = [
        *((call, "t GROUP BY g", {"aggregate"}) for call in BY_AGGREGATE.values()),
        *((call, "t GROUP BY g", {"group_recompute"}) for call in BY_RECOMPUTE.values()),
        *(
            (call, f"{SKETCHES} GROUP BY g", {"group_recompute"})
            for call in BY_RECOMPUTE_OF_SKETCHES.values()
        ),
        *((call, "t", {"window"}) for call in BY_WINDOW.values()),
        *((call, "t", {"window_recompute"}) for call in BY_WINDOW_RECOMPUTE.values()),
    ]
    for call, source, expected in singles:
        selected = "k" if source == "t" else "g"
        assert keepers(spark, f"SELECT {selected}, {call} AS c FROM {source}") == expected, call
    for query in BY_GENERATE.values():
        assert keepers(spark, f"SELECT * FROM ({query}) AS u (a, b)") == set(), query


_T = TableSpec("t", COLUMNS, ("k",), ("k",))


def _row(key: int, shift: int = 0) -> tuple[Row, Row]:
    """Return the key and a row of it; some values are NULL, the more often the greater they are."""
    number = key + shift
    values = (
        key, "abc"[number % 3], number % 4, number * 7 % 11, number % 5 / 4, number % 2 == 0,
        [number % 3, 2, number % 4][: number % 4], f'{{"a": {number % 6}}}',
    )  # fmt: skip
    missing = {(number * 3 + column) % 9: column for column in range(1, len(values))}
    column = missing.get(number % 9)
    return (key,), tuple(None if index == column else v for index, v in enumerate(values))


# Eight views through three refreshes take more than a few seconds.
@pytest.mark.timeout(600)
def test_every_function_is_followed_through_changes(spark: SparkSession) -> None:
    """Views of all functions equal their SELECTs when rows come, change their group, and go."""
    steps = (
        Step((Commit("t", tuple(_row(key) for key in range(12))),)),
        Step((Commit("t", tuple(_row(key, 1) for key in range(3, 16, 2)), (_row(0), _row(4))),)),
        # Of the groups nothing is left but one row.
        Step((Commit("t", (), tuple(_row(key) for key in range(1, 16))),)),
    )
    views = tuple(View(name, query, n % 2) for n, (name, query) in enumerate(QUERIES.items()))
    outcome = run_case(spark, Case((_T,), steps, views, vnode_count=7))
    assert (outcome.failures, outcome.invalid, outcome.refused) == ({}, {}, {})
    assert sorted(outcome.correct) == sorted(QUERIES)
