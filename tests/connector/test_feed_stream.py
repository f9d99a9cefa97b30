"""The laws of streams that follow a table's changes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from relstate.connector.spark.capabilities import MICRO_BATCH_LIMITS
from relstate.storage import Proposal, Store
from support.planning import plan_stream_read, refusal
from support.stores import upsert
from support.versions import SPARK, has, needs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Told = tuple[str, int, int, str]


def row(key: int, customer: str) -> tuple[Any, ...]:
    """Return an order."""
    return key, customer, Decimal("1.00"), None


class Follower:
    """A query that records the rows of every micro-batch, under a checkpoint that outlives it."""

    def __init__(self, spark: SparkSession, store: Store, folder: Path) -> None:
        self._spark = spark
        self._store = store
        self._folder = folder
        self._runs = 0

    def stream(self, **options: Any) -> DataFrame:
        """Return the stream of the table of orders."""
        reader = self._spark.readStream.format("relstate").option("table", "orders")
        return reader.options(**{"readChangeFeed": "true", **options}).load(self._store.path)

    def writer(self, **options: Any) -> DataStreamWriter:
        """Return the query, to be started; its micro-batches are folders of JSON files."""
        chosen = self.stream(**options).select("_change_type", "_commit_version", "id", "customer")

        def note(rows: DataFrame, batch: int) -> None:
            rows.write.mode("overwrite").json(str(self._folder / "batches" / str(batch)))

        writer = chosen.writeStream.foreachBatch(note)
        return writer.option("checkpointLocation", str(self._folder / "checkpoint"))

    def run(self, **options: Any) -> StreamingQuery:
        """Run the query until it has processed what is there."""
        query = self.writer(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def batches(self) -> list[list[Told]]:
        """Return the rows of each micro-batch in a fixed order."""
        folder = self._folder / "batches"
        numbers = sorted(int(path.name) for path in folder.iterdir()) if folder.exists() else []
        return [sorted(self._batch(folder / str(number))) for number in numbers]

    def _batch(self, folder: Path) -> Iterator[Told]:
        for file in folder.glob("*.json"):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                yield tuple(row[name] for name in _NAMES)

    def offsets(self) -> list[dict[str, Any]]:
        """Return the ends of the micro-batches."""
        files = self._names("offsets")
        return [json.loads(path.read_text().splitlines()[-1]) for path in files]

    def forget(self, *, offset: bool = False) -> None:
        """Forget that the last micro-batch ended, as after a kill; optionally its offset too."""
        for kind in ("commits", "offsets")[: 1 + offset]:
            last = self._names(kind)[-1]
            last.unlink()
            (last.parent / f".{last.name}.crc").unlink()

    def _names(self, kind: str) -> list[Path]:
        paths = (self._folder / "checkpoint" / kind).iterdir()
        return sorted((path for path in paths if path.name.isdigit()), key=lambda p: int(p.name))


_NAMES = ("_change_type", "_commit_version", "id", "customer")


@pytest.fixture
def changed(store: Store, orders: str) -> str:
    """The table of orders with two rows, of epochs 3 and 4."""
    upsert(store, orders, [row(1, "ann")])
    upsert(store, orders, [row(2, "bob")])
    return orders


@pytest.fixture
def follower(spark: SparkSession, store: Store, changed: str, tmp_path: Path) -> Follower:
    """A follower of the table of orders."""
    return Follower(spark, store, tmp_path)


SNAPSHOT = [("insert", 4, 1, "ann"), ("insert", 4, 2, "bob")]


def test_a_stream_begins_with_the_table_and_goes_on_with_its_changes(
    follower: Follower, store: Store
) -> None:
    """Each change comes once over restarts; epochs of other tables make no micro-batch."""
    follower.run()
    assert follower.batches() == [SNAPSHOT]

    store.create_table("other", "k INT", primary_key=["k"])
    upsert(store, "other", [(1,)])
    follower.run()
    assert follower.batches() == [SNAPSHOT]

    upsert(store, "orders", [row(2, "eve")], [row(1, "")])
    store.truncate("orders")
    follower.run()
    assert follower.batches()[1:] == [
        [
            ("delete", 7, 1, "ann"),
            ("delete", 8, 2, "eve"),
            ("update_postimage", 7, 2, "eve"),
            ("update_preimage", 7, 2, "bob"),
        ]
    ]


@needs(MICRO_BATCH_LIMITS)
def test_a_micro_batch_takes_as_many_epochs_as_it_may(follower: Follower, store: Store) -> None:
    """Only epochs that changed the table count; commits during the run are for the next run."""
    for key in range(3, 8):
        upsert(store, "orders", [row(key, "joe")])
        store.create_table(f"t{key}", "k INT", primary_key=["k"])
    follower.run(startingVersion=3, maxEpochsPerTrigger=3)

    epochs = [sorted({change[1] for change in batch}) for batch in follower.batches()]
    assert epochs == [[3, 4, 5], [7, 9, 11], [13]]
    upsert(store, "orders", [row(9, "zoe")])
    follower.run(startingVersion=3, maxEpochsPerTrigger=3)
    assert follower.batches()[3:] == [[("insert", 15, 9, "zoe")]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": 4}, [("insert", 4, 2, "bob")]),
        ({"startingVersion": 4, "startingBoundInclusive": "false"}, []),
        ({"startingVersion": "latest"}, []),
        ({"startingTimestamp": "2000-01-01"}, [("insert", 3, 1, "ann"), ("insert", 4, 2, "bob")]),
    ],
)
def test_a_start_is_given(
    follower: Follower, store: Store, options: dict[str, Any], expected: list[Told]
) -> None:
    """The start is an epoch or a time; a restart continues where the query was."""
    follower.run(**options)
    assert follower.batches() == [expected]

    upsert(store, "orders", [row(3, "joe")])
    follower.run(**options)
    assert follower.batches() == [expected, [("insert", 5, 3, "joe")]]


@pytest.mark.parametrize("options", [{}, {"startingVersion": 3}, {"startingVersion": "latest"}])
def test_a_micro_batch_that_is_planned_again_is_the_same(
    follower: Follower, store: Store, options: dict[str, Any]
) -> None:
    """Also the first one, for which Spark asks again where the stream begins."""
    follower.run(**options)
    (first,) = follower.batches()
    upsert(store, "orders", [row(1, "zoe")])
    follower.forget()

    follower.run(**options)
    if not has(MICRO_BATCH_LIMITS):
        # A run of one micro-batch: it is the one that is planned again.
        follower.run(**options)

    update = [("update_postimage", 5, 1, "zoe"), ("update_preimage", 5, 1, "ann")]
    assert follower.batches() == [first, update]


def test_a_run_that_was_killed_before_it_was_planned_leaves_no_gap(
    follower: Follower, store: Store
) -> None:
    """Batches after the last known one are planned as if they had never been."""
    follower.run()
    upsert(store, "orders", [row(3, "joe")])
    follower.run()
    upsert(store, "orders", [row(4, "tim")])
    follower.forget(offset=True)
    follower.run()

    assert follower.batches() == [SNAPSHOT, [("insert", 5, 3, "joe"), ("insert", 6, 4, "tim")]]


def test_net_changes_are_those_of_each_micro_batch(follower: Follower, store: Store) -> None:
    """A row that appears and disappears within one micro-batch is not emitted."""
    upsert(store, "orders", [row(5, "tim")])
    upsert(store, "orders", [row(1, "zoe")], [row(5, "")])
    follower.run(startingVersion=3, deduplicationMode="netChanges")

    assert follower.batches() == [[("insert", 4, 2, "bob"), ("insert", 6, 1, "zoe")]]


def test_a_row_that_expires_is_deleted_in_the_next_epoch(follower: Follower, store: Store) -> None:
    """Whatever that epoch commits; the stream goes on from any of them, and ends at the latest."""
    batch = pa.table({"id": [7], "customer": ["sid"]})
    written = store.write("orders", batch, ttls=pa.array([1]))
    follower.run()
    time.sleep(1.1)
    follower.run()
    store.create_table("other", "k INT", primary_key=["k"])
    expired = store.epoch
    follower.run()
    upsert(store, "orders", [row(3, "joe")])
    follower.run()

    names = {1: "ann", 2: "bob", 7: "sid"}
    assert [changes for changes in follower.batches() if changes] == [
        [("insert", written, key, name) for key, name in names.items()],
        [("delete", expired, 7, "sid")],
        [("insert", expired + 1, 3, "joe")],
    ]


def test_offsets_have_one_text(follower: Follower) -> None:
    """Checkpoints depend on its names and their order."""
    follower.run()

    (offset,) = follower.offsets()
    expected = {"table": 1, "began": 4, "snapshot": True, "epoch": 4, "whole": False}
    if not has(MICRO_BATCH_LIMITS):
        expected["unplaced"] = True
    assert json.dumps(offset) == json.dumps(expected)


def expire(store: Store) -> None:
    """Make all but the latest epoch unreadable, as a vacuum after the retention does."""
    store.jobs.commit(
        Proposal(
            operation="vacuum",
            started=store.environment.now(),
            data_change=False,
            oldest_epoch=store.epoch,
        )
    )


def test_an_offset_that_is_no_longer_kept_is_an_error(follower: Follower, store: Store) -> None:
    """The error names the oldest epoch; if nothing changed, an old offset stays valid."""
    follower.run()
    store.create_table("other", "k INT", primary_key=["k"])
    expire(store)
    follower.run()
    upsert(store, "orders", [row(3, "joe")])
    follower.run()
    assert follower.batches() == [SNAPSHOT, [("insert", store.epoch, 3, "joe")]]

    upsert(store, "orders", [row(4, "tim")])
    upsert(store, "orders", [row(5, "kim")])
    expire(store)
    oldest = store.state.oldest_epoch
    with pytest.raises(
        StreamingQueryException, match=f"EpochExpiredError: .*epoch {oldest} is the oldest"
    ):
        follower.run()


def test_a_table_that_is_gone_ends_the_stream(follower: Follower, store: Store) -> None:
    """Also if there is a new table of that name, whose rows are others."""
    follower.run()
    store.drop_table("orders")
    with pytest.raises(PySparkException, match="TableNotFoundError: there is no table 'orders'"):
        follower.run()

    store.create_table("orders", "id BIGINT, customer STRING", primary_key=["id"])
    upsert(store, "orders", [(1, "new")])
    with pytest.raises(StreamingQueryException, match="TableNotFoundError: the table 'orders' was"):
        follower.run()
    assert follower.batches() == [SNAPSHOT]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"readChangeFeed": "false"}, "set option 'readChangeFeed' to 'true'"),
        ({"endingVersion": 4}, "'endingVersion' has no meaning for a streaming read"),
        ({"maxEpochsPerTrigger": 0}, "must be a whole number from 1"),
        ({"columns": "nothing"}, "SchemaMismatchError: 'nothing' is not a column"),
    ],
)
def test_a_stream_that_cannot_work_is_refused(
    store: Store, changed: str, options: dict[str, Any], error: str
) -> None:
    """The error is raised when the stream is defined."""
    with refusal(error):
        plan_stream_read(store, changed, **{"readChangeFeed": "true", **options})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"readChangeFeed": "false"}, "set option 'readChangeFeed' to 'true'"),
        ({"maxEpochsPerTrigger": 0}, "must be a whole number from 1"),
    ],
)
@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}])
def test_a_query_says_why_its_stream_was_refused(
    follower: Follower, options: dict[str, Any], error: str, trigger: dict[str, Any]
) -> None:
    """By our error: Spark's own runner would raise one of its code for any that a plan raises."""

    def run() -> None:
        writer = follower.stream(**options).writeStream.format("noop").trigger(**trigger)
        writer.start().awaitTermination()

    with pytest.raises(PySparkException, match=error) as raised:
        run()
    assert "UnboundLocalError" not in str(raised.value)


@pytest.mark.skipif(has(MICRO_BATCH_LIMITS), reason="Spark takes the limit")
def test_a_limit_that_spark_cannot_keep_is_refused(store: Store, changed: str) -> None:
    """By its name, with the version of Spark that has it."""
    with refusal(f"maxEpochsPerTrigger needs Spark 4.2 or newer, and this is Spark {SPARK}"):
        plan_stream_read(store, changed, readChangeFeed="true", maxEpochsPerTrigger=1)


def test_a_stream_from_an_epoch_that_is_not_there_fails(follower: Follower) -> None:
    """The error is raised when the stream is started."""
    with pytest.raises(PySparkException, match="EpochNotFoundError: there is no epoch 9"):
        follower.run(startingVersion=9)
