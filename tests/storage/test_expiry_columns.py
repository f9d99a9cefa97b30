"""Columns of a read that say when something expires agree with the question for one row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from relstate.storage import Store, errors
from support.clock import ManualClock
from support.commits import quick_environment
from support.examples import examples
from support.random_parts import COLUMNS, SET, STEPS, Pair, Step

PATHS: list[tuple[Any, ...]] = [
    ("k",),
    ("a",),
    ("m",),
    ("m", "p"),
    ("l",),
    (SET, "p"),
    ("D", "X"),
    ("d", "y", ""),
    ("o", 1),
    ("o", 1, "n"),
    ("v",),
    ("v", "p"),
    ("w", "p", "p"),
]


def shown(store: Store, paths: list[tuple[Any, ...]]) -> dict[int, list[float | None]]:
    """Return for each row of t the seconds that are left of what is at some paths."""
    plan = store.read_plan("t", columns=["k"]).showing_expiries(paths)
    rows: dict[int, list[float | None]] = {}
    for batch in plan.read((range(plan.vnode_count),)):
        for key, *times in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            rows[key] = [None if time is None else (time - plan.time) / 1e6 for time in times]
    return rows


def asked(store: Store, paths: list[tuple[Any, ...]]) -> dict[int, list[float | None]]:
    """Return what `shown` does, row by row and path by path."""
    table = store.table("t")
    keys = table.to_arrow().column("k").to_pylist()
    return {key: [table.ttl(key, path) for path in paths] for key in keys}


@pytest.mark.parametrize("packed", [True, False])
@settings(max_examples=examples(20))  # each has many steps
@given(STEPS)
def test_all_rows_show_what_one_row_is_asked(
    tmp_path_factory: pytest.TempPathFactory, packed: bool, steps: list[Step | list[Step]]
) -> None:
    """After changes of all kinds, with and without TTLs; rows, deletes, compactions."""
    clock = ManualClock()
    path = str(tmp_path_factory.mktemp("history") / "store")
    environment = quick_environment(path, clock)
    with Store.create(path, vnode_count=2, environment=environment) as store:
        store.create_table(
            "t", COLUMNS, primary_key=["k"], encoding="document", packed=packed, sets=[SET]
        )
        pair = Pair(store, clock)
        for step in steps:
            pair.take(step)
        for step in [Step("pass_time", value=0), Step("compact"), Step("pass_time", value=15)]:
            pair.take(step)
            assert shown(store, PATHS) == asked(store, PATHS)


def test_what_has_parts_goes_with_the_last_of_them(tmp_path: Path) -> None:
    """Whatever it was written with: a map, a struct and an object that stay lose their parts."""
    environment = quick_environment(str(tmp_path / "store"), ManualClock())
    with Store.create(environment.root, vnode_count=2, environment=environment) as store:
        store.create_table("t", COLUMNS, primary_key=["k"], encoding="document")
        with store.document_writer("t") as writer:
            writer.set(1, {"m": {"p": 1}, "d": {"x": 1, "y": {"p": 1}}, "v": {"p": {"p": 1}}})
            writer.set(1, {"o": {}, "l": [1, 2]}, ttl=40)
        with store.document_writer("t") as writer:
            writer.set(1, {("m", "p"): 2, ("v", "p", "p"): 2}, ttl=10)
            writer.set(1, {("d", "x"): 2}, ttl=20)
            writer.set(1, {("d", "y", "p"): 2}, ttl=30)
        paths: list[tuple[Any, ...]] = [("m",), ("d",), ("d", "y"), ("v",), ("o",), ("l",)]
        for _ in range(2):
            assert shown(store, paths) == {1: [10, 30, 30, 10, 40, 40]}
            assert asked(store, paths) == {1: [10, 30, 30, 10, 40, 40]}
            store.compact("t")


def test_columns_of_a_table_of_rows_expire_with_the_row(tmp_path: Path) -> None:
    """Each that is not NULL; a part of one is refused."""
    environment = quick_environment(str(tmp_path / "store"), ManualClock())
    with Store.create(environment.root, vnode_count=2, environment=environment) as store:
        store.create_table("t", "k INT, v INT, m MAP<STRING, INT>", primary_key=["k"], ttl=60)
        store.write("t", pa.table({"k": [1, 2], "v": [1, None]}))
        store.write("t", pa.table({"k": [3, 4], "v": [5, 6]}), ttls=pa.array([7, 10**9]))
        store.set_ttl("t", None)
        store.write("t", pa.table({"k": [4], "v": [6]}))
        paths: list[tuple[Any, ...]] = [("k",), ("V",), ("m",)]
        expected = {1: [60, 60, None], 2: [60, None, None], 3: [7, 7, None], 4: [None] * 3}
        assert shown(store, paths) == expected
        assert asked(store, paths) == expected
        with pytest.raises(errors.OptionError, match="expires whole"):
            shown(store, [("m", "x")])
        with pytest.raises(errors.SchemaMismatchError, match="unknown column 'x'"):
            store.table("t").ttl(1, "x")


def test_a_path_that_the_table_does_not_have_is_refused(tmp_path: Path) -> None:
    """When the read is planned; keys that do not fit, too."""
    environment = quick_environment(str(tmp_path / "store"), ManualClock())
    with Store.create(environment.root, vnode_count=2, environment=environment) as store:
        store.create_table("t", COLUMNS, primary_key=["k"], encoding="document")
        for path, message in [
            (("x",), "unknown column"),
            (("a", "x"), "has no separate part 'x'"),
            (("d", "q"), "no field 'q'"),
            (("o", "text"), "text"),
            (("l", 1), "element of an array"),
        ]:
            with pytest.raises(errors.SchemaMismatchError, match=message):
                shown(store, [path])


def test_the_hidden_columns_have_names_that_the_table_does_not(tmp_path: Path) -> None:
    """Whatever its columns are called; stars do not name them."""
    environment = quick_environment(str(tmp_path / "store"), ManualClock())
    with Store.create(environment.root, vnode_count=2, environment=environment) as store:
        store.create_table("t", "k INT, _expiry_0 INT", primary_key=["k"], encoding="document")
        store.write("t", pa.table({"k": [1], "_expiry_0": [2]}), ttls=pa.array([30]))
        plan = store.read_plan("t", columns=["_expiry_0"]).showing_expiries([("_expiry_0",)])
        (batch,) = plan.read((range(2),))
        assert batch.schema.names == ["_expiry_0", "_expiry_0_"]
        assert batch.column(0).to_pylist() == [2]
        names = [column.name for column in plan.definition.schema.visible_columns]
        assert names == ["k", "_expiry_0"]
