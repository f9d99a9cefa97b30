"""The rewriting of files to fewer files: one merge, executed.

For each key the merge writes what a reader would make of its versions. It writes a delete where
older versions may remain in other files, and where the delete must outlive the row that it deleted.
A row that has expired is dropped, or replaced by a delete.

Promises: a file of one shard that a merge writes holds users' rows or internal ones, never both;
memory is bounded by a segment and a window of the merge, whatever is merged.
Does not know: which files are worth merging, or when the outputs are committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import shard_ranges

from ..codec.ragged import Bytes, constant
from ..environment import Environment
from ..log.segment_record import SegmentRecord
from ..log.sequenced_segment import SequencedSegment
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..segment.block import Block
from ..segment.key import Kind
from ..segment.registry import registry
from ..segment.writer import SegmentWriter
from ..table.document.resolver import row_starts
from ..table.encoding import Encoding, encoding_of
from ..table.header import Headers, delete_value
from ..table.merge import merge
from ..table.resolve import keep_all
from ..table.run import file_source
from ..table.scan import Bounds
from .components import (
    Cell,
    Component,
    SequenceNumber,
    bottom_cells,
    is_internal,
    is_sound,
    output_sequence_number,
)
from .policy import Merge

# Leaf pages that all files of a merge may hold at once, and the bounds of one file's part.
_LEAVES = 4096
_LEAST_LEAVES, _MOST_LEAVES = 4, 1024


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One merge over one state of a store, to be executed whole or shard by shard. Picklable.

    ``segments``: the inputs, by table, the newest first. ``bottom``: the cells of which no older
    file remains. ``time``: microseconds since 1970; rows that had expired by then are dropped.
    ``erased``: full keys by the ids of their tables, whose deletes are dropped where no older file
    remains, although the table would keep them for rows that arrive late.
    """

    vnode_count: int
    shards: int
    tables: tuple[TableDefinition, ...]
    segments: tuple[tuple[SequencedSegment, ...], ...]
    bottom: frozenset[Cell]
    sequence_number: SequenceNumber
    by_shard: bool
    time: int
    erased: Mapping[int, Bytes]

    @classmethod
    def of(
        cls,
        state: StoreState,
        component: Component,
        chosen: Merge,
        time: int,
        erased: Mapping[int, Bytes] | None = None,
    ) -> Rewrite:
        """Return the rewrite of a merge that was planned over a state."""
        assert is_sound(component.files, chosen.inputs), "a merge would overtake a file that stays"
        inputs = [state.segments.find(file.name, file.shards) for file in chosen.inputs]
        inputs.sort(key=lambda segment: segment.key, reverse=True)
        segments = (
            tuple(segment for segment in inputs if table_id in state.tables_visible_in(segment))
            for table_id in component.table_ids
        )
        return cls(
            state.settings.vnode_count,
            state.settings.shards,
            component.tables,
            tuple(segments),
            bottom_cells(component.files, chosen.inputs),
            output_sequence_number(chosen.inputs),
            chosen.by_shard,
            time,
            erased or {},
        )

    @property
    def inputs(self) -> tuple[SequencedSegment, ...]:
        """The segments that are merged, the oldest first."""
        inputs = {segment.name: segment for segments in self.segments for segment in segments}
        return tuple(sorted(inputs.values(), key=lambda segment: segment.key))

    @property
    def groups(self) -> tuple[frozenset[int], ...]:
        """The groups of shards whose rows can be written independently, in order."""
        shards = sorted({shard for _, shard in self._cells})
        return tuple(frozenset([n]) for n in shards) if self.by_shard else (frozenset(shards),)

    @property
    def _cells(self) -> set[Cell]:
        return {
            (table.table_id, shard)
            for table, segments in zip(self.tables, self.segments, strict=True)
            for segment in segments
            for part in segment.record.tables
            if part.table_id == table.table_id
            for shard, size in enumerate(part.shard_bytes)
            if size
        }

    def run(
        self, environment: Environment, groups: Iterable[frozenset[int]] | None = None
    ) -> tuple[SegmentRecord, ...]:
        """Write the segments of some groups of shards, by default all, and return their records.

        CorruptionError for a damaged input, StorageFullError or FilesystemError; the segments
        written so far are removed then.
        """
        with SegmentWriter(
            environment, self.vnode_count, self.shards, row_starts=row_starts
        ) as writer:
            for group in self.groups if groups is None else groups:
                for internal in (False, True):
                    self._write(environment, writer, group, internal)
                    # Files of several shards are small. Two instead of one would be merged twice
                    # as often.
                    if len(group) == 1:
                        writer.cut()
            written = writer.finish()
        return tuple(replace(record, sequence_number=self.sequence_number) for record in written)

    def _write(
        self, environment: Environment, writer: SegmentWriter, group: frozenset[int], internal: bool
    ) -> None:
        for definition, inputs in zip(self.tables, self.segments, strict=True):
            segments = _with_rows_in(inputs, definition.table_id, group)
            if is_internal(definition) != internal or not segments:
                continue
            erased = self.erased.get(definition.table_id)
            resolution = Resolution(encoding_of(definition, self.vnode_count), self.time, erased)
            files = [registry.open(environment, segment.record) for segment in segments]
            leaves = min(max(_LEAVES // len(files), _LEAST_LEAVES), _MOST_LEAVES)
            for bounds, is_bottom in self._ranges(resolution.encoding, group):
                sources = [file_source(file, bounds, leaves, False) for file in files]
                for keys, values in resolution.entries(sources, is_bottom):
                    writer.add(keys, values)

    def _ranges(self, encoding: Encoding, group: frozenset[int]) -> Iterator[tuple[Bounds, bool]]:
        """Yield (bounds, whether no older file remains) of neighbouring shards of a group."""
        ranges = shard_ranges(self.vnode_count, self.shards)

        def kind(shard: int) -> tuple[bool, bool]:
            return shard in group, (encoding.table_id, shard) in self.bottom

        for (is_wanted, is_bottom), run in itertools.groupby(range(self.shards), kind):
            if is_wanted:
                shards = list(run)
                vnodes = range(ranges[shards[0]].start, ranges[shards[-1]].stop)
                yield encoding.vnode_bounds(vnodes), is_bottom


def _with_rows_in(
    segments: Sequence[SequencedSegment], table_id: int, shards: frozenset[int]
) -> list[SequencedSegment]:
    """Return those of some segments that have rows of a table in some shards.

    A small table has rows in few shards, and to look for them in the others takes as long.
    """
    return [
        segment
        for segment in segments
        if any(segment.statistics_of(table_id).shard_bytes[shard] for shard in shards)
    ]


def has_expired(
    environment: Environment, state: StoreState, component: Component, time: int
) -> bool:
    """Return whether rows of a component had expired by a time; reads the files that have such."""
    return any(
        bool((Headers(block).expiries <= time).any())
        for table in component.tables
        if _forgets(table)
        for block in _expiring_blocks(environment, state, table)
    )


def forgets_late_rows(definition: TableDefinition) -> bool:
    """Return whether a merge may drop what hides a late row of a table."""
    return definition.properties.is_versioned and _forgets(definition)


def _forgets(definition: TableDefinition) -> bool:
    """Return whether what has expired may be dropped from a table.

    Where it hides a late row of an older version, that row would appear without a commit, and no
    index would hold it.
    """
    return not definition.properties.is_versioned or not definition.indexes


def _expiring_blocks(
    environment: Environment, state: StoreState, table: TableDefinition
) -> Iterator[Block]:
    """Yield the entries of a table in all files with rows of it that expire."""
    encoding = encoding_of(table, state.settings.vnode_count)
    bounds = encoding.vnode_bounds(range(state.settings.vnode_count))
    for segment in state.segments_of(table.table_id):
        if segment.record.expiring(table.table_id):
            file = registry.open(environment, segment.record)
            yield from file_source(file, bounds, _MOST_LEAVES, False)


class Resolution:
    """What remains of a table's versions when some of its files are merged."""

    def __init__(self, encoding: Encoding, time: int, erased: Bytes | None = None) -> None:
        """``time``: rows that had expired by then are dropped; ``erased``: see `Rewrite`."""
        self.encoding = encoding
        self._erased = erased
        self._time = time
        properties = encoding.definition.properties
        self._is_plain = properties.is_plain
        self._is_versioned = properties.is_versioned
        self._outliving = properties.tombstone_retention * 1_000_000
        self._forgets = _forgets(encoding.definition)

    def entries(
        self, sources: Sequence[Iterator[Block]], is_bottom: bool
    ) -> Iterator[tuple[Bytes, Bytes]]:
        """Yield (full keys, values) that remain of some sources, the newest first, in key order.

        ``is_bottom``: no older file remains.
        """
        keep = self._must_remain if is_bottom else keep_all
        resolver = self.encoding.remains_resolver(keep, is_bottom, self._time)
        for window in merge(sources, resolver):
            blocks = window.blocks if is_bottom else [*map(self._with_deletes, window.blocks)]
            keys = pa.concat_arrays([block.key_bytes() for block in blocks])
            values = pa.concat_arrays([block.value_bytes() for block in blocks])
            if window.order is None:
                yield keys, values
            else:
                order = pa.array(window.order)
                yield keys.take(order), values.take(order)

    def _must_remain(self, block: Block) -> NDArray[np.bool_]:
        """Return which entries have to be written if no older file remains."""
        remains = self._outlive(block)
        if self._erased is None:
            return remains
        is_erased = np.asarray(pc.is_in(block.key_bytes(), value_set=self._erased))
        kept: NDArray[np.bool_] = remains & ~(is_erased & (Headers(block).kinds == Kind.DELETE))
        return kept

    def _outlive(self, block: Block) -> NDArray[np.bool_]:
        """Return which entries of the table have to be written for rows that arrive late."""
        headers = Headers(block)
        is_row: NDArray[np.bool_] = headers.kinds != Kind.DELETE
        if not headers.flags.any():
            return is_row
        if not self._is_versioned:
            return is_row & (headers.expiries > self._time)
        if not self._forgets:
            return keep_all(block)
        # The version of the last row or delete must be known when older changes arrive late; the
        # expiry of a delete says for how long.
        outliving = np.where(is_row, self._outliving, 0)
        return headers.expiries > self._time - outliving

    def _with_deletes(self, block: Block) -> Block:
        """Return a block with deletes instead of the rows that have expired."""
        headers = Headers(block)
        if not self._is_plain or not headers.flags.any():
            return block
        expired = np.flatnonzero((headers.kinds != Kind.DELETE) & (headers.expiries <= self._time))
        if not len(expired):
            return block
        delete = delete_value(self.encoding.schema.version)
        values = pa.concat_arrays([block.value_bytes(), constant(delete, 1)])
        positions = np.arange(len(block))
        positions[expired] = len(block)
        return Block.over(block.key_bytes(), values.take(pa.array(positions)))
