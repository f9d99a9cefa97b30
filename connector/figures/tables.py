"""The figures of tables: what the catalog and the statistics in the log know, and rows on request.

Promises: everything is of one epoch.
Does not know: Spark, or how rows are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from relstate.connector.commits import Commit, commits
from relstate.storage import (
    IndexDescription,
    ReadPlan,
    Store,
    StoreState,
    TableDefinition,
    figures,
)

from .damage import damage_problem
from .row_counts import with_counts

COMMITS = 20
"""How many commits of a table are shown."""
SEARCHED = 500
"""How many of the latest epochs are searched for them."""
MOST_ENTRIES = 4_000_000
"""A table with more stored entries is not read for its vnodes: that would take seconds."""


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column; ``type`` is Spark's DDL. Positions in keys count from 1; None: not in the key.

    ``default`` and ``generated``: the expressions of its value, as written.
    """

    name: str
    type: str
    nullable: bool
    primary_key_place: int | None
    primary_key_order: str | None
    distribution_key_place: int | None
    default: str | None
    generated: str | None

    @property
    def value_clause(self) -> str:
        """Return the clause that says what value rows have that are written without the column."""
        if self.generated is not None:
            return f"GENERATED ALWAYS AS ({self.generated})"
        return "" if self.default is None else f"DEFAULT {self.default}"


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a table; the ``ttl`` and retentions are in seconds.

    ``version_column``: the names of all of them, with commas.
    """

    merge: str
    version_column: str | None
    ttl: int | None
    append_only: bool
    tombstone_retention: int
    transaction_retention: int | None


@dataclass(frozen=True, slots=True)
class ShardDescription:
    """What a shard, the vnodes from ``first_vnode`` to ``last_vnode``, holds of a table."""

    shard: int
    first_vnode: int
    last_vnode: int
    segments: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class TableDescription:
    """What a store knows about a table without reading its rows."""

    name: str
    table_id: int
    created_epoch: int
    data_epoch: int
    schema_version: int
    columns: tuple[ColumnDescription, ...]
    properties: Properties
    shards: tuple[ShardDescription, ...]


def describe_table(state: StoreState, name: str) -> TableDescription:
    """Return the description of a table at the epoch of a state. TableNotFoundError."""
    table = state.table(name)
    definition = table.definition
    return TableDescription(
        definition.name,
        definition.table_id,
        definition.created_epoch,
        table.data_epoch,
        definition.schema.version,
        tuple(_columns(definition)),
        _properties(definition),
        tuple(
            ShardDescription(
                shard.shard, shard.first_vnode, shard.last_vnode, shard.files, shard.stored_bytes
            )
            for shard in figures.shard_files(state, definition.table_id)
            if shard.files
        ),
    )


def _columns(definition: TableDefinition) -> Iterator[ColumnDescription]:
    schema = definition.schema
    keys = {key.column_id: (position, key) for position, key in enumerate(schema.primary_key, 1)}
    positions = {
        column_id: position for position, column_id in enumerate(schema.distribution_key, 1)
    }
    for column in schema.columns:
        if column == schema.row_id:
            continue
        position, key = keys.get(column.id, (None, None))
        order = None if key is None else key.order
        yield ColumnDescription(
            column.name,
            str(column.type),
            column.nullable,
            position,
            order,
            positions.get(column.id),
            None if column.default is None else column.default.expression,
            None if column.generated is None else column.generated.expression,
        )


def _properties(definition: TableDefinition) -> Properties:
    properties = definition.properties
    names = {column.id: column.name for column in definition.schema.columns}
    version_column = ", ".join(names[i] for i in properties.version_columns) or None
    return Properties(
        properties.merge,
        version_column,
        properties.ttl,
        properties.append_only,
        properties.tombstone_retention,
        properties.transaction_retention,
    )


@dataclass(frozen=True, slots=True)
class TablePage:
    """All about one table but its rows.

    ``comment`` and ``user_properties`` as they were set. ``commits``: the last ones that touched
    it among the latest epochs, the newest first. ``damage``: what is wrong with its files, None if
    nothing is.
    """

    description: TableDescription
    size: figures.TableSize
    comment: str | None
    user_properties: tuple[tuple[str, str], ...]
    indexes: tuple[IndexDescription, ...]
    readers: tuple[str, ...]
    commits: tuple[Commit, ...]
    damage: str | None


def table_page(store: Store, state: StoreState, name: str) -> TablePage:
    """Return what the page of a table shows. TableNotFoundError.

    Reads at most `SEARCHED` entries of the log.
    """
    definition = state.table(name).definition
    latest = islice(commits(store), SEARCHED)
    own = (commit for commit in latest if definition.name in commit.tables)
    return TablePage(
        describe_table(state, name),
        with_counts(store, state, [figures.table_size(state, name)])[0],
        definition.comment,
        definition.user_properties,
        store.indexes(definition.name),
        tuple(sorted(map(state.title_of, state.views_reading(definition.table_id)))),
        tuple(islice(own, COMMITS)),
        damage_problem(store, state, [definition.table_id]),
    )


def vnodes_of(store: Store, state: StoreState, name: str) -> figures.VnodeSizes | None:
    """Return the sizes of a table's vnodes; None if it has more entries than `MOST_ENTRIES`.

    Reads all keys of the table. TableNotFoundError.
    """
    plan = ReadPlan.of(store.path, state, name)
    return None if plan.stored_rows > MOST_ENTRIES else figures.vnode_sizes(plan)
