"""The rule by which an aggregate is added up: by the driver, by tasks, or by Spark of the rows."""

from __future__ import annotations

from typing import Any

import pytest

from relstate.connector.sql import driver_aggregate
from relstate.connector.sql.driver_aggregate import DriverAggregates
from relstate.storage import AggregateFunction, AggregatePlan, PartialAggregate, Store
from support.stores import upsert


def test_many_groups_pay_where_the_driver_adds_them_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks add up few of them; the driver more, also as many as rows, but not any number."""
    monkeypatch.setattr(driver_aggregate, "driver_threads", lambda _: 2)
    monkeypatch.setattr(driver_aggregate, "_MOST_GROUPS_OF_TASKS", 1000)
    store.create_table("t", "k INT, few INT, some INT, many INT", primary_key=["k"])
    upsert(store, "t", [(key, key % 50, key % 3000, key * 10 // 11) for key in range(20_000)])
    spark: Any = None

    def pays(column: str) -> bool:
        plan = store.read_plan("t")
        aggregate = PartialAggregate.of(
            plan.definition.schema, [column], [(AggregateFunction.SUM, "k")]
        )
        return DriverAggregates(spark).pays(AggregatePlan.of(plan, aggregate))

    assert [pays(name) for name in ("few", "some", "many", "k")] == [True] * 4
    monkeypatch.setattr(driver_aggregate, "_MOST_GROUPS", 15_000)
    assert [pays(name) for name in ("some", "k")] == [True, False]
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", 0)
    assert [pays(name) for name in ("few", "some", "many")] == [True, False, False]
    monkeypatch.setattr(driver_aggregate, "THREAD_BYTES", 1 << 30)
    monkeypatch.setattr(driver_aggregate, "_MOST_GROUPS", 1001)
    assert [pays(name) for name in ("few", "some", "many")] == [True, False, False]
