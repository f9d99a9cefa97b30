"""Arguments of `Store`: whatever they are, a call works, or refuses them in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Store, instant
from relstate.storage.errors import OptionError, RelstateError, SchemaError, TableNameError
from relstate.storage.schema import properties
from support.stores import StoreMaker, unsynced

# Half of a character, which no encoding has.
HALF = "a\ud800"
NAMES: list[Any] = [5, None, b"t", ["t"]]
TEXTS: list[Any] = [*NAMES, HALF]

Call = Callable[[Store, Any], object]

TABLE_NAMES: dict[str, Call] = {
    "create_table": lambda store, name: store.create_table(name, "k INT", primary_key=["k"]),
    "drop_table": lambda store, name: store.drop_table(name),
    "drop_table if_exists": lambda store, name: store.drop_table(name, if_exists=True),
    "drop_view": lambda store, name: store.drop_view(name),
    "truncate": lambda store, name: store.truncate(name),
    "rename_column": lambda store, name: store.rename_column(name, "v", "w"),
    "set_ttl": lambda store, name: store.set_ttl(name, 5),
    "table": lambda store, name: store.table(name),
    "view": lambda store, name: store.view(name),
    "changes": lambda store, name: store.changes(name, 1),
    "read_plan": lambda store, name: store.read_plan(name),
    "write_target": lambda store, name: store.jobs.write_target(name),
    "state_table": lambda store, name: store.state_table(name),
    "compaction_job": lambda store, name: store.jobs.compaction_job(name),
    "at": lambda store, name: store.at(store.epoch).table(name),
}
COLUMNS: dict[str, Call] = {
    "rename_column": lambda store, name: store.rename_column("t", name, "w"),
    "rename_column to": lambda store, name: store.rename_column("t", "v", name),
    "drop_columns": lambda store, name: store.drop_columns("t", name),
    "widen_column": lambda store, name: store.widen_column("t", name, "DECIMAL(20, 0)"),
    "widen_column to": lambda store, name: store.widen_column("t", "v", name),
    "comment_column": lambda store, name: store.comment_column("t", name, "x"),
    "add_columns": lambda store, columns: store.add_columns("t", columns),
    "add_columns named": lambda store, name: store.add_columns("t", f"`{name}\ud800` INT"),
    "columns": lambda store, columns: store.create_table("u", columns, primary_key=["k"]),
    "field": lambda store, name: store.create_table(
        "u", f"k INT, s STRUCT<`{name}\ud800`: INT>", primary_key=["k"]
    ),
    "comment": lambda store, text: store.create_table(
        "u", f"k INT COMMENT '{text}\ud800'", primary_key=["k"]
    ),
    # None is a table without a primary key.
    "primary_key": lambda store, key: store.create_table("u", "k INT", primary_key=key or []),
    "primary_key of": lambda store, name: store.create_table("u", "k INT", primary_key=[name]),
    "distribution_key": lambda store, name: store.create_table(
        "u", "k INT", primary_key=["k"], distribution_key=[name]
    ),
    "read_plan": lambda store, name: store.read_plan("t", columns=[name]),
    "scan": lambda store, name: list(store.table("t").scan(columns=[name])),
}
SECONDS: dict[str, Call] = {
    "ttl": lambda store, ttl: store.create_table("u", "k INT", primary_key=["k"], ttl=ttl),
    "set_ttl": lambda store, ttl: store.set_ttl("t", ttl),
    "tombstone_retention": lambda store, retention: store.create_table(
        "u", "k INT", primary_key=["k"], tombstone_retention=retention
    ),
    "vacuum": lambda store, retention: store.vacuum(retention),
}
OTHERS: dict[str, tuple[Call, Any]] = {
    "comment": (lambda store, comment: store.comment_column("t", "v", comment), 5),
    "half comment": (lambda store, comment: store.comment_column("t", "v", comment), HALF),
    "append_only": (
        lambda store, flag: store.create_table("u", "k INT", primary_key=["k"], append_only=flag),
        "yes",
    ),
    "merge": (
        lambda store, merge: store.create_table("u", "k INT", primary_key=["k"], merge=merge),
        ["partial"],
    ),
    "version_column": (
        lambda store, name: store.create_table("u", "k INT", primary_key=[], version_column=name),
        5,
    ),
    "epoch_at": (lambda store, time: store.epoch_at(time), "2026-01-01"),
    "read_plan": (lambda store, time: store.read_plan("t", time=time), 5),
    "at": (lambda store, epoch: store.at(epoch), "3"),
    "check": (lambda store, epoch: store.check(expect_epoch=epoch), "3"),
    "changes": (lambda store, value: store.changes("t", 1, deduplication=value), 5),
    "where": (lambda store, where: list(store.table("t").scan(where=where)), 5),
    "where in bytes": (lambda store, where: list(store.table("t").scan(where=where)), b"v = 1"),
    "half where": (lambda store, where: list(store.table("t").scan(where=where)), f"k = '{HALF}'"),
    "half key": (lambda store, key: store.table("t").get(key), HALF),
    "time_zone": (lambda store, zone: store.read_plan("t").filtered("v = 1", zone), 5),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with an empty table."""
    path = str(tmp_path_factory.mktemp("store") / "s")
    with Store.create(path, environment=unsynced(path)) as store:
        store.create_table("t", "k STRING, v BIGINT", primary_key=["k"])
        yield store


@pytest.mark.parametrize("name", NAMES, ids=repr)
@pytest.mark.parametrize("call", TABLE_NAMES)
def test_the_name_of_a_table_is_text(filled: Store, call: str, name: Any) -> None:
    """The error shows what was given instead; nothing is committed."""
    refused(filled, TABLE_NAMES[call], name, TableNameError)


@pytest.mark.parametrize("value", TEXTS, ids=ascii)
@pytest.mark.parametrize("call", COLUMNS)
def test_columns_are_named_by_text(filled: Store, call: str, value: Any) -> None:
    """Whole characters only: a name with half of one could be stored and never be read."""
    refused(filled, COLUMNS[call], value, SchemaError)


@pytest.mark.parametrize("value", ["soon", 2.5, True, timedelta(days=1), -1, 10**30], ids=str)
@pytest.mark.parametrize("call", SECONDS)
def test_durations_are_whole_seconds(filled: Store, call: str, value: Any) -> None:
    """Or texts of durations; no fractions and timedeltas, and no more than a datetime holds."""
    refused(filled, SECONDS[call], value, (OptionError, SchemaError))


@pytest.mark.parametrize("case", OTHERS)
def test_other_arguments_of_a_wrong_type_are_refused(filled: Store, case: str) -> None:
    """By an error of relstate's hierarchy."""
    refused(filled, *OTHERS[case], RelstateError)


@pytest.mark.parametrize(
    "option",
    [
        {"retention": timedelta(days=1)},
        {"retention": "soon"},
        {"retention": 2.5},
        {"retention": 10**30},
        {"vnode_count": "8"},
        {"vnode_count": 8.0},
        {"shards": "8"},
        {"shards": True},
    ],
    ids=str,
)
def test_settings_of_a_wrong_type_make_no_store(
    make_store: StoreMaker, tmp_path: Path, option: dict[str, Any]
) -> None:
    """They are refused before a folder is made."""
    with pytest.raises(OptionError, match=f"^{next(iter(option))} "):
        make_store(**option)
    assert not list(tmp_path.rglob("_log"))


def test_a_store_with_longer_durations_stays_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was created before there was a limit."""
    path = str(tmp_path / "store")
    environment = unsynced(path)
    with monkeypatch.context() as patch:
        for module in (instant, properties):
            patch.setattr(module, "MOST_SECONDS", 10**13)
        with Store.create(path, retention=10**12, environment=environment) as store:
            store.create_table("t", "k INT", primary_key=["k"], ttl=10**12)
            store.write("t", pa.table({"k": [1]}))
    with Store.open(path, environment=environment) as store:
        assert store.table("t").count() == 1
        assert store.vacuum().oldest_epoch == 1


def refused(
    store: Store,
    call: Call,
    value: Any,
    error: type[Exception] | tuple[type[Exception], ...],
) -> None:
    """Check that a call raises an error of a class, and commits nothing."""
    epoch = store.epoch
    with pytest.raises(error):
        call(store, value)
    assert store.epoch == epoch
