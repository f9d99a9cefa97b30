"""What the benchmarks ran on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_LIBRARIES = ("relstate", "pyspark", "pyarrow", "numpy", "lmdb", "xxhash")


def machine() -> dict[str, Any]:
    """Return the machine, the interpreter and the libraries."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _line_of("/proc/cpuinfo", "model name") or platform.processor(),
        "memory": _line_of("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }


def commit() -> str | None:
    """Return the git commit of the sources, with a plus if they were changed; None if unknown."""
    commit_id = _git("rev-parse", "HEAD")
    return f"{commit_id}+" if commit_id and _git("status", "--porcelain") else commit_id


def _git(*arguments: str) -> str | None:
    folder = Path(__file__).parent
    try:
        run = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def _line_of(path: str, label: str) -> str | None:
    """Return the text after a label in one of the kernel's files; None without the label."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(label)), None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
