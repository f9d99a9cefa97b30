"""What a statement read, and whether a later commit changed it.

A row counts as read if it met the condition with which its table was read. So a commit conflicts if
a row that it changed meets the condition before or after the change; without a condition every row
does.

Promises: a commit that does not conflict would not have changed what the statement computed.
Does not know: who runs the statement again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from relstate.storage import (
    Entry,
    ReadPlan,
    SegmentRecord,
    StorageTable,
    Store,
    encoding_of,
    errors,
    placed_in,
)

from .query_reader import Relation


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What a statement read of a store: by relations, and the keys of ``created``.

    ``created``: segments to be committed whose keys must be free; None if none need be.
    """

    store: Store
    relations: tuple[Relation, ...]
    created: Created | None = None

    def is_changed_by(self, entry: Entry) -> bool:
        """Tell whether a commit changed what was read."""
        if any(_changes(self.store, relation, entry) for relation in self.relations):
            return True
        return self.created is not None and self.created.is_changed_by(self.store, entry)


@dataclass(frozen=True, slots=True)
class Created:
    """Segments to be committed to the table of a plan, with keys that must be free."""

    plan: ReadPlan
    segments: tuple[SegmentRecord, ...]

    def is_changed_by(self, store: Store, entry: Entry) -> bool:
        """Tell whether a commit changed a row with one of their keys."""
        definition = self.plan.definition
        if not _touches(entry, definition.table_id):
            return False
        names = [column.name for column in definition.schema.key_columns]
        encoding = encoding_of(definition, self.plan.vnode_count)
        placed = placed_in(self.segments, entry.epoch, definition.table_id)
        created_rows = StorageTable(store.environment, encoding, placed, lambda: 0)
        batches = _changed_rows(store, self.plan, entry, names)
        if batches is None:
            return True
        keys = (encoding.conform_keys(batch.select(names)) for batch in batches)
        return any(len(created_rows.get_values(encoding.encode_keys(batch))) for batch in keys)


def _changes(store: Store, relation: Relation, entry: Entry) -> bool:
    definition = relation.plan.definition
    if relation.is_pinned or not _touches(entry, definition.table_id):
        return False
    where = relation.where
    if where is None or not where.columns:
        return True
    batches = _changed_rows(store, relation.plan, entry, where.columns)
    return batches is None or any(where.mask(batch).true_count for batch in batches)


def _touches(entry: Entry, table_id: int) -> bool:
    removed = (*entry.dropped_tables, *entry.based_tables)
    return table_id in removed or any(record.rows(table_id) for record in entry.added)


def _changed_rows(
    store: Store, plan: ReadPlan, entry: Entry, columns: Sequence[str]
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows, before and after, that a commit changed; None if they are unknown."""
    definition = plan.definition
    if definition.table_id in (*entry.dropped_tables, *entry.based_tables):
        return None
    try:
        now = store.state_at(entry.epoch).table(definition.name).definition
        if now.schema.version != definition.schema.version:
            return None
        return store.changes(definition.name, entry.epoch, entry.epoch, columns=columns)
    except (errors.UsageError, errors.MissingError):
        return None
