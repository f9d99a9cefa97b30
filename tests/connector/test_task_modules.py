"""The law of what tasks import: only what a task needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

_MODULES = (
    "sink.dml_task",
    "sink.lookup_task",
    "sink.numbered_parts",
    "sink.part_task",
    "sink.write",
    "source.read",
    "source.stream",
    "views.row_copy",
    "views.scans",
    "views.task",
)


def test_modules_of_tasks_do_not_load_the_parser() -> None:
    """A new Python worker of Spark imports one of them first; sqlglot takes a quarter of that."""
    names = [f"relstate.connector.{name}" for name in _MODULES]
    program = (
        f"import sys, importlib\nfor name in {names}:\n    importlib.import_module(name)\n"
        "    if 'sqlglot' in sys.modules:\n        sys.exit(name)"
    )

    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, check=False)

    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("module", "most"),
    [("source.read", 175), ("sink.write_plan", 180), ("sink.write", 175)],
)
def test_planning_imports_only_what_it_needs(module: str, most: int) -> None:
    """Spark plans a read, a write and a commit in processes of their own, one after another."""
    program = (
        f"import sys, relstate.connector.{module}\n"
        "print(sum(name.startswith('relstate') for name in sys.modules))\n"
        "print(any(name.startswith('relstate.storage.expression') for name in sys.modules))"
    )

    run = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, check=True, text=True
    )
    count, has_expressions = run.stdout.split()

    assert int(count) <= most
    assert has_expressions == "False"
