"""Fixtures of the examples' tests: scripts, which import each other by their bare names."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

sys.path.insert(0, str(EXAMPLES))


@pytest.fixture(scope="package")
def year() -> pa.Table:
    """Every flight of the source."""
    import flights_source

    return flights_source.read("flights")


@pytest.fixture(scope="package")
def stream(year: pa.Table) -> pa.Table:
    """Every change of every flight."""
    import flights_changes

    return flights_changes.changes(year)
