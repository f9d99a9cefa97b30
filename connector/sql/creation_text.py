"""The statement that creates a table or view, as SHOW CREATE TABLE returns it.

Promises: run in an empty store, it creates a table with the same columns, keys and properties; a
view with the same query. Comments of fields inside a struct are left out.
Does not know: rows, or indexes.
"""

from __future__ import annotations

from collections.abc import Mapping

from relstate.connector.syntax.tokens import quoted
from relstate.connector.views.viewplan import parse_stored_plan
from relstate.storage import (
    Column,
    StoreState,
    TableDefinition,
    TableSchema,
    ViewDefinition,
    errors,
)

from .properties import COMMENT, NULLABLE_KEY, ON_ERROR, PARALLELISM, property_texts


def creation_text(state: StoreState, name: str) -> str:
    """Return the statement that creates a table or view.

    TableNotFoundError; UnsupportedStatementError for a table that only `Store.create_table` can
    create.
    """
    definition = state.table(name).definition
    view = state.views.get(definition.table_id)
    if view is not None:
        return _view_text(definition, view.definition)
    schema = definition.schema
    parts = [_column_text(column, schema) for column in schema.visible_columns]
    if schema.row_id is None:
        parts.append(f"PRIMARY KEY ({_key_text(definition)})")
    parts += [
        f"CONSTRAINT {quoted(constraint.name)} {constraint.clause}"
        for constraint in definition.constraints
    ]
    lines = ",\n  ".join(parts)
    return f"CREATE TABLE {quoted(definition.name)} (\n  {lines}\n){_table_clauses(definition)}"


def _view_text(definition: TableDefinition, view: ViewDefinition) -> str:
    columns = []
    for column in definition.schema.visible_columns:
        comment = "" if column.comment is None else f" COMMENT {_literal(column.comment)}"
        columns.append(f"{quoted(column.name)}{comment}")
    properties = {PARALLELISM: str(view.mapping.units)}
    if view.quarantine is not None:
        properties[ON_ERROR] = "quarantine"
    properties |= dict(definition.user_properties)
    cluster = parse_stored_plan(definition.name, view.plan).root.cluster_columns
    clauses = f"\nCLUSTER BY ({', '.join(map(quoted, cluster))})" if cluster else ""
    clauses += _comment_clause(definition) + _properties_clause(properties)
    name = quoted(definition.name)
    return f"CREATE MATERIALIZED VIEW {name} ({', '.join(columns)}){clauses}\nAS {view.query}"


def _column_text(column: Column, schema: TableSchema) -> str:
    """Return a column as in CREATE TABLE. A key column is NOT NULL without the words."""
    says_null = column not in schema.key_columns or _has_nullable_key(schema)
    required = " NOT NULL" if says_null and not column.nullable else ""
    value = "" if column.default is None else f" DEFAULT {column.default.expression}"
    if column.generated is not None:
        value = f" GENERATED ALWAYS AS ({column.generated.expression})"
    comment = "" if column.comment is None else f" COMMENT {_literal(column.comment)}"
    return f"{quoted(column.name)} {column.type}{required}{value}{comment}"


def _has_nullable_key(schema: TableSchema) -> bool:
    return any(column.nullable for column in schema.key_columns)


def _key_text(definition: TableDefinition) -> str:
    """Return what is in the parentheses of PRIMARY KEY, the distribution key in its own.

    UnsupportedStatementError for a distribution key that the primary key does not begin with.
    """
    schema = definition.schema
    parts = {
        column.id: f"{quoted(column.name)} {key.order}"
        for column, key in zip(schema.key_columns, schema.primary_key, strict=True)
    }
    hashed = list(schema.distribution_key)
    if hashed == list(parts):
        return ", ".join(parts.values())
    if hashed != list(parts)[: len(hashed)]:
        raise errors.UnsupportedStatementError(
            f"the distribution key of table {definition.name!r} is not the beginning of its "
            "primary key, which SQL cannot write: copy the definition by store.create_table_like"
        )
    first = ", ".join(parts.pop(column_id) for column_id in hashed)
    return ", ".join([f"({first})", *parts.values()])


def _table_clauses(definition: TableDefinition) -> str:
    properties = property_texts(definition, None)
    properties.pop(COMMENT, None)
    if definition.schema.row_id is not None or properties["merge"] == "overwrite":
        del properties["merge"]
    if _has_nullable_key(definition.schema):
        properties[NULLABLE_KEY] = "true"
    return _comment_clause(definition) + _properties_clause(properties)


def _comment_clause(definition: TableDefinition) -> str:
    return "" if definition.comment is None else f"\nCOMMENT {_literal(definition.comment)}"


def _properties_clause(properties: Mapping[str, str]) -> str:
    items = ", ".join(f"{_literal(key)} = {_literal(text)}" for key, text in properties.items())
    return f"\nTBLPROPERTIES ({items})" if items else ""


def _literal(text: str) -> str:
    """Return a text as a string literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
