"""The files of a store: what is live, what only earlier epochs need, what compaction would merge.

Promises: nothing is changed; a file that another process removes meanwhile counts as gone.
Does not know: what is in the files.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from relstate.vnode import shard_ranges

from ..environment import Environment
from ..errors import CorruptionError
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..maintenance.components import components
from ..maintenance.policy import full
from ..paths import SEGMENTS, parse_segment_file, segment_path


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The segment files of a store, and the bytes that they take.

    Live files are named by the latest epoch. All others are needed by earlier epochs, belong to a
    running job, or are left over: vacuum removes them when their time has come.
    """

    live_files: int
    live_bytes: int
    other_files: int
    other_bytes: int


def disk_use(environment: Environment, state: StoreState) -> DiskUse:
    """Return what the segment files take. Costs a look at each file in the folder."""
    live_files = live_bytes = other_files = other_bytes = 0
    sizes = {segment.name: segment.record.size for segment in state.segments.values()}
    for file in environment.list(SEGMENTS):
        name = parse_segment_file(file)
        if name is None:
            continue
        if name in sizes:
            live_files += 1
            live_bytes += sizes[name]
            continue
        with suppress(FileNotFoundError):
            # What is no regular file has no bytes of the store's.
            with suppress(CorruptionError):
                other_bytes += environment.size(segment_path(name))
            other_files += 1
    return DiskUse(live_files, live_bytes, other_files, other_bytes)


MOST_LOOKED_AT = 5_000
"""Of how many live files `damaged_files` reads the sizes; of all others only the names."""


@dataclass(frozen=True, slots=True)
class DamagedFiles:
    """The names of live files that are missing, or whose size is not that in the log, sorted."""

    missing: tuple[str, ...]
    cut: tuple[str, ...]


def damaged_files(
    environment: Environment, state: StoreState, table_ids: Iterable[int] | None = None
) -> DamagedFiles:
    """Return the live files, of some tables or of all, that cannot be whole.

    Costs one look at each of them, and reads none: `Store.check` does.
    """
    segments: Iterable[SequencedSegment] = state.segments.values()
    if table_ids is not None:
        segments = itertools.chain.from_iterable(map(state.segments_of, table_ids))
    expected = {segment.name: segment.record.size for segment in segments}
    try:
        present = {parse_segment_file(file) for file in environment.list(SEGMENTS)}
    except FileNotFoundError:
        present = set()
    missing = expected.keys() - present
    names = sorted(expected.keys() & present)[:MOST_LOOKED_AT]
    sizes = dict(zip(names, environment.sizes([*map(segment_path, names)]), strict=True))
    missing |= {name for name, size in sizes.items() if size is None}
    cut = {name for name, size in sizes.items() if size not in (None, expected[name])}
    return DamagedFiles(tuple(sorted(missing)), tuple(sorted(cut)))


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """The live files with rows of one shard, the vnodes from ``first_vnode`` to ``last_vnode``.

    A file may have rows of several shards, and counts in each. ``stored_bytes``: of the keys and
    values of the shard in them.
    """

    shard: int
    first_vnode: int
    last_vnode: int
    files: int
    stored_bytes: int


def shard_files(state: StoreState, table_id: int | None = None) -> tuple[ShardFiles, ...]:
    """Return what every shard holds, of one table or of all, empty shards too.

    Costs one look at each statistic of each live segment.
    """
    settings = state.settings
    sizes, files = [0] * settings.shards, [0] * settings.shards
    chosen = state.segments.values() if table_id is None else state.segments_of(table_id)
    for segment in chosen:
        parts = [
            part.shard_bytes
            for part in segment.record.tables
            if table_id is None or part.table_id == table_id
        ]
        for shard, size in enumerate(map(sum, zip(*parts, strict=True))):
            sizes[shard] += size
            files[shard] += size > 0
    ranges = shard_ranges(settings.vnode_count, settings.shards)
    return tuple(
        ShardFiles(shard, vnodes.start, vnodes.stop - 1, files[shard], sizes[shard])
        for shard, vnodes in enumerate(ranges)
    )


@dataclass(frozen=True, slots=True)
class CompactionForecast:
    """What compaction of all tables would do now: how many files it would read and write.

    Rows that have expired are not looked for: a file that holds only such is not counted.
    """

    merges: int
    files_read: int
    bytes_read: int
    files_written: int


def forecast_compaction(state: StoreState) -> CompactionForecast:
    """Return what `Store.compact` would do. A pure function of the state."""
    merges = [merge for merge in map(full, components(state)) if merge is not None]
    return CompactionForecast(
        len(merges),
        sum(len(merge.inputs) for merge in merges),
        sum(merge.size for merge in merges),
        sum(
            len(Counter(shard for file in merge.inputs for shard in file.shards))
            if merge.by_shard
            else 1
            for merge in merges
        ),
    )
