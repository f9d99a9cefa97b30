"""The laws of ``compact``, ``vacuum``, ``check`` and ``repair``."""

from __future__ import annotations

import shutil
from pathlib import Path

from relstate.storage import Store
from relstate.storage.clock import SystemClock
from relstate.storage.paths import entry_path
from support.clock import ManualClock
from support.commands import run
from support.commits import quick_environment


def test_files_are_merged_and_then_removed(shop: Store) -> None:
    """Compaction merges a table's files and keeps its rows; vacuum removes the old files."""
    before = run("scan", shop.path, "orders", "--json").output

    merged = run("compact", shop.path, "orders", "--json").document
    would = run("vacuum", shop.path, "--retention", "0", "--dry-run", "--json").document
    removed = run("vacuum", shop.path, "--retention", "0", "--json").document

    assert merged["epoch"] == 7
    assert merged["files_read"] == 2
    assert merged["files_written"] >= 1
    assert merged["bytes_read"] > 0
    assert would["files"] == removed["files"] == 2
    assert removed["oldest_epoch"] == 7
    assert run("scan", shop.path, "orders", "--json").output == before
    assert "EpochExpiredError" in run("scan", shop.path, "orders", "--at", "3").errors


def test_within_the_retention_nothing_is_removed(shop: Store) -> None:
    """By default the store's own retention applies, and older epochs stay readable."""
    assert run("compact", shop.path, "--json").document["files_read"] == 2
    assert run("vacuum", shop.path, "--json").document["files"] == 0
    assert len(run("scan", shop.path, "orders", "--at", "3", "--json").lines) == 3


def test_nothing_to_do_is_no_epoch(shop: Store) -> None:
    """A second compaction finds nothing to merge and commits nothing."""
    first = run("compact", shop.path, "--json").document
    second = run("compact", shop.path, "--json").document

    assert second["files_read"] == second["files_written"] == 0
    assert second["epoch"] == first["epoch"]


def test_upkeep_is_shown(shop: Store) -> None:
    """The tables have files and bytes; those of a dry run say what would be removed."""
    assert "files read" in run("compact", shop.path).output
    assert "would be removed" in run("vacuum", shop.path, "--dry-run").output
    assert "files removed" in run("vacuum", shop.path).output


def test_what_cannot_be_kept_up_is_an_error(shop: Store) -> None:
    """A missing table and a negative retention are errors."""
    assert "TableNotFoundError" in run("compact", shop.path, "nothing").errors
    result = run("vacuum", shop.path, "--retention", "-1")
    assert (result.code, result.output) == (2, "")
    assert "UsageError" in result.errors


def test_history_names_what_is_expired(shop: Store) -> None:
    """The log outlives vacuum; a table dropped before the oldest epoch has its id as name."""
    run("vacuum", shop.path, "--retention", "0")

    lines = {line["epoch"]: line for line in run("history", shop.path, "--json").lines}

    assert sorted(lines) == list(range(1, max(lines) + 1))
    assert lines[3]["tables"] == ["orders"]
    assert lines[6]["tables"] == ["table 2"]
    assert lines[5]["tables"] == ["gone"]


def test_a_whole_store_passes(shop: Store) -> None:
    """The report counts what was verified, and the exit code is 0."""
    result = run("check", shop.path, "--json")

    assert result.code == 0
    assert result.document == {
        "epoch": 6,
        "segments": 2,
        "entries": 4,
        "orphans": 0,
        "problems": [],
    }
    assert "problems" in run("check", shop.path).output


def test_a_damaged_store_is_1(tmp_path: Path) -> None:
    """The problem is named, and the exit code is 1, not 2, which is for errors."""
    with Store.create(str(tmp_path / "damaged")) as store:
        store.create_table("t", "id INT", primary_key=["id"])
        state = store.state_table("t")
        state.insert([1])
        state.commit()
    (segment,) = (tmp_path / "damaged" / "segments").iterdir()
    segment.write_bytes(segment.read_bytes()[:-1] + b"\xff")

    result = run("check", store.path, "--json")

    assert result.code == 1
    assert segment.name in result.document["problems"][0]
    assert segment.name in run("check", store.path).output.replace("\n", "")


def test_check_reports_a_store_that_cannot_be_opened(shop: Store, tmp_path: Path) -> None:
    """A damaged log is a problem in the report with exit code 1, not an error of the program."""
    copy = shutil.copytree(shop.path, tmp_path / "copy")
    path = Path(copy, entry_path(shop.epoch))
    path.write_bytes(path.read_bytes()[:-9])

    ended = run("check", str(copy), "--json")

    assert ended.code == 1
    (problem,) = ended.document["problems"]
    assert str(path) in problem


def test_check_reads_a_part_of_the_files(shop: Store) -> None:
    """All parts together read each file once; what is no part is an error."""
    whole = run("check", shop.path, "--json").document["segments"]
    parts = [run("check", shop.path, "--part", f"{n}/3", "--json") for n in (1, 2, 3)]

    assert sum(part.document["segments"] for part in parts) == whole
    assert run("check", shop.path, "--part", "half").code == 2
    assert "OptionError" in run("check", shop.path, "--part", "4/3").errors


def test_check_holds_the_expected_epoch(shop: Store) -> None:
    """A newest epoch below ``--expect-epoch`` is a problem."""
    assert run("check", shop.path, "--expect-epoch", str(shop.epoch)).code == 0
    ended = run("check", shop.path, "--expect-epoch", str(shop.epoch + 1))
    assert ended.code == 1
    assert "the end of the log is missing" in " ".join(ended.output.split())


def test_repair_sets_the_clock_back(tmp_path: Path) -> None:
    """It commits after a commit by a clock that was ahead, and nothing otherwise."""
    ahead = ManualClock(SystemClock().now() + 10**12)
    path = str(tmp_path / "store")
    Store.create(path, environment=quick_environment(path, ahead)).close()

    assert run("repair", path).code == 2
    assert run("repair", path, "--clock", "--json").document == {"epoch": 2, "repaired": True}
    assert run("repair", path, "--clock", "--json").document == {"epoch": 2, "repaired": False}
    with Store.open(path) as store:
        store.create_table("t", "k BIGINT", primary_key=["k"])


def test_a_row_is_erased_without_spark(store: Store, tmp_path: Path) -> None:
    """A store without views needs none; keys of several columns are by name, or JSON."""
    store.create_table("t", "a INT, b STRING, v STRING", primary_key=["a", "b"])
    store.create_table("lines", "line STRING")
    secret = "secret-4fb1c09d77a2"
    rows = [{"a": number, "b": "x=1", "v": secret} for number in range(4)]
    store.write("t", [*rows, {"a": 9, "b": "y", "v": "stays"}])

    dry = run("erase", store.path, "t", "--key", "a=0,b=x=1", "--dry-run")
    ended = run(
        *("erase", store.path, "t", "--key", "a=0,b=x=1", "--key", "B=x=1,A=1"),
        *("--key", '{"a": 2, "b": "x=1"}', "--key", '{"b": "x=1", "a": "3"}', "--json"),
    )

    assert "files that may hold the rows" in dry.output
    assert ended.code == 0, ended.errors
    assert ended.document["tables"] == ["t"]
    assert store.table("t").to_dicts() == [{"a": 9, "b": "y", "v": "stays"}]
    assert not any(
        secret.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    )
    assert "--key 'a=0' does not name" in run("erase", store.path, "t", "--key", "a=0").errors
    assert "'x' is not a INT" in run("erase", store.path, "t", "--key", "a=x,b=y").errors
    assert "erase without --key" in run("erase", store.path, "lines", "--key", "1").errors
    assert run("erase", store.path, "lines").code == 0
