"""Fixtures of the tests of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from support.where_rows import COLUMNS, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> DataFrame:
    """Return the table of hard values as a DataFrame."""
    return spark.createDataFrame(pa.table(table()), COLUMNS).cache()
