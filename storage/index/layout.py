"""The layout of an index: how the rows of a table become its entries.

    key      indexed columns | columns of the table's primary key that are not indexed
    value    included columns
    vnode    of the first indexed column

Promises: an entry belongs to one row; its order is that of the indexed columns. An entry expires
with its row.
Does not know: which rows a commit changes, or how entries are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..codec.ragged import NO_BYTES, Bytes, equal_neighbours, sort_order
from ..errors import IndexExistsError, SchemaError
from ..log.names import RESERVED_PREFIX, check_index_name
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..schema.index import IndexDefinition
from ..schema.schema import Column, KeyColumn, TableSchema, name_list
from ..schema.types import quoted
from ..segment.block import Block
from ..segment.key import EXPIRES, Kind
from ..table.encoding import Encoding, encoding_of
from ..table.header import Headers
from .recentkeys import RecentKeysOfTables

if TYPE_CHECKING:
    from ..log.proposal import NewIndex


class IndexLayout:
    """The layout of one index of a table. Immutable.

    ``encoding``: that of the internal table, with the present names of the table's columns.
    ``indexed``: the indexed columns of the table, whose name is ``table_name``.
    """

    def __init__(self, table: Encoding, index: IndexDefinition, internal: TableDefinition) -> None:
        """``internal``: the definition of the internal table."""
        definition = table.definition
        self.index = index
        self.table_name = definition.name
        self._table = table
        by_id = {column.id: column for column in definition.schema.columns}
        self._columns = [by_id[column_id] for column_id in _column_ids(definition, index)]
        self.indexed = self._columns[: len(index.columns)]
        renamed = tuple(
            replace(column, name=source.name)
            for column, source in zip(internal.schema.columns, self._columns, strict=True)
        )
        definition = replace(internal, schema=replace(internal.schema, columns=renamed))
        self.encoding = encoding_of(definition, table.vnode_count)

    def entries(self, block: Block) -> tuple[Bytes, Bytes]:
        """Return (full keys, values) of the entries of the rows in a block of the table's.

        Deletes have no entry.
        """
        return self._encoded(joined_rows([], block)[0])

    def _encoded(self, block: Block) -> tuple[Bytes, Bytes]:
        """Return the entries of a block without deletes."""
        if not len(block):
            return NO_BYTES, NO_BYTES
        batch = self._table.decode(block, self._columns)
        rows = pa.RecordBatch.from_arrays(batch.columns, schema=self.encoding.schema.arrow_schema)
        headers = Headers(block)
        expiries = headers.expiries if headers.bits & EXPIRES else None
        return self.encoding.encode(rows, None, expiries)

    def changes(self, rows: Block, old_count: int) -> tuple[Bytes, Bytes]:
        """Return (full keys, values) that turn the entries of some rows into those of others.

        Their keys ascend unless all rows are new. ``rows``: see `joined_rows`.
        """
        keys, values = self._encoded(rows)
        if not old_count:
            return keys, values
        order = sort_order(keys)
        sorted_keys = keys.take(pa.array(order))
        # A key holds the primary key, so equal ones are of one row: the old entry, then the new.
        repeats = equal_neighbours(sorted_keys)
        # The value after all others deletes.
        sources = np.where(order < old_count, len(keys), order)
        if repeats.any():
            is_needed = ~np.append(repeats, False)
            sorted_values = values.take(pa.array(order))
            is_needed[1:] &= ~(repeats & equal_neighbours(sorted_values))
            sorted_keys, sources = sorted_keys.filter(pa.array(is_needed)), sources[is_needed]
        delete = pa.array([self.encoding.encode_delete()], pa.large_binary())
        return sorted_keys, pa.concat_arrays([values, delete]).take(pa.array(sources))


class IndexLayouts:
    """The layouts of the indexes of tables, made once for each definition. Safe between threads.

    ``recent_keys``: those of the tables that have indexes.
    """

    def __init__(self) -> None:
        self.recent_keys = RecentKeysOfTables()
        self._by_table: dict[int, tuple[TableDefinition, Encoding, Sequence[IndexLayout]]] = {}

    def of(
        self, state: StoreState, definition: TableDefinition
    ) -> tuple[Encoding, Sequence[IndexLayout]]:
        """Return the encoding of a table in a state, and the layouts of its indexes."""
        cached = self._by_table.get(definition.table_id)
        if cached is None or cached[0] is not definition:
            encoding = encoding_of(definition, state.settings.vnode_count)
            layouts = [
                IndexLayout(encoding, index, state.tables[index.table_id].definition)
                for index in definition.indexes
            ]
            cached = self._by_table[definition.table_id] = (definition, encoding, layouts)
        return cached[1:]


def joined_rows(before: Sequence[Block], after: Block) -> tuple[Block, int]:
    """Return rows as they were and then as they are, without deletes, and how many are the former.

    ``before`` and ``after`` hold the same rows of a table, those of each in any order; a row that
    is in one of them only is new or deleted. For a few rows the number of calls is what costs, so
    they are one block, for all indexes of the table.
    """
    rows = Block.joined([*before, after])
    old_count = len(rows) - len(after)
    is_delete = Headers(rows).kinds == Kind.DELETE
    if is_delete.any():
        old_count -= int(np.count_nonzero(is_delete[:old_count]))
        rows = rows.take(np.flatnonzero(~is_delete))
    return rows, old_count


def _column_ids(definition: TableDefinition, index: IndexDefinition | NewIndex) -> list[int]:
    """Return the ids of the table's columns whose values an entry holds, in its order."""
    key_ids = [key.column_id for key in definition.schema.primary_key]
    not_indexed = [column_id for column_id in key_ids if column_id not in index.columns]
    return [*index.columns, *not_indexed, *index.included]


def new_index(
    definition: TableDefinition,
    name: str,
    columns: Sequence[str],
    included: Sequence[str],
    unique: bool,
) -> NewIndex:
    """Return an index to be created: see `Store.create_index`.

    TableNameError, SchemaError, IndexExistsError.
    """
    from ..log.proposal import NewIndex, NewTable

    check_index_name(name)
    if name.lower() in (index.name.lower() for index in definition.indexes):
        raise IndexExistsError(
            f"table {definition.name!r} has an index {name!r} already: drop it, or use another name"
        )
    if definition.properties.may_have_parts:
        raise SchemaError(
            f"table {definition.name!r} is, or was, a document table, which has no secondary "
            "indexes: create a materialized view that has the columns to be looked up in its key"
        )
    if not name_list("the columns of an index", columns):
        raise SchemaError(f"the index {name!r} has no columns; name at least one")
    schema = definition.schema
    keys = [schema.key_part(part) for part in columns]
    ids = tuple(key.column_id for key in keys)
    for column in schema.columns:
        if ids.count(column.id) > 1:
            raise SchemaError(f"the index {name!r} names the column {column.name!r} twice")
    key_ids = {key.column_id for key in schema.primary_key}
    extra = [schema.column(part) for part in name_list("the included columns", included)]
    included_ids = dict.fromkeys(
        column.id for column in extra if column.id not in key_ids and column.id not in ids
    )
    index = NewIndex(definition, NewTable("", schema), name, ids, tuple(included_ids), unique)
    by_id = {column.id: column for column in schema.columns}
    fields = [by_id[column_id].field for column_id in _column_ids(definition, index)]
    orders = [_ordered(by_id[key.column_id], key.descending, key.nulls_first) for key in keys]
    rest = [
        _ordered(by_id[key.column_id], key.descending, key.nulls_first)
        for key in schema.primary_key
        if key.column_id not in ids
    ]
    table_schema = TableSchema.build(
        fields, [*orders, *rest], [by_id[ids[0]].name], nullable_key=True, keeps_floats=True
    )
    internal_name = f"{RESERVED_PREFIX}index_{definition.table_id}_{name}"
    return replace(index, table=NewTable(internal_name, table_schema))


def _ordered(column: Column, descending: bool, nulls_first: bool) -> str:
    direction = "desc" if descending else "asc"
    nulls = "first" if nulls_first else "last"
    return f"{quoted(column.name)} {direction} nulls {nulls}"


def check_indexes_remain(before: TableDefinition, after: TableDefinition) -> None:
    """SchemaError if an altered table lacks a column of an index, or gave it another type."""
    types = {column.id: column.type for column in after.schema.columns}
    for index in before.indexes:
        for column in before.schema.columns:
            is_held = column.id in (*index.columns, *index.included)
            if is_held and types.get(column.id) != column.type:
                raise SchemaError(
                    f"the column {column.name!r} is in the index {index.name!r} of table "
                    f"{before.name!r}, so it cannot be dropped or widened: drop the index first "
                    "(DROP INDEX), and create it again"
                )


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """An index, for people. ``columns``: names, with their order where it is not ascending."""

    name: str
    columns: tuple[str, ...]
    included: tuple[str, ...]
    unique: bool
    internal_table: str


def indexes_of(state: StoreState, name: str) -> tuple[IndexDescription, ...]:
    """Return the descriptions of a table's indexes. TableNotFoundError."""
    definition = state.table(name).definition
    names = {column.id: column.name for column in definition.schema.columns}
    descriptions = []
    for index in definition.indexes:
        stored = state.tables[index.table_id].definition
        keys = zip(index.columns, stored.schema.primary_key, strict=False)
        descriptions.append(
            IndexDescription(
                index.name,
                tuple(names[column_id] + _order_text(key) for column_id, key in keys),
                tuple(names[column_id] for column_id in index.included),
                index.unique,
                stored.name,
            )
        )
    return tuple(descriptions)


def _order_text(key: KeyColumn) -> str:
    """Return the order of a key column as SQL, empty where it is the default."""
    nulls = "FIRST" if key.nulls_first else "LAST"
    is_default = key.nulls_first != key.descending
    return (" DESC" if key.descending else "") + ("" if is_default else f" NULLS {nulls}")
