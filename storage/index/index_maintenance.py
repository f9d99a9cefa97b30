"""What a commit adds so that the indexes of the tables it writes stay as their tables.

The rows of each key that a proposal writes are looked up in the very state that it follows; what
they were and what they become decides which entries go and come. So an index needs nothing of the
writers: it is right after blind upserts, merges of rows, and lost races. If the race is lost, the
entries are made again only if the table has changed meanwhile.

Promises: after the commit every index is its table; a unique one has no two rows of equal values.
What is added is removed if the commit does not happen. Memory is bounded by a few blocks.
Does not know: the race for an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, first_of_equal
from ..errors import ConflictError, StorageError, UniqueViolationError
from ..log.log import Log
from ..log.proposal import NO_ADDITIONS, Additions, Proposal
from ..log.segment_record import SegmentRecord
from ..log.sequenced_segment import SequencedSegment, sequence_segments
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..log.table_segments import DividedSegments, after_newer
from ..paths import segment_path
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import Kind
from ..segment.keyfilter import KeyMarks, key_hashes
from ..segment.registry import registry
from ..segment.writer import SegmentWriter
from ..table.appendonly import possible_duplicates
from ..table.encoding import Encoding, encoding_of
from ..table.header import Headers
from ..table.rangetest import RangeTest
from ..table.resolve import Resolver, keep_all
from ..table.run import span_of
from ..table.storagetable import StorageTable
from .layout import IndexLayout, IndexLayouts, joined_rows

# Only a few pages are read of most files: see `appendonly`.
_VERIFY = "size"
# How often filling an index begins again because others wrote the table meanwhile.
_ATTEMPTS_TO_FILL = 5
_FEW_KEYS, _SAMPLE = 4096, 64
# Of more keys the search in each file costs more than the number of files.
_MOST_RECENT_KEYS = 16_384


class IndexMaintenance:
    """The additions to one proposal for the indexes of the tables that it writes."""

    def __init__(self, log: Log, proposal: Proposal, layouts: IndexLayouts) -> None:
        self._layouts = layouts
        self._log = log
        self._environment = log.environment
        self._proposal = proposal
        self._written = sorted(proposal.written) if proposal.data_change else []
        self._basis: Any = None
        self._attempts = 0
        self._additions = NO_ADDITIONS
        self._marks: KeyMarks | None = None

    def __call__(self, state: StoreState) -> Additions:
        """Return what the commit of the proposal after a state adds to it.

        Requires: the tables that it writes are in the state. UniqueViolationError; ConflictError if
        the table of a new index changes again and again; the errors of writing segments.
        """
        tables = [
            state.tables[table_id].definition
            for table_id in self._written
            if state.tables[table_id].definition.indexes
        ]
        index = self._proposal.new_index
        if index is None and not tables and self._proposal.rows is None:
            self.discard()
            return NO_ADDITIONS
        table_ids = [table.table_id for table in tables]
        table_ids += [] if index is None else [index.before.table_id]
        rows = [(state.tables[table_id], state.segments_of(table_id)) for table_id in table_ids]
        basis = (rows, None if index is None else state.next_table_id)
        if basis != self._basis:
            self.discard()
            self._count_attempt()
            self._additions = self._make(state, tables)
            self._basis = basis
        return self._additions

    @property
    def segments(self) -> tuple[SegmentRecord, ...]:
        """The segments that were added last."""
        return self._additions.segments

    def discard(self) -> None:
        """Remove what was added, because it is not committed."""
        for record in self._additions.segments:
            with suppress(StorageError):
                self._environment.remove(segment_path(record.name))
        self._additions, self._basis = NO_ADDITIONS, None

    def _count_attempt(self) -> None:
        self._attempts += 1
        index = self._proposal.new_index
        if index is not None and self._attempts > _ATTEMPTS_TO_FILL:
            raise ConflictError(
                f"table {index.before.name!r} was written {_ATTEMPTS_TO_FILL} times while its "
                f"index {index.name!r} was filled; nothing was committed: create the index while "
                "nobody writes the table"
            )

    def _make(self, state: StoreState, tables: Sequence[TableDefinition]) -> Additions:
        settings = state.settings
        based = [
            index.table_id
            for table in tables
            if table.table_id in self._proposal.based_tables
            for index in table.indexes
        ]
        rows = self._proposal.rows
        with SegmentWriter(self._environment, settings.vnode_count, settings.shards) as writer:
            if rows is not None:
                writer.add(rows.keys, rows.values)
            layouts = [layout for table in tables for layout in self._update(state, table, writer)]
            layouts += self._fill(state, writer)
            segments = writer.finish_unsynced()
            self._note_recent_keys(segments)
            for layout in layouts:
                if layout.index.unique:
                    stored = () if layout.encoding.table_id in based else None
                    self._check_unique(state, layout, segments, stored)
        return Additions(segments, tuple(based))

    def _update(
        self, state: StoreState, definition: TableDefinition, writer: SegmentWriter
    ) -> Sequence[IndexLayout]:
        """Write what changes in the entries of a table's indexes; return their layouts."""
        encoding, layouts = self._layouts.of(state, definition)
        for before, after in self._changes(state, encoding):
            rows, old_count = joined_rows(before, after)
            for layout in layouts:
                _add(writer, layout.changes(rows, old_count))
        return layouts

    def _changes(
        self, state: StoreState, encoding: Encoding
    ) -> Iterator[tuple[Sequence[Block], Block]]:
        """Yield the entries of a table before and after the commit, of the keys that it writes."""
        table_id, rows = encoding.table_id, self._proposal.rows
        is_based = table_id in self._proposal.based_tables
        stored = () if is_based else state.segments_of(table_id)
        if rows is not None and rows.table_id == table_id:
            old = self._stored_entries(state, encoding, stored, rows.keys)
            new = Block.over(rows.keys, rows.values)
            if encoding.fold is not None and any(map(len, old)):
                new = Resolver(keep_all, encoding.fold).resolve([new, *old])
            yield old, new
            return
        before = self._table(encoding, stored)
        added = sequence_segments(self._proposal.segments, state.epoch + 1, table_id)
        after = self._table(encoding, after_newer(added, stored))
        for block in self._table(encoding, added).entries():
            keys = block.key_bytes()
            old = _stored_entries(before, keys)
            # A row that is merged with an older one is in neither the old nor the new files.
            is_merged = encoding.fold is not None and any(map(len, old))
            yield old, after.get_values(keys) if is_merged else block

    def _stored_entries(
        self,
        state: StoreState,
        encoding: Encoding,
        stored: Sequence[SequencedSegment],
        keys: Bytes,
    ) -> list[Block]:
        """Return the entries that a table's files have under the keys that the commit writes."""
        if len(keys) > _MOST_RECENT_KEYS or longkey.has_long(keys):
            return _stored_entries(self._table(encoding, stored), keys)
        if isinstance(stored, DividedSegments):
            test = RangeTest.of_keys(keys, encoding.prefix, stored.shards)
            stored = stored.select(test, test.shards)
        table = self._table(encoding, stored)
        marks = KeyMarks.of(key_hashes(keys))
        recent_keys = self._layouts.recent_keys.take(encoding.table_id)
        try:
            recent_keys.follow(state, self._log.history.entries)
            others = recent_keys.cover(stored, len(keys), partial(self._key_hashes, encoding))
            is_recent = recent_keys.may_hold(marks)
            self._marks = marks
        finally:
            self._layouts.recent_keys.give_back(recent_keys)
        if is_recent.all():
            return _stored_entries(table, keys)
        other_files = self._table(encoding, others)
        if not is_recent.any():
            return _stored_entries(other_files, keys)
        recent = table.get_value_blocks(keys.filter(pa.array(is_recent)))
        return [*recent, *_stored_entries(other_files, keys.filter(pa.array(~is_recent)))]

    def _key_hashes(
        self, encoding: Encoding, segment: SequencedSegment
    ) -> NDArray[np.uint64] | None:
        """Return the hashes of the keys that a table has in a segment; None if that is unknown."""
        file = registry.open(self._environment, segment.record, _VERIFY)
        return file.key_hashes(span_of(segment, encoding.table_id))

    def _note_recent_keys(self, segments: Sequence[SegmentRecord]) -> None:
        """Note the keys of the rows that were written to some segments."""
        rows, marks = self._proposal.rows, self._marks
        if rows is None or marks is None:
            return
        records = [record for record in segments if record.rows(rows.table_id)]
        if len(records) == 1:
            recent_keys = self._layouts.recent_keys.take(rows.table_id)
            recent_keys.add(records[0].name, marks)
            self._layouts.recent_keys.give_back(recent_keys)

    def _fill(self, state: StoreState, writer: SegmentWriter) -> list[IndexLayout]:
        """Write the entries of all rows to a new index; return its layout, if there is one."""
        new = self._proposal.new_index
        if new is None:
            return []
        definition = state.tables[new.before.table_id].definition
        encoding = encoding_of(definition, state.settings.vnode_count)
        table_id = state.next_table_id + len(self._proposal.new_tables) - 1
        stored = TableDefinition(table_id, new.table.name, new.table.schema, state.epoch + 1)
        layout = IndexLayout(encoding, new.definition(table_id), stored)
        table = self._table(encoding, state.segments_of(definition.table_id))
        for block in table.entries():
            _add(writer, layout.entries(block))
        return [layout]

    def _check_unique(
        self,
        state: StoreState,
        layout: IndexLayout,
        segments: Sequence[SegmentRecord],
        stored: Sequence[SequencedSegment] | None,
    ) -> None:
        """UniqueViolationError if two rows would have the values that an added entry has."""
        encoding = layout.encoding
        added = sequence_segments(segments, state.epoch + 1, encoding.table_id)
        if stored is None:
            stored = state.segments_of(encoding.table_id)
        after = self._table(encoding, after_newer(added, stored))
        for prefixes in _prefixes(layout, self._table(encoding, added).entries()):
            counts = np.full(prefixes.num_rows, 2, np.int64)
            owners, _ = after.first_per_prefix(prefixes, counts, encoding.key_names[:1])
            repeats = np.flatnonzero(np.bincount(owners, minlength=prefixes.num_rows) > 1)
            if len(repeats):
                raise _violation(layout, prefixes.slice(int(repeats[0]), 1))

    def _table(self, encoding: Encoding, segments: Sequence[SequencedSegment]) -> StorageTable:
        now = self._environment.now
        return StorageTable(self._environment, encoding, segments, now, verify=_VERIFY)


def _stored_entries(table: StorageTable, keys: Bytes) -> list[Block]:
    """Return the entries that a table has under some ascending keys.

    If no key is in the table, `possible_duplicates` finds that much faster than lookups do, and
    otherwise it is slower. If there are many keys, a sample of them decides.
    """
    if table.is_empty:
        return []
    if len(keys) > _FEW_KEYS:
        sample = keys.take(pa.array(np.linspace(0, len(keys) - 1, _SAMPLE).astype(np.int64)))
        if not len(table.get_values(sample)):
            keys = possible_duplicates(table, keys)
    return table.get_value_blocks(keys)


def _add(writer: SegmentWriter, entries: tuple[Bytes, Bytes]) -> None:
    if len(entries[0]):
        writer.add(*entries)


def _prefixes(layout: IndexLayout, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
    """Yield the distinct values of the indexed columns of some entries, without NULLs."""
    encoding = layout.encoding
    columns = encoding.schema.key_columns[: len(layout.indexed)]
    for block in blocks:
        rows = np.flatnonzero(Headers(block).kinds != Kind.DELETE)
        if not len(rows):
            continue
        batch = encoding.decode(block.take(rows), columns)
        batch = batch.drop_null()
        if batch.num_rows:
            distinct = first_of_equal(encoding.encode_prefixes(batch))
            yield batch.take(pa.array(distinct))


def _violation(layout: IndexLayout, values: pa.RecordBatch) -> UniqueViolationError:
    (row,) = values.to_pylist()
    assignments = ", ".join(f"{name} = {value!r}" for name, value in row.items())
    return UniqueViolationError(
        f"table {layout.table_name!r}: two rows would have ({assignments}), but its index "
        f"{layout.index.name!r} is unique; nothing was committed: remove one of them, or delete "
        "the stored row"
    )
