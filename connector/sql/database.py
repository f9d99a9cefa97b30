"""A store as a database: statements, tables and writers in one session of Spark.

Promises: a query reads all its tables at one epoch, the latest when it is asked for; each
reference is a relation of its own, which reads only the columns the query may need; nothing stays
behind in the session. What is raised on the way is relstate's own, or Spark's word on its own SQL.
Does not know: how statements are written (statement.py, reference.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import unwrapped
from relstate.connector.sink import ForeachBatchWriter
from relstate.connector.types import named_columns, struct_type
from relstate.storage import KeyColumn, Store, TableSchema, errors

from .reference import columns_read, parse_query, replaced, table_references
from .statement import (
    CreateTable,
    DescribeTable,
    DropTable,
    Query,
    ShowTables,
    parse_statement,
)


class Database:
    """A store seen through one session. For the threads that may use the session."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark = spark
        self._store = store

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def store(self) -> Store:
        """The store."""
        return self._store

    def sql(self, text: str) -> DataFrame:
        """Run one statement and return its result, for every statement a DataFrame.

        A query names the store's tables by their plain names; all others are Spark's. Statements:
        see `statement`. UnsupportedStatementError for one that is not known; MissingError,
        ExistsError and SchemaError as the store raises them.
        """
        match parse_statement(text):
            case CreateTable() as statement:
                return self._create_table(statement)
            case DropTable(name, if_exists):
                self._store.drop_table(name, if_exists=if_exists)
                return self._done()
            case ShowTables(pattern):
                return self._show_tables(pattern)
            case DescribeTable(name):
                return self._describe(self._store.table(name).schema)
            case Query(query):
                return self._query(query)

    def table(self, name: str, *, version: int | None = None) -> DataFrame:
        """Return a table at an epoch, by default the latest now, at which the DataFrame stays.

        TableNotFoundError, EpochNotFoundError or EpochExpiredError if it cannot be read.
        """
        return self._relation(name, self._store.epoch if version is None else version, None)

    def writer(
        self,
        table: str,
        *,
        txn_app_id: str | None = None,
        op_column: str | None = None,
        clustered: bool = False,
        partitions: int | None = None,
    ) -> ForeachBatchWriter:
        """Return what ``foreachBatch`` calls to upsert each micro-batch into a table, once.

        ``txn_app_id`` stands for the query's id, which Spark Connect keeps to itself.
        ``op_column`` names the column that says insert, update or delete; with ``clustered`` you
        promise that the changes of a key lie in one partition, in order, which it needs.
        ``partitions``: how many tasks write, each a range of vnodes; without it, rows are
        shuffled only where they lie in more partitions than run at once.
        TableNotFoundError if there is no such table, OptionError for arguments that do not fit.
        """
        _check_writer(op_column, clustered, partitions)
        target = self._store.write_target(table)
        return ForeachBatchWriter(target, txn_app_id, op_column, partitions)

    # Statements

    def _create_table(self, statement: CreateTable) -> DataFrame:
        self._store.create_table(
            statement.name,
            statement.columns,
            primary_key=statement.primary_key,
            distribution_key=statement.distribution_key,
            if_not_exists=statement.if_not_exists,
        )
        return self._done()

    def _show_tables(self, pattern: str | None) -> DataFrame:
        rows = [(name,) for name in self._store.tables() if _matches(name, pattern)]
        return self._rows(rows, "tableName STRING NOT NULL")

    def _describe(self, schema: TableSchema) -> DataFrame:
        places = {key.column_id: place for place, key in enumerate(schema.primary_key, 1)}
        orders = {key.column_id: _order(key) for key in schema.primary_key}
        rows = [
            (
                column.name,
                str(column.type),
                column.nullable,
                places.get(column.id),
                orders.get(column.id),
                column.id in schema.distribution_key,
            )
            for column in schema.columns
        ]
        return self._rows(
            rows,
            "col_name STRING NOT NULL, data_type STRING NOT NULL, nullable BOOLEAN NOT NULL, "
            "primary_key INT, key_order STRING, distribution_key BOOLEAN NOT NULL",
        )

    def _done(self) -> DataFrame:
        return self._rows([(self._store.epoch,)], "epoch BIGINT NOT NULL")

    def _rows(self, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
        return self._spark.createDataFrame(list(rows), schema)

    # Queries

    def _query(self, text: str) -> DataFrame:
        tree = parse_query(text)
        epoch = self._store.epoch
        tables = {name.lower() for name in self._store.at(epoch).tables()}
        references = table_references(tree, text, lambda name: name.lower() in tables)
        if not references:
            return self._spark.sql(text)
        relations: dict[str, Any] = {}
        for place, reference in enumerate(references):
            names = self._schema(reference.name, epoch).arrow_schema.names
            columns = columns_read(tree, text, names) or names[:1]
            relations[f"relation_{place}"] = self._relation(reference.name, epoch, columns)
        template = replaced(text, references, list(relations))
        return self._spark.sql(template, **relations)

    def _relation(self, name: str, epoch: int, columns: Sequence[str] | None) -> DataFrame:
        """Return a table as a relation; its schema is given, so that Spark asks no worker."""
        schema = struct_type(named_columns(self._schema(name, epoch), columns))
        reader = self._spark.read.format("relstate").schema(schema)
        with unwrapped():
            return reader.options(table=name, versionAsOf=epoch).load(self._store.path)

    def _schema(self, name: str, epoch: int) -> TableSchema:
        return self._store.read_plan(name, epoch=epoch).definition.schema


def _check_writer(op_column: str | None, clustered: bool, partitions: int | None) -> None:
    if op_column is not None and not clustered:
        raise errors.OptionError(
            "op_column needs clustered=True, by which you promise that all changes of a key lie "
            "in one partition, in order; without it the last change is not known"
        )
    if op_column is not None and partitions is not None:
        raise errors.OptionError("op_column keeps rows where they lie; leave out partitions")
    if partitions is not None and partitions < 1:
        raise errors.OptionError(f"partitions must be 1 or more, not {partitions}")


def _matches(name: str, pattern: str | None) -> bool:
    """Tell whether a name matches a pattern of Spark's SHOW TABLES: ``*`` and ``|``, any case."""
    if pattern is None:
        return True
    choices = pattern.lower().replace("[", "[[]").replace("?", "[?]").split("|")
    return any(fnmatchcase(name.lower(), choice.strip()) for choice in choices)


def _order(key: KeyColumn) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
