"""How a table's definition becomes another one.

Promises: an alteration is a function of the definition that is there when it is committed; the
schemas that rows may still be encoded under stay with the definition.
Does not know: the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from .errors import SchemaError
from .log.entry import TableDefinition
from .schema import evolution
from .schema import types as t
from .schema.schema import TableSchema

Alteration: TypeAlias = Callable[[TableDefinition], TableDefinition]


def adding(fields: Sequence[t.Field]) -> Alteration:
    """Return what adds columns; see `evolution.with_columns`."""
    return partial(_evolved, lambda schema: evolution.with_columns(schema, fields))


def dropping(names: Sequence[str]) -> Alteration:
    """Return what drops columns; SchemaError if one is of the key, or tells rows' versions."""

    def alter(definition: TableDefinition) -> TableDefinition:
        for name in names:
            _check_no_version(definition, name, "dropped")
        return _evolved(lambda schema: evolution.without_columns(schema, names), definition)

    return alter


def renaming(name: str, new: str) -> Alteration:
    """Return what renames a column; see `evolution.renamed`."""
    return partial(_evolved, lambda schema: evolution.renamed(schema, name, new))


def widening(name: str, data_type: t.DataType) -> Alteration:
    """Return what widens a column's type; see `evolution.widened`."""

    def alter(definition: TableDefinition) -> TableDefinition:
        _check_no_version(definition, name, "widened")
        return _evolved(lambda schema: evolution.widened(schema, name, data_type), definition)

    return alter


def expiring(ttl: int | None) -> Alteration:
    """Return what sets the TTL of rows written from then on, in seconds; None for none."""

    def alter(definition: TableDefinition) -> TableDefinition:
        properties = replace(definition.properties, ttl=ttl)
        properties.check([key.column_id for key in definition.schema.primary_key])
        return replace(definition, properties=properties)

    return alter


def _evolved(
    evolve: Callable[[TableSchema], TableSchema], definition: TableDefinition
) -> TableDefinition:
    older = (*definition.older_schemas, definition.schema)
    return replace(definition, schema=evolve(definition.schema), older_schemas=older)


def _check_no_version(definition: TableDefinition, name: str, done: str) -> None:
    column = definition.schema.column(name)
    if column.id == definition.properties.version_column:
        raise SchemaError(
            f"the column {column.name!r} is the version column of table {definition.name}, whose "
            f"bytes stand in every row; it cannot be {done}"
        )
