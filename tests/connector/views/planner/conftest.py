"""Tables over which plans are made, and their rows."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from support.plans import FakeTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.views.plan.materialize import Materialize


@pytest.fixture(scope="session")
def tables() -> FakeTables:
    """Three tables: of many types, with a key of two columns, and of a key and a text."""
    columns = (
        "id BIGINT NOT NULL, g STRING, x INT, y DECIMAL(8,2), d DOUBLE, ts TIMESTAMP, "
        "arr ARRAY<INT>, st STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>"
    )
    return FakeTables(
        t=(columns, "id"),
        u=("k INT NOT NULL, g STRING NOT NULL, x BIGINT, name STRING, order INT", "k g"),
        w=("id BIGINT NOT NULL, v STRING", "id"),
    )


@pytest.fixture(scope="session")
def planned(spark: SparkSession, tables: FakeTables) -> Callable[[str], Materialize]:
    """Plan a query over the tables."""
    from relstate.connector.views.planner.view import plan_view

    return lambda query: plan_view(spark, tables, query)


@pytest.fixture(scope="session")
def rows(spark: SparkSession, tables: FakeTables) -> Mapping[str, DataFrame]:
    """The rows of the tables, few different values, many NULLs; the names of temporary views by
    table.
    """
    from relstate.connector.types import struct_of

    chance = random.Random(4)

    def perhaps(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    made: dict[str, list[tuple[Any, ...]]] = {
        "t": [
            (
                n,
                perhaps(chance.choice("abc")),
                perhaps(chance.randint(0, 5)),
                perhaps(Decimal(chance.randint(0, 500)) / 4),
                perhaps(chance.random()),
                perhaps(datetime.datetime(2020, 1, 1 + n % 3)),
                [n, 2],
                (n % 7, "s"),
                {"a": n},
            )
            for n in range(30)
        ],
        "u": [
            (n, chance.choice("abcd"), perhaps(chance.randint(0, 5)), perhaps(f"n{n}"), n % 3)
            for n in range(15)
        ],
        # Some of their ids are in t, and some only here.
        "w": [(n * 4, perhaps(f"v{n % 4}")) for n in range(10)],
    }
    frames = {}
    for name, values in made.items():
        table = tables.find(name)
        assert table is not None
        frame = spark.createDataFrame(values, struct_of(table.columns)).coalesce(1).cache()
        frame.createOrReplaceTempView(name)
        frames[name] = frame
    return frames
