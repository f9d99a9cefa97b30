"""A leaderboard: Redis clients change scores, a view joins them with a table, Spark reads the view.

    pip install ".[redis,examples]"
    python examples/leaderboard.py

`relstate redis` runs beside Spark, on a store of its own in a temporary folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from pyspark.sql import SparkSession

import relstate
from relstate import Database

_PROGRAM = "import sys; from relstate.connector.cli import main; sys.exit(main())"
_VIEW = """
CREATE MATERIALIZED VIEW leaderboard AS
SELECT players.name, players.country, board.score
FROM (
  SELECT CAST(member AS STRING) AS id, score
  FROM redis_0 LATERAL VIEW explode(scores) AS member, score
  WHERE CAST(key AS STRING) = 'board'
) board JOIN players ON players.id = board.id
"""


@contextmanager
def server(path: str) -> Iterator[int]:
    """Serve a store while the block runs; give the port."""
    command = [sys.executable, "-c", _PROGRAM, "redis", path, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.search(r":(\d+)/", line)
        if address is None:
            raise SystemExit(line)
        try:
            yield int(address[1])
        finally:
            process.terminate()


def show(db: Database) -> None:
    """Refresh the view, and print what Spark reads of it."""
    db.refresh()
    rows = db.sql("SELECT * FROM leaderboard ORDER BY score DESC").collect()
    print("  ".join(f"{row.name} ({row.country}) {row.score:g}" for row in rows))


def main() -> None:
    """Change scores twice, and show the view after each time."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("relstate: leaderboard")
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store"
        store = relstate.create(path)
        store.create_table("players", "id STRING, name STRING, country STRING", primary_key=["id"])
        players = [("ann", "Ann", "AT"), ("bob", "Bob", "DE"), ("eve", "Eve", "FR")]
        names = ("id", "name", "country")
        store.write("players", [dict(zip(names, player, strict=True)) for player in players])
        with server(path) as port, redis.Redis(port=port) as client:
            client.zadd("board", {"ann": 30, "bob": 20})
            spark = builder.config(map=dict(settings)).getOrCreate()
            db = Database(spark, store)
            db.sql(_VIEW)
            show(db)
            client.zincrby("board", 15, "bob")
            client.zadd("board", {"eve": 32})
            client.zrem("board", "ann")
            show(db)
            spark.stop()


if __name__ == "__main__":
    main()
