"""The faulty environment, which other tests rest their proofs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from relstate.storage.disk import Disk
from support.faulty_environment import FaultyEnvironment, SimulatedCrash


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store's folder with a folder in it."""
    (tmp_path / "store" / "_log").mkdir(parents=True)
    return tmp_path / "store"


def test_every_system_call_is_a_touch() -> None:
    """The faulty disk overrides every method: every call is counted."""
    disk = type(FaultyEnvironment("/nowhere")._faulty_disk)
    calls = [name for name in vars(Disk) if not name.startswith("_")]

    assert calls
    assert all(name in vars(disk) for name in calls)


def test_a_crash_is_final(root: Path) -> None:
    """The call that crashed did nothing, and neither does any later one."""
    environment = FaultyEnvironment(root, crash_at=3)

    with environment.crashing():
        environment.put_if_absent("_log/a", b"content")

    assert environment.struck
    assert len(environment.touches) == 3
    assert [path.suffix for path in (root / "_log").iterdir()] == [".tmp"]
    with pytest.raises(SimulatedCrash):
        environment.read("_log/a")


def test_a_power_cut_undoes_what_was_not_synced(root: Path) -> None:
    """An unsynced name is gone, an unsynced removal is undone, unsynced content is gone."""
    (root / "_log" / "old").write_bytes(b"old")
    environment = FaultyEnvironment(root)
    (root / "_log" / "unsynced").write_bytes(b"no name")
    environment.publish("_log/unsynced")
    environment.remove("_log/old")
    environment.power_cut()

    assert {path.name: path.read_bytes() for path in (root / "_log").iterdir()} == {"old": b"old"}


def test_a_power_cut_empties_a_file_whose_content_was_not_synced(root: Path) -> None:
    """The name survived by the folder's sync; the content did not."""
    environment = FaultyEnvironment(root)
    (root / "_log" / "a").write_bytes(b"content")
    environment.sync_folder("_log")
    environment.power_cut()

    assert (root / "_log" / "a").read_bytes() == b""


def test_a_power_cut_spares_what_was_synced(root: Path) -> None:
    """A file written at its local path survives when it and its folder were synced."""
    environment = FaultyEnvironment(root)
    Path(environment.local_path("_log/a")).write_bytes(b"content")
    environment.publish("_log/a")
    environment.sync_folder("_log")
    environment.put_if_absent("_log/b", b"more")
    environment.remove("_log/a")
    environment.sync_folder("_log")
    environment.power_cut()

    assert {path.name: path.read_bytes() for path in (root / "_log").iterdir()} == {"b": b"more"}


def test_a_folder_that_was_not_synced_loses_all_in_it(root: Path) -> None:
    """Files in it are lost even if they were synced themselves."""
    environment = FaultyEnvironment(root)
    (root / "segments").mkdir()
    (root / "segments" / "a").write_bytes(b"content")
    environment.publish("segments/a")
    environment.sync_folder("segments")
    environment.power_cut()

    assert [path.name for path in root.iterdir()] == ["_log"]


def test_a_drawn_power_cut_keeps_loses_or_tears_and_nothing_else(root: Path) -> None:
    """Over many seeds all three occur; what is synced never changes."""
    outcomes = set()
    for seed in range(60):
        folder = root / f"store{seed}"
        folder.mkdir()
        environment = FaultyEnvironment(folder)
        environment.put_if_absent("safe", b"safe")
        (folder / "a").write_bytes(b"content")
        environment.power_cut(seed)

        assert (folder / "safe").read_bytes() == b"safe"
        outcomes.add((folder / "a").read_bytes() if (folder / "a").exists() else None)

    assert {None, b"", b"content"} < outcomes
    assert all(content is None or b"content".startswith(content) for content in outcomes)


def test_what_happens_just_before_a_touch_is_not_counted(root: Path) -> None:
    """Others can act at an exact moment, through the same environment."""

    def put(touch: str) -> None:
        if touch == "read _log/a":
            environment.put_if_absent("_log/a", b"x")

    environment = FaultyEnvironment(root, before=put)

    assert environment.read("_log/a") == b"x"
    assert environment.touches == ["read _log/a"]
