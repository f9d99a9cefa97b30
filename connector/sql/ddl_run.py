"""The statements that define tables and tell of them, carried out.

Promises: each of them that changes anything is one epoch.
Does not know: Spark, or how statements are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from relstate.storage import KeyColumn, Store, StoreState, TableDefinition

from . import history
from .ddl import (
    AddColumns,
    Alteration,
    CreateTable,
    DescribeHistory,
    DescribeTable,
    DropColumns,
    DropTable,
    RenameColumn,
    SetProperties,
    ShowTables,
    WidenColumn,
)
from .properties import creation_arguments, described, new_ttl


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
        | Alteration
        | ShowTables
        | DescribeTable
        | DescribeHistory,
    ) -> Result:
        """Carry a statement out. Errors are the store's."""
        match statement:
            case CreateTable():
                return epoch_result(self._create(statement))
            case DropTable(name, if_exists, cascade):
                self._store.drop_table(name, if_exists=if_exists, cascade=cascade)
                return epoch_result(self._store.epoch)
            case ShowTables(pattern):
                rows = [(name,) for name in self._store.tables() if matches(name, pattern)]
                return Result(rows, "tableName STRING NOT NULL")
            case DescribeTable(name, extended):
                state = self._store.state
                definition = state.table(name).definition
                if not extended:
                    return _columns(definition)
                return _with_details(definition, _view_details(state, definition.table_id))
            case DescribeHistory(name):
                self._store.table(name)
                return Result(history.history_rows(self._store, name), history.SCHEMA)
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
            case SetProperties(table, properties):
                return self._store.set_ttl(table, new_ttl(properties))


def epoch_result(epoch: int) -> Result:
    """Return what a statement tells that makes an epoch: which."""
    return Result([(epoch,)], "epoch BIGINT NOT NULL")


def _columns(definition: TableDefinition) -> Result:
    schema = definition.schema
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
        if not column.hidden
    ]
    return Result(
        list(rows),
        "col_name STRING NOT NULL, data_type STRING NOT NULL, nullable BOOLEAN NOT NULL, "
        "primary_key INT, key_order STRING, distribution_key BOOLEAN NOT NULL",
    )


def _view_details(state: StoreState, table_id: int) -> list[tuple[str, str]]:
    """Return what there is to tell of a view beside its columns; nothing of a table."""
    view = state.views.get(table_id)
    if view is None:
        return []
    inputs = ", ".join(state.name_of(one.table_id) for one in view.definition.inputs)
    settings = view.definition.settings.items()
    return [
        ("# Materialized view", ""),
        ("Query", view.definition.query),
        ("Reads", inputs),
        ("Reflects epoch", str(view.progress.reflects)),
        ("Parallelism", str(view.definition.mapping.units)),
        ("State tables", str(len(view.definition.internal))),
        *((name, value) for name, value in sorted(settings)),
    ]


def _with_details(definition: TableDefinition, view: list[tuple[str, str]]) -> Result:
    """Return the columns, then in rows of their own the properties and the schemas before.

    As Spark's DESCRIBE EXTENDED does: names and values stand where columns and types do.
    """
    columns = _columns(definition).rows
    details: list[tuple[str, str]] = [("", ""), ("# Table", "")]
    details += [("Name", definition.name), ("Created at epoch", str(definition.created_epoch))]
    details += [("Schema version", str(definition.schema.version))]
    details += [(f"Schema version {old.version}", _ddl(old.columns)) for old in _older(definition)]
    details += [("# Properties", ""), *described(definition).items(), *view]
    rows = [*columns, *((name, value, None, None, None, None) for name, value in details)]
    return Result(
        rows,
        "col_name STRING NOT NULL, data_type STRING NOT NULL, nullable BOOLEAN, primary_key INT, "
        "key_order STRING, distribution_key BOOLEAN",
    )


def _older(definition: TableDefinition) -> Sequence[Any]:
    return tuple(reversed(definition.older_schemas))


def _ddl(columns: Sequence[Any]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def matches(name: str, pattern: str | None) -> bool:
    """Tell whether a name matches a pattern of Spark's SHOW TABLES: ``*`` and ``|``, any case."""
    if pattern is None:
        return True
    choices = pattern.lower().replace("[", "[[]").replace("?", "[?]").split("|")
    return any(fnmatchcase(name.lower(), choice.strip()) for choice in choices)


def _order(key: KeyColumn) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
