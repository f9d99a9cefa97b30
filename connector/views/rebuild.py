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
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import CatalogView, ReadPlan, StoreState, without_expiry

from .backfill import backfill_parts
from .executor.changes import Mask
from .job import JobOutput, ViewJob
from .runner import JobRunner
from .view_failure import KEPT_ERRORS

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
    except KEPT_ERRORS:
        raise
    except Exception:
        *_, last = runner.run_parts(empty, backfill_parts(runner, state, view_id, at_once=True))
    return last


def _expiring_inputs(state: StoreState, view: CatalogView) -> Iterator[str]:
    for table_id, _ in view.progress.inputs:
        if state.expiring_rows(table_id) and not view.definition.follows_expiry(table_id):
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

    Floats, those within other values too, differ if they do by more than `TOLERANCE` of the
    greatest magnitude in the tables.
    """
    pairs = [
        (left.column(name).combine_chunks(), right.column(name).combine_chunks())
        for name in left.schema.names
    ]
    magnitude = max((_magnitude(column) for pair in pairs for column in pair), default=0.0)
    differ = np.zeros(left.num_rows, np.bool_)
    for pair in pairs:
        differ |= _differ(*pair, TOLERANCE * max(magnitude, 1.0))
    return np.flatnonzero(differ)


def _magnitude(values: pa.Array) -> float:
    """Return the greatest finite magnitude of the floats in an array; 0 if it has none."""
    if pa.types.is_floating(values.type):
        numbers = np.abs(_doubles(values.drop_null()))
        return float(numbers[np.isfinite(numbers)].max(initial=0.0))
    if pa.types.is_struct(values.type):
        return max(map(_magnitude, values.flatten()), default=0.0)
    return _magnitude(_as_lists(values).flatten()) if pa.types.is_nested(values.type) else 0.0


def _differ(left: pa.Array, right: pa.Array, tolerance: float) -> Mask:
    """Return which of the values of two arrays differ."""
    is_valid = np.asarray(left.is_valid())
    differ: Mask = is_valid != np.asarray(right.is_valid())
    are_valid = np.flatnonzero(is_valid & ~differ)
    if len(are_valid):
        differ[are_valid] = _valid_differ(left.take(are_valid), right.take(are_valid), tolerance)
    return differ


def _valid_differ(left: pa.Array, right: pa.Array, tolerance: float) -> Mask:
    """Return what `_differ` does, of arrays without NULLs."""
    data_type = left.type
    if pa.types.is_floating(data_type):
        return _doubles_differ(_doubles(left), _doubles(right), tolerance)
    if pa.types.is_struct(data_type):
        parts = zip(left.flatten(), right.flatten(), strict=True)
        differences = (_differ(*part, tolerance) for part in parts)
        return reduce(np.logical_or, differences, np.zeros(len(left), np.bool_))
    if pa.types.is_nested(data_type):
        return _lists_differ(_as_lists(left), _as_lists(right), tolerance)
    if data_type == pa.month_day_nano_interval():  # Arrow does not compare them
        left, right = (side.view(pa.binary(16)) for side in (left, right))
    differ: Mask = np.asarray(pc.not_equal(left, right))
    return differ


def _lists_differ(left: pa.ListArray, right: pa.ListArray, tolerance: float) -> Mask:
    lengths = np.asarray(left.value_lengths())
    differ: Mask = lengths != np.asarray(right.value_lengths())
    same = np.flatnonzero(~differ)
    elements, other_elements = (side.take(same).flatten() for side in (left, right))
    owners = np.repeat(same, lengths[same])
    differ[owners[_differ(elements, other_elements, tolerance)]] = True
    return differ


def _as_lists(values: pa.Array) -> pa.ListArray:
    """Return lists as they are, and maps as lists of their entries."""
    if not pa.types.is_map(values.type):
        return values
    values = values.take(np.arange(len(values)))  # without an offset
    entries = pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
    return pa.ListArray.from_arrays(values.offsets, entries, mask=values.is_null())


def _doubles(values: pa.Array) -> NDArray[np.float64]:
    return np.asarray(values.cast(pa.float64()), np.float64)


def _doubles_differ(
    left: NDArray[np.float64], right: NDArray[np.float64], tolerance: float
) -> Mask:
    same: Mask = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        same |= np.abs(left - right) <= tolerance
    return ~same
