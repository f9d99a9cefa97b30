"""Reads in the order of the primary key, of all rows and of the first ones.

Promises: what is read at once can be sorted in memory, however large the table is.
Does not know: files, or versions of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, sort_order
from .conditional import (
    ReadableTable,
    Reading,
    matches_of,
    mean_row_bytes,
    pruned_keys,
    read_matching,
    read_pruned,
    read_range,
    with_columns_of,
)
from .pruning import Pruned, primary_span, ranges_by_vnode
from .scan import SORTED, Bounds, join_small_batches, matching_rows
from .vnoderanges import VnodeRanges, clipped

if TYPE_CHECKING:
    from ..predicate.predicate import Predicate

# The first rows in key order are sought if that reads at most so many bytes, and such a share of
# the entries: reading all is quicker by row. If too few match, so many times as many are sought,
# as long as these are few, and not all of so many failed to match.
_MOST_FIRST_BYTES = 32 << 20
_FIRST_SHARE = 0.25
_MORE_FIRST, _MOST_SOUGHT, _MOST_MISSES = 32, 10_000, 100


def read_in_order(
    table: ReadableTable, where: Predicate | None, reading: Reading, *, descending: bool
) -> Iterator[pa.RecordBatch]:
    """Yield rows, those that match a condition if there is one, in the order of the primary key."""
    names = [column.name for column in reading.columns]
    key_columns = table.encoding.schema.key_columns
    others = [column for column in key_columns if column not in reading.columns]
    reading = replace(reading, columns=[*reading.columns, *others])
    batches = (
        _all_in_order(table, reading, descending=descending)
        if where is None
        else join_small_batches(_matches_in_order(table, where, reading, descending=descending))
    )
    return (batch.select(names) for batch in batches)


def _all_in_order(
    table: ReadableTable, reading: Reading, *, descending: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range of keys in the order of the primary key."""
    if table.sorts_in_memory(reading.newest):
        return _in_order(table, list(read_range(table, reading)), descending=descending)
    ranges = ranges_by_vnode(table.encoding, reading.groups, reading.keys)
    if not ranges:
        return iter(())
    within = table.encoding.key_bounds(reading.keys)
    return _ranges_in_order(table, None, reading, ranges, within, descending=descending)


def _matches_in_order(
    table: ReadableTable, where: Predicate, reading: Reading, *, descending: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that match a condition in the order of the primary key."""
    pruned = None
    if not table.sorts_in_memory(reading.newest) and matches_of(table, where, reading) is None:
        pruned = pruned_keys(table, where, reading)
        if pruned is None:
            within = table.encoding.key_bounds(reading.keys)
            ranges = ranges_by_vnode(table.encoding, reading.groups, reading.keys)
            return _ranges_in_order(table, where, reading, ranges, within, descending=descending)
    if pruned is None or _are_few(table, pruned):
        matching = list(read_matching(table, where, reading))
        return _in_order(table, matching, descending=descending)
    if not pruned.ranges:
        return _points_in_order(table, where, reading, pruned.points, descending=descending)
    ranges, within = pruned.ranges, primary_span(table.encoding, pruned)
    if len(pruned.points):
        ranges = VnodeRanges.of(table.encoding.prefix, reading.groups, [within])
    return _ranges_in_order(table, where, reading, ranges, within, descending=descending)


def _are_few(table: ReadableTable, pruned: Pruned) -> bool:
    """Return whether the rows that are read can be sorted at once."""
    row_bytes = max(mean_row_bytes(table), 1)
    points = len(pruned.points)
    if points > SORTED.rows or points * row_bytes > SORTED.size:
        return False
    size = table.bytes_in(pruned.ranges)
    return size + points * row_bytes <= SORTED.size and size // row_bytes + points <= SORTED.rows


def _points_in_order(
    table: ReadableTable, where: Predicate, reading: Reading, points: Bytes, *, descending: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with some full keys that match, in the order of the primary key."""
    order = sort_order(table.encoding.prefix.primary_keys(points))
    if descending:
        order = np.ascontiguousarray(order[::-1])
    columns = with_columns_of(table.encoding, where, reading.columns)
    names = [column.name for column in reading.columns]
    step = min(SORTED.rows, max(SORTED.size // (mean_row_bytes(table) + 1), 1))
    for start in range(0, len(order), step):
        part = Pruned(points.take(pa.array(order[start : start + step])), [])
        batches = read_pruned(table, part, columns, reading.newest)
        matching = list(matching_rows(batches, where, names))
        yield from _in_order(table, matching, descending=descending)


def _ranges_in_order(
    table: ReadableTable,
    where: Predicate | None,
    reading: Reading,
    ranges: Sequence[Bounds],
    within: Bounds,
    *,
    descending: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges of full keys, each within a vnode, in the order of the primary key.

    ``within``: a range of primary keys that holds them. A range alone is in order already; of
    others a range of keys after another is read, and sorted.
    """
    names = [column.name for column in reading.columns]
    columns = reading.columns
    if where is not None:
        columns = with_columns_of(table.encoding, where, columns)
    if len(ranges) == 1:
        scan = table.scan_of(columns, reading.newest, within=ranges)
        batches = scan.sorted_range(ranges[0], descending=descending)
        yield from batches if where is None else matching_rows(batches, where, names)
        return
    chunks = table.key_chunks(ranges, within, reading.newest)
    for low, high in reversed(chunks) if descending else chunks:
        part = clipped(ranges, table.encoding.prefix, low, high)
        if not part:
            continue
        scan = table.scan_of(columns, reading.newest, part)
        batches = scan.batches([(part[0][0], part[-1][1])])
        if where is not None:
            batches = matching_rows(batches, where, names)
        yield from scan.in_order(list(batches), descending=descending)


def _in_order(
    table: ReadableTable, batches: Sequence[pa.RecordBatch], *, descending: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some batches, sorted by the primary key."""
    scan = table.scan_of((), None, within=())
    return scan.in_order(batches, descending=descending)


def first_in_order(
    table: ReadableTable,
    where: Predicate | None,
    reading: Reading,
    count: int,
    *,
    descending: bool,
) -> pa.RecordBatch | None:
    """Return the first rows of `read_in_order`, in its order; None if that takes much to read.

    Of a condition that few rows match, much has to be read to find them.
    """
    names = [column.name for column in reading.columns]
    if where is not None:
        columns = with_columns_of(table.encoding, where, reading.columns)
        reading = replace(reading, columns=columns)
    ranges = _ranges_to_seek(table, where, reading)
    most = min(
        _MOST_FIRST_BYTES // (mean_row_bytes(table) + 1), int(table.stored_rows * _FIRST_SHARE)
    )
    row_limit = count
    while ranges is not None:
        rows = table.first_rows(reading.columns, ranges, row_limit, most, descending=descending)
        if rows is None:
            return None
        matches = rows if where is None else rows.filter(where.mask(rows))
        if matches.num_rows >= count or rows.num_rows < row_limit:
            return matches.slice(0, count).select(names)
        is_hopeless = not matches.num_rows and row_limit > _MOST_MISSES
        row_limit *= _MORE_FIRST
        if is_hopeless or row_limit > _MOST_SOUGHT:
            return None
    return None


def _ranges_to_seek(
    table: ReadableTable, where: Predicate | None, reading: Reading
) -> Sequence[Bounds] | None:
    """Return the ranges, few of each vnode, that hold the rows of a read; None if keys are known.

    None also if all rows are hardly more.
    """
    if where is None:
        return ranges_by_vnode(table.encoding, reading.groups, reading.keys)
    if matches_of(table, where, reading) is not None:
        return None
    pruned = pruned_keys(table, where, reading)
    if pruned is None:
        return ranges_by_vnode(table.encoding, reading.groups, reading.keys)
    return None if len(pruned.points) else pruned.ranges
