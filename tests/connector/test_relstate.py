"""The laws of the public face, ``import relstate``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.connector.sql import Database
from relstate.storage import Store, errors
from support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_error_is_public() -> None:
    """Users catch relstate's errors by the names of the package itself."""
    public = {name for name in relstate.__all__ if name.endswith("Error")}

    assert public == set(errors.__all__)
    assert all(getattr(relstate, name) is getattr(errors, name) for name in public)


def test_a_store_is_created_opened_and_connected(spark: SparkSession, tmp_path: Path) -> None:
    """The three functions of the package return a Store, a Store and a Database."""
    path = str(tmp_path / "store")

    with relstate.create(path, vnode_count=8) as store:
        assert isinstance(store, Store)
    with relstate.open(path) as store:
        assert store.settings.vnode_count == 8
    assert isinstance(relstate.connect(spark, path), Database)


def test_other_names_are_unknown() -> None:
    """The lookup of names at first use does not invent any."""
    with pytest.raises(AttributeError, match="no attribute 'spark'"):
        _ = relstate.spark  # type: ignore[attr-defined]


def test_the_public_names_are_listed() -> None:
    """A shell completes all names, before any was used, and no others."""
    program = "import relstate; print(*dir(relstate))"
    command = [sys.executable, "-P", "-c", program]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert {"connect", "create", "open", "Store", "Row", "ConflictError"} <= set(listed)
    assert sorted(relstate.__all__) == listed == dir(relstate)
    assert all(hasattr(relstate, name) for name in listed)


def test_types_of_the_public_names_are_known(tmp_path: Path) -> None:
    """Under `mypy --strict` errors can be caught by name, and a wrong name is found."""
    program = tmp_path / "program.py"
    program.write_text(
        "import relstate\n"
        "try:\n"
        "    reveal_type(relstate.open('s').epoch)\n"
        "except relstate.ConflictError as error:\n"
        "    reveal_type(error)\n"
        "relstate.ConflitError\n"
    )
    cache = str(tmp_path / "cache")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(program)]
    variables = os.environ | {"MYPYPATH": str(ROOT / "package")}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)

    lines = done.stdout.splitlines()
    assert [line.split("program.py:")[1] for line in lines if "program.py:" in line] == [
        '3: note: Revealed type is "int"',
        '5: note: Revealed type is "relstate.storage.errors.ConflictError"',
        '6: error: Module has no attribute "ConflitError"  [attr-defined]',
    ]


def test_the_version_is_told() -> None:
    """It is the version of the installed distribution."""
    assert re.match(r"\d+", relstate.__version__)
