"""A write whose rows have columns that their table lacks, or wider ones: one commit of both.

The rows are written under the definition that the table will have. Their commit alters the table;
if others altered it meanwhile, it does so only if the outcome is the same.

Promises: nothing is changed before the rows are committed, and nothing is if they are not.
Does not know: who writes, or how rows are encoded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from .alteration import with_merged_columns
from .errors import ConflictError
from .index.layout import check_indexes_remain
from .log.proposal import AlteredTable
from .log.rules import check_alterable
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .schema import types as t
from .schema.schema import TableSchema
from .table.encoding import encoding_of


def merged_definition(
    state: StoreState, definition: TableDefinition, fields: Sequence[t.Field]
) -> TableDefinition:
    """Return the definition that has the columns of some rows: itself if it has them all.

    SchemaError for a column that cannot be added or widened, DependentViewsError if a view reads
    one that would be widened.
    """
    merged = with_merged_columns(definition, fields)
    if merged is not definition:
        check_indexes_remain(definition, merged)
        check_alterable(state, AlteredTable(definition, merged))
        encoding_of(merged, vnode_count=1)
    return merged


def alterations(
    state: StoreState, written: TableDefinition, fields: Sequence[t.Field]
) -> tuple[AlteredTable, ...]:
    """Return how a table is altered by the commit of rows that were written under a definition.

    Nothing if it has that schema, or had it. ConflictError if it cannot have it any more.
    """
    definition = state.tables[written.table_id].definition
    digest = schema_digest(written.schema)
    schemas = (definition.schema, *definition.older_schemas)
    if any(schema_digest(schema) == digest for schema in schemas):
        return ()
    merged = merged_definition(state, definition, fields)
    if schema_digest(merged.schema) != digest:
        raise altered_meanwhile_error(definition.name)
    return (AlteredTable(definition, merged),)


def schema_digest(schema: TableSchema) -> str:
    """Return 32 hexadecimal digits that say under which schema rows are encoded."""
    stored = replace(schema, columns=tuple(column.as_stored for column in schema.columns))
    return hashlib.blake2b(json.dumps(stored.to_json()).encode(), digest_size=16).hexdigest()


def altered_meanwhile_error(table: str) -> ConflictError:
    """Return the error of rows whose new columns no longer fit what others made of the table."""
    return ConflictError(
        f"the table {table!r} was altered by others while rows with other columns were written "
        "to it; nothing was committed: write them again"
    )
