"""The results of the statements that describe tables.

Promises: all of one result is of one epoch. What SHOW CREATE TABLE returns creates an equal table,
without its rows and its indexes.
Does not know: Spark, or how statements are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from relstate.connector.commits import COMMIT_SCHEMA, commit_rows
from relstate.connector.views.viewplan import creator_of
from relstate.storage import (
    CatalogView,
    IndexDescription,
    ReadPlan,
    Store,
    StoreState,
    TableDefinition,
    TableSchema,
    errors,
)

from .creation_text import creation_text
from .properties import COMMENT, property_texts
from .result import Result
from .show import (
    DescribeColumn,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowColumns,
    ShowCreate,
    ShowProperties,
    ShowStatement,
    ShowTables,
)

_DETAIL = (
    "format STRING NOT NULL, id BIGINT NOT NULL, name STRING NOT NULL, description STRING, "
    "location STRING NOT NULL, createdEpoch BIGINT NOT NULL, lastChangedEpoch BIGINT NOT NULL, "
    "primaryKey ARRAY<STRING> NOT NULL, distributionKey ARRAY<STRING> NOT NULL, "
    "numFiles BIGINT NOT NULL, numStoredRows BIGINT NOT NULL, sizeInBytes BIGINT NOT NULL, "
    "properties MAP<STRING, STRING> NOT NULL"
)


def show(store: Store, statement: ShowStatement) -> Result:
    """Return the result of a statement. TableNotFoundError, OptionError for an unknown property."""
    state = store.state
    match statement:
        case ShowTables(pattern):
            names = [name for name in state.table_names() if matches(name, pattern)]
            return Result([(name,) for name in names], "tableName STRING NOT NULL")
        case ShowProperties(name, key):
            return _properties(state, name, key)
        case ShowColumns(name):
            columns = state.table(name).definition.schema.visible_columns
            return Result([(column.name,) for column in columns], "col_name STRING NOT NULL")
        case ShowCreate(name):
            return Result([(creation_text(state, name),)], "createtab_stmt STRING NOT NULL")
        case DescribeTable(name, extended):
            definition = state.table(name).definition
            if not extended:
                return _columns(definition)
            return _with_details(state, definition, store.indexes(name))
        case DescribeDetail(name):
            return _detail(store.path, state, name)
        case DescribeColumn(name, column):
            return _column(state.table(name).definition, column)
        case DescribeHistory(name, limit):
            state.table(name)
            return Result(commit_rows(store, name, limit), COMMIT_SCHEMA)


def _properties(state: StoreState, name: str, key: str | None) -> Result:
    definition = state.table(name).definition
    texts = property_texts(definition, state.views.get(definition.table_id))
    if key is not None and key not in texts:
        raise errors.OptionError(
            f"{definition.name!r} has no property {key!r}; it has {', '.join(texts)}"
        )
    rows = [(name, text) for name, text in texts.items() if key in (None, name)]
    return Result(list(rows), "key STRING NOT NULL, value STRING NOT NULL")


def _detail(path: str, state: StoreState, name: str) -> Result:
    table = state.table(name)
    definition, schema = table.definition, table.definition.schema
    plan = ReadPlan.of(path, state, definition.name)
    properties = property_texts(definition, state.views.get(definition.table_id))
    properties.pop(COMMENT, None)
    row = (
        "relstate",
        definition.table_id,
        definition.name,
        definition.comment,
        path,
        definition.created_epoch,
        table.data_epoch,
        [column.name for column in schema.key_columns if not column.hidden],
        [column.name for column in schema.distribution_columns if not column.hidden],
        len(plan.segments),
        plan.stored_rows,
        plan.stored_bytes,
        properties,
    )
    return Result([row], _DETAIL)


def show_indexes(store: Store, table: str) -> Result:
    """Return the indexes of a table. TableNotFoundError."""
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


def _column(definition: TableDefinition, name: str) -> Result:
    """Return the properties of a column. SchemaMismatchError if there is none of this name."""
    column = definition.schema.column(name)
    rows = [
        ("col_name", column.name),
        ("data_type", str(column.type)),
        ("nullable", str(column.nullable).lower()),
        ("comment", column.comment),
        ("default", None if column.default is None else column.default.expression),
        ("generated", None if column.generated is None else column.generated.expression),
    ]
    return Result(list(rows), "info_name STRING NOT NULL, info_value STRING")


def _quarantine_details(state: StoreState, view: CatalogView) -> list[tuple[str, str]]:
    """Return where the rows are listed that a view leaves out, and how many; none if none are."""
    quarantine = view.definition.quarantine
    if quarantine is None:
        return []
    return [
        ("Quarantine", state.name_of(quarantine)),
        ("Rows in quarantine", str(view.progress.quarantined)),
    ]


def _view_details(state: StoreState, table_id: int) -> list[tuple[str, str]]:
    """Return the details of a view apart from its columns; none of a table."""
    view = state.views.get(table_id)
    if view is None:
        return []
    inputs = ", ".join(state.name_of(table.table_id) for table in view.definition.inputs)
    settings = view.definition.settings.items()
    creator = creator_of(view.definition.plan)
    return [
        ("# Materialized view", ""),
        ("Query", view.definition.query),
        ("Reads", inputs),
        ("Reflects epoch", str(view.progress.reflects)),
        ("State tables", str(len(view.definition.internal))),
        *([] if creator is None else [("Created by", f"Spark {creator}")]),
        *_quarantine_details(state, view),
        *((name, value) for name, value in sorted(settings)),
    ]


def _constraint_details(definition: TableDefinition) -> list[tuple[str, str]]:
    """Return the constraints of a table, each as its name and the clause that creates it."""
    details = [(item.name, item.clause) for item in definition.constraints]
    return [("# Constraints", ""), *details] if details else []


def _default_details(definition: TableDefinition) -> list[tuple[str, str]]:
    """Return the columns with a DEFAULT, each with its expression."""
    columns = definition.schema.columns
    details = [(item.name, item.default.expression) for item in columns if item.default is not None]
    return [("# Column Default Values", ""), *details] if details else []


def _generated_details(definition: TableDefinition) -> list[tuple[str, str]]:
    """Return the generated columns, each with its expression."""
    columns = definition.schema.generated_columns
    details = [(item.name, item.generated.expression) for item in columns if item.generated]
    return [("# Generated Columns", ""), *details] if details else []


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
    details += _default_details(definition)
    details += _generated_details(definition)
    details += _constraint_details(definition)
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
