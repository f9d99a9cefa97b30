"""The law of views for random windows: over ties, NULLs and rows that move between partitions."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from support.case_run import run_case
from support.local import IN_DRIVER, IN_EITHER, IN_JOB
from support.random_changes import ChangeMaker
from support.random_queries import QueryMaker
from support.random_tables import random_tables
from support.view_cases import Case, Step, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.examples import Seeds

_STEPS = 4


def window_case(seed: int, views: int = 10) -> Case:
    """Return a case whose views have windows; some take rows in by parts, and all are rescaled."""
    random = Random(f"windows {seed}")
    tables = random_tables(random, 2)
    changes = ChangeMaker(random, tables)
    steps = tuple(Step(changes.step()) for _ in range(_STEPS))
    maker = QueryMaker(random, {table.name: table.kinds for table in tables})
    queries: list[str] = []
    while len(queries) < views:
        query = maker.query(random.choice([0, 0, 1]))
        if " OVER " in query.sql:
            queries.append(query.sql)
    return Case(
        tables,
        steps,
        tuple(
            View(f"v{number}", sql, number % 2, tuple(random.choices((1, 3, 8), k=3)))
            for number, sql in enumerate(queries)
        ),
        vnode_count=16,
        part_rows=random.choice([None, 10]),
        local_rows=(IN_DRIVER, IN_EITHER, IN_JOB)[seed % 3],
    )


@pytest.mark.timeout(900)
def test_a_view_of_windows_equals_its_select(spark: SparkSession, seeds: Seeds) -> None:
    """After every refresh, in one step and in parts, with 1, 3 and 8 units."""
    for seed in seeds(1):
        outcome = run_case(spark, window_case(seed))

        assert outcome.failures == {}, seed
        assert len(outcome.correct) > 3, outcome
