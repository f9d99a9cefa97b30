"""Generated columns in the definition of a table: how one is declared, and what they rely on.

Promises: a generated column is computed of columns that are not, in every row that is written whole
or whose key is known. A column that one reads stays as it is.
Does not know: rows, or SQL.
"""

from __future__ import annotations

from dataclasses import replace

from .errors import SchemaError
from .log.table_definition import TableDefinition
from .schema.generated import GeneratedColumn
from .schema.schema import Column


def with_generated(definition: TableDefinition, name: str, expression: str) -> TableDefinition:
    """Return the definition of a new table in which the values of a column are computed.

    SchemaError for a column that cannot be generated, or a table whose rows come in parts; errors
    as of `read_generated`.
    """
    schema, properties = definition.schema, definition.properties
    column = schema.column(name)
    description = f"the column {column.name!r}, GENERATED ALWAYS AS ({expression})"
    if column in schema.key_columns:
        raise SchemaError(
            f"{description}, is part of the primary key, whose values every row must give: write "
            "its values in the rows, or remove it from the key"
        )
    if column.id in properties.version_columns:
        raise SchemaError(
            f"{description}, is a version column, whose value every row and delete must give: "
            "write its values in the rows"
        )
    if column.default is not None:
        raise SchemaError(
            f"{description}, has also a DEFAULT, which would never be used: remove one of the two"
        )
    if properties.encoding == "document":
        raise SchemaError(
            f"{description}: the table {definition.name!r} has documents, whose parts are written "
            "without the others: use encoding = 'row'"
        )
    from .expression.generated_value import read_generated

    generated = read_generated(expression, column, schema)
    _check_sources(definition, column, generated, description)
    columns = tuple(
        replace(column, generated=generated) if sibling.id == column.id else sibling
        for sibling in schema.columns
    )
    return replace(definition, schema=replace(schema, columns=columns))


def _check_sources(
    definition: TableDefinition, column: Column, generated: GeneratedColumn, description: str
) -> None:
    """SchemaError if a column cannot be computed of those that its expression reads."""
    schema = definition.schema
    keys = {key.column_id for key in schema.primary_key}
    for source in schema.columns:
        if source.id not in generated.columns:
            continue
        if source.id == column.id or source.generated is not None or source.hidden:
            kind = "hidden" if source.hidden else "generated"
            raise SchemaError(
                f"{description}: it reads {source.name!r}, which is {kind}: read only columns "
                "that rows are written with"
            )
        if definition.properties.merge == "partial" and source.id not in keys:
            raise SchemaError(
                f"{description}: a row of {definition.name!r} comes in parts (merge partial), so "
                f"an expression reads only columns of the primary key, not {source.name!r}"
            )
    for reader in schema.generated_columns:
        assert reader.generated is not None
        if column.id in reader.generated.columns:
            raise SchemaError(
                f"the column {reader.name!r}, GENERATED ALWAYS AS ({reader.generated.expression}): "
                f"it reads {column.name!r}, which is generated: read only columns that rows are "
                "written with"
            )


def check_not_generated(column: Column, action: str) -> None:
    """SchemaError for a generated column, which does not allow an action."""
    if column.generated is not None:
        raise SchemaError(
            f"the column {column.name!r}, GENERATED ALWAYS AS ({column.generated.expression}), "
            f"cannot {action}: create a table without it, and copy the rows"
        )


def check_unread_by_generated(definition: TableDefinition, column: Column, action: str) -> None:
    """SchemaError for a column that a generated one reads; ``action``: what it cannot be."""
    for reader in definition.schema.generated_columns:
        assert reader.generated is not None
        if column.id in reader.generated.columns:
            raise SchemaError(
                f"the column {column.name!r} cannot be {action}: the column {reader.name!r}, "
                f"GENERATED ALWAYS AS ({reader.generated.expression}), reads it; drop that first"
            )
