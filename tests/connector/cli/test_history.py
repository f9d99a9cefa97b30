"""The laws of ``history``."""

from __future__ import annotations

from datetime import datetime

from relstate.storage import Store
from support.commands import run


def test_the_newest_epoch_comes_first(shop: Store) -> None:
    """Every epoch is there once, with what it did, to which tables, and when."""
    found = run("history", shop.path, "--json").lines

    assert [(line["epoch"], line["operation"], line["tables"]) for line in found] == [
        (6, "drop table", ["gone"]),
        (5, "create table", ["gone"]),
        (4, "write", ["orders"]),
        (3, "write", ["orders"]),
        (2, "create table", ["orders"]),
        (1, "create store", []),
    ]
    assert [line["data_change"] for line in found] == [True] * 5 + [False]
    times = [datetime.fromisoformat(line["time"]) for line in found]
    assert times == sorted(times, reverse=True)
    assert times[0].tzinfo is not None


def test_an_epoch_tells_what_it_wrote(shop: Store) -> None:
    """Segments added and removed, and the entries in them, deletes among them."""
    found = {line["epoch"]: line for line in run("history", shop.path, "--json").lines}
    names = ("segments_added", "segments_removed", "rows", "deletes")

    assert [found[3][name] for name in names] == [1, 0, 3, 0]
    assert [found[4][name] for name in names] == [1, 0, 1, 1]
    assert [found[6][name] for name in names] == [0, 0, 0, 0]


def test_the_limit_is_kept(shop: Store) -> None:
    """So many of the newest are shown."""
    assert [
        line["epoch"] for line in run("history", shop.path, "--json", "--limit", "2").lines
    ] == [
        6,
        5,
    ]
    assert run("history", shop.path, "--json", "--limit", "0").output == ""


def test_a_truncated_table_is_touched(shop: Store) -> None:
    """A truncation adds no segment, and still names its table."""
    shop.truncate("orders")

    (found,) = run("history", shop.path, "--json", "--limit", "1").lines

    assert (found["operation"], found["tables"]) == ("truncate", ["orders"])


def test_history_is_shown(shop: Store) -> None:
    """The table has a line for each epoch."""
    found = run("history", shop.path)

    assert found.code == 0
    assert "create store (upkeep)" in found.output
    assert "+1 -0" in found.output
