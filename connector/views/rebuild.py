"""The check of a view's state: it is computed again from its inputs, and compared.

Every input is read as of the epoch up to which the view has taken it in, by the executors
themselves, over empty state tables. What they write is compared with the view's tables, one by one,
and removed.

Promises: nothing is committed and no file remains; every difference is reported.
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

from .backfill import backfill_parts
from .job import JobOutput, ViewJob
from .runner import LASTING_ERRORS, JobRunner

# Sums of floats are compared at this share of the greatest magnitude.
TOLERANCE = 1e-9
# So many stored bytes are compared at once.
_COMPARED_BYTES = 64 << 20


def find_differences(runner: JobRunner, view_id: int) -> list[str]:
    """Return how a view's rows and state differ from what its inputs make."""
    store = runner.store
    state = store.state
    job = runner.job(state, view_id, ())
    empty = replace(job, states=tuple(replace(plan, segments=()) for plan in job.states))
    rebuilt, output = _rebuild(runner, state, view_id, empty)
    try:
        problems = [*_expiring_inputs(state, job.view)]
        for stored, expected in zip(job.states, rebuilt.states, strict=True):
            problems += _compare_table(stored, expected)
        return problems
    finally:
        store.jobs.discard(output.segments)


def _rebuild(
    runner: JobRunner, state: StoreState, view_id: int, empty: ViewJob
) -> tuple[ViewJob, JobOutput]:
    """Compute a view again in parts; at once if a part fails."""
    try:
        *_, last = runner.run_parts(empty, backfill_parts(runner, state, view_id))
    except LASTING_ERRORS:
        raise
    except Exception:
        *_, last = runner.run_parts(empty, backfill_parts(runner, state, view_id, at_once=True))
    return last


def _expiring_inputs(state: StoreState, view: CatalogView) -> Iterator[str]:
    for table_id, _ in view.progress.inputs:
        if state.expiring_rows(table_id):
            definition = state.tables[table_id].definition
            yield (
                f"{state.name_of(view.view_id)}: table {definition.name!r}, which it reads, holds "
                "rows that were written with a TTL and expire without a commit: "
                f"{without_expiry(definition)}, and refresh; if that is refused, drop the view and "
                "create it again"
            )


def _compare_table(stored: ReadPlan, expected: ReadPlan) -> Iterator[str]:
    name = stored.definition.name
    size = max(stored.stored_bytes, expected.stored_bytes, 1)
    step = max(stored.vnode_count * _COMPARED_BYTES // size, 1)
    for start in range(0, stored.vnode_count, step):
        vnodes = range(start, min(start + step, stored.vnode_count))
        rows, expected_rows = _rows(stored, vnodes), _rows(expected, vnodes)
        if rows.num_rows != expected_rows.num_rows:
            yield (
                f"{name}: {rows.num_rows} rows in the vnodes {vnodes.start} to {vnodes.stop - 1}, "
                f"but its inputs make {expected_rows.num_rows}"
            )
            continue
        wrong = differing_rows(rows, expected_rows)
        if len(wrong):
            row = int(wrong[0])
            yield (
                f"{name}: {len(wrong)} rows are not what the inputs make of them; the first is "
                f"{rows.slice(row, 1).to_pylist()[0]}, and should be "
                f"{expected_rows.slice(row, 1).to_pylist()[0]}"
            )


def _rows(plan: ReadPlan, vnodes: range) -> pa.Table:
    names = plan.definition.schema.arrow_schema.names
    batches = list(plan.open().scan_in_order(names, vnodes=[vnodes]))
    return pa.Table.from_batches(batches, plan.definition.schema.arrow_schema).combine_chunks()


def differing_rows(left: pa.Table, right: pa.Table) -> NDArray[np.int64]:
    """Return the rows, int64, in which two tables of as many rows differ.

    Floats differ if they do by more than `TOLERANCE` of the greatest magnitude in the tables.
    """
    schema = left.schema
    floats = [name for name in schema.names if pa.types.is_floating(schema.field(name).type)]
    magnitude = max(
        [1.0, *(_magnitude(table.column(name)) for table in (left, right) for name in floats)]
    )
    differ = np.zeros(left.num_rows, bool)
    for name in schema.names:
        columns = left.column(name), right.column(name)
        if name in floats:
            differ |= _floats_differ(*columns, magnitude * TOLERANCE)
        else:
            differ |= _values_differ(*columns)
    return np.flatnonzero(differ)


def _magnitude(column: pa.ChunkedArray) -> float:
    values = np.abs(np.asarray(column.drop_null().cast(pa.float64()), np.float64))
    finite = values[np.isfinite(values)]
    return float(finite.max(initial=0.0))


def _floats_differ(
    left: pa.ChunkedArray, right: pa.ChunkedArray, tolerance: float
) -> NDArray[np.bool_]:
    nulls = np.asarray(left.is_null()) != np.asarray(right.is_null())
    lefts, rights = (np.asarray(side.fill_null(0).cast(pa.float64())) for side in (left, right))
    same = (lefts == rights) | (np.isnan(lefts) & np.isnan(rights))
    with np.errstate(invalid="ignore"):
        same |= np.abs(lefts - rights) <= tolerance
    differ: NDArray[np.bool_] = nulls | ~same
    return differ


def _values_differ(left: pa.ChunkedArray, right: pa.ChunkedArray) -> NDArray[np.bool_]:
    try:
        unequal = pc.fill_null(pc.not_equal(left, right), False)
    except pa.ArrowNotImplementedError:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.array([a != b for a, b in pairs], bool)
    nulls = np.asarray(left.is_null()) != np.asarray(right.is_null())
    differ: NDArray[np.bool_] = np.asarray(unequal) | nulls
    return differ
