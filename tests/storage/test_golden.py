"""Stores of earlier formats are read for ever."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from relstate.storage import Store

_FOLDER = Path(__file__).parent / "golden"


def _writer() -> ModuleType:
    """Return the script that wrote the golden store, which knows what is in it."""
    spec = importlib.util.spec_from_file_location("golden_write", _FOLDER / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def golden(tmp_path: Path) -> Store:
    """A copy of the golden store of format 1."""
    shutil.copytree(_FOLDER / "v1", tmp_path / "v1")
    return Store.open(str(tmp_path / "v1"))


def test_format_1_is_read(golden: Store) -> None:
    """Every type, key and delete of a store of format 1 is what was written."""
    writer = _writer()

    rows = golden.table("every_type").to_arrow().to_pylist()
    long_keys = golden.table("long_keys").to_arrow().to_pylist()

    assert rows == [writer.FULL, writer.LATER, writer.EMPTY]
    expected = {key: value for value, key in enumerate(writer.LONG_KEYS)}
    assert {row["k"]: row["v"] for row in long_keys} == expected
    assert [row["k"] for row in long_keys] == sorted(expected)


def test_format_1_is_looked_up(golden: Store) -> None:
    """Point lookups find the rows of a store of format 1, by long keys too."""
    writer = _writer()

    row = golden.table("every_type").get("full", 1)

    assert row is not None
    assert row.text == writer.FULL["text"]
    assert golden.table("every_type").get("gone", 0) is None
    for value, key in enumerate(writer.LONG_KEYS):
        assert golden.table("long_keys").get(key) == (key, value)


def test_format_1_keeps_its_epochs_and_is_whole(golden: Store) -> None:
    """Earlier epochs of a store of format 1, whose log is folded, are there, and it is whole."""
    writer = _writer()

    names = [row["name"] for row in golden.at(3).table("every_type").to_arrow().to_pylist()]

    assert names == [writer.GONE["name"], writer.FULL["name"]]
    assert golden.check().problems == ()
    assert (_FOLDER / "v1" / "_archive").exists()


def test_format_1_is_written_to(golden: Store) -> None:
    """A store of format 1 takes a commit, and is whole after it."""
    state = golden.state_table("long_keys")
    state.insert(["new", 1])
    state.commit()

    assert golden.table("long_keys").get("new") == ("new", 1)
    assert golden.check().problems == ()
