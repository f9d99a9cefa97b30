"""The laws of the figures of a store and of its metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from relstate.connector.figures.metrics import metric_text, metric_values, store_metrics
from relstate.connector.figures.store import store_page
from relstate.connector.figures.tables import table_page, vnodes_of
from relstate.storage import Store
from support.commands import run
from support.views import new_view, progressed, refresh


def test_a_page_has_every_table(store: Store) -> None:
    """Tables, views, what is stored; what vacuum and compaction would do is what they do."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    for number in range(5):
        store.write("t", pa.table({"k": [1, 2], "n": [number, number]}))
    store.view_catalog.create(new_view(store, "v", "t"))
    refresh(store, progressed(store, "v"))

    page = store_page(store, store.state)

    assert page.problems == ()
    assert [size.name for size in page.tables] == ["t"]
    assert [view.name for view in page.views] == ["v"]
    assert page.commits[0].operation == "refresh"
    assert page.compaction is not None
    assert page.compaction.files_read == store.compact().files_read
    assert page.vacuum == store.vacuum(dry_run=True)
    assert page.disk is not None
    assert page.disk.live_files == 5


def test_a_damaged_history_hides_nothing_else(store: Store) -> None:
    """An archive that cannot be read is a problem of the parts that need it."""
    store.create_table("t", "k BIGINT", primary_key=["k"])
    for number in range(100):
        store.write("t", pa.table({"k": [number]}))
    file = next(Path(store.path, "_archive").glob("*-*.json"))
    content = file.read_bytes()
    file.write_bytes(b"{}\n")
    try:
        with Store.open(store.path) as reopened:
            page = store_page(reopened, reopened.state)
    finally:
        file.write_bytes(content)

    assert page.epoch == store.epoch
    assert [size.rows for size in page.tables] == [100]


def test_a_table_has_its_own_commits(store: Store) -> None:
    """Only those that touched it, the newest first; reading its vnodes counts its rows."""
    for name in ("t", "u"):
        store.create_table(name, "k BIGINT", primary_key=["k"])
        store.write(name, pa.table({"k": [1, 2, 3]}))

    page = table_page(store, store.state, "T")

    assert [commit.operation for commit in page.commits] == ["write", "create table"]
    vnodes = vnodes_of(store, store.state, "t")
    assert vnodes is not None
    assert sum(vnodes.rows) == 3


def test_metrics_are_text_that_prometheus_reads(store: Store) -> None:
    """Each sample is one line of a metric that has a help and a type; labels are quoted."""
    store.create_table("t", "k BIGINT", primary_key=["k"])
    store.write("t", pa.table({"k": [1, 2]}))
    store.view_catalog.create(new_view(store, "v", "t"))
    refresh(store, progressed(store, "v"))
    store.write("t", pa.table({"k": [3]}))

    metrics = store_metrics(store)
    values, lines = metric_values(metrics), metric_text(metrics).splitlines()

    assert values["relstate_epoch"] == store.epoch
    assert values['relstate_table_rows{table="t",kind="table"}'] == 3
    assert values['relstate_view_lag_rows{view="v"}'] == 1
    assert values['relstate_view_behind{view="v"}'] == 1
    sample = re.compile(r'[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? -?[0-9.e+-]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {re.split("[{ ]", line)[0] for line in lines if line[0] != "#"} <= named
    assert len(named) == len(metrics)


def test_the_command_shows_metrics(store: Store) -> None:
    """As text, and as one JSON object of the same values; --listen checks its address."""
    shown, lines = run("metrics", store.path), run("metrics", store.path, "--json").lines

    assert "relstate_epoch 1\n" in shown.output
    assert lines[0]["relstate_epoch"] == 1
    assert "must be a port" in run("metrics", store.path, "--listen", "x").errors
