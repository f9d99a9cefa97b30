from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import flights_changes
import flights_truth
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from flights_changes import KEY, START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def source(
    spark: SparkSession, year: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """The flights of the year's first days, as Spark reads them."""
    file: Path = tmp_path_factory.mktemp("source") / "flights.parquet"
    pq.write_table(year.slice(0, 10_000), file)
    return spark.read.parquet(str(file))


@pytest.fixture(scope="module")
def changes(year: pa.Table) -> pa.Table:
    """The changes of the same flights."""
    return flights_changes.changes(year.slice(0, 10_000))


@pytest.mark.parametrize("days", [0, 3, 8.4, 12, 60])
def test_the_truth_is_what_the_changes_come_to(
    source: DataFrame, changes: pa.Table, days: float
) -> None:
    """At any moment, SQL over the source and the changes until then say the same."""
    until = START + timedelta(days=days)
    columns = [*KEY, *flights_changes.SCHEDULE, *flights_changes.DEPARTURE]
    columns += [*flights_changes.LANDING, "status", "updated_at"]
    folded = _folded(changes, until).select(columns)

    truth = flights_truth.flights(source, until).toArrow().select(columns)
    order = [(name, "ascending") for name in KEY]
    assert truth.sort_by(order).to_pylist() == folded.sort_by(order).to_pylist()


def test_equal_relations_have_no_difference(spark: SparkSession) -> None:
    """Order does not matter; nulls and NaN equal themselves; a row may be there twice."""
    rows = [(1, None, 1.0), (2, "b", float("nan")), (2, "b", float("nan"))]
    ours = spark.createDataFrame(rows, "id INT, name STRING, amount DOUBLE")
    theirs = spark.createDataFrame(rows[::-1], "id INT, name STRING, amount DOUBLE")

    assert flights_truth.compare(ours, theirs) == flights_truth.Comparison(3, 3, 0)
    assert flights_truth.compare(ours.limit(0), theirs.limit(0)).equal


@pytest.mark.parametrize(
    ("rows", "differences"),
    [
        ([(1, "a"), (2, "b"), (3, "c")], 1),  # a row too many
        ([(1, "a")], 1),  # one too few
        ([(1, "a"), (2, "b"), (2, "b")], 1),  # one twice
        ([(1, "a"), (2, "x")], 2),  # one value: a row too many and one too few
        ([(1, "a"), (2, None)], 2),
    ],
)
def test_every_difference_is_found(
    spark: SparkSession, rows: list[tuple[int, str | None]], differences: int
) -> None:
    """A row too many, too few, twice, or with another value is a difference."""
    expected = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING")
    found = flights_truth.compare(spark.createDataFrame(rows, "id INT, name STRING"), expected)

    assert found == flights_truth.Comparison(len(rows), 2, differences)
    assert not found.equal


def _folded(changes: pa.Table, until: datetime) -> pa.Table:
    """Return the last row of each key before ``until``, unless it was deleted."""
    past = changes.filter(pc.less(changes["updated_at"], until))
    numbered = past.append_column("place", pa.array(range(past.num_rows), pa.int64()))
    last = numbered.group_by(list(KEY)).aggregate([("place", "max")])
    rows = numbered.take(last["place_max"])
    return rows.filter(pc.not_equal(rows["op"], "delete"))
