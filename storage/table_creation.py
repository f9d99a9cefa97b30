"""Tables that are to be created: a definition of what the caller of a store has declared.

Promises: what a table cannot be is refused before anything is written.
Does not know: which tables there are, but for the one that a new table is to be like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from .alteration import descriptions_of, with_constraint, with_default
from .errors import SchemaError
from .feed.columns import check_not_of_feed
from .generated_columns import with_generated
from .instant import optional_seconds_in, seconds_in
from .log.names import check_table_name
from .log.proposal import NewTable
from .log.state import StoreState
from .schema.arrow import fields_of
from .schema.constraint import OnViolation
from .schema.ddl import parse_columns
from .schema.properties import (
    DEFAULT_TOMBSTONE_RETENTION,
    EncodingName,
    Merge,
    TableProperties,
)
from .schema.schema import TableSchema, name_list
from .schema.types import Field, quoted
from .user_tables import described_table


def new_table(
    name: str,
    columns: str | pa.Schema,
    *,
    primary_key: Sequence[str] | None = None,
    distribution_key: Sequence[str] | None = None,
    merge: Merge = "overwrite",
    version_column: str | Sequence[str] | None = None,
    ttl: int | str | None = None,
    append_only: bool = False,
    tombstone_retention: int | str = DEFAULT_TOMBSTONE_RETENTION,
    nullable_key: bool = False,
    encoding: EncodingName = "row",
    packed: bool = True,
    sets: Sequence[str] = (),
    transaction_retention: int | str | None = None,
    user_properties: Mapping[str, str | None] | None = None,
    constraints: Mapping[str, str] | None = None,
    expectations: Mapping[str, tuple[str, OnViolation]] | None = None,
    defaults: Mapping[str, str] | None = None,
    generated: Mapping[str, str] | None = None,
) -> NewTable:
    """Return a table to be created: see `Store.create_table`.

    TableNameError, SchemaError, UnsupportedTypeError.
    """
    check_table_name(name)
    if distribution_key is not None and not distribution_key:
        raise SchemaError("the distribution key is empty; name at least one column")
    names = _version_names(version_column)
    if type(nullable_key) is not bool:
        raise SchemaError(f"nullable_key is True or False, not {nullable_key!r}")
    if primary_key is None:
        is_plain = merge == "overwrite" and not names and not nullable_key
        schema = _keyless_schema(fields_from(columns), distribution_key, is_plain=is_plain)
    else:
        schema = TableSchema.build(
            fields_from(columns), primary_key, distribution_key, nullable_key=nullable_key
        )
    check_not_of_feed(column.name for column in schema.columns)
    versions = tuple(schema.column(column).id for column in names)
    set_ids = tuple(schema.column(column).id for column in name_list("sets", sets))
    properties = TableProperties(
        merge,
        versions,
        optional_seconds_in("ttl", ttl),
        append_only,
        seconds_in("tombstone_retention", tombstone_retention),
        encoding,
        packed,
        set_ids,
        transaction_retention=optional_seconds_in("transaction_retention", transaction_retention),
    )
    table = NewTable(name, schema, properties, *descriptions_of(user_properties or {}))
    definition = table.definition(table_id=1, epoch=1)
    for column, default in (defaults or {}).items():
        definition = with_default(definition, column, default)
    for column, expression in (generated or {}).items():
        definition = with_generated(definition, column, expression)
    for constraint, expression in (constraints or {}).items():
        definition = with_constraint(definition, constraint, expression)
    for expectation, (expression, on_violation) in (expectations or {}).items():
        definition = with_constraint(definition, expectation, expression, on_violation)
    return replace(table, schema=definition.schema, constraints=definition.constraints)


def table_like(name: str, state: StoreState, source: str) -> NewTable:
    """Return a table to be created with the columns, keys and properties of a table or view.

    Without its indexes and rows. The key of a view is that of the table if it is visible; else
    the table has none. TableNameError, TableNotFoundError, InternalTableError.
    """
    check_table_name(name)
    definition = described_table(state, source)
    schema = definition.schema
    if definition.table_id in state.views:
        schema = _visible_schema(schema)
    check_not_of_feed(column.name for column in schema.columns)
    return NewTable(
        name,
        replace(schema, version=1),
        definition.properties,
        definition.comment,
        definition.user_properties,
        definition.constraints,
    )


def _visible_schema(schema: TableSchema) -> TableSchema:
    fields = [column.field for column in schema.visible_columns]
    if any(column.hidden for column in schema.key_columns):
        return TableSchema.build_keyless(fields)
    key = [
        f"{quoted(column.name)} {part.order}"
        for column, part in zip(schema.key_columns, schema.primary_key, strict=True)
    ]
    distribution = [column.name for column in schema.distribution_columns] or None
    return TableSchema.build(fields, key, distribution, nullable_key=True)


def _version_names(version_column: str | Sequence[str] | None) -> Sequence[str]:
    if version_column is None:
        return ()
    if isinstance(version_column, str):
        return (version_column,)
    names = name_list("version_column", version_column)
    if not names:
        raise SchemaError("version_column is an empty list; name at least one column")
    return names


def _keyless_schema(
    fields: Sequence[Field], distribution_key: Sequence[str] | None, *, is_plain: bool
) -> TableSchema:
    """Return the schema of a table without a primary key. SchemaError for what needs a key.

    ``is_plain``: nothing is declared that needs a key.
    """
    if distribution_key is not None:
        raise SchemaError(
            "a table without a primary key has no distribution key: its columns are chosen from "
            "those of the primary key"
        )
    if not is_plain:
        raise SchemaError(
            "rows of a table without a primary key are never merged: declare a primary key, or "
            "leave out the merge behaviour, the version column and nullable_key"
        )
    return TableSchema.build_keyless(fields)


def fields_from(columns: str | pa.Schema) -> tuple[Field, ...]:
    """Return the fields that Spark DDL or an Arrow schema describes. SchemaError for others."""
    if isinstance(columns, str):
        return parse_columns(columns)
    if not isinstance(columns, pa.Schema):
        raise SchemaError(f"columns are Spark DDL or a pyarrow.Schema, not {columns!r:.100}")
    return fields_of(columns)
