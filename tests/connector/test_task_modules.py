"""The law of what tasks import: only what a task needs."""

from __future__ import annotations

import subprocess
import sys

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
