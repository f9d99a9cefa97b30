"""CREATE TABLE … AS SELECT: a table and its rows in one commit.

Promises: the table appears with all its rows or not at all, also in the place of another one. What
the query read did not change up to the epoch of the table, or the statement is run again, at most
five times.
Does not know: how the statement is written.
"""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import in_short, unwrap_errors
from relstate.connector.sink.dml_task import DmlTask
from relstate.connector.syntax.tokens import quoted
from relstate.connector.task_report import RowCounts
from relstate.connector.types import fields_of
from relstate.storage import (
    NewTable,
    Proposal,
    Reads,
    Store,
    TableDefinition,
    errors,
    new_table,
    replaced_tables,
)

from .create_table import CreateTableAs
from .dml import Insert
from .dml_rows import DmlPlanner
from .dml_run import MOST_COUNTED, DmlResult, ReadSet, task_reports
from .properties import creation_arguments
from .query_reader import QueryReader

_RETRIES = 5

_logger = logging.getLogger(__name__)


class TableCreator:
    """Creates tables from queries, in one store and one session."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark = spark
        self._store = store

    def run(self, statement: CreateTableAs) -> DmlResult:
        """Create a table with the rows of a query and return its epoch, and how many rows it has.

        TableExistsError, SchemaError, UnsupportedTypeError, OptionError, DataError where rows do
        not fit, DependentViewsError, ConflictError if others changed what it read every time.
        """
        with in_short(), unwrap_errors():
            for _ in range(_RETRIES):
                try:
                    return self._attempt(statement)
                except errors.ConflictError:
                    continue
                except errors.TableExistsError:
                    # Another one was created meanwhile, which this statement takes as it is.
                    if not statement.or_replace and not statement.if_not_exists:
                        raise
            return self._attempt(statement)

    def _attempt(self, statement: CreateTableAs) -> DmlResult:
        state = self._store.state
        exists = statement.name.lower() in state.table_ids
        if exists and statement.if_not_exists:
            return DmlResult(state.epoch, RowCounts(0, 0, 0))
        if exists and not statement.or_replace:
            raise errors.TableExistsError(
                f"there is a table or view {statement.name!r} already: drop it, use another name, "
                "or write CREATE OR REPLACE TABLE"
            )
        replaced = replaced_tables(state, statement.name)
        started = self._store.environment.now()
        reader = QueryReader(self._spark, self._store, shows_places=False)
        table = _new_table(statement, reader.frame(reader.plan(statement.query)))
        target = self._store.jobs.new_target(table)
        insert = Insert(statement.name, statement.query)
        changes = DmlPlanner(reader, target.definition).changes(insert)
        reports = task_reports(changes.rows, DmlTask(target, tuple(changes.rows.columns)))
        relations = changes.query.relations
        reads = ReadSet(self._store, relations)
        is_blind = all(relation.is_pinned for relation in relations)
        proposal = Proposal(
            operation="create table as select",
            started=min([started, *(report.started for report in reports)]),
            segments=tuple(segment for report in reports for segment in report.segments),
            created_tables=(table,),
            first_table_id=target.definition.table_id,
            dropped_tables=replaced,
            reads=None if is_blind else Reads(reader.epoch, reads.is_changed_by),
        )
        with self._store.jobs.discarding(proposal.segments):
            result = self._store.jobs.commit(proposal)
        return DmlResult(result.epoch, RowCounts(self._count(target.definition, result.epoch)))

    def _count(self, definition: TableDefinition, epoch: int) -> int | None:
        """Return the number of rows of a new table; None if counting them would take long.

        None, too, if it fails: the statement is committed.
        """
        try:
            plan = self._store.read_plan(definition.name, epoch=epoch)
            if definition.schema.row_id is not None:
                return plan.stored_rows
            # Rows of one key are one row.
            return plan.open().count() if plan.stored_rows <= MOST_COUNTED else None
        except Exception as error:
            _logger.debug("the rows of a new table were not counted", exc_info=error)
            return None


def _new_table(statement: CreateTableAs, frame: DataFrame) -> NewTable:
    """Return the table that a query's columns become; they may be NULL, as in Spark."""
    arguments = creation_arguments(statement.properties)
    if arguments.get("append_only"):
        raise errors.UnsupportedStatementError(
            f"the table {statement.name!r} is append-only, so the keys of its rows are checked by "
            "the commit: CREATE TABLE it with its columns, then INSERT INTO it"
        )
    fields = fields_of(frame.schema)
    columns = ", ".join(f"{quoted(field.name)} {field.type}" for field in fields)
    return new_table(
        statement.name,
        columns,
        primary_key=statement.primary_key,
        distribution_key=statement.distribution_key,
        **arguments,
    )
