"""A store of a later version of relstate: every command says so, by the name of what it uses."""

from __future__ import annotations

from pathlib import Path

import pytest

import relstate
from relstate.connector.cli.program import program
from support.commands import run
from support.later_version import commit_as_later_version

COMMANDS = {
    "tables": [],
    "views": [],
    "describe": ["t"],
    "history": [],
    "quarantine": ["t"],
    "get": ["t", "1"],
    "scan": ["t"],
    "changes": ["t", "--from", "2"],
    "load": ["t", "rows.csv"],
    "export": ["t", "-o", "rows.csv"],
    "sql": ["SHOW TABLES"],
    "compact": ["t"],
    "vacuum": ["--retention", "0"],
    "erase": ["t", "--key", "k=1"],
    "restore": ["t", "--version", "2"],
    "check": [],
    "repair": ["--clock"],
    "ui": [],
    "report": ["-o", "page.html"],
    "metrics": [],
    "redis": [],
}
"""Every command that opens a store, and its arguments after the store."""

READ = {"tables", "views", "describe", "history", "get", "scan", "check", "metrics"}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a store with a row; the working folder has a file to load."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("k,v\n2,2\n", "utf-8")
    with relstate.create(str(tmp_path / "shop")) as store:
        store.create_table("t", "k INT, v INT", primary_key=["k"])
        store.write("t", [{"k": 1, "v": 1}])
        return str(store.path)


def announce(path: str, name: str, needed_by: str) -> None:
    """Let a later version commit a feature."""
    with relstate.open(path) as store:
        commit_as_later_version(store.environment, features={name: needed_by})


def test_all_commands_are_tried() -> None:
    """The others open no store, or only look for what keeps Spark from it."""
    assert set(COMMANDS) == set(program.commands) - {"create", "cache", "doctor"}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "sql"])
def test_a_command_names_what_it_does_not_know(path: str, command: str) -> None:
    """One line, and 2: the store is not damaged, and nothing was found out about it."""
    announce(path, "sparse pages", "readers")

    ended = run(command, path, *COMMANDS[command])

    assert ended.code == 2
    assert ended.output == ""
    message = " ".join(ended.errors.split())
    assert f"FormatVersionError: {path}/_log/" in message
    assert "uses the feature 'sparse pages', which this version does not know" in message
    assert "update relstate to read it" in message


@pytest.mark.parametrize("command", sorted(READ))
def test_a_command_that_only_reads_needs_no_feature_of_writers(path: str, command: str) -> None:
    """It shows the store as it is."""
    announce(path, "hints", "writers")

    assert run(command, path, *COMMANDS[command]).code == 0


@pytest.mark.parametrize("command", ["load", "vacuum", "erase", "restore", "redis"])
def test_a_command_that_writes_needs_every_feature(path: str, command: str) -> None:
    """One line, and 2."""
    announce(path, "hints", "writers")

    ended = run(command, path, *COMMANDS[command])

    assert ended.code == 2
    message = " ".join(ended.errors.split())
    assert "FormatVersionError" in message
    assert "the feature 'hints'" in message
    assert "this version can read it" in message
