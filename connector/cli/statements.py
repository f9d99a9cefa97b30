"""The command ``sql``: one statement, by a local Spark.

Does not know: statements (connector/sql), or how rows are shown (rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from relstate.connector.figures.rows import Rows

from .maintenance import local_spark
from .rows import show_rows
from .terminal import json_option, limit_option, progress, store_argument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@click.command(short_help="Run a statement of SQL.")
@store_argument
@click.argument("statement")
@limit_option("rows")
@json_option
def sql(path: str, statement: str, limit: int | None, as_json: bool) -> None:
    """Run one STATEMENT as `db.sql` does, in a local Spark, and show its rows.

    Queries, INSERT, UPDATE, DELETE, MERGE, CREATE, REFRESH and all others. Starting Spark takes
    some seconds; all rows of the result are held in memory.
    """
    with local_spark() as spark:
        from relstate.connector.sql import connect

        with progress("Running"):
            frame = connect(spark, path).sql(statement)
            rows = result_rows(frame if limit is None else frame.limit(limit))
        show_rows(rows, as_json=as_json)


def result_rows(frame: DataFrame) -> Rows:
    """Return the rows of a DataFrame. UnsupportedTypeError for a type that no table can have."""
    import pyarrow as pa

    from relstate.connector.spark.received import received
    from relstate.connector.types import arrow_schema_of, fields_of

    fields = fields_of(frame.schema)
    sent = frame.toArrow()
    table = pa.Table.from_batches(received(sent.to_batches()), sent.schema)
    return Rows(
        tuple(field.name for field in fields),
        tuple(field.type for field in fields),
        iter(table.cast(arrow_schema_of(frame.schema)).to_batches()),
    )
