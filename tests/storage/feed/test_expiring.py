"""The feed of a table whose rows expire: a row that has expired by an epoch is deleted in it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.clock import CLOCK_TOLERANCE
from relstate.storage.errors import EpochExpiredError, OptionError
from relstate.storage.feed import document_history
from relstate.storage.local_environment import LocalEnvironment
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.examples import Seeds
from support.feeds import Change, changes_of, read_feed


def new_store(path: Path, clock: ManualClock) -> Store:
    """Return a store at a path, whose clock moves only when it is told to."""
    root = str(path)
    environment = LocalEnvironment(root, UnsyncedDisk(clock), clock)
    return Store.create(root, vnode_count=3, shards=1, environment=environment)


def rows_at(store: Store, epoch: int) -> dict[Any, tuple[Any, ...]]:
    """Return the rows of t as of an epoch and its time, by their keys."""
    rows = store.at(epoch).table("t").to_arrow().to_pylist()
    return {row["k"]: tuple(row.values()) for row in rows}


def put(store: Store, rows: dict[int, int | None], ttl: int | None = None) -> None:
    """Write rows of t, by key; ``ttl``: after how many seconds they expire, if not the table's."""
    batch = pa.table({"k": pa.array(rows, pa.int32()), "v": pa.array(rows.values(), pa.int32())})
    ttls = None if ttl is None else pa.array([ttl] * len(rows), pa.int64())
    store.write("t", batch, ttls=ttls)


def step(store: Store, clock: ManualClock, chance: Random) -> None:
    """Let some time pass, and make a commit, of the table or of another one, or compact."""
    clock.advance(chance.choice([0, 1, 3]))
    keys = chance.sample(range(6), chance.randint(1, 4))
    kind = chance.choice(["put", "put", "put", "delete", "other", "compact", "truncate"])
    if kind == "put":
        rows = {key: chance.choice([None, 1, 2]) for key in keys}
        put(store, rows, chance.choice([None, None, 1, 2, 5]))
    elif kind == "delete":
        nulls = pa.nulls(len(keys), pa.int32())
        store.delete("t", pa.table({"k": pa.array(keys, pa.int32()), "v": nulls}))
    elif kind == "other":
        store.create_table(f"o{store.epoch}", "k INT", primary_key=["k"])
    elif kind == "compact":
        store.compact()
    elif chance.random() < 0.3:
        store.truncate("t")


def applied(rows: dict[Any, Any], changes: list[Change]) -> dict[Any, Any]:
    """Return rows after changes, each of which must fit them."""
    now = dict(rows)
    for change in changes:
        if change.type in ("delete", "update_preimage"):
            assert now.pop(change.row[0]) == change.row
        else:
            assert change.row[0] not in now
            now[change.row[0]] = change.row
    return now


@pytest.mark.parametrize("ttl", [None, 4])
@pytest.mark.parametrize("version", [None, "v"])
def test_the_feed_leads_from_each_epoch_to_the_next(
    version: str | None, ttl: int | None, tmp_path: Path, seeds: Seeds
) -> None:
    """As the rows are read as of the epochs: net, and commit by commit, over any range."""
    for seed in seeds(6):
        chance, clock = Random(seed), ManualClock()
        with new_store(tmp_path / f"{seed}", clock) as store:
            store.create_table(
                "t", "k INT, v INT", primary_key=["k"], ttl=ttl, version_column=version
            )
            first = store.epoch
            for _ in range(14):
                step(store, clock, chance)
            states = [rows_at(store, epoch) for epoch in range(first, store.epoch + 1)]
            for start in range(first + 1, store.epoch + 1):
                check_feed(store, states, first, start, chance.randint(start, store.epoch))


def test_a_row_goes_in_the_first_epoch_after_it_has_expired(tmp_path: Path) -> None:
    """Whatever that epoch commits; it costs the files with rows that expire, and no others."""
    clock = ManualClock()
    with new_store(tmp_path / "store", clock) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"])
        put(store, {1: 10, 2: 20})
        written = put_and_epoch(store, {1: 11, 3: 30}, ttl=5)
        clock.advance(5)
        assert read_feed(store, "t", written + 1) == []
        store.create_table("o", "k INT", primary_key=["k"])

        assert read_feed(store, "t", written + 1) == [
            Change("delete", written + 1, (1, 11)),
            Change("delete", written + 1, (3, 30)),
        ]
        assert read_feed(store, "t", written) == [
            Change("update_preimage", written, (1, 10)),
            Change("update_postimage", written, (1, 11)),
            Change("insert", written, (3, 30)),
            Change("delete", written + 1, (1, 11)),
            Change("delete", written + 1, (3, 30)),
        ]
        net = read_feed(store, "t", written, deduplication="netChanges")
        assert net == [Change("delete", written, (1, 10))]
        snapshot = changes_of(store.jobs.feed_snapshot("t", written + 1).read())
        assert snapshot == [Change("insert", written + 1, (2, 20))]


def test_compaction_that_removes_expired_rows_is_the_epoch_of_their_deletes(tmp_path: Path) -> None:
    """The feed reads the files from before it, which are kept as long as the epochs."""
    clock = ManualClock()
    with new_store(tmp_path / "store", clock) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"], ttl=5)
        for key in range(6):
            put(store, {key: 10})
        written = store.epoch
        expire_and_compact(store, clock)
        assert store.epoch == written + 1

        deletes = [Change("delete", store.epoch, (key, 10)) for key in range(6)]
        assert read_feed(store, "t", written + 1) == deletes
        put(store, {1: 10})
        assert read_feed(store, "t", store.epoch) == [Change("insert", store.epoch, (1, 10))]


def test_an_epoch_that_has_expired_with_its_rows_is_not_followed(tmp_path: Path) -> None:
    """Their deletes are lost: that is an error also where compaction and vacuum left no trace."""
    clock = ManualClock()
    with new_store(tmp_path / "store", clock) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"], ttl=5)
        written = put_and_epoch(store, {1: 10})
        table_id = store.state.table("t").definition.table_id
        expire_and_compact(store, clock)
        expire_epochs(store, clock)
        assert store.state.oldest_epoch > written

        assert store.jobs.newest_feed_epoch(table_id, written) == store.epoch
        first = next(iter(store.jobs.feed_epochs(table_id, written)))
        assert first == written + 1
        with pytest.raises(EpochExpiredError):
            store.jobs.feed_plan("t", first)


@pytest.mark.parametrize("ttl", [None, 5])
def test_an_epoch_without_rows_that_expire_is_followed_after_it_has_expired(
    ttl: int | None, tmp_path: Path
) -> None:
    """Nothing was missed: the feed begins with the first row that is written, or stays empty."""
    clock = ManualClock()
    with new_store(tmp_path / "store", clock) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"], ttl=ttl)
        created, table_id = store.epoch, store.state.table("t").definition.table_id
        expire_epochs(store, clock)
        assert store.state.oldest_epoch > created
        assert list(store.jobs.feed_epochs(table_id, created)) == []
        assert store.jobs.newest_feed_epoch(table_id, created) == created

        written = put_and_epoch(store, {1: 10}, ttl=5)
        store.create_table("o", "k INT", primary_key=["k"])
        epochs = list(store.jobs.feed_epochs(table_id, created))
        assert epochs == [written, store.epoch]
        assert store.jobs.newest_feed_epoch(table_id, created) == store.epoch
        assert read_feed(store, "t", epochs[0]) == [Change("insert", written, (1, 10))]


def test_a_range_with_a_repair_of_the_clock_is_refused(tmp_path: Path) -> None:
    """Rows that had expired by the wrong clock are read again, which no feed from before shows."""
    clock = ManualClock()
    with new_store(tmp_path / "store", clock) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"], ttl=100)
        store.create_table("plain", "k INT, v INT", primary_key=["k"])
        first = put_and_epoch(store, {1: 10})
        clock.advance(3600)
        store.create_table("o", "k INT", primary_key=["k"])
        wrong = store.epoch
        clock.set_back(3600)
        repaired = store.repair_clock()
        assert (rows_at(store, wrong), rows_at(store, repaired)) == ({}, {1: (1, 10)})

        for start in (first, repaired):
            with pytest.raises(OptionError, match=f"begin at epoch {repaired + 1} with the whole"):
                read_feed(store, "t", start)
        assert read_feed(store, "t", first, wrong)[-1] == Change("delete", wrong, (1, 10))
        assert read_feed(store, "plain", first) == []
        snapshot = changes_of(store.jobs.feed_snapshot("t", repaired).read())
        assert snapshot == [Change("insert", repaired, (1, 10))]
        clock.advance(100)
        store.create_table("p", "k INT", primary_key=["k"])
        deletes = [Change("delete", store.epoch, (1, 10))]
        assert read_feed(store, "t", repaired + 1) == deletes


@pytest.mark.parametrize("ttl", [None, 4])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("most_blocks", [2, 16])
def test_the_feed_of_documents_leads_from_each_epoch_to_the_next(
    most_blocks: int,
    packed: bool,
    ttl: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Seeds,
) -> None:
    """Also where each part expires at a time of its own, and comes to be without a row.

    Whether or not the entries of many steps are merged on the way.
    """
    monkeypatch.setattr(document_history, "_MOST_BLOCKS", most_blocks)
    for seed in seeds(3):
        chance, clock = Random(seed), ManualClock()
        with new_store(tmp_path / f"{seed}", clock) as store:
            store.create_table(
                "t",
                "k INT, v INT, m MAP<STRING, INT>, s STRUCT<a: INT, b: INT>, l ARRAY<INT>",
                primary_key=["k"],
                encoding="document",
                ttl=ttl,
                packed=packed,
            )
            first = store.epoch
            for _ in range(14):
                if chance.random() < 0.5:
                    step(store, clock, chance)
                else:
                    clock.advance(chance.choice([0, 1, 3]))
                    change_parts(store, chance)
            states = [rows_at(store, epoch) for epoch in range(first, store.epoch + 1)]
            for start in range(first + 1, store.epoch + 1):
                check_feed(store, states, first, start, chance.randint(start, store.epoch))


def change_parts(store: Store, chance: Random) -> None:
    """Change parts of some rows of t, which stay or expire by themselves."""
    with store.document_writer("t") as writer:
        for key in chance.sample(range(6), chance.randint(1, 4)):
            ttl = chance.choice([None, 1, 2, 5])
            kind = chance.choice(["patch", "set", "add", "append", "remove"])
            number, entry = chance.randint(1, 3), chance.choice("xyz")
            if kind == "patch":
                writer.patch(key, {"v": number, "m": {entry: number}}, ttl=ttl)
            elif kind == "set":
                paths = chance.choice([("m", entry), ("s", "a"), "v", ("s", "b")])
                writer.set(key, {paths: number}, ttl=ttl)
            elif kind == "add":
                writer.add(key, "m", {entry: number}, ttl=ttl)
            elif kind == "append":
                writer.add(key, "l", [number], ttl=ttl)
            else:
                writer.remove(key, chance.choice(["v", "s", ("m", entry), "m", "l"]))


def check_feed(
    store: Store, states: list[dict[Any, Any]], first: int, start: int, last: int
) -> None:
    """Fail unless the feed of a range leads from the rows before it to those of each epoch.

    ``states``: the rows as of each epoch from ``first`` on.
    """
    changes = changes_of(store.changes("t", start, last))
    for epoch in range(start, last + 1):
        own = [change for change in changes if change.epoch == epoch]
        assert applied(states[epoch - 1 - first], own) == states[epoch - first], (start, epoch)
    net = changes_of(store.changes("t", start, last, deduplication="netChanges"))
    assert applied(states[start - 1 - first], net) == states[last - first], (start, last)


def test_a_part_of_a_document_goes_in_the_first_epoch_after_it_has_expired(tmp_path: Path) -> None:
    """As an update of its row, and as a delete if it was the last of a row."""
    clock = ManualClock()
    with new_store(tmp_path / "store", clock) as store:
        store.create_table("t", "k INT, v INT, w INT", primary_key=["k"], encoding="document")
        store.write("t", [{"k": 1, "v": 10, "w": 100}])
        with store.document_writer("t") as writer:
            writer.set(1, {"v": 11}, ttl=5)
            writer.set(2, {"v": 20}, ttl=5)
        written = store.epoch
        clock.advance(5)
        assert read_feed(store, "t", written + 1) == []
        store.create_table("o", "k INT", primary_key=["k"])

        assert read_feed(store, "t", written + 1) == [
            Change("update_preimage", written + 1, (1, 11, 100)),
            Change("update_postimage", written + 1, (1, None, 100)),
            Change("delete", written + 1, (2, 20, None)),
        ]
        snapshot = changes_of(store.jobs.feed_snapshot("t", written + 1).read())
        assert snapshot == [Change("insert", written + 1, (1, None, 100))]


def put_and_epoch(store: Store, rows: dict[int, int | None], ttl: int | None = None) -> int:
    """Write rows as `put` does; return the epoch."""
    put(store, rows, ttl)
    return store.epoch


def expire_and_compact(store: Store, clock: ManualClock) -> None:
    """Let the rows of t expire, and remove them from the files."""
    clock.advance(6 + CLOCK_TOLERANCE / 1_000_000)
    store.compact()
    assert store.state.expiring_rows(store.state.table("t").definition.table_id) == 0


def expire_epochs(store: Store, clock: ManualClock) -> None:
    """Let the epochs before the next one expire."""
    clock.advance(1)
    store.create_table(f"o{store.epoch}", "k INT", primary_key=["k"])
    clock.advance(1)
    store.vacuum(retention=1)
