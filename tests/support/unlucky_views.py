"""A driver program that keeps views, in which tasks fail and which is to be killed at any moment.

    python -m support.unlucky_views STORE LIFE [end]

A *life* begins with the views that earlier ones left behind, however far they were: it refreshes
them (the first life those that were created over the empty table) and creates one more, part by
part, while a thread of its own writes to their table and a stream keeps them up, until it is
killed. With ``end`` it creates all there are to be, takes in what there is and ends by itself.
Of the first attempts of tasks one in four fails when all is written; every other life refreshes in
its own process, without tasks.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from unittest.mock import patch

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import relstate
from relstate.connector.views import backfill, frame, local_run
from relstate.connector.views.task import FragmentTask
from relstate.storage import Store

VIEWS = (
    "SELECT g, count(*) AS c, sum(v) AS s, max(v) AS m FROM t GROUP BY g",
    "SELECT a.k, b.k AS next, b.v FROM t AS a LEFT JOIN t AS b ON a.k + 1 = b.k AND a.v < b.v",
    "SELECT g, k, v FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY v DESC, k) <= 3",
    "SELECT c, count(*) AS n FROM view0 GROUP BY c",
)
# They are created before there are rows: the first life refreshes all of them at once.
EARLY_VIEWS = {
    "windows": "SELECT k, lag(v) OVER w AS l, sum(v) OVER w AS s FROM t "
    "WINDOW w AS (PARTITION BY g ORDER BY v, k)",
    "medians": "SELECT g, median(v) AS m, count(DISTINCT v % 10) AS d FROM t GROUP BY g",
    "pairs": "SELECT a.k, b.k AS band FROM t AS a "
    "LEFT JOIN (SELECT k, v FROM t WHERE k % 100 = 0) AS b ON a.v BETWEEN b.v AND b.v + 20",
    "recent": "SELECT k, ts FROM t WHERE ts <= now() AND ts > now() - INTERVAL 1 MINUTE",
    "elements": "SELECT e, count(*) AS n FROM t LATERAL VIEW explode(array(v % 9, k % 9)) AS e "
    "GROUP BY ROLLUP (e)",
}
ROWS = 2_000


def rows_of(keys: list[int], values: list[int]) -> pa.Table:
    """Return rows of the table, whose times are in the two minutes around the present."""
    now = datetime.now(UTC)
    times = [now + timedelta(milliseconds=60 * (k - ROWS // 2)) for k in keys]
    groups = [f"g{v % 7}" for v in values]
    return pa.table({"k": keys, "g": groups, "v": values, "ts": times})


class UnluckyTask(FragmentTask):
    """A task of a fragment whose first attempt may fail at the very end."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do what the task does, then fail or not."""
        yield from super().__call__(batches)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and Random(context.taskAttemptId()).random() < 0.25:
            raise RuntimeError("an accident")


@dataclass
class Writer:
    """A thread that changes the table."""

    store: Store
    life: int
    stopping: threading.Event

    def run(self) -> None:
        """Upsert and delete rows until asked to stop."""
        random = Random(self.life)
        while not self.stopping.wait(0.05):
            keys = random.sample(range(ROWS), 30)
            values = [random.randrange(1000) for _ in keys[:20]]
            self.store.write("t", rows_of(keys[:20], values))
            self.store.delete("t", pa.table({"k": keys[20:]}))


def session() -> SparkSession:
    """Return a session whose tasks are tried three times."""
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2,3]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main(path: str, life: int, is_last: bool) -> None:
    """Live until killed, or to the end."""
    patch.object(frame, "FragmentTask", UnluckyTask).start()
    patch.object(backfill, "PART_ROWS", ROWS // 8).start()
    if life % 2 == 0:
        local_run.LOCAL_ROWS = -1
    db = relstate.connect(session(), path)
    stopping = threading.Event()
    writer = threading.Thread(target=Writer(Store.open(path), life, stopping).run, daemon=True)
    writer.start()
    sys.stdout.write("alive\n")
    sys.stdout.flush()
    db.refresh()
    for number in range(len(VIEWS) if is_last else life + 1):
        db.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS view{number} AS {VIEWS[number]}")
    stream = db.stream()
    if is_last:
        stopping.set()
        writer.join()
        stream.processAllAvailable()
        stream.stop()
    else:
        stream.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:] == ["end"])
