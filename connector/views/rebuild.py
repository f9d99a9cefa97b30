"""Proof of a view's state: it is computed anew from its inputs, and compared.

Every input is read as of the epoch that the view has taken it in up to, by the executors
themselves, over empty state tables. What they write is compared with what the view keeps, table by
table, and thrown away.

Promises: nothing is committed, nothing stays behind; a state that is not that of the inputs is
told of.
Does not know: whether executors are right: that is what the view's SELECT is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import CatalogView, ReadPlan, StoreState, without_expiry

from .backfill import parts
from .refresh import LASTING, Outcome, Refresher, ViewRun

# Sums of floats are compared at this share of the greatest magnitude.
TOLERANCE = 1e-9
# So many stored bytes are compared at once.
_COMPARED_BYTES = 64 << 20


def differences(refresher: Refresher, view_id: int) -> list[str]:
    """Return what of a view's rows and state is not as its inputs say; nothing if all is well."""
    store = refresher.store
    state = store.state
    run = refresher.run(state, view_id, ())
    empty = tuple(replace(plan, segments=()) for plan in run.job.states)
    blank = replace(run, job=replace(run.job, states=empty))
    rebuilt, outcome = _rebuilt(refresher, state, view_id, blank)
    try:
        found = [*_expiring_inputs(state, run.view)]
        for one, other in zip(run.job.states, rebuilt.job.states, strict=True):
            found += _compared(one, other)
        return found
    finally:
        store.discard(outcome.segments)


def _rebuilt(
    refresher: Refresher, state: StoreState, view_id: int, blank: ViewRun
) -> tuple[ViewRun, Outcome]:
    """Compute a view anew, part by part, or at once if a part has what the whole has not."""
    try:
        *_, last = refresher.grown(blank, parts(refresher, state, view_id))
    except LASTING:
        raise
    except Exception:
        *_, last = refresher.grown(blank, parts(refresher, state, view_id, at_once=True))
    return last


def _expiring_inputs(state: StoreState, view: CatalogView) -> Iterator[str]:
    for table_id, _ in view.progress.inputs:
        if state.expiring_rows(table_id):
            definition = state.tables[table_id].definition
            yield (
                f"{state.name_of(view.view_id)}: table {definition.name!r}, which it reads, holds "
                "rows that were written with a TTL and expire without a commit: "
                f"{without_expiry(definition)}, and refresh; if that is refused, drop the view and "
                "create it anew"
            )


def _compared(kept: ReadPlan, rebuilt: ReadPlan) -> Iterator[str]:
    name = kept.definition.name
    size = max(kept.stored_bytes, rebuilt.stored_bytes, 1)
    step = max(kept.vnode_count * _COMPARED_BYTES // size, 1)
    for start in range(0, kept.vnode_count, step):
        vnodes = range(start, min(start + step, kept.vnode_count))
        one, other = _rows(kept, vnodes), _rows(rebuilt, vnodes)
        if one.num_rows != other.num_rows:
            yield (
                f"{name}: {one.num_rows} rows in the vnodes {vnodes.start} to {vnodes.stop - 1}, "
                f"but its inputs make {other.num_rows}"
            )
            continue
        wrong = differing_rows(one, other)
        if len(wrong):
            row = int(wrong[0])
            yield (
                f"{name}: {len(wrong)} rows are not what the inputs make of them; the first is "
                f"{one.slice(row, 1).to_pylist()[0]}, and should be "
                f"{other.slice(row, 1).to_pylist()[0]}"
            )


def _rows(plan: ReadPlan, vnodes: range) -> pa.Table:
    names = plan.definition.schema.arrow_schema.names
    batches = list(plan.open().scan_in_order(names, vnodes=[vnodes]))
    return pa.Table.from_batches(batches, plan.definition.schema.arrow_schema).combine_chunks()


def differing_rows(one: pa.Table, other: pa.Table) -> NDArray[np.int64]:
    """Return the rows, int64, in which two tables of as many rows differ, floats by more than
    `TOLERANCE` of the greatest magnitude in the tables.
    """
    floats = [
        name for name in one.schema.names if pa.types.is_floating(one.schema.field(name).type)
    ]
    magnitude = max(
        [1.0, *(_magnitude(table.column(name)) for table in (one, other) for name in floats)]
    )
    differ = np.zeros(one.num_rows, bool)
    for name in one.schema.names:
        left, right = one.column(name), other.column(name)
        if name in floats:
            differ |= _floats_differ(left, right, magnitude * TOLERANCE)
        else:
            differ |= _values_differ(left, right)
    return np.flatnonzero(differ)


def _magnitude(column: pa.ChunkedArray) -> float:
    values = np.abs(np.asarray(column.drop_null().cast(pa.float64()), np.float64))
    finite = values[np.isfinite(values)]
    return float(finite.max(initial=0.0))


def _floats_differ(
    left: pa.ChunkedArray, right: pa.ChunkedArray, tolerance: float
) -> NDArray[np.bool_]:
    nulls = np.asarray(left.is_null()) != np.asarray(right.is_null())
    one, other = (np.asarray(side.fill_null(0).cast(pa.float64())) for side in (left, right))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        same |= np.abs(one - other) <= tolerance
    differ: NDArray[np.bool_] = nulls | ~same
    return differ


def _values_differ(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.bool_]:
    try:
        differ = pc.fill_null(pc.not_equal(left, right), False)
    except pa.ArrowNotImplementedError:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([one != other for one, other in pairs], bool)
    nulls = np.asarray(left.is_null()) != np.asarray(right.is_null())
    found: NDArray[np.bool_] = np.asarray(differ) | nulls
    return found
