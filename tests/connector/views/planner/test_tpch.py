"""Every query of TPC-H can be a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.plan.join import Join
from relstate.connector.views.plan.node import walk
from support.plans import FakeTables
from support.tpch import QUERIES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def tpch() -> FakeTables:
    """The tables of TPC-H."""
    return FakeTables(**TABLES)


@pytest.mark.parametrize("number", QUERIES)
def test_a_query_of_tpch_is_maintained_by_its_equalities(
    number: int, spark: SparkSession, tpch: FakeTables
) -> None:
    """All equalities between tables are found, wherever they are."""
    from relstate.connector.views.planner.query import plan_view

    plan = plan_view(spark, tpch, QUERIES[number])
    assert not any(isinstance(node, Join) and node.is_global for node in walk(plan))
