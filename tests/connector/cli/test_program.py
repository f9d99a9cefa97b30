"""The laws of how the program ends."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relstate.connector.cli import tables
from relstate.connector.cli.program import program
from relstate.storage import Store, install_command
from support.commands import run
from support.sources import ROOT
from support.stores import upsert

_MAIN = "import sys; from relstate.connector.cli import main; sys.exit(main())"


def test_an_error_is_one_line(tmp_path: Path) -> None:
    """The line has the class and the message of relstate's error; stdout stays empty."""
    result = run("tables", str(tmp_path / "nowhere"))

    assert (result.code, result.output) == (2, "")
    assert result.errors.startswith("relstate: StoreNotFoundError: ")
    assert result.errors.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("frobnicate",), ("tables",), ("tables", "--frob", "."), ("history", ".", "--limit", "-1")],
)
def test_a_wrong_call_is_one_line(words: tuple[str, ...]) -> None:
    """Click's message has the form of every other error, and names the help."""
    result = run(*words)

    assert (result.code, result.output) == (2, "")
    assert result.errors.startswith("relstate: UsageError: ")
    assert "--help" in result.errors
    assert result.errors.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "broken disk"),
        ZeroDivisionError("two\nlines"),
        RuntimeError("of Spark\n\tat org.apache.spark.X.y(X.scala:1)"),
    ],
)
def test_no_error_shows_a_traceback(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Even a fault of relstate's own is one line."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(tables, "summarize_tables", fail)

    result = run("tables", store.path)

    assert result.code == 2
    assert result.errors.startswith(f"relstate: {type(error).__name__}: ")
    assert result.errors.count("\n") == 1
    assert "org.apache" not in result.errors


def test_an_interrupt_is_130(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the program with the exit code of shells, and a word."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "summarize_tables", interrupt)

    result = run("tables", store.path)

    assert (result.code, result.output, result.errors) == (130, "", "relstate: interrupted\n")


def test_an_interrupt_ends_the_process_with_130(store: Store) -> None:
    """A real SIGINT, sent while a command works, prints no traceback."""
    # One long pause could miss a signal that comes right before it; and who runs the tests in the
    # background may have them ignore it.
    waiting = (
        "import signal, sys, time; from relstate.connector.cli import main, tables\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def wait(*_, **__):\n"
        "    print('working', flush=True)\n"
        "    while True: time.sleep(0.05)\n"
        "tables.summarize_tables = wait; sys.exit(main())"
    )
    command = [sys.executable, "-c", waiting, "tables", store.path]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (process.returncode, output, errors) == (130, "", "relstate: interrupted\n")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_reader_that_went_away_ends_it_quietly(shop: Store, form: list[str]) -> None:
    """A closed pipe is not an error."""
    upsert(shop, "orders", [(number, "x" * 200, None, None) for number in range(2000)])
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", _MAIN, "scan", shop.path, "orders", *form]

    with os.fdopen(writing) as pipe:
        done = subprocess.run(
            command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )

    assert done.stderr == ""
    assert done.returncode not in (0, 2)


def test_little_output_to_nobody_is_quiet_too(shop: Store) -> None:
    """Output that fits a buffer meets the closed pipe only at the end of the process."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", _MAIN, "tables", shop.path, "--json"]

    with os.fdopen(writing) as pipe:
        done = subprocess.run(
            command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )

    assert done.stderr == ""


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [("click", "tables", "cli"), ("rich", "tables", "cli"), ("click", "ui", "ui")],
)
def test_without_its_extra_it_says_what_to_install(missing: str, command: str, extra: str) -> None:
    """Without click or rich there is one plain line and exit code 2; what it names can be run."""
    code = f"import sys; sys.modules[{missing!r}] = None; {_MAIN}"
    words = [sys.executable, "-c", code, command, "store"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"relstate: {missing} is missing: {install_command(extra)}\n"


def test_looking_up_rows_loads_no_spark(shop: Store) -> None:
    """A command that does not need Spark does not import it."""
    code = (
        "import sys; from relstate.connector.cli.program import program\n"
        f"program(['get', {shop.path!r}, 'orders', '1'], standalone_mode=False)\n"
        "assert not {'pyspark', 'py4j', 'sqlglot'} & set(sys.modules), sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_help_and_version_are_data() -> None:
    """Both go to stdout with exit code 0."""
    assert run("--help").code == run("--version").code == 0
    assert "Commands:" in run("--help").output
    assert "relstate" in run("--version").output


def test_every_help_has_an_example() -> None:
    """It is a call of this very command, whose options it has."""
    for name, command in program.commands.items():
        lines = [line for line in run(name, "--help").output.splitlines() if "Example:" in line]
        assert len(lines) == 1
        words = shlex.split((command.epilog or "").removeprefix("Example: "))
        assert words[:2] == ["relstate", name]
        command.make_context(name, words[2:])


def test_the_page_of_commands_shows_all_and_what_it_shows_works(store: Store) -> None:
    """The lines of docs/command-line.md run in their order, on a store of orders."""
    store.create_table(
        "orders",
        "order_id BIGINT, customer STRING, amount DECIMAL(12,2)",
        primary_key=["order_id"],
    )
    upsert(store, "orders", [(42, "customer 2", None)])
    page = (ROOT / "docs" / "command-line.md").read_text()
    shown = [
        shlex.split(line.replace("/tmp/shop", store.path), comments=True)[1:]
        for line in page.splitlines()
        if line.startswith("relstate ")
    ]

    assert {name for name, *_ in shown} == set(program.commands)
    # What serves until it is interrupted, or needs Spark, is tested elsewhere.
    ending = [words for words in shown if words[0] not in ("ui", "redis", "sql")]
    for words in ending:
        # Whether doctor finds a problem is the machine's business.
        assert run(*words).code == 0 or words[0] == "doctor", words
