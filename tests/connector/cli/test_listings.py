"""The laws of ``views``, ``quarantine`` and ``history``, and of ``check`` on views."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import relstate
from relstate.connector.sql import Database, check_views
from relstate.connector.sql.check_views import ViewReport
from relstate.storage import Store
from support.commands import run
from support.views import new_view, progressed, quarantined_rows, refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def viewed(store: Store) -> Store:
    """A table of two rows, a view over it that is being populated, and a view over both."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    store.write("t", pa.table({"k": [1, 2], "n": [10, 20]}))
    store.view_catalog.create(new_view(store, "v", "t"))
    refresh(store, progressed(store, "v", backfill={"place": 1}))
    store.view_catalog.create(new_view(store, "w", "t", "v"))
    return store


def test_views_are_listed(viewed: Store) -> None:
    """Each view has its inputs, its state tables, its epoch, and whether it is up to date."""
    reflects = viewed.view("v").progress.reflects
    filling = run("views", viewed.path, "--json").document
    assert [(view["name"], view["is_populated"], view["is_behind"]) for view in filling] == [
        ("v", False, True),
        ("w", False, True),
    ]
    assert filling[0] == {
        "name": "v",
        "reflects": reflects,
        "is_populated": False,
        "is_behind": True,
        "backfill": None,
        "lag": {"epochs": 0, "rows": 0, "seconds": 0.0, "is_bounded": False},
        "parallelism": 2,
        "inputs": ["t"],
        "rows": 0,
        "stored_bytes": 0,
        "state_tables": 2,
        "state_rows": 0,
        "state_bytes": 0,
        "query": "SELECT k FROM t",
        "last_refresh": None,
        "failure": None,
        "quarantined": 0,
        "rows_estimated": True,
    }
    assert filling[1]["inputs"] == ["t", "v"]
    assert run("views", viewed.path).output.count("being populated") == 2

    refresh(viewed, progressed(viewed, "v"))
    assert "up to date" in run("views", viewed.path).output
    assert not run("views", viewed.path, "--json").document[0]["is_behind"]
    viewed.write("t", pa.table({"k": [3], "n": [30]}))
    assert "behind" in run("views", viewed.path).output
    behind = run("views", viewed.path, "--json").document[0]
    assert behind["is_behind"]
    assert (behind["lag"]["epochs"], behind["lag"]["rows"]) == (1, 1)
    assert 0 <= behind["lag"]["seconds"] < 300


def test_a_view_is_behind_with_those_that_it_reads(viewed: Store) -> None:
    """A view over a view that cannot be refreshed is behind, though it has no changes to apply."""
    refresh(viewed, progressed(viewed, "v"), progressed(viewed, "w"))
    viewed.view_catalog.create(new_view(viewed, "x", "w"))
    refresh(viewed, progressed(viewed, "x"))
    viewed.create_table("u", "k BIGINT", primary_key=["k"])
    viewed.view_catalog.create(new_view(viewed, "y", "u"))
    refresh(viewed, progressed(viewed, "y"))
    views = run("views", viewed.path, "--json").document
    assert [view["is_behind"] for view in views] == [False] * 4

    viewed.write("t", pa.table({"k": [3], "n": [30]}))

    views = run("views", viewed.path, "--json").document
    assert {view["name"]: view["is_behind"] for view in views} == {
        "v": True,
        "w": True,
        "x": True,
        "y": False,
    }


def test_no_views_are_none(store: Store) -> None:
    """A store without views has an empty list."""
    assert run("views", store.path, "--json").document == []


def test_views_are_checked(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A problem of a view makes the exit code 1; a session that was there before is not stopped."""
    db: Database = relstate.connect(spark, store.path)
    db.sql("CREATE TABLE t (k BIGINT, n BIGINT, PRIMARY KEY (k))")
    db.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(n) AS s FROM t")

    assert "views" not in run("check", store.path, "--json").document
    right = run("check", store.path, "--views", "--json")
    assert right.code == 0
    assert right.document["store"]["problems"] == []
    (report,) = right.document["views"]
    assert (report["view"], report["problems"]) == ("v", [])

    db.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS c FROM v")
    named = run("check", store.path, "w", "--views", "--json").document["views"]
    assert [(report["view"], report["problems"]) for report in named] == [("w", [])]
    assert "--views" in run("check", store.path, "w").errors
    assert run("check", store.path, "w").code == 2
    assert "ViewNotFoundError" in run("check", store.path, "t", "--views").errors

    wrong = ViewReport("v", 1, ("v: 1 rows are not right",))
    monkeypatch.setattr(check_views, "check_views", lambda *_: (wrong,))
    result = run("check", store.path, "--views")
    assert result.code == 1
    assert "1 rows are not right" in result.output
    assert spark.range(2).count() == 2


def test_the_newest_epoch_comes_first(shop: Store) -> None:
    """Every epoch is listed once, with its operation, its tables and its time."""
    lines = run("history", shop.path, "--json").lines

    assert [(line["epoch"], line["operation"], line["tables"]) for line in lines] == [
        (6, "drop table", ["gone"]),
        (5, "create table", ["gone"]),
        (4, "write", ["orders"]),
        (3, "write", ["orders"]),
        (2, "create table", ["orders"]),
        (1, "create store", []),
    ]
    assert [line["data_change"] for line in lines] == [True] * 5 + [False]
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times, reverse=True)
    assert times[0].tzinfo is not None


def test_an_epoch_tells_what_it_wrote(shop: Store) -> None:
    """A line has the segments added and removed, their entries, and the deletes among them."""
    lines = {line["epoch"]: line for line in run("history", shop.path, "--json").lines}
    names = ("segments_added", "segments_removed", "rows", "deletes")

    assert [lines[3][name] for name in names] == [1, 0, 3, 0]
    assert [lines[4][name] for name in names] == [1, 0, 1, 1]
    assert [lines[6][name] for name in names] == [0, 0, 0, 0]


def test_the_limit_is_kept(shop: Store) -> None:
    """``--limit N`` lists the newest N epochs."""
    assert [
        line["epoch"] for line in run("history", shop.path, "--json", "--limit", "2").lines
    ] == [
        6,
        5,
    ]
    assert run("history", shop.path, "--json", "--limit", "0").output == ""


def test_a_truncated_table_is_touched(shop: Store) -> None:
    """A truncation adds no segment, and its table is listed all the same."""
    shop.truncate("orders")

    (newest,) = run("history", shop.path, "--json", "--limit", "1").lines

    assert (newest["operation"], newest["tables"]) == ("truncate", ["orders"])


def test_history_is_shown(shop: Store) -> None:
    """The table has one line per epoch."""
    result = run("history", shop.path)

    assert result.code == 0
    assert "create store (maintenance)" in result.output
    assert "+1 -0" in result.output


def test_rows_in_quarantine_are_listed(store: Store) -> None:
    """By table and rule; of one table each row with its reason, as many as are asked for."""
    for name in ("t", "u", "v"):
        store.create_table(name, "k BIGINT", primary_key=["k"])
    assert run("quarantine", store.path, "--json").document == []
    store.jobs.quarantine_target("t")
    for number, rule in enumerate(["k", "small", "k"]):
        quarantined = {
            "id": f"w/{number}",
            "row_json": '{"k": null}',
            "rule": rule,
            "reason": f"because {number}",
            "written_at": datetime(2026, 1, 1 + number, tzinfo=UTC),
        }
        store.write("t__quarantine", [quarantined])

    listed = run("quarantine", store.path, "--json").document
    assert [(item["table"], item["rule"], item["rows"]) for item in listed] == [
        ("t", "k", 2),
        ("t", "small", 1),
    ]
    assert listed[0]["oldest"] == "2026-01-01T00:00:00+00:00"
    assert listed[0]["newest"] == "2026-01-03T00:00:00+00:00"
    assert "small" in run("quarantine", store.path).output
    rows = run("quarantine", store.path, "T", "--json", "--limit", "2").lines
    assert [row["reason"] for row in rows] == ["because 0", "because 1"]
    assert "because 2" in run("quarantine", store.path, "t").output
    assert "the table 'u' has no quarantine" in run("quarantine", store.path, "u").errors
    metrics = run("metrics", store.path).output
    assert 'relstate_quarantine_rows{table="t"} 3' in metrics
    assert 'relstate_quarantine_rows{table="u"}' not in metrics


def test_rows_that_views_leave_out_are_listed(viewed: Store) -> None:
    """By view and table, after those of tables; of one view each row with its key and its error."""
    viewed.view_catalog.create(new_view(viewed, "x", "t", has_quarantine=True))
    assert run("quarantine", viewed.path, "--json").document == []
    epoch = viewed.epoch
    segments = quarantined_rows(viewed, "x", "t", [1, 2], "'1 / n' fails")
    refresh(viewed, progressed(viewed, "x"), segments=segments)

    listed = run("quarantine", viewed.path, "--json").document
    epochs = {"oldest_epoch": epoch, "newest_epoch": epoch}
    assert listed == [{"view": "x", "table": "t", "rows": 2} | epochs]
    shown = run("quarantine", viewed.path).output
    assert "newest epoch" in shown
    assert "rule" not in shown
    row = {"table": "t", "key": '{"k": 1}', "error": "'1 / n' fails", "epoch": epoch}
    assert run("quarantine", viewed.path, "x", "--json", "--limit", "1").lines == [row]
    assert "'on_error' = 'quarantine'" in run("quarantine", viewed.path, "w").errors

    viewed.jobs.quarantine_target("t")
    values = {
        "row_json": "{}",
        "rule": "k",
        "reason": "x",
        "written_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    viewed.write("t__quarantine", [{"id": "1"} | values])
    both = run("quarantine", viewed.path, "--json").document
    assert ["view" in item for item in both] == [False, True]
    assert len(run("quarantine", viewed.path, "--json", "--limit", "1").document) == 1
    assert "rule" in run("quarantine", viewed.path).output
