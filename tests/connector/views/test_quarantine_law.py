"""Views with a quarantine equal their SELECT over the rows that are not in it, whatever happens."""

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
from relstate.connector.sql import Database
from relstate.storage import Store
from support.local import IN_DRIVER, IN_EITHER, IN_JOB, local_rows
from support.quarantined_views import (
    TABLE,
    Row,
    check_quarantines,
    create_views,
    random_row,
    write_rows,
)
from support.stores import unsynced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).resolve().parents[2]
KEYS = 60
STEPS = 5
KILLS = 2


class Life:
    """A table whose rows are inserted, mended, spoilt and deleted at random."""

    def __init__(self, store: Store, seed: int, bad_rows: float) -> None:
        self.store = store
        self.random = Random(seed)
        self.rows: dict[int, Row] = {}
        self._bad_rows = bad_rows

    def change(self, count: int) -> None:
        """Commit changes of some rows."""
        keys = [self.random.randrange(KEYS) for _ in range(count)]
        gone = {key for key in keys if key in self.rows and self.random.random() < 0.3}
        written = {
            key: random_row(self.random, key, self._bad_rows) for key in keys if key not in gone
        }
        self.rows |= written
        write_rows(self.store, list(written.values()))
        if gone:
            self.store.delete("t", [{"k": key} for key in gone])
        self.rows = {key: row for key, row in self.rows.items() if key not in gone}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with an empty table."""
    path = str(tmp_path / "store")
    store = Store.create(path, vnode_count=8, shards=2, environment=unsynced(path))
    store.create_table("t", TABLE, primary_key=["k"])
    return store


@pytest.mark.law
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "place"),
    list(enumerate([IN_DRIVER, IN_EITHER, IN_JOB])),
    ids=["driver", "either", "job"],
)
def test_views_are_their_selects_over_good_rows(
    store: Store, spark: SparkSession, seed: int, place: int
) -> None:
    """Ten views through inserts, mending, deletes and restarts; then they are filled again."""
    life = Life(store, seed, 0.2)
    db = Database(spark, store)
    life.change(20)
    with local_rows(place):
        create_views(db)
        check_quarantines(store, life.rows)
        for _ in range(STEPS):
            life.change(life.random.randint(1, 20))
            if life.random.random() < 0.3:
                db = Database(spark, store)
            db.refresh()
            check_quarantines(store, life.rows)
    assert [report.problems for report in db.check_views() if not report.ok] == []
    assert store.check().problems == ()
    store.close()


@pytest.mark.timeout(900)  # sessions of Spark, each in a process of its own
def test_a_killed_driver_separates_no_rows_from_their_quarantine(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is killed while it refreshes; the next one continues with what it left."""
    path = str(tmp_path / "store")
    with relstate.create(path) as store:
        store.create_table("t", TABLE, primary_key=["k"])
        db = relstate.connect(spark, path)
        create_views(db)
        life = Life(store, 3, 0.2)
        for _ in range(KILLS):
            process = started(path)
            end = time.monotonic() + life.random.uniform(1, 4)
            while time.monotonic() < end:
                life.change(10)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        db.refresh()
        check_quarantines(store, life.rows)
        assert [report.problems for report in db.check_views() if not report.ok] == []
        assert store.check().problems == ()


def started(path: str) -> subprocess.Popen[str]:
    """Start a driver that refreshes the views of a store, in a process group of its own."""
    search = os.pathsep.join([str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    process = subprocess.Popen(
        [sys.executable, "-m", "support.quarantined_views", path],
        env={**os.environ, "PYTHONPATH": search.strip(os.pathsep)},
        cwd=str(Path(path).parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "alive\n", process.communicate()
    return process
