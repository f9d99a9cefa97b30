"""`relstate cache`: what it shows of a machine's copies, and that it removes them."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from relstate.connector.cli.program import program
from relstate.storage import Store
from support.object_stores import CountedStore
from support.stores import upsert


def run(*arguments: str) -> None:
    """Run the command."""
    program.main(["cache", *arguments], standalone_mode=False)


def test_the_copies_are_shown_and_cleared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By store, with its location; those that this process has open stay."""
    uri = f"memory://{uuid.uuid4().hex}/shop"
    store = Store.create("", environment=CountedStore(uri, tmp_path))
    store.create_table("t", "id BIGINT", primary_key=["id"])
    upsert(store, "t", [(1,)])
    assert store.table("t").get(1) is not None

    run("--folder", str(tmp_path), "--clear", "--json")
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["location"], shown["files"]) == (uri, 1)

    store.close()
    del store
    run("--folder", str(tmp_path), "--clear", "--json")
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["files"], shown["bytes"]) == (0, 0)
