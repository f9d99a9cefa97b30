"""The laws of the option ``where`` of a read through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from relstate.storage import Predicate, Store
from support.planning import plan_read, refusal
from support.spark import load
from support.stores import unsynced, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store that no test changes."""
    path = str(tmp_path_factory.mktemp("where") / "store")
    with Store.create(path, environment=unsynced(path)) as store:
        yield store


@pytest.fixture(scope="module")
def visits(store: Store) -> str:
    """A table of visits, keyed by a shop and a time that descends, in two epochs."""
    store.create_table(
        "visits",
        "shop INT, at TIMESTAMP, guest STRING, paid DECIMAL(8,2)",
        primary_key=["shop", "at desc"],
        distribution_key=["shop"],
    )
    for part in (0, 1):
        rows = [
            (
                number % 10,
                datetime.fromtimestamp(number * 3600, UTC),
                None if number % 7 == 0 else f"guest {number % 5}",
                Decimal(number) / 4,
            )
            for number in range(part, ROWS, 2)
        ]
        upsert(store, "visits", rows)
    return "visits"


@pytest.mark.parametrize(
    "where",
    [
        "shop = 3",
        "SHOP IN (3, 4) AND `at` >= TIMESTAMP '1970-01-05 00:00:00'",
        "shop = 3 AND at = '1970-01-02 09:00:00'",
        "(shop = 1 AND at < '1970-01-03') OR (shop = 2 AND at > '1970-01-20')",
        "guest LIKE 'guest 1%' AND paid > 100",
        "guest IS NULL OR shop > 8",
        "NOT (guest = 'guest 1')",
        "shop = 3.5",
    ],
)
def test_a_read_has_the_rows_that_spark_would_keep(
    spark: SparkSession, store: Store, visits: str, where: str
) -> None:
    """Conditions on the key, on other columns and on both; with all columns or one other."""
    expected = load(spark, store, visits).where(where)

    read = load(spark, store, visits, where=where)
    assert read.schema == expected.schema
    assert sorted(map(repr, read.collect())) == sorted(map(repr, expected.collect()))
    paid = load(spark, store, visits, where=where, columns="paid", numPartitions=3)
    assert sorted(map(repr, paid.collect())) == sorted(map(repr, expected.select("paid").collect()))


def test_only_partitions_that_can_match_are_read(
    spark: SparkSession, store: Store, visits: str
) -> None:
    """One shop is in one vnode; a condition that no row meets has one task without rows."""
    shop = load(spark, store, visits, where="shop = 3", numPartitions=8)
    none = load(spark, store, visits, where="shop > 3000000000", numPartitions=8)
    free = load(spark, store, visits, where="paid > 3", numPartitions=8)

    assert shop.rdd.getNumPartitions() == 1
    assert shop.count() == ROWS // 10
    assert none.rdd.getNumPartitions() == 1
    assert none.count() == 0
    assert free.rdd.getNumPartitions() == 8


def test_one_table_read_twice_keeps_its_conditions_apart(
    spark: SparkSession, store: Store, visits: str
) -> None:
    """Each relation has its own condition; a union of two has the rows of both."""
    two = [load(spark, store, visits, where=f"shop = {shop}") for shop in (1, 2)]

    assert {row.shop for row in two[0].union(two[1]).select("shop").collect()} == {1, 2}
    assert two[0].join(two[1], "guest").where("guest = 'x'").count() == 0


def test_local_times_are_those_of_the_option_time_zone(
    spark: SparkSession, store: Store, visits: str
) -> None:
    """A reader does not see the session; without the option the zone is UTC."""
    where = "at = '1970-01-02 10:00:00'"
    rome = load(spark, store, visits, where=where, timeZone="Europe/Rome")

    assert [row.shop for row in load(spark, store, visits, where=where).collect()] == [4]
    assert [row.shop for row in rome.collect()] == [3]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"where": "shop ="}, "UnsupportedExpressionError: cannot read 'shop ='"),
        ({"where": "rand() < 0.5"}, "UnsupportedExpressionError: .*not deterministic"),
        ({"where": "shop IN (SELECT 1)"}, "UnsupportedExpressionError: .*a subquery"),
        ({"where": "shop = 'x'"}, "UnsupportedExpressionError: .*write a whole number"),
        ({"where": "shop = TRUE"}, "UnsupportedExpressionError: .*constant of type BOOLEAN"),
        ({"where": "x = 1"}, "SchemaMismatchError: .*there is no column 'x'"),
        ({"where": "shop = 1", "timeZone": "Mars/Base"}, "OptionError: .*'Mars/Base'"),
        ({"timeZone": "UTC"}, "OptionError: option 'timeZone'"),
    ],
)
def test_a_bad_condition_fails_when_it_is_loaded(
    store: Store, visits: str, options: dict[str, Any], reason: str
) -> None:
    """It fails on the driver, before a task runs; the error has the part that is wrong."""
    with refusal(reason):
        plan_read(store, visits, **options)


def test_a_bound_condition_and_where_both_hold(
    spark: SparkSession, store: Store, visits: str
) -> None:
    """A read with the JSON condition of `db.sql` and a user's ``where`` evaluates both."""
    schema = store.read_plan(visits).definition.schema
    bound = Predicate.parse("shop IN (3, 4)", schema).json

    shops = load(spark, store, visits, boundCondition=bound).select("shop").distinct().collect()
    assert {row.shop for row in shops} == {3, 4}
    both = load(spark, store, visits, boundCondition=bound, where="shop < 4")
    assert {row.shop for row in both.select("shop").distinct().collect()} == {3}


def test_a_bound_condition_that_is_not_the_table_s_is_refused(store: Store, visits: str) -> None:
    """It is refused before a task runs; the error says what to use instead."""
    with refusal(r"OptionError: the bound condition .*'where'"):
        plan_read(store, visits, boundCondition='{"kind":"truth"}')
