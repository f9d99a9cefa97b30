"""Stores with views that earlier versions wrote are refreshed, merged and checked by this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relstate.connector.spark.capabilities import ASOF_JOIN
from relstate.connector.sql import Database
from relstate.connector.views.operators import EXECUTORS, executors_of
from relstate.connector.views.plan.node import walk
from relstate.connector.views.stored_plans import read_stored_plan
from relstate.storage import Store
from support.golden import golden_stores, unpack
from support.golden_views import VIEWS
from support.stores import contents
from support.versions import needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_there_is_a_store_of_every_executor(tmp_path: Path) -> None:
    """The law below holds for each of them."""
    executors = set()
    for name in golden_stores("views"):
        with Store.open(str(unpack(name, tmp_path))) as store:
            for view in store.state.views.values():
                for node in walk(read_stored_plan(store.state, view).root):
                    executors.update(executors_of(node))

    assert executors == {executor for of_node in EXECUTORS.values() for executor in of_node}


@pytest.mark.timeout(900)
@needs(ASOF_JOIN)
@pytest.mark.parametrize("name", golden_stores("views"))
def test_views_are_refreshed_merged_and_checked(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    """They follow changes by the state that the earlier version left, and are their SELECTs."""
    with Store.open(str(unpack(name, tmp_path))) as store:
        db = Database(spark, store)
        empty = [name for name in VIEWS if not contents(store, name)]
        assert len(empty) <= 3, empty
        assert [report for report in db.check_views() if not report.ok] == []

        db.sql("INSERT INTO t (k, g, n, v) VALUES (1, 'a', 1, 100), (1000, 'b', 2, 3)")
        db.sql("DELETE FROM u WHERE i % 2 = 0")
        db.sql("UPDATE w SET name = 'new'")
        db.refresh()
        store.compact()

        assert [report for report in db.check_views() if not report.ok] == []
        assert store.check().problems == ()
        assert (1000,) in [row[:1] for row in contents(store, "left")]
