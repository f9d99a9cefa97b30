"""The environments of the peers: Python packages by pip, jars by Maven's ordinary client.

Each peer runs on the newest Spark for which its project publishes a jar, so that there is an
environment for each Spark. What is there already is not made again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a peer needs: an environment with packages, and jars by their coordinates."""

    environment: str
    packages: Sequence[str]
    jars: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer runs."""

    python: str
    jars: Sequence[str] = ()


class NotAvailableError(Exception):
    """A peer cannot run here; the message says why."""


# The package itself, with the extra for the peers that need no other Spark.
_OWN = Needs("spark-4.3", ["--editable", f"{_ROOT}[peers]"])
_DELTA, _ICEBERG, _HUDI = "4.4.0", "1.12.0", "1.2.0"

NEEDS: dict[str, Needs] = {
    "relstate": _OWN,
    "parquet": _OWN,
    "postgresql": _OWN,
    "duckdb": _OWN,
    "sqlite": _OWN,
    "rocksdb": _OWN,
    "delta": Needs(
        "spark-4.2",
        ["pyspark~=4.2.0", "pandas<3", "pyarrow"],
        [
            f"io.delta:delta-spark_4.2_2.13:{_DELTA}",
            f"io.delta:delta-storage:{_DELTA}",
            f"io.delta:delta-kernel-api:{_DELTA}",
            f"io.delta:delta-kernel-defaults:{_DELTA}",
            f"io.delta:delta-kernel-unitycatalog:{_DELTA}",
        ],
    ),
    "iceberg": Needs(
        "spark-4.1",
        ["pyspark~=4.1.0", "pandas<3", "pyarrow"],
        [f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{_ICEBERG}"],
    ),
    # Spark 3.5 works with none of the newest versions of these packages.
    "hudi": Needs(
        "spark-3.5",
        ["pyspark~=3.5.0", "pandas<3", "pyarrow<20", "numpy<2", "setuptools"],
        [f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{_HUDI}"],
    ),
}


def this_environment(name: str) -> Place:
    """Return the interpreter that runs this, for peers that need no jars."""
    if NEEDS[name].jars:
        raise NotAvailableError("it needs an environment of its own")
    return Place(sys.executable)


def own_environment(folder: Path, name: str) -> Place:
    """Return where a peer runs, below a folder; make what is not there."""
    needs = NEEDS[name]
    # Jars first: they are small, and a jar that cannot be had ends it.
    jars = [str(_jar(folder / "jars", coordinates)) for coordinates in needs.jars]
    return Place(str(_python(folder / needs.environment, needs.packages)), jars)


def _python(environment: Path, packages: Sequence[str]) -> Path:
    python, stamp = environment / "bin" / "python", environment / "installed"
    if not stamp.exists():
        if not python.exists():
            _run([sys.executable, "-m", "venv", str(environment)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *packages])
        stamp.touch()
    return python


def _jar(folder: Path, coordinates: str) -> Path:
    _, artifact, version = coordinates.split(":")
    jar = folder / f"{artifact}-{version}.jar"
    if not jar.exists():
        copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy"]
        _run([*copy, f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"], folder)
    return jar


def _run(command: Sequence[str], folder: Path = _ROOT) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    print(" ".join(command), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        raise NotAvailableError(f"{command[0]} is not installed") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise NotAvailableError(" ".join(lines[:1])[:300] or f"{command[0]} failed")
