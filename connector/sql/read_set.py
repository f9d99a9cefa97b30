"""What a statement read, and whether a later commit changed it.

A row counts as read if it fulfilled the condition with which its table was read, so a commit is in
the way if a row that it changed fulfils that before or after; without a condition every row does.

Promises: a commit that is not in the way would not have changed what the statement computed.
Does not know: who tries again.
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
    """What was read of a store: by relations, and of ``created`` the keys, which must be free.

    ``created``: what a statement is about to commit to a table, None if all its keys were read.
    """

    store: Store
    relations: tuple[Relation, ...]
    created: Created | None = None

    def is_changed_by(self, entry: Entry) -> bool:
        """Tell whether a commit changed what was read."""
        if any(_changes(self.store, relation, entry) for relation in self.relations):
            return True
        return self.created is not None and self.created.meets(self.store, entry)


@dataclass(frozen=True, slots=True)
class Created:
    """Segments about to be committed to the table of a plan, some of them with new keys."""

    plan: ReadPlan
    segments: tuple[SegmentRecord, ...]

    def meets(self, store: Store, entry: Entry) -> bool:
        """Tell whether a commit changed a row under one of their keys."""
        definition = self.plan.definition
        if not _touches(entry, definition.table_id):
            return False
        names = [column.name for column in definition.schema.key_columns]
        encoding = encoding_of(definition, self.plan.vnode_count)
        placed = placed_in(self.segments, entry.epoch, definition.table_id)
        own = StorageTable(store.environment, encoding, placed, lambda: 0)
        changed = _changed_rows(store, self.plan, entry, names)
        return changed is None or any(
            len(own.get_values(encoding.encode_keys(encoding.conform_keys(batch.select(names)))))
            for batch in changed
        )


def _changes(store: Store, relation: Relation, entry: Entry) -> bool:
    definition = relation.plan.definition
    if relation.is_pinned or not _touches(entry, definition.table_id):
        return False
    where = relation.where
    if where is None or not where.columns:
        return True
    changed = _changed_rows(store, relation.plan, entry, where.columns)
    return changed is None or any(where.mask(batch).true_count for batch in changed)


def _touches(entry: Entry, table_id: int) -> bool:
    removed = (*entry.dropped_tables, *entry.based_tables)
    return table_id in removed or any(record.rows(table_id) for record in entry.added)


def _changed_rows(
    store: Store, plan: ReadPlan, entry: Entry, columns: Sequence[str]
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows, before and after, that a commit changed; None if that cannot be told."""
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
