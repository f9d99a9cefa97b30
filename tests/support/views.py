"""Views for tests of the catalog: no plan is run, the rows of their tables are invented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from relstate.connector.views.quarantine import new_quarantine
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
    quarantine_name,
    types,
)
from relstate.vnode import VnodeMapping

_FIELDS = [types.Field("k", types.BigInt()), types.Field("n", types.BigInt())]


def new_view(
    store: Store,
    name: str,
    *inputs: str,
    columns: tuple[int, ...] = (1,),
    has_quarantine: bool = False,
) -> NewView:
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
        quarantine=new_quarantine(name) if has_quarantine else None,
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


def quarantined_rows(
    store: Store, view: str, table: str, keys: Sequence[int], error: str
) -> tuple[SegmentRecord, ...]:
    """Write rows that a view leaves out, by keys; return the segments for a commit."""
    count, table_id = len(keys), store.state.table(table).definition.table_id
    columns = {
        "source": pa.array([table_id] * count, pa.int64()),
        "row_key": pa.array([key.to_bytes(8) for key in keys], pa.binary()),
        "table": pa.array([table] * count),
        "key": pa.array([f'{{"k": {key}}}' for key in keys]),
        "error": pa.array([error] * count),
        "epoch": pa.array([store.epoch] * count, pa.int64()),
    }
    writer = internal_target(store, quarantine_name(view)).open(store.environment)
    writer.write(pa.RecordBatch.from_pydict(columns))
    return writer.finish()


def internal_target(store: Store, name: str) -> WriteTarget:
    """Return the write target of a view's table, which only its refresh may write."""
    definition, settings = store.state.table(name).definition, store.settings
    return WriteTarget(store.path, definition, settings.vnode_count, settings.shards)
