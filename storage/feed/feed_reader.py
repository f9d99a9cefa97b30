"""Reading a feed: from the segments of its steps to batches of changes.

Promises: a read examines the entries that the steps wrote and the earlier rows under the same keys,
all earlier rows only if a step removed all, and of a table whose rows expire the files with such
rows; memory is bounded by a range of vnodes.
Does not know: the log, or how the steps were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, constant
from ..environment import Environment
from ..errors import CorruptionError, RelstateError
from ..log.sequenced_segment import SequencedSegment
from ..paths import SEGMENTS
from ..read_plan import ReadPlan
from ..segment.block import Block
from ..table.header import EXPIRY, Headers
from ..table.resolve import Window
from ..table.scan import Bounds, Limits, pieces
from ..table.storagetable import StorageTable
from .columns import (
    DELETE,
    INSERT,
    UPDATE_POSTIMAGE,
    UPDATE_PREIMAGE,
    feed_batch,
    feed_schema,
    stored_columns,
)
from .document_history import document_history
from .key_history import ABSENT, Changes, ExpiryTimes, KeyHistory, RowComparison, same_rows
from .source import NOTHING, EntrySource, FeedStep, joined, keys_in, newest, resolved

_BATCH = Limits(rows=65_536, size=8 << 20)


@dataclass(frozen=True, slots=True)
class FeedShape:
    """What a feed returns of each change.

    ``is_net``: one change per key, else one per key and step. ``update_images``: an update is its
    two images, else a delete and an insert. ``columns``: names, in order. ``shows_expiry``: the
    feed is of rows whether or not they have expired, and the column `EXPIRY` comes last.
    ``follows_expiry``: some rows expire, or parts of documents, each of which is removed by the
    first step that is not before its expiry.
    """

    is_net: bool
    update_images: bool
    columns: tuple[str, ...]
    shows_expiry: bool = False
    follows_expiry: bool = False


class FeedReader:
    """Reads the changes of one table over some steps. Safe between threads."""

    def __init__(
        self,
        environment: Environment,
        before: ReadPlan,
        steps: Sequence[FeedStep],
        shape: FeedShape,
        expiring: Sequence[SequencedSegment],
    ) -> None:
        """``before``: the table as it was before the steps.

        ``expiring``: those of its segments in which something may expire by the last step.
        """
        self._environment = environment
        self._before = before
        self._table = before.open(environment)
        self._encoding = self._table.encoding
        self._steps = steps
        self._shape = shape
        self._expiring_segments = expiring
        self._source = EntrySource(environment, self._encoding.table_id, before.verify)
        self._schema = feed_schema(self._encoding.schema, shape.columns)
        self._epochs = np.array([step.epoch for step in steps], np.int64)
        self._times = np.array([step.time for step in steps], np.int64)

    def batches(self, vnodes: range) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the rows in a range of vnodes, in the order of the steps.

        All of them are in memory at once, but for a table that only grows: then one file at a time.
        The images of an update follow one another. CorruptionError for damage.
        """
        try:
            bounds = self._encoding.vnode_bounds(vnodes)
            if self._only_grows:
                yield from self._inserts(bounds)
            else:
                yield from self._changes(bounds)
        except RelstateError:
            raise
        except (ValueError, IndexError) as error:
            raise CorruptionError(
                f"{self._environment.local_path(SEGMENTS)}: a row of table "
                f"{self._encoding.name} cannot be decoded ({error}); run check to find the file"
            ) from error

    @property
    def _only_grows(self) -> bool:
        """Whether no key is written twice: the table is append-only and no row expires."""
        table_id = self._encoding.table_id
        return self._encoding.definition.properties.append_only and not (
            self._before.may_expire
            or any(
                segment.record.expiring(table_id)
                for step in self._steps
                for segment in step.segments
            )
        )

    def _inserts(self, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        for number, step in enumerate(self._steps):
            for block in self._source.read(step.segments, bounds):
                types = np.full(len(block), INSERT, np.int8)
                yield from self._batches(block, types, np.full(len(block), number, np.int64))

    def _changes(self, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        history = self._history(bounds)
        same = partial(same_rows, self._encoding)
        if self._shape.shows_expiry:
            same = partial(_same_rows_and_expiries, same)
        changes = history.net_changes(same) if self._shape.is_net else history.changes(same)
        types, positions, steps = self._images(changes)
        yield from self._batches(changes.entries.take(positions), types, steps)

    # Entries

    def _history(self, bounds: Bounds) -> KeyHistory:
        written = [self._source.read(step.segments, bounds) for step in self._steps]
        if not self._shape.follows_expiry:
            return self._history_of(written, bounds)
        time, encoding = self._before.time, self._encoding
        if encoding.has_parts:
            before = self._entries_before(written, bounds)
            return document_history(encoding, before, time, self._steps, written)
        times = ExpiryTimes(time, self._times)
        return self._history_of(written, bounds).with_expiries(times, encoding.encode_delete())

    def _history_of(self, written: Sequence[Sequence[Block]], bounds: Bounds) -> KeyHistory:
        """Return the history of the rows that were written or removed, expired or not."""
        before = self._rows_before(written, bounds)
        encoding = self._encoding
        table: StorageTable | None = self._table
        # The entries that are visible now, as far as they were looked up, and all entries since the
        # last step that removed all rows.
        current, since_removal = before, [before]
        history: list[tuple[int, Block]] = []
        for number, (step, blocks) in enumerate(zip(self._steps, written, strict=True)):
            deletes = NOTHING
            if step.is_based:
                removed = keys_in(since_removal, encoding)
                deletes, table, current = self._deletes(removed), None, NOTHING
                since_removal = []
            if encoding.fold is None and not encoding.has_parts:
                own = newest(blocks)
            else:
                if step.basis is not None:
                    table, current = self._table_over(step.basis), NOTHING
                older_entries = _entries_under(current, table, keys_in(blocks, encoding))
                own = resolved([*blocks, older_entries], encoding)
                current = newest([own, current])
            since_removal.append(own)
            history.append((number, newest([own, deletes]) if len(deletes) else own))
        return KeyHistory.of(before, history)

    def _table_over(self, segments: Sequence[SequencedSegment]) -> StorageTable:
        return replace(self._before, segments=segments).open(self._environment)

    def _rows_before(self, written: Sequence[Sequence[Block]], bounds: Bounds) -> Block:
        """Return the entries before the steps, of the keys that they wrote or may have removed."""
        if self._removes_rows:
            return resolved(self._source.read(self._before.segments, bounds), self._encoding)
        keys = self._changed_keys(written, bounds)
        return self._table.get_values(keys) if len(keys) else NOTHING

    def _entries_before(
        self, written: Sequence[Sequence[Block]], bounds: Bounds
    ) -> Sequence[Block]:
        """Return all entries of the rows of `_rows_before`, the newest block first."""
        if self._removes_rows:
            return self._source.read(self._before.segments, bounds)
        keys = self._changed_keys(written, bounds)
        return self._table.stored_entries(keys) if len(keys) else []

    @property
    def _removes_rows(self) -> bool:
        return any(step.is_based for step in self._steps)

    def _changed_keys(self, written: Sequence[Sequence[Block]], bounds: Bounds) -> Bytes:
        """Return the keys of the rows that the steps wrote, and of those that expired meanwhile."""
        blocks = [block for blocks in written for block in blocks]
        if self._shape.follows_expiry:
            blocks += self._expiring(bounds)
        return keys_in(blocks, self._encoding)

    def _expiring(self, bounds: Bounds) -> Iterator[Block]:
        """Yield the entries before the steps that expire by the last of them, also hidden ones."""
        last = self._times.max()
        for block in self._source.read(self._expiring_segments, bounds):
            expiries = Headers(block).expiries
            yield block.take(np.flatnonzero((expiries > self._before.time) & (expiries <= last)))

    def _deletes(self, keys: Bytes) -> Block:
        return Block.over(keys, constant(self._encoding.encode_delete(), len(keys)))

    # Batches

    def _batches(
        self, entries: Block, types: NDArray[np.int8], steps: Positions
    ) -> Iterator[pa.RecordBatch]:
        columns = stored_columns(self._encoding.schema, self._shape.columns)
        start = 0
        for piece in pieces(Window((entries,), None), _BATCH):
            (block,) = piece.blocks
            part = slice(start, start + len(block))
            rows = self._encoding.decode(block, columns)
            commits = self._epochs[steps[part]], self._times[steps[part]]
            batch = feed_batch(self._schema, rows, types[part], *commits)
            if self._shape.shows_expiry:
                batch = batch.append_column(EXPIRY.name, pa.array(Headers(block).expiries))
            yield batch
            start = part.stop

    def _images(self, changes: Changes) -> tuple[NDArray[np.int8], Positions, Positions]:
        """Return (types, positions, steps) of the rows that make up some changes, in order."""
        order = np.argsort(changes.last, kind="stable")
        positions = np.stack([changes.before[order], changes.after[order]], axis=1)
        steps = np.stack([changes.first[order], changes.last[order]], axis=1)
        is_update = (positions != ABSENT).all(axis=1) & self._shape.update_images
        types = np.stack(
            [
                np.where(is_update, UPDATE_PREIMAGE, DELETE),
                np.where(is_update, UPDATE_POSTIMAGE, INSERT),
            ],
            axis=1,
        ).astype(np.int8)
        is_present = positions != ABSENT
        return types[is_present], positions[is_present], steps[is_present]


def _same_rows_and_expiries(same: RowComparison, left: Block, right: Block) -> NDArray[np.bool_]:
    """Return for each pair of entries whether they are the same row and expire at the same time."""
    is_same: NDArray[np.bool_] = same(left, right) & (
        Headers(left).expiries == Headers(right).expiries
    )
    return is_same


def _entries_under(current: Block, table: StorageTable | None, keys: Bytes) -> Block:
    """Return the entries of some keys: those in ``current``, else the table's."""
    if not len(keys):
        return NOTHING
    current_keys = current.key_bytes()
    entries = current.take(np.flatnonzero(np.asarray(pc.is_in(current_keys, value_set=keys))))
    missing_keys = keys.filter(pc.invert(pc.is_in(keys, value_set=current_keys)))
    if table is None or not len(missing_keys):
        return entries
    return joined([entries, table.get_values(missing_keys)])
