"""Runs the statements that define tables and describe them.

The properties of a table, as text in TBLPROPERTIES:

    merge                 overwrite, ignore or partial
    version_column        the column that decides which of two rows is the later
    ttl                   after how long rows expire: seconds, or '7 days'
    append_only           true or false
    tombstone_retention   for how long deletes hide rows that arrive late

Promises: a statement that changes anything is one epoch.
Does not know: Spark, or how statements are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from relstate.connector.commits import COMMIT_SCHEMA, commit_rows
from relstate.connector.duration import positive_seconds, whole_seconds
from relstate.storage import (
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
        """Run a statement and return its rows. Errors are the store's."""
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
            **_creation_arguments(statement.properties),
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
            case SetProperties(table, properties):
                return self._store.set_ttl(table, _new_ttl(properties))


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
        ("Parallelism", str(view.definition.mapping.units)),
        ("State tables", str(len(view.definition.internal))),
        *((name, value) for name, value in sorted(settings)),
    ]


def _with_details(definition: TableDefinition, view: list[tuple[str, str]]) -> Result:
    """Return the columns, then rows with the properties and the earlier schemas.

    As in Spark's DESCRIBE EXTENDED, names and values are in the columns col_name and data_type.
    """
    columns = _columns(definition).rows
    details: list[tuple[str, str]] = [("", ""), ("# Table", "")]
    details += [("Name", definition.name), ("Created at epoch", str(definition.created_epoch))]
    details += [("Schema version", str(definition.schema.version))]
    details += [(f"Schema version {old.version}", _ddl(old)) for old in _older(definition)]
    details += [("# Properties", ""), *_property_texts(definition).items(), *view]
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


# Properties


def _creation_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return properties as arguments of `Store.create_table`.

    OptionError for one that is unknown or has a wrong value.
    """
    return {name: _value(name, text) for name, text in properties.items()}


def _new_ttl(properties: Mapping[str, str | None]) -> int | None:
    """Return the TTL, in seconds, that an ALTER TABLE sets; None if it removes it.

    OptionError for another property: rows have been written under it.
    """
    for name in properties:
        if name != "ttl":
            raise errors.OptionError(
                f"the property {name!r} cannot be altered, only 'ttl'; the others are given when "
                "a table is created"
                if name in _PARSERS
                else _unknown(name)
            )
    text = properties.get("ttl")
    return None if text is None else int(_value("ttl", text))


def _property_texts(definition: TableDefinition) -> dict[str, str]:
    """Return the properties of a table that are set, as text, by name."""
    properties = definition.properties
    columns = {column.id: column.name for column in definition.schema.columns}
    texts = {"merge": str(properties.merge)}
    if properties.version_column is not None:
        texts["version_column"] = columns[properties.version_column]
        texts["tombstone_retention"] = f"{properties.tombstone_retention} seconds"
    if properties.ttl is not None:
        texts["ttl"] = f"{properties.ttl} seconds"
    if properties.append_only:
        texts["append_only"] = "true"
    return texts


def _value(name: str, text: str) -> Any:
    parse = _PARSERS.get(name)
    if parse is None:
        raise errors.OptionError(_unknown(name))
    try:
        return parse(text)
    except ValueError as error:
        raise errors.OptionError(f"the property {name!r} is {text!r}: {error}") from None


def _unknown(name: str) -> str:
    return f"unknown property {name!r}; the properties are {', '.join(_PARSERS)}"


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("it must be 'true' or 'false'")
    return text.strip().lower() == "true"


def _lower(text: str) -> str:
    return text.strip().lower()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "merge": _lower,
    "version_column": str,
    "ttl": positive_seconds,
    "append_only": _boolean,
    "tombstone_retention": whole_seconds,
}
