"""Runs the statements that define tables and describe them.

Promises: a statement that changes anything is one epoch.
Does not know: Spark, how statements are written, or what a property means (properties).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from relstate.connector.commits import COMMIT_SCHEMA, commit_rows
from relstate.storage import (
    IndexDescription,
    Store,
    StoreState,
    TableDefinition,
    TableSchema,
    errors,
)

from .ddl import (
    AddColumns,
    Alteration,
    CommentColumn,
    CommentTable,
    CreateTable,
    DescribeHistory,
    DescribeTable,
    DropColumns,
    DropTable,
    RenameColumn,
    SetProperties,
    ShowProperties,
    ShowTables,
    WidenColumn,
)
from .index_ddl import CreateIndex, DropIndex, IndexStatement, ShowIndexes
from .properties import altered_property, creation_arguments, property_texts, split_properties


@dataclass(frozen=True, slots=True)
class Result:
    """Rows, and their schema in Spark's DDL."""

    rows: list[tuple[Any, ...]]
    schema: str


class DdlRunner:
    """The tables of a store, as statements see them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(
        self,
        statement: CreateTable
        | DropTable
        | IndexStatement
        | Alteration
        | ShowTables
        | ShowProperties
        | DescribeTable
        | DescribeHistory,
    ) -> Result:
        """Run a statement and return its rows. Errors are the store's."""
        match statement:
            case CreateTable():
                return epoch_result(self._create(statement))
            case DropTable(name, if_exists, cascade):
                self._store.drop_table(name, if_exists=if_exists, cascade=cascade)
                return epoch_result(self._store.epoch)
            case CreateIndex(name, table, columns, include, unique, if_not_exists):
                epoch = self._store.create_index(
                    table,
                    name,
                    columns,
                    include=include,
                    unique=unique,
                    if_not_exists=if_not_exists,
                )
                return epoch_result(epoch)
            case DropIndex(name, table, if_exists):
                return epoch_result(self._store.drop_index(table, name, if_exists=if_exists))
            case ShowIndexes(table):
                return _indexes(self._store, table)
            case ShowTables(pattern):
                rows = [(name,) for name in self._store.tables() if matches(name, pattern)]
                return Result(rows, "tableName STRING NOT NULL")
            case ShowProperties(name, key):
                return self._show_properties(name, key)
            case DescribeTable(name, extended):
                state = self._store.state
                definition = state.table(name).definition
                if not extended:
                    return _columns(definition)
                return _with_details(state, definition, self._store.indexes(name))
            case DescribeHistory(name):
                self._store.table(name)
                return Result(commit_rows(self._store, name), COMMIT_SCHEMA)
            case _:
                return epoch_result(self._alter(statement))

    def _create(self, statement: CreateTable) -> int:
        self._store.create_table(
            statement.name,
            statement.columns,
            primary_key=statement.primary_key,
            distribution_key=statement.distribution_key,
            if_not_exists=statement.if_not_exists,
            **creation_arguments(statement.properties),
        )
        return self._store.epoch

    def _alter(self, statement: Alteration) -> int:
        match statement:
            case AddColumns(table, columns):
                return self._store.add_columns(table, columns)
            case DropColumns(table, names):
                return self._store.drop_columns(table, *names)
            case RenameColumn(table, name, new):
                return self._store.rename_column(table, name, new)
            case WidenColumn(table, name, data_type):
                return self._store.widen_column(table, name, data_type)
            case CommentColumn(table, name, comment):
                return self._store.comment_column(table, name, comment)
            case CommentTable(table, comment):
                return self._store.set_user_properties(table, {"comment": comment})
            case SetProperties(table, properties):
                return self._set_properties(table, properties)

    def _set_properties(self, table: str, properties: Mapping[str, str | None]) -> int:
        own, users = split_properties(properties)
        if own and users:
            raise errors.OptionError(
                f"{min(own)!r} and {min(users)!r} are altered by two statements: the first is a "
                "property of relstate, the other one of yours"
            )
        if users:
            return self._store.set_user_properties(table, users)
        name, value = altered_property(own)
        if name == "ttl":
            return self._store.set_ttl(table, value)
        return self._store.set_encoding(table, "row" if value is None else value)

    def _show_properties(self, name: str, key: str | None) -> Result:
        state = self._store.state
        definition = state.table(name).definition
        texts = property_texts(definition, state.views.get(definition.table_id))
        if key is not None and key not in texts:
            raise errors.OptionError(
                f"{definition.name!r} has no property {key!r}; it has {', '.join(texts)}"
            )
        rows = [(name, text) for name, text in texts.items() if key in (None, name)]
        return Result(rows, "key STRING NOT NULL, value STRING NOT NULL")


def _indexes(store: Store, table: str) -> Result:
    rows = [
        (index.name, list(index.columns), list(index.included), index.unique, index.internal_table)
        for index in store.indexes(table)
    ]
    return Result(
        list(rows),
        "index_name STRING NOT NULL, columns ARRAY<STRING> NOT NULL, "
        "included ARRAY<STRING> NOT NULL, is_unique BOOLEAN NOT NULL, "
        "internal_table STRING NOT NULL",
    )


def epoch_result(epoch: int) -> Result:
    """Return the result of a statement that makes an epoch."""
    return Result([(epoch,)], "epoch BIGINT NOT NULL")


def _columns(definition: TableDefinition) -> Result:
    schema = definition.schema
    positions = {key.column_id: i for i, key in enumerate(schema.primary_key, 1)}
    orders = {key.column_id: key.order for key in schema.primary_key}
    rows = [
        (
            column.name,
            str(column.type),
            column.nullable,
            positions.get(column.id),
            orders.get(column.id),
            column.id in schema.distribution_key,
            column.comment,
        )
        for column in schema.columns
        if not column.hidden
    ]
    return Result(
        list(rows),
        "col_name STRING NOT NULL, data_type STRING NOT NULL, nullable BOOLEAN NOT NULL, "
        "primary_key INT, key_order STRING, distribution_key BOOLEAN NOT NULL, "
        "comment STRING",
    )


def _view_details(state: StoreState, table_id: int) -> list[tuple[str, str]]:
    """Return the details of a view apart from its columns; none of a table."""
    view = state.views.get(table_id)
    if view is None:
        return []
    inputs = ", ".join(state.name_of(table.table_id) for table in view.definition.inputs)
    settings = view.definition.settings.items()
    return [
        ("# Materialized view", ""),
        ("Query", view.definition.query),
        ("Reads", inputs),
        ("Reflects epoch", str(view.progress.reflects)),
        ("State tables", str(len(view.definition.internal))),
        *((name, value) for name, value in sorted(settings)),
    ]


def _index_details(indexes: Sequence[IndexDescription]) -> list[tuple[str, str]]:
    """Return the indexes of a table, each as its name and the clauses that create it."""
    details = []
    for index in indexes:
        included = f" INCLUDE ({', '.join(index.included)})" if index.included else ""
        clauses = f"{'UNIQUE ' if index.unique else ''}({', '.join(index.columns)}){included}"
        details.append((index.name, clauses))
    return [("# Indexes", ""), *details] if details else []


def _with_details(
    state: StoreState, definition: TableDefinition, indexes: Sequence[IndexDescription]
) -> Result:
    """Return the columns, then rows with the properties and the earlier schemas.

    As in Spark's DESCRIBE EXTENDED, names and values are in the columns col_name and data_type.
    """
    columns = _columns(definition).rows
    details: list[tuple[str, str]] = [("", ""), ("# Table", "")]
    details += [("Name", definition.name), ("Created at epoch", str(definition.created_epoch))]
    details += [("Schema version", str(definition.schema.version))]
    details += [(f"Schema version {old.version}", _ddl(old)) for old in _older(definition)]
    properties = property_texts(definition, state.views.get(definition.table_id))
    details += [("# Properties", ""), *properties.items()]
    details += _view_details(state, definition.table_id)
    details += _index_details(indexes)
    rows = [*columns, *((name, value, None, None, None, None, None) for name, value in details)]
    return Result(
        rows,
        "col_name STRING NOT NULL, data_type STRING NOT NULL, nullable BOOLEAN, primary_key INT, "
        "key_order STRING, distribution_key BOOLEAN, comment STRING",
    )


def _older(definition: TableDefinition) -> Sequence[TableSchema]:
    return tuple(reversed(definition.older_schemas))


def _ddl(schema: TableSchema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema.visible_columns)


def matches(name: str, pattern: str | None) -> bool:
    """Tell whether a name matches a pattern of Spark's SHOW TABLES: ``*`` and ``|``, any case."""
    if pattern is None:
        return True
    choices = pattern.lower().replace("[", "[[]").replace("?", "[?]").split("|")
    return any(fnmatchcase(name.lower(), choice.strip()) for choice in choices)
