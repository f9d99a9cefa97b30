"""The rewriting of files to fewer files: one merge, executed.

Of each key's versions what a reader would make of them is written. A delete is written too where
something older may lie beneath, and where it is to outlive what it deleted; a row that has expired
leaves, or a delete takes its place.

Promises: what comes of a merge holds users' rows or relstate's own, never both; memory is bounded
by a segment and a window of the merge, whatever is merged.
Does not know: which files are worth it, or when their successors are committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.vnode import shard_ranges

from ..codec.ragged import Bytes, constant
from ..environment import Environment
from ..log.entry import SegmentRecord, TableDefinition
from ..log.state import PlacedSegment, StoreState
from ..segment.block import Block
from ..segment.kind import Kind
from ..segment.registry import registry
from ..segment.writer import SegmentWriter
from ..table.encoding import Encoding, encoding_of
from ..table.header import FIXED, Headers
from ..table.merge import merge
from ..table.resolve import Resolver, everything
from ..table.run import file_source
from ..table.scan import Bounds
from .layout import Cell, Component, bottom_cells, is_internal, is_sound, place_of
from .policy import Merge

# Leaf pages that all files of a merge may hold at once, and the bounds of one file's part.
_LEAVES = 4096
_LEAST_LEAVES, _MOST_LEAVES = 4, 1024


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One merge over one state of a store, to be executed whole or shard by shard. Picklable.

    ``segments``: those merged, by table, the newest first. ``bottom``: the cells beneath which
    nothing is left. ``time``: microseconds since 1970; what had expired by then leaves.
    """

    vnode_count: int
    shards: int
    tables: tuple[TableDefinition, ...]
    segments: tuple[tuple[PlacedSegment, ...], ...]
    bottom: frozenset[Cell]
    place: tuple[int, int]
    by_shard: bool
    time: int

    @classmethod
    def of(cls, state: StoreState, component: Component, chosen: Merge, time: int) -> Rewrite:
        """Return the rewrite of a merge that was planned over a state."""
        assert is_sound(component.files, chosen.inputs), "a merge would pass a file that stays"
        names = {file.name for file in chosen.inputs}
        segments = (
            tuple(placed for placed in state.segments_of(table_id) if placed.name in names)
            for table_id in component.table_ids
        )
        return cls(
            state.settings.vnode_count,
            state.settings.shards,
            component.tables,
            tuple(segments),
            bottom_cells(component.files, chosen.inputs),
            place_of(chosen.inputs),
            chosen.by_shard,
            time,
        )

    @property
    def groups(self) -> tuple[frozenset[int], ...]:
        """The shards whose rows may be written apart from others', one after another."""
        found = sorted({shard for _, shard in self._cells})
        return tuple(frozenset([one]) for one in found) if self.by_shard else (frozenset(found),)

    @property
    def _cells(self) -> set[Cell]:
        return {
            (table.table_id, shard)
            for table, segments in zip(self.tables, self.segments, strict=True)
            for placed in segments
            for part in placed.record.tables
            if part.table_id == table.table_id
            for shard, size in enumerate(part.shard_bytes)
            if size
        }

    def run(
        self, environment: Environment, groups: Iterable[frozenset[int]] | None = None
    ) -> tuple[SegmentRecord, ...]:
        """Write the segments of some groups of shards, by default all, and return their records.

        CorruptionError for a damaged input, StorageFullError or FilesystemError; what was written
        is removed then.
        """
        with SegmentWriter(environment, self.vnode_count, self.shards) as writer:
            for group in self.groups if groups is None else groups:
                for is_own in (False, True):
                    self._write(environment, writer, group, is_own)
                    writer.cut()
            written = writer.finish()
        return tuple(replace(record, place=self.place) for record in written)

    def _write(
        self, environment: Environment, writer: SegmentWriter, group: frozenset[int], is_own: bool
    ) -> None:
        for definition, segments in zip(self.tables, self.segments, strict=True):
            if is_internal(definition) != is_own or not segments:
                continue
            resolution = Resolution(encoding_of(definition, self.vnode_count), self.time)
            files = [registry.open(environment, placed.record) for placed in segments]
            leaves = min(max(_LEAVES // len(files), _LEAST_LEAVES), _MOST_LEAVES)
            for bounds, is_bottom in self._ranges(resolution.encoding, group):
                sources = [file_source(file, bounds, leaves, False) for file in files]
                for keys, values in resolution.entries(sources, is_bottom):
                    writer.add(keys, values)

    def _ranges(self, encoding: Encoding, group: frozenset[int]) -> Iterator[tuple[Bounds, bool]]:
        """Yield (bounds, whether nothing is beneath) of the shards of a group, joined."""
        ranges = shard_ranges(self.vnode_count, self.shards)

        def kind(shard: int) -> tuple[bool, bool]:
            return shard in group, (encoding.table_id, shard) in self.bottom

        for (is_wanted, is_bottom), run in itertools.groupby(range(self.shards), kind):
            if is_wanted:
                shards = list(run)
                vnodes = range(ranges[shards[0]].start, ranges[shards[-1]].stop)
                yield encoding.vnode_bounds(vnodes), is_bottom


def has_expired(
    environment: Environment, state: StoreState, component: Component, time: int
) -> bool:
    """Return whether rows of a component had expired by a time; files with such rows are read."""
    return any(
        bool((Headers(block).expiries <= time).any())
        for table in component.tables
        for block in _expiring_blocks(environment, state, table)
    )


def _expiring_blocks(
    environment: Environment, state: StoreState, table: TableDefinition
) -> Iterator[Block]:
    """Yield the entries of a table in all files with rows of it that expire."""
    encoding = encoding_of(table, state.settings.vnode_count)
    bounds = encoding.vnode_bounds(range(state.settings.vnode_count))
    for placed in state.segments_of(table.table_id):
        if placed.record.expiring(table.table_id):
            file = registry.open(environment, placed.record)
            yield from file_source(file, bounds, _MOST_LEAVES, False)


class Resolution:
    """What remains of a table's versions when some of its files are merged."""

    def __init__(self, encoding: Encoding, time: int) -> None:
        """``time``: what had expired by then leaves."""
        self.encoding = encoding
        self._time = time
        properties = encoding.definition.properties
        self._is_plain = properties.is_plain
        self._is_versioned = properties.version_column is not None
        self._outliving = properties.tombstone_retention * 1_000_000

    def entries(
        self, sources: Sequence[Iterator[Block]], is_bottom: bool
    ) -> Iterator[tuple[Bytes, Bytes]]:
        """Yield (full keys, values) that remain of some sources, the newest first, in key order.

        ``is_bottom``: nothing is beneath.
        """
        keep = self._stays if is_bottom else everything
        for window in merge(sources, Resolver(keep, self.encoding.fold)):
            blocks = window.blocks if is_bottom else [*map(self._buried, window.blocks)]
            keys = pa.concat_arrays([block.key_bytes() for block in blocks])
            values = pa.concat_arrays([block.value_bytes() for block in blocks])
            if window.order is None:
                yield keys, values
            else:
                order = pa.array(window.order)
                yield keys.take(order), values.take(order)

    def _stays(self, block: Block) -> NDArray[np.bool_]:
        """Return what has to be kept where nothing older lies beneath."""
        headers = Headers(block)
        is_row: NDArray[np.bool_] = headers.kinds != Kind.DELETE
        if not headers.flags.any():
            return is_row
        if not self._is_versioned:
            return is_row & (headers.expiries > self._time)
        # What a row or a delete was at last is to be known when older changes arrive late; the
        # expiry of a delete tells for how long.
        outliving = np.where(is_row, self._outliving, 0)
        return headers.expiries > self._time - outliving

    def _buried(self, block: Block) -> Block:
        """Return a block with deletes in the place of the rows that have expired."""
        headers = Headers(block)
        if not self._is_plain or not headers.flags.any():
            return block
        gone = np.flatnonzero((headers.kinds != Kind.DELETE) & (headers.expiries <= self._time))
        if not len(gone):
            return block
        delete = FIXED.pack(Kind.DELETE, 0, self.encoding.schema.version)
        values = pa.concat_arrays([block.value_bytes(), constant(delete, 1)])
        places = np.arange(len(block))
        places[gone] = len(block)
        return Block.over(block.key_bytes(), values.take(pa.array(places)))
