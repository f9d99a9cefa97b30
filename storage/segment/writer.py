"""The writer of segments: it sorts entries, cuts them into files and counts them.

Promises: segments are sorted and have at most about 64 MiB, with at most one entry per key; of two
entries of one key in one segment the one added last remains. Memory is bounded by a few times a
segment, whatever is written. Readers do not see a segment until a commit names it. A writer that
failed once keeps failing, so that no commit lacks the rows that it lost.
Does not know: epochs. Which of two segments wins is decided by their order in the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, pairwise
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from relstate.vnode import shards_of

from ..codec.ragged import (
    NO_BYTES,
    Buffer,
    Bytes,
    Positions,
    last_of_equal,
    lengths_of,
    load,
    parts_of,
)
from ..environment import Environment
from ..errors import StorageError, UnknownOutcomeError
from ..log.segment_record import KEY_BOUND_BYTES, SegmentRecord, TableStatistics
from ..paths import segment_path
from .datafile import data_file
from .filterblock import filter_block
from .key import (
    EXPIRES,
    HEADER,
    KIND_BITS,
    PART,
    KeyPrefix,
    Kind,
    heads_of,
    table_id_of,
    table_ids_at,
)
from .keyfilter import KeyFilter, hashes_at
from .longkey import has_long, pack
from .room import page_bytes

# A segment is cut at this size, with a reserve for pages that are emptier than expected.
SEGMENT_BYTES = 60 << 20
_TAKEN_BYTES = 4 << 20
LEAST_FILTERED_KEYS = 4096
"""A table with fewer keys in a segment has no filter there: see filterblock.py."""
# The least of so few keys is found in less time than it takes to begin with arrays of them.
_FEW_KEYS = 16


EntryFold: TypeAlias = Callable[[Bytes, Bytes], tuple[Bytes, Bytes]]
"""Takes full keys and values in the order of writing, returns one entry per key."""


RowStarts: TypeAlias = Callable[[Bytes, Bytes], NDArray[np.bool_] | None]
"""Takes full keys and values in key order, returns which entries are the first of a row; None if
all are."""


class SegmentWriter:
    """Sorts entries of any tables into segments. For one thread.

    A context manager: what was written is removed if the block ends with an error, or without
    `finish`. So commit after the block. Segments whose commit may have happened
    (UnknownOutcomeError) are not removed.
    """

    def __init__(
        self,
        environment: Environment,
        vnode_count: int,
        shards: int,
        *,
        fold: EntryFold | None = None,
        row_starts: RowStarts | None = None,
    ) -> None:
        """``shards``: the number of vnode ranges for which a segment's bytes are counted. ``fold``
        makes one entry of those of a key; None: the one added last remains. ``row_starts``: where
        a segment may end, if the entries of a row have to be in one segment.
        """
        self._fold = fold
        self._row_starts = row_starts
        self._environment = environment
        self._vnode_count = vnode_count
        self._shards = shards
        self._job = environment.random_id()
        self._pending: list[tuple[Bytes, Bytes]] = []
        self._pending_bytes = 0
        self._written: list[SegmentRecord] = []
        self._failure: BaseException | None = None
        self._is_finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        may_be_committed = self._is_finished and isinstance(error, UnknownOutcomeError)
        if not may_be_committed and (error is not None or not self._is_finished):
            self._remove_segments()

    def add(self, keys: Bytes, values: Bytes) -> None:
        """Add entries: full keys and values, in the order in which they were written.

        StorageFullError if a segment does not fit on the disk, ValueRangeError for a value of 4 GiB
        or more.
        """
        ends = np.cumsum(page_bytes(keys, values))
        starts = None if self._row_starts is None else self._row_starts(keys, values)
        cuts = None if starts is None else np.append(np.flatnonzero(starts), len(keys))
        start = 0
        while start < len(keys):
            before = int(ends[start - 1]) if start else 0
            room = SEGMENT_BYTES - self._pending_bytes
            stop = int(np.searchsorted(ends, before + room, side="right"))
            if cuts is not None:
                stop = int(cuts[np.searchsorted(cuts, stop, side="right") - 1])
            if stop > start or not self._pending:
                stop = max(stop, start + 1)
                if cuts is not None:
                    stop = int(cuts[np.searchsorted(cuts, stop)])
                part = keys.slice(start, stop - start), values.slice(start, stop - start)
                self._pending.append(part)
                self._pending_bytes += int(ends[stop - 1]) - before
                start = stop
            else:
                self._spill()

    def cut(self) -> None:
        """End the present segment: later entries go to other ones. Errors as of `add`."""
        if self._pending:
            self._spill()

    def take(self) -> tuple[Bytes, Bytes] | None:
        """Return the keys and values of all entries, one per key in key order, and forget them.

        None, and nothing is forgotten, if they are too many to stay in memory.
        """
        if self._written or self._failure is not None or self._pending_bytes > _TAKEN_BYTES:
            return None
        if not self._pending:
            return NO_BYTES, NO_BYTES
        with self._record_failure():
            keys, values = self._merged()
            order = pa.array(last_of_equal(keys))
            return keys.take(order), values.take(order)

    def finish(self) -> tuple[SegmentRecord, ...]:
        """Write what is left and return all segments, in the order of writing.

        Their content is durable; the commit makes their names durable. Errors as of `add`, or
        FilesystemError. An error with which `add`, `cut` or `take` lost entries is raised again.
        """
        self._write_rest()
        self._publish_last()
        self._is_finished = True
        return tuple(self._written)

    def finish_unsynced(self) -> tuple[SegmentRecord, ...]:
        """Do as `finish` does, but leave it to the commit to make their content durable.

        See ``syncs_segments`` of `Proposal`.
        """
        self._write_rest()
        self._is_finished = True
        return tuple(self._written)

    def _write_rest(self) -> None:
        if self._pending or self._failure is not None:
            self._spill()

    def _publish_last(self) -> None:
        """Make the content of the segment that was written last durable."""
        if self._written:
            path = segment_path(self._written[-1].name)
            # Not tried again: after an error a system may take for durable what it has lost.
            with self._record_failure(), self._removed_by_error(path):
                self._environment.publish(path)

    def _remove_segments(self) -> None:
        for record in self._written:
            self._environment.remove(segment_path(record.name))
        self._written, self._pending = [], []

    def _spill(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._publish_last()
        name = f"{self._job}-{len(self._written):06d}"
        with self._record_failure(), self._removed_by_error(segment_path(name)):
            self._write(name)

    @contextmanager
    def _removed_by_error(self, path: str) -> Iterator[None]:
        """Remove a file if the block fails: half a segment should not occupy a full disk."""
        try:
            yield
        except FileExistsError:
            # The file is another writer's.
            raise
        except BaseException:
            with suppress(StorageError):
                self._environment.remove(path)
            raise

    @contextmanager
    def _record_failure(self) -> Iterator[None]:
        """Keep any error of the block, for `finish`: the entries that it forgot are lost."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise

    def _write(self, name: str) -> None:
        keys, values = self._merged()
        order = last_of_equal(keys)
        tables = statistics(keys, values, order, self._vnode_count, self._shards)
        if has_long(keys):
            keys, values = pack(keys.take(pa.array(order)), values.take(pa.array(order)))
            order = np.arange(len(keys), dtype=np.int64)
        self._written.append(write_segment(self._environment, name, (keys, values), order, tables))

    def _merged(self) -> tuple[Bytes, Bytes]:
        """Return the pending entries, folded if there is a fold, and forget them."""
        keys = pa.concat_arrays([keys for keys, _ in self._pending])
        values = pa.concat_arrays([values for _, values in self._pending])
        self._pending, self._pending_bytes = [], 0
        return (keys, values) if self._fold is None else self._fold(keys, values)


def write_segment(
    environment: Environment,
    name: str,
    entries: tuple[Bytes, Bytes],
    order: Positions,
    tables: tuple[TableStatistics, ...],
) -> SegmentRecord:
    """Write entries to a new file in the order given (ascending keys), which is not yet durable.

    ``entries``: keys and values; rows that ``order`` does not name are not written.
    StorageFullError if the disk is full.
    """
    digest, size = xxhash.xxh3_64(), 0

    def parts() -> Iterator[memoryview]:
        nonlocal size
        filters = filter_block(_key_filters(entries[0], order))
        for part in chain(data_file(*entries, order), filters):
            digest.update(part.data)
            size += len(part)
            yield part.data

    environment.write(segment_path(name), parts())
    return SegmentRecord(name, size, digest.hexdigest(), tables)


def _key_filters(keys: Bytes, order: Positions) -> dict[int, KeyFilter]:
    """Return the filters of the keys at ``order``, which sorts them, of tables with many of them.

    The least id of a table comes first.
    """
    if len(order) < LEAST_FILTERED_KEYS:
        return {}
    # A hash needs no order, and memory is read fastest in its own order.
    rows = slice(None) if len(order) == len(keys) else np.sort(order)
    data, offsets = parts_of(keys)
    starts, lengths = offsets[:-1][rows], lengths_of(keys)[rows]
    filters = {}
    for table_id, part in _rows_by_table(data, starts, order, keys):
        if len(starts[part]) >= LEAST_FILTERED_KEYS:
            filters[table_id] = KeyFilter.of(hashes_at(data, starts[part], lengths[part]))
    return filters


def statistics(
    keys: Bytes, values: Bytes, order: Positions, vnode_count: int, shards: int
) -> tuple[TableStatistics, ...]:
    """Return the statistics of every table in the entries at ``order``, which sorts them."""
    # Sums need no order, and memory is read fastest in its own order.
    rows = slice(None) if len(order) == len(keys) else np.sort(order)
    data, offsets = parts_of(keys)
    starts = offsets[:-1][rows]
    sizes = (lengths_of(keys) + lengths_of(values))[rows]
    value_data, value_offsets = parts_of(values)
    first_bytes = load(value_data, value_offsets[:-1][rows], "u1")
    tables, start = [], 0
    for table_id, part in _rows_by_table(data, starts, order, keys):
        part_bytes = first_bytes[part]
        stop = start + len(part_bytes)
        prefix = KeyPrefix(table_id, vnode_count)
        # Of the type that is counted: it is counted twice.
        vnodes = prefix.vnodes_at(data, starts[part]).astype(np.intp)
        counts = np.bincount(vnodes, minlength=vnode_count)
        least, greatest = _key_bounds(keys, order[start:stop], counts, prefix.size)
        by_vnode = np.bincount(vnodes, sizes[part], minlength=vnode_count)
        by_shard = np.bincount(_shard_of(vnode_count, shards), by_vnode, minlength=shards)
        deletes, expiring, parts = _counts(part_bytes)
        tables.append(
            TableStatistics(
                table_id=table_id,
                rows=stop - start,
                deletes=deletes,
                first_key=keys[int(order[start])].as_py(),
                last_key=keys[int(order[stop - 1])].as_py(),
                shard_bytes=tuple(int(size) for size in by_shard),
                least_key=least,
                greatest_key=greatest,
                expiring=expiring,
                parts=parts,
            )
        )
        start = stop
    return tuple(tables)


def _key_bounds(
    keys: Bytes, order: Positions, counts: Positions, prefix_bytes: int
) -> tuple[bytes, bytes]:
    """Return the least and the greatest of the first bytes of the primary keys of a table.

    ``order``: its rows in key order; ``counts``: how many are in each vnode. Only the first and the
    last key of each vnode are read. ``prefix_bytes``: what precedes the primary keys.
    """
    ends = np.cumsum(counts)[counts > 0]
    rows = order[np.concatenate([[0], ends[:-1], ends - 1])]
    if len(rows) <= _FEW_KEYS:
        cut = slice(prefix_bytes, prefix_bytes + KEY_BOUND_BYTES)
        few = [keys[row].as_py()[cut] for row in rows.tolist()]
        return min(few), max(few)
    primary_keys = pc.binary_slice(
        keys.take(pa.array(rows)), prefix_bytes, prefix_bytes + KEY_BOUND_BYTES
    )
    bounds = pc.min_max(primary_keys).as_py()
    return bounds["min"], bounds["max"]


def _rows_by_table(
    data: Buffer, starts: Positions, order: Positions, keys: Bytes
) -> list[tuple[int, slice | NDArray[np.bool_]]]:
    """Return (table id, which of the keys that begin at ``starts`` are its), the ids ascending."""
    if not len(order):
        return []
    least, greatest = (table_id_of(keys[int(order[index])].as_py()) for index in (0, -1))
    if least == greatest:
        return [(least, slice(None))]
    table_ids = table_ids_at(data, starts)
    changes = np.diff(table_ids)
    if (changes >= 0).all():
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(table_ids)]
        return [(int(table_ids[first]), slice(first, stop)) for first, stop in pairwise(bounds)]
    return [(table_id, table_ids == table_id) for table_id in np.unique(table_ids).tolist()]


def _counts(first_bytes: NDArray[np.uint8]) -> tuple[int, int, int]:
    """Return how many entries are deletes, expire, and are of parts of rows without an expiry.

    ``first_bytes``: those of the values.
    """
    if first_bytes.max(initial=0) < HEADER:
        return 0, 0, 0
    heads = heads_of(first_bytes)
    kinds = heads & KIND_BITS
    is_delete, expires = kinds == Kind.DELETE, heads & EXPIRES != 0
    # A row without columns is resolved as parts are.
    is_part = (heads & PART != 0) | (kinds == Kind.OBJECT)
    counts = is_delete, expires & ~is_delete, is_part & ~expires
    deletes, expiring, parts = (int(np.count_nonzero(flags)) for flags in counts)
    return deletes, expiring, parts


@cache
def _shard_of(vnode_count: int, shards: int) -> Positions:
    """Return the shard of every vnode."""
    return shards_of(np.arange(vnode_count), vnode_count, shards)
