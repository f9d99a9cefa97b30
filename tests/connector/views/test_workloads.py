"""Public workloads: the queries that are kept are views over tables that change.

Views of TPC-DS have up to a thousand operators, and those of Spark's dialect are two hundred, so
some parts of them are run unless ``RELSTATE_WORKLOADS=all pytest`` of this file asks for all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.plan.broadcast_join import BroadcastJoin
from relstate.connector.views.plan.node import Node, walk
from relstate.storage.errors import UnsupportedStatementError
from support.case_run import run_case
from support.examples import Seeds
from support.logic_queries import logic_case
from support.sources import ROOT
from support.stores import StoreMaker
from support.workload_law import Oracle, WorkloadLaw, fake_tables
from workloads.corpora import WORKLOADS
from workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The scale, the steps of changes, and the number of parts in which a workload is tested.
_SIZES = {
    "nexmark": (0.002, 2, 2),
    "tpch": (0.004, 2, 2),
    "clickbench": (0.0006, 2, 2),
    "tpcds": (0.0006, 1, 12),
    "dialect": (0.002, 1, 8),
}
# The parts that are run of a workload that is too large to be run whole: together two minutes.
_SELECTED_PARTS: Mapping[str, Sequence[int]] = (
    {} if os.environ.get("RELSTATE_WORKLOADS") == "all" else {"tpcds": (7,), "dialect": (1, 4, 6)}
)
# Workloads of which every query has rows, and most have them both before the changes and after.
_NEVER_EMPTY = {"tpcds"}
# A test with a timeout of its own is slow.
_SLOW = pytest.mark.timeout(1200)
Planned = Callable[[str], tuple[dict[str, Node], dict[str, str]]]
_PARTS = [
    (name, part)
    for name, (_, _, parts) in _SIZES.items()
    for part in _SELECTED_PARTS.get(name, range(parts))
]


@cache
def workload_of(name: str) -> Workload:
    """Return a workload."""
    return WORKLOADS[name]()


@pytest.fixture(scope="module")
def planned(spark: SparkSession) -> Planned:
    """Return what plans all queries of a workload, once."""
    from relstate.connector.views.planner.view import plan_view

    @cache
    def plan(name: str) -> tuple[dict[str, Node], dict[str, str]]:
        workload = workload_of(name)
        plans: dict[str, Node] = {}
        reasons: dict[str, str] = {}
        oracle, tables = Oracle(spark, workload), fake_tables(workload)
        for query, text in workload.queries.items():
            try:
                plans[query] = plan_view(spark, tables, text, oracle.column_names(text))
            except UnsupportedStatementError as error:
                reasons[query] = str(error)
        return plans, reasons

    return plan


@pytest.mark.parametrize(
    "name",
    # Each of these takes half a minute.
    [pytest.param(name, marks=_SLOW if name in {"tpcds", "dialect"} else ()) for name in WORKLOADS],
)
def test_every_query_is_kept_or_refused_as_documented(name: str, planned: Planned) -> None:
    """No query is refused but those that are listed, for the reasons that are listed."""
    refused = workload_of(name).refused
    _, reasons = planned(name)
    assert list(reasons) == list(refused), reasons
    for query, reason in refused.items():
        assert reason in reasons[query]


def test_a_query_of_tpch_is_maintained_by_its_equalities(planned: Planned) -> None:
    """All equalities between tables are found, wherever they are."""
    plans, _ = planned("tpch")
    for query, plan in plans.items():
        joins = [node for node in walk(plan) if isinstance(node, BroadcastJoin)]
        assert all(join.has_one_row for join in joins), query


def test_a_common_table_that_is_read_twice_is_maintained_once(planned: Planned) -> None:
    """The revenue of q15 is one aggregate over one scan, though its maximum is read, too."""
    plans, _ = planned("tpch")
    operators = [node.operator for node in walk(plans["q15"])]
    assert operators.count("shared") == 1
    assert operators.count("scan") == 2


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_documentation_says_which_queries_are_kept(name: str) -> None:
    """docs/views.md has the numbers of each workload, and names what is refused."""
    workload = workload_of(name)
    text = (ROOT / "docs" / "views.md").read_text("utf-8")
    (line,) = re.findall(rf"^\| {workload.name} \|(.*)\|$", text, re.MULTILINE)
    total, kept, refused = (cell.strip() for cell in line.split("|"))
    assert (int(total), int(kept)) == (len(workload.queries), len(workload.kept()))
    assert sorted(re.findall(r"\b[a-z]+\d+[ab]?\b", refused)) == sorted(workload.refused)
    says_rows = f"Each of the {kept} views of {workload.name} has rows" in text
    assert says_rows == (name in _NEVER_EMPTY)


@_SLOW
@pytest.mark.parametrize(("name", "part"), _PARTS)
def test_a_kept_query_is_a_view_that_equals_its_select(
    name: str, part: int, spark: SparkSession, make_store: StoreMaker
) -> None:
    """Created before the rows and after them, and after inserts, updates and deletes."""
    scale, steps, parts = _SIZES[name]
    workload = workload_of(name)
    names = list(workload.kept())[part::parts]
    law = WorkloadLaw(spark, make_store(vnode_count=7, shards=1), workload, names)
    law.hold(scale, share=0.05, steps=steps, early=names[::2], late=names[1::2])
    assert 3 * len(law.nonempty) >= len(names), sorted(set(names) - law.nonempty)
    if name in _NEVER_EMPTY:
        assert law.nonempty == set(names), sorted(set(names) - law.nonempty)
        assert 4 * len(law.never_empty) >= 3 * len(names), sorted(set(names) - law.never_empty)


def test_a_query_in_the_manner_of_sqllogictest_is_a_view_that_equals_its_select(
    seeds: Seeds, spark: SparkSession
) -> None:
    """Before and after changes, whatever a program makes of arithmetic, aggregates and joins."""
    for seed in seeds(1):
        outcome = run_case(spark, logic_case(seed, 24))
        assert outcome.failures == {}, seed
        assert outcome.refused == {}, seed
        assert len(outcome.correct) > 12, outcome.invalid
