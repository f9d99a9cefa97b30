"""Reading a feed: from the segments of its steps to batches of changes.

Promises: what is read are the entries that the steps wrote and, of what was there before, the rows
under the same keys, unless a step removed all rows; memory is bounded by a group of vnodes.
Does not know: the log, or how the steps were found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, constant
from ..environment import Environment
from ..errors import CorruptionError, OptionError, RelstateError
from ..log.entry import TableDefinition
from ..log.rules import without_expiry
from ..log.state import PlacedSegment
from ..paths import SEGMENTS
from ..read_plan import ReadPlan
from ..segment.block import Block
from ..segment.kind import EXPIRES, Kind
from ..table.header import Headers
from ..table.piece import Limits, pieces
from ..table.resolve import Window
from ..table.scan import Bounds
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
from .comparison import same_rows
from .history import ABSENT, Changes, History
from .source import NOTHING, EntrySource, joined, keys_in, resolved
from .step import FeedStep

_BATCH = Limits(rows=65_536, size=8 << 20)


@dataclass(frozen=True, slots=True)
class FeedShape:
    """What a feed gives of each change.

    ``is_net``: one change a key, else one a key and step. ``update_images``: an update is its two
    images, else a delete and an insert. ``columns``: names, in order.
    """

    is_net: bool
    update_images: bool
    columns: tuple[str, ...]


class FeedReader:
    """Reads the changes of one table over some steps. Safe between threads."""

    def __init__(
        self,
        environment: Environment,
        before: ReadPlan,
        steps: Sequence[FeedStep],
        shape: FeedShape,
    ) -> None:
        """``before``: the table as it was before the steps."""
        self._environment = environment
        self._before = before
        self._table = before.open(environment)
        self._encoding = self._table.encoding
        self._steps = steps
        self._shape = shape
        self._source = EntrySource(environment, self._encoding.table_id, before.verify)
        self._schema = feed_schema(self._encoding.schema, shape.columns)
        self._epochs = np.array([step.epoch for step in steps], np.int64)
        self._times = np.array([step.time for step in steps], np.int64)

    def batches(self, vnodes: range) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the rows in a range of vnodes, which are held all at once, or, of a
        table that only grows, one file after another.

        In the order of the steps; images of an update stand one behind the other. OptionError if
        rows expire, which no commit tells of; CorruptionError for damage.
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
        """Whether no key is written twice: no commit may write one that is there, or expired."""
        table_id = self._encoding.table_id
        placed = chain(self._before.segments, *(step.segments for step in self._steps))
        return self._encoding.definition.properties.append_only and not any(
            one.record.expiring(table_id) for one in placed
        )

    def _inserts(self, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        for number, step in enumerate(self._steps):
            for block in self._source.read(step.segments, bounds):
                self._check_expiry(block)
                types = np.full(len(block), INSERT, np.int8)
                yield from self._batches(block, types, np.full(len(block), number, np.int64))

    def _changes(self, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        history = self._history(bounds)
        # Net changes show a key's two ends: what expires between them may have come and gone.
        self._check_expiry(history.ends if self._shape.is_net else history.entries)
        same = partial(same_rows, self._encoding)
        changes = history.net_changes(same) if self._shape.is_net else history.changes(same)
        types, places, steps = self._images(changes)
        yield from self._batches(changes.entries.take(places), types, steps)

    # Entries

    def _history(self, bounds: Bounds) -> History:
        written = [self._source.read(step.segments, bounds) for step in self._steps]
        before = self._rows_before(written, bounds)
        self._check_expiry(before)
        fold = self._encoding.fold
        table: StorageTable | None = self._table
        # What is there now, as far as it was looked up, and all that was since rows were removed.
        current, met = before, [before]
        found: list[tuple[int, Block]] = []
        for number, (step, blocks) in enumerate(zip(self._steps, written, strict=True)):
            gone = NOTHING
            if step.is_based:
                gone, table, current, met = self._deletes(keys_in(met)), None, NOTHING, []
            if fold is None:
                own = resolved(blocks, None)
            else:
                if step.basis is not None:
                    table, current = self._table_over(step.basis), NOTHING
                own = resolved([*blocks, _under(current, table, keys_in(blocks))], fold)
                current = resolved([own, current], None)
            met.append(own)
            found.append((number, resolved([own, gone], None) if len(gone) else own))
        return History.of(before, found)

    def _table_over(self, segments: tuple[PlacedSegment, ...]) -> StorageTable:
        return replace(self._before, segments=segments).open(self._environment)

    def _rows_before(self, written: Sequence[Sequence[Block]], bounds: Bounds) -> Block:
        """Return what was there before the steps under the keys they wrote, or may have removed."""
        if any(step.is_based for step in self._steps):
            blocks = self._source.read(self._before.segments, bounds)
            return resolved(blocks, self._encoding.fold)
        keys = keys_in([block for blocks in written for block in blocks])
        return self._table.get_values(keys) if len(keys) else NOTHING

    def _deletes(self, keys: Bytes) -> Block:
        return Block.over(keys, constant(self._encoding.encode_delete(), len(keys)))

    def _check_expiry(self, block: Block) -> None:
        """OptionError if a row expires; a delete may, which only says how long it is kept."""
        headers = Headers(block)
        if ((headers.flags & EXPIRES != 0) & (headers.kinds != Kind.DELETE)).any():
            raise rows_expiring(self._encoding.definition)

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
            yield feed_batch(self._schema, rows, types[part], *commits)
            start = part.stop

    def _images(self, changes: Changes) -> tuple[NDArray[np.int8], Positions, Positions]:
        """Return (types, places, steps) of the rows that tell some changes, in their order."""
        order = np.argsort(changes.last, kind="stable")
        places = np.stack([changes.before[order], changes.after[order]], axis=1)
        steps = np.stack([changes.first[order], changes.last[order]], axis=1)
        is_update = (places != ABSENT).all(axis=1) & self._shape.update_images
        types = np.stack(
            [
                np.where(is_update, UPDATE_PREIMAGE, DELETE),
                np.where(is_update, UPDATE_POSTIMAGE, INSERT),
            ],
            axis=1,
        ).astype(np.int8)
        there = places != ABSENT
        return types[there], places[there], steps[there]


def _under(current: Block, table: StorageTable | None, keys: Bytes) -> Block:
    """Return the entries under some keys: those that are current, else the table's."""
    if not len(keys):
        return NOTHING
    known = current.key_bytes()
    here = current.take(np.flatnonzero(np.asarray(pc.is_in(known, value_set=keys))))
    rest = keys.filter(pc.invert(pc.is_in(keys, value_set=known)))
    if table is None or not len(rest):
        return here
    return joined([here, table.get_values(rest)])


def expiring(table: str) -> OptionError:
    """Return the error that refuses the feed of a table whose rows expire."""
    return OptionError(
        f"table {table}: its rows expire (TTL), so they leave it without a commit, and commits do "
        "not tell its changes: read the whole table at two epochs instead"
    )


def rows_expiring(definition: TableDefinition) -> OptionError:
    """Return the error that refuses changes among which there are rows that expire."""
    return OptionError(
        f"table {definition.name}: some of its rows expire, written with a TTL: they leave it "
        f"without a commit, and commits do not tell its changes; {without_expiry(definition)}. "
        "Then net changes from before they came can be read, and a view goes on; one that holds "
        "such a row already is to be dropped and created anew"
    )
