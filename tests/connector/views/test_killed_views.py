"""A driver process that maintains views is killed at any moment and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import query_at
from relstate.connector.views.lineage import view_ids
from relstate.storage import Store
from support.multisets import difference, rows_of_table
from support.unlucky_views import EARLY_VIEWS, ROWS, VIEWS, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).resolve().parents[2]
# Each life refreshes the views there are and creates one; it is killed at most so many seconds
# after it is alive.
LIVES = 3
LASTS = 4.0


@pytest.mark.timeout(900)  # four sessions of Spark, each in a process of its own
def test_views_are_right_however_often_their_driver_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is killed while views are created, populated, refreshed and streamed, and tasks fail.

    The next life continues with what it left; finally every view and its state are right.
    """
    path = str(tmp_path / "store")
    store = relstate.create(path)
    store.create_table("t", "k BIGINT, g STRING, v BIGINT, ts TIMESTAMP", primary_key=["k"])
    for name, query in EARLY_VIEWS.items():
        relstate.connect(spark, path).sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    store.write("t", rows_of(list(range(ROWS)), list(range(ROWS))))
    random = Random(7)

    for life in range(LIVES):
        killed_after(random.uniform(0.5, LASTS), path, life)
    ended = life_of(path, LIVES, "end")
    _, problems = ended.communicate()

    assert ended.returncode == 0, problems[-4000:]
    check(spark, store)
    store.close()


def killed_after(seconds: float, path: str, life: int) -> None:
    """Start a life, and kill all its processes some seconds after it is alive."""
    process = life_of(path, life)
    assert process.stdout is not None
    assert process.stdout.readline() == "alive\n", process.communicate()
    time.sleep(seconds)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def life_of(path: str, life: int, *words: str) -> subprocess.Popen[str]:
    """Start the driver program in a process group of its own."""
    command = [sys.executable, "-m", "support.unlucky_views", path, str(life), *words]
    search = os.pathsep.join([str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": search.strip(os.pathsep)},
        cwd=str(Path(path).parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def check(spark: SparkSession, store: Store) -> None:
    """Check all views against their SELECTs at their times, their state, and the store."""
    db = relstate.connect(spark, store.path)
    queries = EARLY_VIEWS | {f"view{number}": query for number, query in enumerate(VIEWS)}
    assert set(store.state.view_names()) == set(queries)
    db.refresh()
    for name, query in queries.items():
        (view_id,) = view_ids(store.state, [name])
        clock = store.state.views[view_id].progress.clock
        text = query_at(ParsedQuery.parse(query), clock.time).text if clock else query
        expected = db.sql(text).toArrow()
        rows = store.table(name).to_arrow().select(expected.column_names)
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], []), query
    assert [report for report in db.check_views() if not report.ok] == []
    assert store.check().problems == ()
