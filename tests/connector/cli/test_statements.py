"""The laws of ``sql``."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from relstate.storage import Store
from support.commands import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_statement_is_run(spark: SparkSession, shop: Store) -> None:
    """A query shows its rows, a change its epoch; both see and make what every door does."""
    insert = "INSERT INTO orders VALUES (9, 'c', 1.5, NULL)"
    changed = run("sql", shop.path, insert, "--json")
    assert changed.code == 0, changed.errors
    assert changed.lines[0]["epoch"] == shop.epoch
    row = shop.table("orders").get(9)
    assert row is not None

    query = "SELECT id, amount, timestamp'2026-01-31 12:00:00Z' AS at FROM orders ORDER BY 1"
    shown = run("sql", shop.path, query, "--json")
    assert [line["id"] for line in shown.lines] == [1, 3, 9]
    assert shown.lines[2]["amount"] == "1.50"
    assert shown.lines[0]["at"] == "2026-01-31T12:00:00.000000Z"
    assert len(run("sql", shop.path, query, "--json", "--limit", "2").lines) == 2
    assert "amount" in run("sql", shop.path, query).output

    wrong = run("sql", shop.path, "SELECT nothing FROM nowhere")
    assert (wrong.code, wrong.output) == (2, "")
    assert wrong.errors.splitlines()[-1].startswith("relstate: ")
    assert spark.range(1).count() == 1


def test_without_java_it_says_what_to_install(shop: Store) -> None:
    """In place of what the script of Spark prints."""
    code = "import sys; from relstate.connector.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "sql", shop.path, "SELECT 1"],
        env={**os.environ, "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert "Spark needs Java, and there is no '/nowhere/bin/java'" in last
    assert "openjdk-17" in last
    assert "Traceback" not in done.stderr
