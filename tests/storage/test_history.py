"""Laws of concurrency, held against histories that eight processes wrote down while they raced.

- Every commit that returned has an epoch of its own, and every other epoch is maintenance.
- A read of an epoch, whoever made it and whenever, is the fold of all commits up to that epoch.
- A lookup of the latest row found what was there at some epoch between those seen as the latest
  before it and after it.
- What a process sees as the latest epoch never goes backwards, nor below its own last commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from relstate.storage import Location, Store
from relstate.storage.paths import LOG
from support.object_stores import s3_options, s3_server
from support.rivals import TABLE, Commit, History, Lookup, Snapshot, run_rivals

_PROCESSES = 8
# Of each process: as many as fold the log of a folder. A server answers slowly.
_COMMITS = {"folder": 14, "bucket": 4}


@pytest.fixture(scope="module", params=[*_COMMITS])
def raced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Store, list[History]]]:
    """A store that eight processes have committed to at once, and what they saw.

    The processes share the cache of a bucket, as those of one machine do. All stays in pytest's
    temporary folder, as evidence, but for what a server holds.
    """
    folder: Path = tmp_path_factory.mktemp("history")
    with contextlib.ExitStack() as resources:
        path = Location(str(folder / "store"))
        if request.param == "bucket":
            options = s3_options(resources.enter_context(s3_server(folder)), folder / "cache")
            path = Location("s3://shop/raced", options)
        store = resources.enter_context(Store.create(path, vnode_count=5, shards=2))
        store.create_table(TABLE, "k BIGINT, v STRING", primary_key=["k"])
        yield store, run_rivals(path, folder, _PROCESSES, _COMMITS[request.param])


def commits_of_each(store: Store) -> int:
    """Return how often each process has committed."""
    return _COMMITS["bucket" if store.environment.is_remote else "folder"]


def commits_of(histories: list[History]) -> dict[int, Commit]:
    """Return all commits by their epochs."""
    commits = [event for history in histories for event in history.events]
    return {event.epoch: event for event in commits if isinstance(event, Commit)}


def folds_of(store: Store, histories: list[History]) -> dict[int, dict[int, str]]:
    """Return the rows that the table should hold at every epoch."""
    commits, rows = commits_of(histories), dict[int, str]()
    folds: dict[int, dict[int, str]] = {}
    for epoch in range(2, store.epoch + 1):
        if epoch in commits:
            for key, value in commits[epoch].changes:
                rows.pop(key, None)
                if value is not None:
                    rows[key] = value
        folds[epoch] = dict(rows)
    return folds


def test_no_commit_is_lost(raced: tuple[Store, list[History]]) -> None:
    """Each has an epoch of its own, and the other epochs are maintenance."""
    store, histories = raced
    commits = commits_of(histories)

    assert len(commits) == _PROCESSES * commits_of_each(store)
    created = sum(history.created for history in histories)
    assert created == 1
    maintenance = [entry.epoch for entry in store.history() if entry.operation == "compact"]
    assert maintenance
    assert not commits.keys() & set(maintenance)
    # The store, its table, and the one that all wanted to create.
    assert store.epoch == len(commits) + len(maintenance) + 3


def test_every_read_is_the_fold_of_the_log(raced: tuple[Store, list[History]]) -> None:
    """At its epoch, then and now."""
    store, histories = raced
    folds = folds_of(store, histories)
    snapshots = [
        event for history in histories for event in history.events if isinstance(event, Snapshot)
    ]

    assert len(snapshots) == 2 * _PROCESSES * commits_of_each(store)
    for snapshot in snapshots:
        assert dict(snapshot.rows) == folds[snapshot.epoch]
    for epoch in range(2, store.epoch + 1, 7):
        table_rows = store.at(epoch).table(TABLE).to_arrow().to_pylist()
        assert {row["k"]: row["v"] for row in table_rows} == folds[epoch]


def test_a_lookup_finds_what_was_there(raced: tuple[Store, list[History]]) -> None:
    """At some epoch between the two that were the latest before and after it."""
    store, histories = raced
    folds = folds_of(store, histories)
    for history in histories:
        for event in history.events:
            if isinstance(event, Lookup):
                epochs = range(event.before, event.after + 1)
                assert event.value in [folds[epoch].get(event.key) for epoch in epochs]


def test_nobody_sees_time_go_backwards(raced: tuple[Store, list[History]]) -> None:
    """Latest epochs ascend in every process, and none is below its own commits."""
    _, histories = raced
    for history in histories:
        latest = 0
        for event in history.events:
            match event:
                case Commit(epoch):
                    assert epoch > latest
                    latest = epoch
                case Lookup(before, after):
                    assert latest <= before <= after
                    latest = after


def test_the_store_is_whole(raced: tuple[Store, list[History]]) -> None:
    """A log that eight processes folded at once passes the check, and is short."""
    store, _ = raced

    report = store.check()

    assert report.problems == ()
    assert report.orphans == 0
    if not store.environment.is_remote:
        # The entries in a bucket are removed later.
        assert store.epoch > 3 * 32
        assert len(store.environment.list(LOG)) < 100
