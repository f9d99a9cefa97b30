"""Rows written to a table of a store by one process, as one epoch.

Promises: all rows become visible at once or none does; of rows that the table does not take no
file stays.
Does not know: Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from .errors import AppendOnlyError
from .log.entry import SegmentRecord
from .log.proposal import Proposal
from .plan import WriteTarget
from .segment.kind import Kind
from .table.appendonly import change_refused

if TYPE_CHECKING:
    from .store import Store

Rows: TypeAlias = pa.RecordBatch | pa.Table


def write_rows(
    store: Store,
    table: str,
    rows: Rows,
    *,
    kind: Kind | None = None,
    overwrite: bool = False,
    ttls: pa.Array | None = None,
) -> int:
    """Write rows and return their epoch.

    ``kind``: what all of them are, None for upserts; ``overwrite``: they replace all others;
    ``ttls``: see `TableWriter.write`, whose errors and those of `transaction.commit` are raised.
    """
    started = store.environment.now()
    target = store.write_target(table, expiring=ttls is not None)
    if target.definition.properties.append_only and (overwrite or kind is Kind.DELETE):
        raise change_refused(target.definition, "overwrite" if overwrite else "delete")
    segments = _segments(store, target, rows, kind, ttls)
    based = (target.definition.table_id,) if overwrite else ()
    operation = "overwrite" if overwrite else "write"
    proposal = Proposal(operation=operation, started=started, segments=segments, based_tables=based)
    try:
        return store.commit(proposal).epoch
    except AppendOnlyError:
        store.discard(segments)
        raise


def _segments(
    store: Store, target: WriteTarget, rows: Rows, kind: Kind | None, ttls: pa.Array | None
) -> tuple[SegmentRecord, ...]:
    start = 0
    with target.open(store.environment) as writer:
        for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
            kinds = None if kind is None else np.full(batch.num_rows, kind, np.uint8)
            lives = None if ttls is None else ttls.slice(start, batch.num_rows)
            writer.write(batch, kinds, lives)
            start += batch.num_rows
        return writer.finish()
