"""Plans do not change by accident: stored plans are read for as long as a store exists."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from support.stores import StoreMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER = Path(__file__).parent / "frozen"


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    """The script that wrote the files."""
    spec = importlib.util.spec_from_file_location("frozen_write", _FOLDER / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_plan_and_explain_text_is_as_frozen(
    writer: ModuleType, spark: SparkSession, make_store: StoreMaker
) -> None:
    """The plan JSON and the EXPLAIN of each SELECT of the catalogue equal their file."""
    frozen = {path.stem: path.read_text("utf-8") for path in _FOLDER.glob("*.txt")}

    plans = dict(writer.frozen_views(spark, make_store()))

    assert plans.keys() == frozen.keys()
    assert [name for name in plans if plans[name] != frozen[name]] == []
