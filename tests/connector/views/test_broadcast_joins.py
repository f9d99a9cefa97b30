"""The law of views for joins without an equality, of every kind, compared with Spark."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from support.case_run import run_case
from support.examples import examples
from support.local import IN_DRIVER, IN_EITHER, IN_JOB
from support.random_changes import ChangeMaker
from support.random_tables import TableSpec
from support.view_cases import Case, Step, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
CONDITIONS = (
    "true",
    "t.x < u.x",
    "t.v BETWEEN u.n AND u.v",
    "t.v = u.n OR t.x > u.x",
    "t.v >= u.n AND t.x <= u.x AND t.g <> u.g",
)
TABLES = (
    TableSpec("t", (("k", "INT"), ("v", "INT"), ("x", "DOUBLE"), ("g", "STRING")), ("k",), ("k",)),
    TableSpec("u", (("n", "INT"), ("v", "INT"), ("x", "DOUBLE"), ("g", "STRING"))),
)
UNITS = ((1,), (3,), (8,), (1, 3), (3, 8, 2))
STEPS = 4


def views() -> list[View]:
    """Return a view for each kind and condition; some are created over rows, some before them."""
    pairs = [(kind, condition) for kind in KINDS for condition in CONDITIONS]
    selects = []
    for number, (kind, condition) in enumerate(pairs):
        is_pair = "SEMI" not in kind and "ANTI" not in kind
        columns = "t.k, t.x, u.n, u.g" if is_pair else "t.k, t.g"
        sql = f"SELECT {columns} FROM t {kind} u ON {condition}"
        selects.append(View(f"v{number}", sql, number % 2, UNITS[number % len(UNITS)]))
    return selects


@pytest.mark.parametrize("seed", range(examples(4)))
def test_a_join_without_an_equality_equals_its_select(seed: int, spark: SparkSession) -> None:
    """Every kind of join by every kind of condition, over NULLs, equal rows and moved keys.

    Four seeds try all of them. Units change midway; every other case takes rows in by parts.
    """
    changes = ChangeMaker(Random(seed), TABLES)
    steps = tuple(Step(changes.step()) for _ in range(STEPS))
    chosen = tuple(sorted(views()[seed % 4 :: 4], key=lambda view: view.step))
    part_rows = 8 if seed % 2 else None
    local_rows = (IN_DRIVER, IN_EITHER, IN_JOB)[seed % 3]
    case = Case(TABLES, steps, chosen, vnode_count=16, part_rows=part_rows, local_rows=local_rows)
    outcome = run_case(spark, case)

    assert (outcome.failures, outcome.refused, outcome.invalid) == ({}, {}, {})
    assert len(outcome.correct) == len(chosen)
