"""Columns of a read that say when something in a row expires; no table stores them.

    path              the column has
    ("note",)         when the column is gone
    ("props", "x")    when the entry of the map is gone
    ("id",)           of a column of the primary key: when the row is gone

Of what has parts that is when the last of them expires. NULL: it stays, or is not there.

Does not know: how rows are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..log.table_definition import TableDefinition
from ..schema.schema import Column
from ..schema.types import BigInt

_PREFIX = "_expiry_"


@dataclass(frozen=True, slots=True)
class ExpiryColumn:
    """A hidden BIGINT column, in microseconds since 1970, and the path that it is of.

    ``path``: the name of a column, then names of fields, keys of maps and elements of sets.
    """

    column: Column
    path: tuple[Any, ...]


def with_expiry_columns(
    definition: TableDefinition, paths: Sequence[tuple[Any, ...]]
) -> tuple[TableDefinition, tuple[ExpiryColumn, ...]]:
    """Return a table with a hidden column for each of some paths, as if it had got them last."""
    schema = definition.schema
    used_names = {column.name.lower() for column in schema.columns}
    columns: list[Column] = []
    for number, _ in enumerate(paths):
        name = f"{_PREFIX}{number}"
        while name in used_names:
            name += "_"
        columns.append(Column(schema.next_column_id + number, name, BigInt(), hidden=True))
    extended = replace(
        schema,
        version=schema.version + 1,
        columns=(*schema.columns, *columns),
        next_column_id=schema.next_column_id + len(columns),
    )
    older = (*definition.older_schemas, schema)
    shown = zip(columns, paths, strict=True)
    return (
        replace(definition, schema=extended, older_schemas=older),
        tuple(ExpiryColumn(column, path) for column, path in shown),
    )
