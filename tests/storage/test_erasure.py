"""Erasure: afterwards no file of the store holds a byte of the rows, and all others are there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from relstate.storage import Store
from relstate.storage.clock import SystemClock
from relstate.storage.errors import (
    AppendOnlyError,
    DependentViewsError,
    EpochExpiredError,
    InternalTableError,
    NullKeyError,
    SchemaMismatchError,
    TableNotFoundError,
    UsageError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.folding import Division
from relstate.storage.paths import ARCHIVE, LOG
from relstate.storage.segment.registry import registry
from support.clock import ManualClock
from support.commits import UnsyncedDisk
from support.faulty_environment import FaultyEnvironment, failing
from support.remains import files_with
from support.views import new_view, progressed, refresh, view_rows

_KEY = "key-Qm7vX2tLr9Zw4Ks8Bd1N"
_VALUE = "value-Hc5yT3gPj6Ua0Ve7Rf"
_DAY = 24 * 3600


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the machine, whose files are as old as the real ones."""
    return ManualClock(SystemClock().now())


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The folder of the store."""
    return str(tmp_path / "store")


@pytest.fixture
def store(path: str, clock: ManualClock) -> Iterator[Store]:
    """An empty store of two shards."""
    environment = LocalEnvironment(path, UnsyncedDisk(clock), clock)
    with Store.create(path, vnode_count=5, shards=2, environment=environment) as store:
        yield store
        assert store.check().problems == ()


def fill(store: Store, rows: int = 20) -> None:
    """Write some people, one by one, that of the secret key in between, and change it twice."""
    for number in range(rows):
        store.write("people", [{"name": f"name {number}", "note": f"note {number}"}])
        if number in (3, 7, rows - 1):
            store.write("people", [{"name": _KEY, "note": f"{_VALUE} {number}"}])


def names(store: Store) -> list[str]:
    """Return the names of the people, sorted."""
    return sorted(row["name"] for row in store.table("people").to_dicts())


def others(rows: int = 20) -> list[str]:
    """Return the names of all people but the secret one."""
    return sorted(f"name {number}" for number in range(rows))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ttl": _DAY},
        {"encoding": "document"},
        {"encoding": "document", "packed": False},
        {"merge": "ignore"},
        {"merge": "partial"},
    ],
    ids=str,
)
def test_nothing_of_a_row_remains(store: Store, path: str, options: dict[str, Any]) -> None:
    """Not in the table, its older versions, an index, or the log; the other rows are there."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"], **options)
    if "encoding" not in options:
        store.create_index("people", "notes", ["note"])
    fill(store)
    assert files_with(path, _KEY)
    assert files_with(path, _VALUE)

    report = store.erase("people", [{"name": _KEY}])

    assert files_with(path, _KEY) == files_with(path, _VALUE) == []
    assert names(store) == others()
    assert report.files_rewritten > 0
    assert report.files_removed > 0
    assert report.log_files > 0
    assert Store.open(path).check().problems == ()


def test_rows_that_were_set_aside_go_with_their_key(store: Store, path: str) -> None:
    """Those whose keys cannot be read are named: somebody has to look at them."""
    columns = "name STRING, day DATE, code BINARY, n DECIMAL(5, 1), note STRING"
    key = ["name", "day", "code", "n"]
    store.create_table("people", columns, primary_key=key)
    store.jobs.quarantine_target("people")
    rows = [
        {"NAME": _KEY, "day": "2026-01-31", "code": "AAE=", "n": "1.0", "note": _VALUE},
        {"name": _KEY, "day": "2026-01-31", "code": "AAE=", "n": 1, "note": _VALUE},
        {"name": "other", "day": "2026-01-31", "code": "AAE=", "n": "1.0", "note": "kept"},
        {"name": "other", "day": "some day", "code": "AAE=", "n": "1.0", "note": "kept"},
        {"name": "other", "note": "kept"},
        "no object",
    ]
    _set_aside(store, rows)
    _set_aside(store, rows[2:3])
    erased = {"name": _KEY, "day": date(2026, 1, 31), "code": b"\0\1", "n": Decimal(1)}

    planned = store.erase("people", [erased], dry_run=True)
    report = store.erase("people", [erased])

    assert files_with(path, _KEY) == files_with(path, _VALUE) == []
    assert "people__quarantine" in report.tables
    assert planned.remaining[0] == report.remaining[0]
    assert "3 rows of 'people__quarantine' whose keys cannot be read" in report.remaining[0]
    left = store.table("people__quarantine").to_dicts(["id"])
    assert [row["id"] for row in left] == ["2", "3", "4", "5"]


def _set_aside(store: Store, rows: list[Any]) -> None:
    columns = {"rule": "note", "reason": "test", "written_at": datetime(2026, 2, 1, tzinfo=UTC)}
    first = 0 if len(rows) > 1 else 2
    store.write(
        "people__quarantine",
        [
            {"id": str(number), "row_json": json.dumps(row), **columns}
            for number, row in enumerate(rows, start=first)
        ],
    )


def test_parts_of_documents_go_with_their_row(store: Store, path: str) -> None:
    """Entries of maps that were patched in are entries of their own."""
    columns = "name STRING, tags MAP<STRING, STRING>"
    for packed in (True, False):
        table = f"packed{packed}"
        store.create_table(table, columns, primary_key=["name"], encoding="document", packed=packed)
        for name in ("a", _KEY, "z"):
            store.write(table, [{"name": name, "tags": {"x": "1"}}])
            store.patch(table, [{"name": name, "tags": {f"of {name}": f"{name} {_VALUE}"}}])
        store.erase(table, [{"name": _KEY}])
        assert files_with(path, _KEY) == []
        assert len(store.table(table).to_dicts()) == 2


def test_a_descending_key_and_several_columns(store: Store, path: str) -> None:
    """Keys of several columns, several at once; columns are matched by name."""
    store.create_table(
        "visits", "who STRING, day INT, note STRING", primary_key=["who DESC", "day"]
    )
    for day in range(6):
        store.write("visits", [{"who": _KEY, "day": day, "note": _VALUE}])
        store.write("visits", [{"who": "b", "day": day, "note": "n"}])

    store.erase("visits", [{"day": day, "who": _KEY} for day in range(5)])
    assert [row["day"] for row in store.table("visits").to_dicts() if row["who"] == _KEY] == [5]
    store.erase("visits", [{"WHO": _KEY, "day": 5}])

    assert files_with(path, _KEY) == files_with(path, _VALUE) == []
    assert len(store.table("visits").to_dicts()) == 6


def test_a_version_column_hides_no_row(store: Store, path: str) -> None:
    """A row of any version is deleted, and so is what a delete leaves behind for late rows."""
    store.create_table(
        "people", "name STRING, note STRING, v BIGINT", primary_key=["name"], version_column="v"
    )
    store.create_index("people", "notes", ["note"])
    for version in (3, 9, 5):
        store.write("people", [{"name": _KEY, "note": _VALUE, "v": version}])
        store.write("people", [{"name": "a", "note": "n", "v": version}])
    other = "other-" + _KEY[6:]
    store.write("people", [{"name": other, "note": "n", "v": 1}])
    store.delete("people", [{"name": other, "v": 4}])
    assert files_with(path, other)

    store.erase("people", [{"name": _KEY}, {"name": other}])

    assert files_with(path, _KEY) == files_with(path, _VALUE) == files_with(path, other) == []
    assert store.table("people").to_dicts() == [{"name": "a", "note": "n", "v": 9}]


def test_what_was_deleted_before_goes_without_keys(store: Store, path: str) -> None:
    """Of rows that a statement deleted, a truncated table, a dropped one, and one without a key."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    store.create_table("dropped", "name STRING", primary_key=["name"])
    store.create_table("log", "line STRING")
    fill(store)
    store.delete("people", [{"name": _KEY}])
    store.write("dropped", [{"name": _VALUE}])
    store.write("log", [{"line": _VALUE}])
    store.write("log", [{"line": "good"}], overwrite=True)
    store.compact()
    store.drop_table("dropped")
    with pytest.raises(UsageError, match="erase without keys"):
        store.erase("log", [{"line": _VALUE}])

    store.erase("people")

    assert files_with(path, _KEY) == files_with(path, _VALUE) == []
    assert names(store) == others()


def test_a_file_with_rows_of_a_dropped_table_is_rewritten(store: Store, path: str) -> None:
    """The rows of two tables that one commit wrote are in one file; one table is dropped."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    store.create_index("people", "notes", ["note"])
    store.write("people", [{"name": _KEY, "note": _VALUE}])
    store.create_table("t", "k INT", primary_key=["k"])
    store.write("t", [{"k": 1}])
    store.drop_index("people", "notes")

    store.erase("people", [{"name": _KEY}])

    assert files_with(path, _KEY) == files_with(path, _VALUE) == []


def test_earlier_epochs_cannot_be_read(store: Store) -> None:
    """Whatever the retention is: they would show the row."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    fill(store)
    before = store.epoch

    store.erase("people", [{"name": _KEY}])

    with pytest.raises(EpochExpiredError):
        store.at(before)
    assert len([*store.history()]) == store.epoch


def test_the_archives_of_an_old_log_are_redacted(store: Store, path: str) -> None:
    """Of hundreds of epochs, with checkpoints in the log and archives of entries."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    fill(store, 130)
    history = [(entry.epoch, entry.commit_id, entry.operation) for entry in store.history()]

    store.erase("people", [{"name": _KEY}])

    assert files_with(path, _KEY) == []
    with Store.open(path) as reopened:
        assert names(reopened) == others(130)
        newest = [(entry.epoch, entry.commit_id, entry.operation) for entry in reopened.history()]
    assert newest[-len(history) :] == history
    for number in range(70):
        store.write("people", [{"name": f"name {number}", "note": "later"}])
    assert files_with(path, _KEY) == []


def test_a_divided_checkpoint_is_redacted(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    """Of a large store the keys are in manifests, which a vacuum removes a day later."""
    monkeypatch.setattr(store._epochs.log.folding, "_division", Division(most=2, size=4))
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    fill(store, 130)

    report = store.erase("people", [{"name": _KEY}])

    left = files_with(path, _KEY)
    assert all(name.endswith(".manifest.json") for name in left)
    assert any("manifests" in sentence for sentence in report.remaining)
    with Store.open(path) as reopened:
        assert names(reopened) == others(130)
    clock.advance(_DAY + 3600)
    for number in range(70):
        store.write("people", [{"name": f"name {number}", "note": "later"}])
    store.erase("people")
    assert files_with(path, _KEY) == []


def test_a_dry_run_changes_nothing(store: Store, path: str) -> None:
    """Its figures are an upper bound of what the erasure rewrites."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    store.create_index("people", "notes", ["note"])
    fill(store)
    epoch = store.epoch

    estimate = store.erase("people", [{"name": _KEY}], dry_run=True)

    assert store.epoch == epoch == estimate.epoch
    assert files_with(path, _KEY)
    assert estimate.tables == ("__internal_index_1_notes", "people")
    assert estimate.files_removed == 0
    assert estimate.files_rewritten > 0


def test_only_the_shards_of_a_key_are_rewritten(store: Store) -> None:
    """A compacted table has one file per shard: that of the other one stays."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    notes = [{"name": f"name {n}", "note": f"{n}" * 9_000} for n in range(600)]
    store.write("people", [*notes, {"name": _KEY, "note": _VALUE}])
    store.compact()
    files = {segment.name for segment in store.state.segments.values()}
    assert len(files) == 2

    store.erase("people", [{"name": _KEY}])

    kept = files & {segment.name for segment in store.state.segments.values()}
    assert len(kept) == 1


def test_a_view_that_does_not_follow_is_an_error(store: Store, path: str) -> None:
    """The row is deleted, its files stay; once the view has followed, the call completes it."""
    store.create_table("people", "k BIGINT, note STRING", primary_key=["k"])
    store.write("people", [{"k": 1, "note": _VALUE}, {"k": 2, "note": "n"}])
    store.view_catalog.create(new_view(store, "v", "people"), [])
    refresh(store, progressed(store, "v"), segments=view_rows(store, "v", 1, 2))

    with pytest.raises(DependentViewsError, match="the views v do not follow it"):
        store.erase("people", [{"k": 1}])

    assert store.table("people").to_dicts() == [{"k": 2, "note": "n"}]
    assert files_with(path, _VALUE)
    refresh(store, progressed(store, "v"))
    with pytest.raises(DependentViewsError):
        store.erase("people", [{"k": 1}])
    refresh(store, progressed(store, "v"))
    store.erase("people")
    assert files_with(path, _VALUE) == []


def test_what_cannot_be_erased_is_refused(store: Store) -> None:
    """Before anything is written."""
    store.create_table("people", "name STRING, note STRING", primary_key=["name"])
    store.create_table("facts", "k INT", primary_key=["k"], append_only=True)
    store.view_catalog.create(new_view(store, "v", "people"), [])
    epoch = store.epoch

    with pytest.raises(TableNotFoundError):
        store.erase("nothing", [{"k": 1}])
    with pytest.raises(InternalTableError):
        store.erase("v", [{"k": 1}])
    with pytest.raises(AppendOnlyError):
        store.erase("facts", [{"k": 1}])
    with pytest.raises(SchemaMismatchError, match=r"the primary key \(name\), not \(note\)"):
        store.erase("people", [{"note": "x"}])
    with pytest.raises(SchemaMismatchError):
        store.erase("people", [{"name": "x", "note": "x"}])
    with pytest.raises(NullKeyError):
        store.erase("people", [{"name": None}])
    assert store.epoch == epoch


def prepare(path: Path) -> None:
    """Make a store with the secret rows in an index, older versions, and an archive of its log."""
    with Store.create(str(path), vnode_count=2, shards=2) as store:
        store.create_table("people", "name STRING, note STRING", primary_key=["name"])
        store.create_index("people", "notes", ["note"])
        fill(store, 9)
        while store.epoch < 66:
            store.write("people", [{"name": "name 0", "note": "note 0"}])


def erase_in(environment: FaultyEnvironment) -> None:
    """Erase the secret row; an error or a crash comes from the environment."""
    with environment.crashing():
        try:
            with Store.open(environment.root, environment=environment) as store:
                store.erase("people", [{"name": _KEY}])
        except Exception:
            assert environment.struck


@pytest.mark.parametrize("fault", ["crash_at", "error_at"])
def test_after_any_fault_the_same_call_completes_it(tmp_path: Path, fault: str) -> None:
    """A crash or an error leaves a sound store; what the second call leaves, the report counts."""
    prepared, whole = tmp_path / "prepared", tmp_path / "whole"
    prepare(prepared)
    shutil.copytree(prepared, whole)
    counted = FaultyEnvironment(whole)
    erase_in(counted)
    # After any other touch, a look or a read, all is as before it.
    changes = [
        step
        for step, touch in enumerate(counted.touches, 1)
        if touch.startswith(("link", "remove", "rename", "sync", "write"))
    ]
    # Each in seventh place: neighbours are files of one kind.
    for step in changes[len(fault) % 7 :: 7]:
        root = tmp_path / f"{fault}{step}"
        shutil.copytree(prepared, root)
        environment = failing(root, fault, step)
        erase_in(environment)
        if fault == "crash_at":
            environment.power_cut()
        registry.close(str(root))
        with Store.open(str(root)) as store:
            report = store.erase("people", [{"name": _KEY}])
            unnamed = store.check().orphans
            assert names(store) == others(9)
            assert store.check().problems == ()
        left = {*files_with(root, _KEY), *files_with(root, _VALUE)}
        temporary = sum(file.endswith(".tmp") for file in left)
        assert len(left) <= unnamed + temporary, left
        if left:
            assert any("no commit names" in sentence for sentence in report.remaining)
        shutil.rmtree(root)


def test_the_log_of_a_bucket_is_redacted() -> None:
    """Entries stay there for a while after they are archived: both are replaced."""
    with Store.create("memory://erasure/shop", vnode_count=4, shards=2, exist_ok=True) as store:
        store.create_table("people", "name STRING, note STRING", primary_key=["name"])
        fill(store, 100)
        key = _KEY.encode().hex().encode()

        def files_of_the_log() -> list[str]:
            environment = store.environment
            files = [
                f"{folder}/{name}" for folder in (LOG, ARCHIVE) for name in environment.list(folder)
            ]
            return [file for file in files if key in environment.read(file)]

        assert {file.split("/")[0] for file in files_of_the_log()} == {LOG, ARCHIVE}

        report = store.erase("people", [{"name": _KEY}])

        assert files_of_the_log() == []
        assert any("caches" in sentence for sentence in report.remaining)
        assert names(store) == others(100)
        assert store.check().problems == ()
