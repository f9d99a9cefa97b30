"""The public face."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import relstate
from relstate.connector.sql import Database
from relstate.storage import Store, errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_error_is_public() -> None:
    """Users catch relstate's errors by the names of the package itself."""
    public = {name for name in relstate.__all__ if name.endswith("Error")}

    assert public == set(errors.__all__)
    assert all(getattr(relstate, name) is getattr(errors, name) for name in public)


def test_a_store_is_created_opened_and_connected(spark: SparkSession, tmp_path: Path) -> None:
    """The three ways in."""
    path = str(tmp_path / "store")

    with relstate.create(path, vnode_count=8) as store:
        assert isinstance(store, Store)
    with relstate.open(path) as store:
        assert store.settings.vnode_count == 8
    assert isinstance(relstate.connect(spark, path), Database)


def test_other_names_are_unknown() -> None:
    """Looking names up late must not invent any."""
    with pytest.raises(AttributeError, match="no attribute 'spark'"):
        _ = relstate.spark  # type: ignore[attr-defined]


def test_the_version_is_told() -> None:
    """It is that of the installed distribution."""
    assert re.match(r"\d+", relstate.__version__)
