"""Prints the public interface: what a caller may name, one line each.

    python scripts/public_interface.py > tests/public_interface.txt

Lines are of the classes and functions of docs/reference/python.md with their parameters, errors,
options of Spark's reads and writes, commands with their parameters, metrics, and the fields of the
JSON that commands write. A test compares them with what was recorded at the last release.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

import relstate
from relstate.connector import options
from relstate.connector.cli.program import INTERRUPTED, Failure, program
from relstate.connector.figures.metrics import store_metrics
from relstate.storage import Store, errors

_REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
_OPTIONS = {
    "read": options._READ,
    "feed": options._FEED,
    "follow": options._FOLLOW,
    "write": options._WRITE,
    "stream": options._STREAM,
}
_EXIT_CODES = {
    0: "done",
    1: "no row, or a problem was found",
    Failure.exit_code: "an error",
    INTERRUPTED: "interrupted",
}
# Commands that write JSON, and their arguments after the store.
_COMMANDS = {
    "tables": [],
    "describe": ["t"],
    "history": [],
    "check": [],
    "compact": ["t"],
    "vacuum": ["--dry-run"],
    "erase": ["t", "--key", "k=1", "--dry-run"],
    "repair": ["--clock"],
    "doctor": [],
}


def public_interface() -> list[str]:
    """Return all lines, sorted."""
    parts = (_names(), _errors(), _options(), _commands())
    lines = [line for part in parts for line in part]
    with tempfile.TemporaryDirectory(prefix="relstate-") as folder:
        path = f"{folder}/store"
        with Store.create(path) as store:
            store.create_table("t", "k INT, v INT", primary_key=["k"])
            store.write("t", [{"k": 1, "v": 2}])
            lines += [f"metric {metric.name}" for metric in store_metrics(store)]
        lines += _json_fields(path)
    return sorted(set(lines))


def _names() -> Iterator[str]:
    for name in relstate.__all__:
        value = getattr(relstate, name)
        called = inspect.isroutine(value)
        yield f"name relstate.{name}{_parameters(value) if called else ''}"
    for path in re.findall(r"^::: (\S+)$", _REFERENCE.read_text(encoding="utf-8"), re.MULTILINE):
        module, _, name = path.rpartition(".")
        value = getattr(import_module(module), name)
        if not inspect.isclass(value):
            yield f"function {name}{_parameters(value)}"
            continue
        for attribute in dir(value):
            if not attribute.startswith("_"):
                member = inspect.getattr_static(value, attribute)
                yield f"attribute {name}.{attribute}{_parameters(member)}"


def _parameters(value: Any) -> str:
    """Return the parameters of a function, without their types; nothing for a value."""
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if not callable(function) or not inspect.isroutine(function):
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(parameters))


def _errors() -> Iterator[str]:
    for name in errors.__all__:
        value = getattr(errors, name)
        if inspect.isclass(value):
            yield f"error {name}({', '.join(base.__name__ for base in value.__bases__)})"


def _options() -> Iterator[str]:
    for kind, parsers in _OPTIONS.items():
        yield from (f"option of a {kind}: {name}" for name in parsers)


def _commands() -> Iterator[str]:
    yield from (f"exit code {code}: {meaning}" for code, meaning in _EXIT_CODES.items())
    for name, command in program.commands.items():
        for parameter in command.params:
            given = parameter.opts if isinstance(parameter, click.Option) else [parameter.name]
            yield f"command {name} {' '.join(map(str, given))}"


def _json_fields(path: str) -> Iterator[str]:
    for command, arguments in _COMMANDS.items():
        result = CliRunner().invoke(program, [command, path, *arguments, "--json"])
        texts = [result.stdout]
        if command == "history":
            texts = result.stdout.splitlines()
        for text in texts:
            yield from (f"json {command} {field}" for field in _fields(json.loads(text)))


def _fields(value: Any, place: str = "") -> Iterator[str]:
    """Yield the places of all fields in a JSON value."""
    if isinstance(value, list):
        for item in value:
            yield from _fields(item, f"{place}[]")
    elif isinstance(value, dict):
        for name, item in value.items():
            field = f"{place}.{name}" if place else name
            yield field
            yield from _fields(item, field)


if __name__ == "__main__":
    sys.stdout.write("\n".join(public_interface()) + "\n")
