"""A view's SELECT, over its inputs with the columns that they had when the view was created.

The text of a SELECT means what it meant then: a column that came later is in no ``*`` of it, and
takes no name from an alias or from another table's column.

Promises: every input is read as of the epoch up to which the view has taken it in; what became of
columns since the view was created makes no difference.
Does not know: what the rows are for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import quoted
from relstate.connector.types import struct_of
from relstate.storage import CatalogView, ReadPlan, Store, StoreState, TableSchema
from relstate.storage import Column as TableColumn

from .query_reader import QueryReader


def select_frame(
    spark: SparkSession, store: Store, state: StoreState, view: CatalogView
) -> DataFrame:
    """Return the rows of a view's SELECT at the epochs of its progress."""
    epochs = dict(view.progress.inputs)
    created = state.tables[view.view_id].definition.created_epoch
    query, reader = ParsedQuery.parse(view.definition.query), QueryReader(spark, store)
    references = query.table_references(lambda name, as_of: True)
    frames: dict[str, Any] = {}
    for place, reference in enumerate(references):
        table_id = state.table(reference.name).definition.table_id
        plan = store.read_plan(reference.name, epoch=epochs[table_id])
        schema = _schema_at(store, plan, created)
        known = {column.name: column for column in schema.visible_columns}
        names = query.columns_read(list(known)) or tuple(known)[:1]
        frames[f"relation_{place}"] = _frame(reader, plan, [known[name] for name in names])
    return spark.sql(query.replaced(references, list(frames)), **frames)


def _schema_at(store: Store, plan: ReadPlan, epoch: int) -> TableSchema:
    """Return the schema that a table had at an epoch, whether or not that can still be read."""
    if not plan.definition.older_schemas:
        return plan.definition.schema
    return next(
        one.schema
        for entry in store.history()
        if entry.epoch <= epoch
        for one in (*entry.altered_tables, *entry.created_tables)
        if one.table_id == plan.definition.table_id
    )


def _frame(reader: QueryReader, plan: ReadPlan, known: list[TableColumn]) -> DataFrame:
    """Return a table's rows with columns that it had.

    NULL stands for what was dropped or became of another type since: the view does not read it.
    """
    schema = plan.definition.schema
    now = {(column.id, column.type): column.name for column in schema.columns}
    read = [now[one.id, one.type] for one in known if (one.id, one.type) in now]
    frame = reader.relation(replace(plan, columns=tuple(read) or (schema.key_columns[0].name,)))
    return frame.select([_column(now.get((one.id, one.type)), one) for one in known])


def _column(name: str | None, known: TableColumn) -> Column:
    if name is not None:
        return f.col(quoted(name)).alias(known.name)
    return f.lit(None).cast(struct_of([known.field]).fields[0].dataType).alias(known.name)
