"""The laws of ``check``."""

from __future__ import annotations

from pathlib import Path

from relstate.storage import Store
from support.commands import run


def test_a_whole_store_passes(shop: Store) -> None:
    """What was verified is told, and the exit code is 0."""
    found = run("check", shop.path, "--json")

    assert found.code == 0
    assert found.document == {
        "epoch": 6,
        "segments": 2,
        "entries": 4,
        "orphans": 0,
        "problems": [],
    }
    assert "problems" in run("check", shop.path).output


def test_a_damaged_store_is_1(tmp_path: Path) -> None:
    """A problem is named, and the exit code is not that of an error."""
    with Store.create(str(tmp_path / "damaged")) as store:
        store.create_table("t", "id INT", primary_key=["id"])
        state = store.state_table("t")
        state.insert([1])
        state.commit()
    (segment,) = (tmp_path / "damaged" / "segments").iterdir()
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")

    found = run("check", store.path, "--json")

    assert found.code == 1
    assert segment.name in found.document["problems"][0]
    assert segment.name in run("check", store.path).output.replace("\n", "")
