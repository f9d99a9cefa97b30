"""What a feed is made of: the commits that changed a table, and the entries in their segments.

Promises: every commit that may have changed a row of the table is a step; other commits are steps
only where rows expire. Entries come as they are stored, deletes included.
Does not know: what a change is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ..codec.ragged import NO_BYTES, Bytes, first_of_equal
from ..environment import Environment
from ..errors import CorruptionError
from ..log.entry import Entry
from ..log.segment_record import TableStatistics
from ..log.sequenced_segment import SequencedSegment, sequence_segments
from ..log.table_segments import select
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import LEAST_PREFIX_BYTES
from ..segment.registry import registry
from ..table.encoding import Encoding
from ..table.scan import Bounds

_LEAVES = 2048
NOTHING = Block.over(NO_BYTES, NO_BYTES)


@dataclass(frozen=True, slots=True)
class FeedStep:
    """What one commit did to a table.

    ``time``: the commit's, microseconds since 1970. ``segments``: those with rows of the table
    that it added, the newest first. ``is_based``: it removed all rows that were there before.
    ``basis``: the segments right before it, if maintenance after the previous step may have dropped
    what decides how the rows of this one are merged; else None. A commit without rows of the table
    is a step only where rows expire: some may have by then.
    """

    epoch: int
    time: int
    segments: tuple[SequencedSegment, ...]
    is_based: bool
    basis: Sequence[SequencedSegment] | None = None


def steps_of(entries: Iterable[Entry], table_id: int) -> Iterator[FeedStep]:
    """Yield the steps of some commits, in their order."""
    for entry in entries:
        is_based = table_id in entry.based_tables
        segments = sequence_segments(entry.added, entry.epoch, table_id)
        if entry.data_change and (is_based or segments):
            yield FeedStep(entry.epoch, entry.time, segments, is_based)


def every_step_of(entries: Iterable[Entry], table_id: int) -> Iterator[FeedStep]:
    """Yield a step for each of some commits, in their order: by each, rows may have expired."""
    for entry in entries:
        step = next(steps_of([entry], table_id), None)
        yield step or FeedStep(entry.epoch, entry.time, (), is_based=False)


class EntrySource:
    """Reads segments of one table. Safe between threads."""

    def __init__(self, environment: Environment, table_id: int, verify: str) -> None:
        """``verify``: as `SegmentRegistry.open` takes it."""
        self._environment = environment
        self._table_id = table_id
        self._verify = verify

    def read(self, segments: Sequence[SequencedSegment], bounds: Bounds) -> list[Block]:
        """Return the entries of each segment within bounds, in key order; empty ones are left out.

        CorruptionError, naming the file, for damage.
        """
        overlapping = select(segments, self._table_id, partial(_overlaps, bounds))
        blocks = (self._read(segment, bounds) for segment in overlapping)
        return [block for block in blocks if len(block)]

    def _read(self, segment: SequencedSegment, bounds: Bounds) -> Block:
        file = registry.open(self._environment, segment.record, self._verify)
        entry_bounds = longkey.entry_bounds(*bounds)
        try:
            entries = joined(
                [longkey.unpack(block) for block in file.blocks(*entry_bounds, _LEAVES)]
            )
            if (entries.key_lengths < LEAST_PREFIX_BYTES).any():
                raise ValueError("a key is too short to be a row's")
        except (ValueError, IndexError) as error:
            raise CorruptionError(f"{file.path}: {error}") from error
        return entries if entry_bounds == bounds else entries.between(*bounds)


def _overlaps(bounds: Bounds, statistics: TableStatistics) -> bool:
    low, high = bounds
    last = statistics.last_key
    # What follows the last key may have been cut off.
    return last >= low[: len(last)] and (high is None or statistics.first_key < high)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the entries of some blocks as one block, in their order."""
    return Block.joined(blocks) if blocks else NOTHING


def resolved(blocks: Sequence[Block], encoding: Encoding) -> Block:
    """Return one entry for each row of some blocks, the newest block first, in key order."""
    blocks = [block for block in blocks if len(block)]
    return encoding.resolve(blocks) if blocks else NOTHING


def newest(blocks: Sequence[Block]) -> Block:
    """Return the newest entry of each key of some blocks, the newest block first, in key order."""
    entries = joined(blocks)
    return entries.take(first_of_equal(entries.key_bytes())) if len(entries) else NOTHING


def keys_in(blocks: Sequence[Block], encoding: Encoding) -> Bytes:
    """Return the full keys of the rows of some blocks, each once, in their order."""
    if not blocks:
        return NOTHING.key_bytes()
    keys = pa.concat_arrays([encoding.row_keys(block) for block in blocks])
    return keys.take(pa.array(first_of_equal(keys)))
