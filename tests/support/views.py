"""Views for tests of the catalog: no plan is run, the rows of their tables are invented."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from relstate.storage import (
    NewProgress,
    NewTable,
    NewView,
    Proposal,
    SegmentRecord,
    Store,
    TableSchema,
    ViewInput,
    WriteTarget,
    types,
)
from relstate.vnode import VnodeMapping

_FIELDS = [types.Field("k", types.BigInt()), types.Field("n", types.BigInt())]


def new_view(store: Store, name: str, *inputs: str, columns: tuple[int, ...] = (1,)) -> NewView:
    """Return a view with two state tables that reads some columns of tables of a store."""
    rows = TableSchema.build(_FIELDS, ["k"], nullable_key=True)
    state = TableSchema.build(_FIELDS, ["k"], (), nullable_key=True)
    ids = (store.read_plan(table).definition.table_id for table in inputs)
    return NewView(
        NewTable(name, rows),
        (NewTable(f"__internal_{name}_1", state), NewTable(f"__internal_{name}_2", state)),
        f"SELECT k FROM {', '.join(inputs)}",
        tuple(ViewInput(table_id, columns) for table_id in ids),
        VnodeMapping.balanced(store.settings.vnode_count, 2),
        {"zone": "UTC"},
        {"kind": "scan"},
    )


def progressed(
    store: Store, name: str, epoch: int | None = None, backfill: Any = None
) -> NewProgress:
    """Return the progress of a view that has read all up to an epoch, by default the latest."""
    view, epoch = store.view(name), store.epoch if epoch is None else epoch
    inputs = tuple((table.table_id, epoch) for table in view.definition.inputs)
    return NewProgress(view, epoch, inputs, backfill)


def refresh(store: Store, *progress: NewProgress, **parts: Any) -> int:
    """Commit a refresh of views and return its epoch."""
    started = store.environment.now()
    proposal = Proposal(operation="refresh", started=started, progress=progress, **parts)
    return store.jobs.commit(proposal).epoch


def count_refreshes(store: Store) -> int:
    """Return how many commits of refreshes there are; compactions may follow at any time."""
    return sum(entry.operation == "refresh" for entry in store.history())


def view_rows(store: Store, name: str, *keys: int | None) -> tuple[SegmentRecord, ...]:
    """Write rows of a view's table; return the segments for a commit."""
    writer = internal_target(store, name).open(store.environment)
    writer.write(pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int64())}))
    return writer.finish()


def internal_target(store: Store, name: str) -> WriteTarget:
    """Return the write target of a view's table, which only its refresh may write."""
    definition, settings = store.state.table(name).definition, store.settings
    return WriteTarget(store.path, definition, settings.vnode_count, settings.shards)
