"""What one task writes: rows of one table to segments.

Promises: rows that do not fit the table are refused and nothing of them is added; memory is
bounded, whatever is written. A row expires a number of seconds after the job that wrote it began:
that of the table's TTL at that time, or its own.
Does not know: epochs, or where an entry's segment ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Bytes, Positions
from ..environment import Environment
from ..errors import (
    CheckViolationError,
    NullKeyError,
    NullValueError,
    OptionError,
    SchemaMismatchError,
    ValueRangeError,
)
from ..log.proposal import UnwrittenRows
from ..log.segment_record import SegmentRecord
from ..log.table_definition import TableDefinition
from ..log.violations import Violations
from ..schema.batch import Misfit
from ..schema.constraint import CheckConstraint
from ..segment.key import Kind
from ..segment.writer import EntryFold, SegmentWriter
from .appendonly import check_distinct, check_inserts
from .checks import row_checks, violations_of
from .document.change import Change
from .document.ends import Ends
from .document.entries import fold_written
from .encoding import Encoding, document_encoding
from .generation import generation_of
from .header import NEVER
from .misfits import NO_REFUSED_ROWS, Misfits, RefusedRows
from .resolve import fold_entries
from .rowid import RowIds

# About this much of a batch is encoded at once, which takes several times as much memory.
_BATCH_BYTES = 8 << 20
# An entry takes at least so much memory, two offsets, however narrow its row is.
_ENTRY_BYTES = 16
# Of hexadecimal digits, 32 bits.
_WRITER_DIGITS = 8
_SECOND = 1_000_000
_MOST_SECONDS = (int(NEVER) - 1) // _SECOND // 2


class TableWriter:
    """Writes rows of one table as one task. For one thread.

    A context manager: what was written is removed if the block ends with an error, or without
    `finish`.
    """

    def __init__(
        self,
        environment: Environment,
        encoding: Encoding,
        shards: int,
        epoch: int = 0,
        planned: int | None = None,
    ) -> None:
        """``epoch``: the last one that was committed when the write was planned.

        ``planned``: the time of that, microseconds since 1970, by default now; it is the default of
        columns with that of the clock.
        """
        self._environment = environment
        self._encoding = encoding
        self._epoch = epoch
        fold = _fold_of(encoding)
        self._segments = SegmentWriter(environment, encoding.vnode_count, shards, fold=fold)
        self._row_ids = None if encoding.schema.row_id is None else RowIds(environment)
        self._planned = environment.now() if planned is None else planned
        self._generation = generation_of(encoding.definition)
        self._checks = row_checks(encoding.definition)
        self._lifetime = Lifetime(encoding.definition, environment.now())
        self._rows = 0
        self._violations: Counter[CheckConstraint] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._segments.__exit__(kind, error, traceback)

    def write(
        self,
        batch: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        ttls: pa.Array | None = None,
    ) -> Positions:
        """Add rows, and return the positions of those that an expectation drops.

        Rows are upserts, or of the ``kinds`` given (one `Kind` per row, uint8).

        Columns are matched by name and cast exactly; of a deleted row only the key, and the
        version columns, are used.
        Generated columns are computed where they are missing, else compared. Of
        two rows of one key the later wins, or the table's merge behaviour decides. In a table
        without a primary key every row without a row id gets a new one.
        ``ttls``: after how many seconds each row expires (int64), NULL for the table's own.
        SchemaMismatchError, NullKeyError, NullValueError or ValueRangeError if a row does not fit
        the table, OptionError for ``ttls`` where the table merges rows, AppendOnlyError for a
        delete or a repeated key in an append-only table, CheckViolationError.
        """
        self._check_batch(batch, kinds)
        dropped = [
            start + self._write_part(*_part(batch, kinds, ttls, start, step))
            for start, step in _steps(batch)
        ]
        return np.concatenate(dropped) if dropped else np.zeros(0, np.int64)

    def write_fitting(
        self,
        batch: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        ttls: pa.Array | None = None,
    ) -> RefusedRows:
        """Add the rows that the table takes, as `write` does, and return those that it does not.

        It costs more than `write` only if there are some. Errors as of `write`, but for a row alone
        only where no rule of `Misfits` is the cause.
        """
        self._check_batch(batch, kinds)
        refused = []
        for start, step in _steps(batch):
            rows, row_kinds, row_ttls = _part(batch, kinds, ttls, start, step)
            try:
                self._write_part(rows, row_kinds, row_ttls)
            except _ROW_ERRORS:
                part = self._refused_rows(rows, row_kinds, row_ttls)
                if not len(part):
                    raise
                is_taken = np.ones(rows.num_rows, np.bool_)
                is_taken[part.positions] = False
                if is_taken.any():
                    self._write_part(*_filtered(rows, row_kinds, row_ttls, is_taken))
                refused.append(part.after(start))
        return RefusedRows.joined(refused) if refused else NO_REFUSED_ROWS

    def _refused_rows(
        self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None, ttls: pa.Array | None
    ) -> RefusedRows:
        batch = self._encoding.schema.with_present_time(batch, self._planned)
        return self._misfits.find(batch, kinds, self._lifetime.misfits(ttls))

    @cached_property
    def _misfits(self) -> Misfits:
        return Misfits(self._encoding.definition, self._generation, self._checks)

    def _check_batch(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None) -> None:
        """Raise what is wrong with the columns or the kinds of a batch."""
        check_inserts(self._encoding.definition, kinds)
        self._encoding.definition.check_versions(batch.schema.names)
        if not batch.num_rows:
            self._check_columns(batch, is_delete=kinds is not None)

    def _write_part(
        self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None, ttls: pa.Array | None
    ) -> Positions:
        """Add rows, and return which are dropped; if one does not fit, none is added."""
        batch = self._encoding.schema.with_present_time(batch, self._planned)
        if self._generation is not None:
            batch = self._generation.completed(batch, kinds)
        dropped: Positions = np.zeros(0, np.int64)
        counts: Mapping[CheckConstraint, int] = {}
        if self._checks is not None:
            counts, dropped = self._checks.violations(batch, kinds)
            if len(dropped):
                is_written = np.ones(batch.num_rows, np.bool_)
                is_written[dropped] = False
                batch, kinds, ttls = _filtered(batch, kinds, ttls, is_written)
        if self._row_ids is not None:
            batch = self._row_ids.identify(self._encoding.schema, batch)
        if self._checks is not None:
            self._checks.check(batch, kinds)
        expiries = self._lifetime.expiries(batch.num_rows, kinds, ttls)
        self._segments.add(*self._encoding.encode(batch, kinds, expiries))
        self._rows += batch.num_rows
        self._violations.update(counts)
        return dropped

    @property
    def violations(self) -> tuple[Violations, ...]:
        """The expectations that rows violated, for the proposal."""
        return violations_of(self._encoding.table_id, self._violations)

    def _check_columns(self, batch: pa.RecordBatch, *, is_delete: bool) -> None:
        """SchemaMismatchError for an empty batch whose columns are not the table's."""
        schema = self._encoding.schema
        if is_delete:
            self._encoding.conform_keys(batch)
        elif schema.row_id is None or schema.row_id.name in batch.schema.names:
            schema.conform(batch)
        else:
            schema.conform_input(batch)

    def patch(self, batch: pa.RecordBatch, ttls: pa.Array | None = None) -> None:
        """Add changes of parts of rows: see `Store.patch`.

        ``ttls``: after how many seconds what is written expires, as `write` takes them. OptionError
        for a table of rows, else errors as of `DocumentEncoding.patch_changes` and `change`.
        """
        encoding = document_encoding(self._encoding)
        if not batch.num_rows:
            encoding.patch_changes(batch)
        for start, step in _steps(batch):
            row_keys, changes = encoding.patch_changes(batch.slice(start, step))
            self.change(row_keys, changes, None if ttls is None else ttls.slice(start, step))

    def change(
        self, row_keys: Bytes, changes: Sequence[Change], ttls: pa.Array | None = None
    ) -> None:
        """Add changes of parts of rows, which are known by their full keys.

        A change of a later row is later, also if the rows have one key. ``ttls``: one for each
        row, as `write` takes them. Errors as of `DocumentEncoding.encode_changes`.
        """
        encoding = document_encoding(self._encoding)
        expiries = self._lifetime.expiries(len(row_keys), None, ttls)
        self._segments.add(*encoding.encode_changes(row_keys, changes, self._ends, expiries))
        self._rows += len(row_keys)

    @cached_property
    def _ends(self) -> Ends:
        return Ends(self._epoch, int(self._environment.random_id()[:_WRITER_DIGITS], 16))

    def cut(self) -> None:
        """End the present segment, which leaves memory: later rows go to other ones.

        Errors as of `SegmentWriter.cut`.
        """
        self._segments.cut()

    @property
    def rows(self) -> int:
        """How many rows were written so far."""
        return self._rows

    def take_rows(self) -> UnwrittenRows | None:
        """Return all rows, for the commit to write; None if there are none, or too many for it.

        Those that are returned are not in the segments of `finish`. None of them may expire.
        """
        entries = self._segments.take()
        if entries is None or not len(entries[0]):
            return None
        return UnwrittenRows(self._encoding.table_id, *entries)

    def finish(self) -> tuple[SegmentRecord, ...]:
        """Return the durable segments that hold all rows, in rank order."""
        return self._segments.finish()

    def finish_unsynced(self) -> tuple[SegmentRecord, ...]:
        """Return the segments, whose content the commit makes durable: see `SegmentWriter`."""
        return self._segments.finish_unsynced()


# Those of single rows; others are about the columns of a batch, or about a table.
_ROW_ERRORS = (CheckViolationError, NullKeyError, NullValueError, ValueRangeError)

_Part: TypeAlias = tuple[pa.RecordBatch, NDArray[np.uint8] | None, pa.Array | None]


def _part(
    batch: pa.RecordBatch,
    kinds: NDArray[np.uint8] | None,
    ttls: pa.Array | None,
    start: int,
    step: int,
) -> _Part:
    """Return some rows of a batch, and their kinds and TTLs."""
    return (
        batch.slice(start, step),
        None if kinds is None else kinds[start : start + step],
        None if ttls is None else ttls.slice(start, step),
    )


def _filtered(
    batch: pa.RecordBatch,
    kinds: NDArray[np.uint8] | None,
    ttls: pa.Array | None,
    flags: NDArray[np.bool_],
) -> _Part:
    """Return the rows of a batch that have a flag, and their kinds and TTLs."""
    mask = pa.array(flags)
    return (
        batch.filter(mask),
        None if kinds is None else kinds[flags],
        None if ttls is None else ttls.filter(mask),
    )


def _steps(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield (first row, number of rows) of the parts of a batch that are encoded at once."""
    size = max(batch.nbytes, _ENTRY_BYTES * batch.num_rows, 1)
    step = max(_BATCH_BYTES * batch.num_rows // size, 1)
    for start in range(0, batch.num_rows, step):
        yield start, step


def _fold_of(encoding: Encoding) -> EntryFold | None:
    """Return how rows of one key are folded; None: the one added last remains."""
    if encoding.definition.properties.append_only:
        return partial(check_distinct, encoding)
    if encoding.has_parts:
        return fold_written
    fold = encoding.fold
    return None if fold is None else partial(fold_entries, fold)


class Lifetime:
    """When the rows that one job writes to a table expire.

    A delete in a table with a version column expires after the table's tombstone retention: until
    then it has to hide rows that arrive late.
    """

    def __init__(self, definition: TableDefinition, now: int) -> None:
        """``now``: microseconds since 1970."""
        properties = definition.properties
        self._definition = definition
        self._row = int(NEVER) if properties.ttl is None else now + properties.ttl * _SECOND
        is_versioned = properties.is_versioned
        tombstone = now + properties.tombstone_retention * _SECOND
        self._delete = tombstone if is_versioned else int(NEVER)
        self._now = now

    def expiries(
        self, rows: int, kinds: NDArray[np.uint8] | None, ttls: pa.Array | None
    ) -> Positions | None:
        """Return when each of some rows expires, int64; None if none does.

        ``kinds``: a `Kind` a row, None if none is a delete; ``ttls``: seconds (int64), NULL for
        the table's TTL. OptionError if the table takes no TTL, ValueRangeError for one below 1.
        """
        expiries = np.full(rows, self._row, np.int64)
        if ttls is not None:
            indices = np.flatnonzero(np.asarray(ttls.is_valid()))
            expiries[indices] = self._now + self._seconds(ttls.take(pa.array(indices))) * _SECOND
        if kinds is not None:
            expiries[kinds == Kind.DELETE] = self._delete
        return expiries if (expiries != NEVER).any() else None

    def misfits(self, ttls: pa.Array | None) -> Iterator[Misfit]:
        """Yield which rows have a TTL that is out of range, if there are any."""
        if ttls is None:
            return
        outside = pc.or_(pc.less(ttls, 1), pc.greater(ttls, _MOST_SECONDS))
        flags = pc.fill_null(outside, pa.scalar(False)).to_numpy(zero_copy_only=False)
        if flags.any():
            yield Misfit("ttl", f"the TTL is not from 1 to {_MOST_SECONDS} seconds", flags)

    def _seconds(self, ttls: pa.Array) -> Positions:
        properties = self._definition.properties
        if properties.merge != "overwrite":
            raise OptionError(
                f"table {self._definition.name}: rows that are merged ({properties.merge}) cannot "
                "expire one by one; leave out the TTL, or create the table with merge overwrite"
            )
        seconds = np.asarray(ttls.cast(pa.int64()))
        if len(seconds):
            _check_seconds(self._definition, int(seconds.min()), int(seconds.max()))
        return seconds


def check_ttl(definition: TableDefinition, ttl: object) -> None:
    """Raise SchemaMismatchError for a TTL that is no int, ValueRangeError for one out of range."""
    if type(ttl) is not int:
        raise SchemaMismatchError(
            f"table {definition.name}: a TTL is a whole number of seconds, not {ttl!r}"
        )
    _check_seconds(definition, ttl, ttl)


def _check_seconds(definition: TableDefinition, least: int, most: int) -> None:
    if not 1 <= least <= most <= _MOST_SECONDS:
        range_text = str(least) if least == most else f"{least} to {most}"
        raise ValueRangeError(
            f"table {definition.name}: a TTL is in seconds, from 1 to {_MOST_SECONDS}; "
            f"found {range_text}"
        )
