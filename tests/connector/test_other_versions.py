"""A store and its views move between versions of Spark, both ways.

The environments of the other versions are those of `make test-spark`; a test is skipped where there
is none.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from support.sources import ROOT
from support.version_life import TABLE, live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_a_store_moves_between_versions(spark: SparkSession, tmp_path: Path, version: str) -> None:
    """Views that either has created are refreshed by the other, and are their SELECTs."""
    python = ROOT / "build" / f"spark-{version}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"make test-spark VERSION={version} makes the environment of this version")
    path = str(tmp_path / "store")
    with relstate.create(path) as store:
        store.create_table("t", TABLE, primary_key=["k"])

    _live_in(python, path, 1)
    live(spark, path, "this", 2)
    _live_in(python, path, 3)
    live(spark, path, "this", 4)


def _live_in(python: Path, path: str, step: int) -> None:
    """Do a step in another version; fails with what it has written if that fails."""
    names = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    run = subprocess.run(
        [python, "-P", "-W", "error::RuntimeWarning", "-m", "support.version_life", path, "other",
         str(step)],
        env={**os.environ, **names, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-4000:]
