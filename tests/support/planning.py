"""Reads and writes planned in this process, as Spark's Python workers plan them.

What is refused is refused here, before Spark has a task to run; that such errors reach the user of
Spark is a law of its own, in tests/connector/test_read.py and test_write.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from relstate.connector.sink.write_plan import plan_batch
from relstate.connector.source import RelstateDataSource
from relstate.connector.source.stream import plan_stream
from relstate.storage import Store, errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@contextmanager
def refusal(pattern: str) -> Iterator[None]:
    """Expect an error of relstate whose class and text match a pattern, as Spark shows them."""
    with pytest.raises(errors.RelstateError) as raised:
        yield
    shown = f"{errors.__name__}.{type(raised.value).__name__}: {raised.value}"
    assert re.search(pattern, shown), shown


def plan_read(
    store: Store, table: str, schema: StructType | None = None, **options: Any
) -> DataSourceReader:
    """Return the reader of a batch, of all columns or of a given schema."""
    source = _source(store, table, options)
    return source.reader(source.schema() if schema is None else schema)


def plan_stream_read(store: Store, table: str, **options: Any) -> DataSourceStreamReader:
    """Return the reader of a stream of changes; raise why there is none."""
    source = _source(store, table, options)
    return plan_stream(source.options, source.schema())


def write_rows(rows: DataFrame, store: Store, table: str, **options: Any) -> None:
    """Write a DataFrame as one task does, and commit nothing."""
    texts = {"path": store.path, "table": table, **options}
    writer = plan_batch(texts, rows.schema, overwrite=False)
    writer.write(iter(rows.toArrow().to_batches()))


def _source(store: Store, table: str, options: dict[str, Any]) -> RelstateDataSource:
    """Return the data source with its options as Spark passes them."""
    texts = {"path": store.path, "table": table, **options}
    return RelstateDataSource({name.lower(): str(value) for name, value in texts.items()})
