"""Rows that one process writes to a table of a store, as one epoch.

Promises: all rows become visible at once or none does; no file stays of rows that the table
refuses. A strict state table's commit is refused if another commit has changed the same rows since
the table was opened.
Does not know: Spark, or what a state table does with its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from .codec.ragged import Bytes
from .epochs import Epochs
from .errors import (
    ConflictError,
    RelstateError,
    SchemaMismatchError,
    SegmentMissingError,
    UnknownOutcomeError,
    UsageError,
)
from .log.entry import Entry
from .log.features import check_writable
from .log.proposal import Proposal, Reads
from .log.rules import check_unread
from .log.sequenced_segment import sequence_segments
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .rows import Rows, batches_of
from .segment.key import Kind
from .snapshot import LatestReader
from .table.appendonly import append_only_error
from .table.encoding import Encoding
from .table.rowid import no_key_error
from .table.storagetable import StorageTable
from .table.table_entries import TableEntries
from .table.writetarget import WriteTarget
from .user_tables import user_table

if TYPE_CHECKING:
    from .table.statetable import Flush, StateTable
    from .table.tablewriter import TableWriter


def write_target(epochs: Epochs, name: str, *, expiring: bool = False) -> WriteTarget:
    """Return what a task needs to write rows of a table: see `Jobs.write_target`."""
    return _target_at(epochs, epochs.look_up(), name, expiring)


def _target_at(epochs: Epochs, state: StoreState, name: str, expiring: bool) -> WriteTarget:
    # Here, too: before rows are written that the commit would refuse.
    check_writable(state.features, epochs.path)
    definition = user_table(state, name, "written")
    if expiring:
        check_unread(state, definition.table_id, "written with rows that expire")
    settings = state.settings
    return WriteTarget(
        epochs.path,
        definition,
        settings.vnode_count,
        settings.shards,
        state.epoch,
        epochs.environment.now(),
    )


def write_rows(
    epochs: Epochs,
    name: str,
    rows: Rows,
    *,
    kind: Kind | None = None,
    overwrite: bool = False,
    ttls: pa.Array | None = None,
) -> int:
    """Write rows of a table and return their epoch.

    ``kind``: that of all rows, None for upserts; ``overwrite``: they replace all others; ``ttls``:
    as `TableWriter.write` takes them. Errors as of `TableWriter.write` and `transaction.commit`;
    UsageError for what is not rows, DataError for a stream that fails: see `batches_of`.
    """

    def write_at(state: StoreState) -> int:
        return _write_rows_at(epochs, state, name, rows, kind, overwrite, ttls)

    return _at_likely_state(epochs, rows, write_at)


def _at_likely_state(epochs: Epochs, rows: Rows, write_at: Callable[[StoreState], int]) -> int:
    """Return the epoch of a write that is prepared for what is probably the newest state.

    If it is refused, and that was not the newest, it is prepared again: the table may have been
    created or altered meanwhile. Rows that can be read only once are prepared for the newest.
    """
    is_repeatable = isinstance(rows, pa.RecordBatch | pa.Table | list | tuple)
    likely = epochs.likely_state if is_repeatable else epochs.look_up()
    try:
        return write_at(likely)
    except UnknownOutcomeError:
        raise
    except RelstateError:
        newest = epochs.look_up()
        if newest is likely or not is_repeatable:
            raise
    return write_at(newest)


def _write_rows_at(
    epochs: Epochs,
    state: StoreState,
    name: str,
    rows: Rows,
    kind: Kind | None,
    overwrite: bool,
    ttls: pa.Array | None,
) -> int:
    started = epochs.environment.now()
    target = _target_at(epochs, state, name, ttls is not None)
    batches = batches_of(rows, target.definition.schema)
    if target.definition.schema.row_id is not None:
        if kind is not None:
            raise no_key_error(name, "no row can be deleted by key: use SQL, DELETE FROM … WHERE …")
        batches = _without_row_ids(target.definition, batches)
    if target.definition.properties.append_only and (overwrite or kind is Kind.DELETE):
        raise append_only_error(target.definition, "overwrite" if overwrite else "delete")
    with target.open(epochs.environment) as writer:
        _write_batches(writer, batches, kind, ttls)
        # One segment for the rows and the entries of indexes: a small commit costs little more.
        may_wait = ttls is None and _may_wait(target.definition)
        unwritten = writer.take_rows() if may_wait else None
        segments = writer.finish_unsynced()
        violations = writer.violations
    proposal = Proposal(
        operation="overwrite" if overwrite else "write",
        started=started,
        segments=segments,
        syncs_segments=True,
        rows=unwritten,
        written_under=(target.definition,),
        violations=violations,
        based_tables=(target.definition.table_id,) if overwrite else (),
    )
    return epochs.commit(proposal).epoch


def patch_rows(epochs: Epochs, name: str, patches: Rows, *, ttls: pa.Array | None = None) -> int:
    """Change parts of rows of a table and return the epoch: see `Store.patch`."""

    def patch_at(state: StoreState) -> int:
        return _patch_rows_at(epochs, state, name, patches, ttls)

    return _at_likely_state(epochs, patches, patch_at)


def _patch_rows_at(
    epochs: Epochs, state: StoreState, name: str, patches: Rows, ttls: pa.Array | None
) -> int:
    started = epochs.environment.now()
    target = _target_at(epochs, state, name, ttls is not None)
    batches = batches_of(patches, target.definition.schema, are_patches=True)
    if target.definition.schema.row_id is not None:
        raise no_key_error(name, "no row can be patched by key: use SQL, UPDATE … WHERE …")
    with target.open(epochs.environment) as writer:
        for batch, lives in _with_ttls(batches, ttls):
            writer.patch(batch, lives)
        segments = writer.finish_unsynced()
    proposal = Proposal(operation="patch", started=started, segments=segments, syncs_segments=True)
    return epochs.commit(proposal).epoch


def _without_row_ids(
    definition: TableDefinition, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a user inserts. SchemaMismatchError for rows with row ids."""
    for batch in batches:
        definition.schema.check_schema(batch.schema)
        yield batch


def _may_wait(definition: TableDefinition) -> bool:
    """Return whether the commit of rows may write them: see `Proposal`.

    Rows that expire, and those of append-only tables, are checked before the commit adds to them.
    """
    properties = definition.properties
    return bool(definition.indexes) and properties.ttl is None and not properties.append_only


def _write_batches(
    writer: TableWriter,
    batches: Iterable[pa.RecordBatch],
    kind: Kind | None,
    ttls: pa.Array | None,
) -> None:
    for batch, lives in _with_ttls(batches, ttls):
        kinds = None if kind is None else np.full(batch.num_rows, kind, np.uint8)
        writer.write(batch, kinds, lives)


def _with_ttls(
    batches: Iterable[pa.RecordBatch], ttls: pa.Array | None
) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
    """Yield each batch with those TTLs of all rows that are its rows'.

    SchemaMismatchError if they are not an array of whole numbers, and, at the latest after the last
    batch, if they are not one for each row.
    """
    if ttls is None:
        yield from ((batch, None) for batch in batches)
        return
    is_array = isinstance(ttls, pa.Array | pa.ChunkedArray)
    if not is_array or not (pa.types.is_integer(ttls.type) or pa.types.is_null(ttls.type)):
        raise SchemaMismatchError(
            "the TTLs of rows are an array of whole seconds, as in "
            f"pyarrow.array([60], pyarrow.int64()), not {ttls!r:.100}"
        )
    start = 0
    for batch in batches:
        lives = ttls.slice(start, batch.num_rows)
        if len(lives) < batch.num_rows:
            raise _ttls_error(len(ttls), "more")
        yield batch, lives
        start += batch.num_rows
    if len(ttls) > start:
        raise _ttls_error(len(ttls), str(start))


def _ttls_error(count: int, rows: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"there are {count} TTLs for {rows} rows; give one for each row, NULL for the table's own"
    )


# State tables


def open_state_table(
    epochs: Epochs, name: str, vnodes: Sequence[range] | None, strict: bool
) -> StateTable:
    """Return a table of a store, or its rows in ``vnodes``, as a state table.

    TableNotFoundError; InternalTableError; UsageError for a table whose rows are merged or expire.
    """
    from .table.statetable import StateTable

    user_table(epochs.look_up(), name, "written")
    return StateTable.buffered(_TableEpochs(epochs, name, strict), vnodes=vnodes, strict=strict)


class _TableEpochs:
    """The epochs of a state table of an open store: see `EpochCommit`."""

    def __init__(self, epochs: Epochs, name: str, strict: bool) -> None:
        self._epochs = epochs
        self._reader = LatestReader(epochs, name)
        self._is_strict = strict
        self._name = name
        # Whether the next table is that after a commit of this object, which needs no other look.
        self._has_committed = False
        self._encoding: Encoding | None = None
        self.segment_writer = epochs.segment_writer
        self.now = epochs.environment.now

    def open_committed(self) -> StorageTable:
        """Return the table as it is now committed."""
        has_committed, self._has_committed = self._has_committed, False
        table = self._reader.at(self._epochs.likely_state) if has_committed else self._reader()
        # It may have been altered since the last one.
        if table.encoding is not self._encoding:
            _check_state_table(table.encoding.definition, self._is_strict)
            self._encoding = table.encoding
        return table

    def commit(self, flush: Flush, relied_on: Bytes | None) -> int:
        """Commit what ``flush`` writes and return the epoch: see `EpochCommit.commit`."""
        started = self._epochs.environment.now()
        reads = None
        if relied_on is not None:
            assert self._encoding is not None
            is_changed = partial(changes_any, self._epochs, self._encoding, relied_on)
            reads = Reads(self._reader.epoch, is_changed)
        try:
            segments = flush()
        except SegmentMissingError as error:
            if self._reader.epoch < self._epochs.state.oldest_epoch:
                raise ConflictError(
                    f"epoch {self._reader.epoch} of table {self._name!r}, which this "
                    "write is based on, was vacuumed since; nothing was committed: read again and "
                    "retry"
                ) from error
            raise
        proposal = Proposal(
            operation="write",
            started=started,
            segments=segments,
            syncs_segments=True,
            reads=reads,
        )
        epoch = self._epochs.commit(proposal).epoch
        self._has_committed = True
        return epoch


def changes_any(epochs: Epochs, encoding: Encoding, full_keys: Bytes, entry: Entry) -> bool:
    """Return whether a commit changed a table's row under one of some keys, or all its rows."""
    table_id = encoding.table_id
    if table_id in entry.based_tables:
        return True
    added = sequence_segments(entry.added, entry.epoch, table_id)
    changed = TableEntries(epochs.environment, encoding, added, lambda: 0)
    return len(changed.get_values(full_keys)) > 0


def _check_state_table(definition: TableDefinition, strict: bool) -> None:
    properties = definition.properties
    if definition.schema.row_id is not None:
        raise no_key_error(
            definition.name, "it cannot be a state table: create one with a primary key"
        )
    if properties.may_have_parts:
        raise UsageError(
            f"table {definition.name!r} is, or was, a document table, whose rows have several "
            "entries; a state table writes whole rows: write with store.write, "
            "store.patch or through Spark"
        )
    if not properties.is_plain or properties.ttl is not None:
        raise UsageError(
            f"table {definition.name!r} merges its rows or lets them expire, which a state table "
            "does not; write it with store.write or through Spark"
        )
    if strict and definition.older_schemas:
        raise UsageError(
            f"table {definition.name!r} was altered, so that a strict state table cannot compare "
            "old rows by their bytes; open it without strict"
        )
