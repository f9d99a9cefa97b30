"""Machines for the tests of doctor: programs in a folder, Pythons with given answers."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from relstate.connector.cli.pythons import Interpreter, Role
from relstate.connector.cli.surroundings import Surroundings

SHELL = shutil.which("sh")
VERSIONS = {
    "relstate": "0.1.0",
    "pyspark": "4.3.0",
    "pyarrow": "26.0.1",
    "numpy": "2.4.6",
    "lmdb": "3.0.0",
    "xxhash": "4.1.0",
    "sqlglot": "30.30.0",
    "pandas": "2.3.3",
}


def script(path: Path, body: str) -> str:
    """Write an executable shell script and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{SHELL}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def fake_python(path: Path, **changes: Any) -> str:
    """Put a Python at a path that has all relstate needs, but for what is changed."""
    said = {
        "executable": str(path),
        "prefix": str(path.parent),
        "version": [3, 11, 7],
        "versions": VERSIONS | changes.pop("versions", {}),
        "troubles": {},
        "listed": ["pyspark_relstate"],
        **changes,
    }
    for module in said["troubles"]:
        said["versions"].pop(module, None)
    return script(path, f"cat <<'END'\nnoise\nrelstate-doctor:{json.dumps(said)}\nEND")


def fake_java(path: Path, first_line: str) -> str:
    """Put a Java at a path that prints this about its version."""
    return script(path, f"echo '{first_line}' >&2")


def machine(*folders: Path, executable: str = sys.executable, **variables: str) -> Surroundings:
    """Return the surroundings of a process with these folders in its PATH, and ``cat``."""
    cat = Path(shutil.which("cat") or "/bin/cat").parent
    path = ":".join(map(str, (*folders, cat)))
    return Surroundings({"PATH": path, **variables}, executable)


def role(program: str, **changes: Any) -> Role:
    """Return a Python in its role, which has all relstate needs, but for what is changed."""
    said: dict[str, Any] = {
        "executable": program,
        "prefix": "/prefix",
        "version": (3, 11, 7),
        "versions": VERSIONS,
        "troubles": {},
        "listed": ("pyspark_relstate",),
        **changes,
    }
    return Role("a Python", program, "named here", Interpreter(**said))
