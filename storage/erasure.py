"""Erasure: rows are deleted, and then no file of the store holds a byte of them.

The steps are in an order in which a crash leaves a sound store, and the same call completes it:

1. The rows are deleted, by one commit, with their entries in indexes; and, by another one, those
   of the same keys that writes have set aside in the table's quarantine.
2. The views that read the table are refreshed, so that their rows and state follow.
3. Files that hold more than the newest rows are rewritten (maintenance/erasing.py).
4. The epochs before that expire, and their files are removed (maintenance/vacuum.py).
5. The log forgets the keys in its records of the removed files (log/redaction.py), and what views
   that failed have said is removed.

Promises: when it returns, no file that a commit names has the rows, or their keys; the report says
what else may.
Does not know: how views are refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.vnode import shards_of

from .codec.ragged import Bytes
from .epochs import Epochs
from .errors import ConflictError, DependentViewsError, SchemaMismatchError, TableNotFoundError
from .log.names import quarantine_name
from .log.redaction import readable_segments, redact
from .log.rules import oldest_epoch_needed_by_views
from .log.state import StoreState
from .log.table_definition import TableDefinition
from .maintenance.compaction import rewrite_time, run_rewrite
from .maintenance.components import Component
from .maintenance.erasing import Scope, concerned_files, erasing_merges
from .maintenance.policy import Merge
from .maintenance.rewrite import Rewrite
from .maintenance.vacuum import VacuumReport, expire
from .paths import ARCHIVE, LOG, SEGMENTS, is_temporary, parse_manifest_file, parse_segment_file
from .quarantined_keys import QuarantinedKeys, find_keys
from .rows import Rows, batches_of
from .segment.key import Kind
from .snapshot import Snapshot
from .table.appendonly import append_only_error
from .table.encoding import encoding_of
from .table.rowid import no_key_error
from .user_tables import user_table
from .view_failures import forget_failures
from .writing import write_rows

OPERATION = "erase"
# Each fails if others compact, refresh or commit at just that time.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What an erasure did.

    ``epoch``: the newest then. ``tables``: those whose files it concerns, internal ones included.
    ``files_rewritten`` and ``files_removed`` count segments, the bytes are theirs. Of a dry run the
    former are those that may hold the rows, and nothing is removed. ``log_files``: files of the log
    that named keys. ``remaining``: where the rows may still be, one sentence each.
    """

    epoch: int
    tables: tuple[str, ...]
    files_rewritten: int
    bytes_rewritten: int
    files_removed: int
    bytes_removed: int
    log_files: int
    remaining: tuple[str, ...]


def erase(
    epochs: Epochs,
    table: str,
    keys: Rows,
    refresh: Callable[[], object],
    *,
    dry_run: bool = False,
) -> ErasureReport:
    """Delete rows by their primary keys, and remove them from all files: see `Store.erase`.

    ``refresh``: brings all views of the store to the newest epoch.
    """
    erasure = _Erasure(epochs, table, keys, refresh)
    return erasure.estimate() if dry_run else erasure.run()


class _Erasure:
    """One erasure from one table of an open store."""

    def __init__(
        self, epochs: Epochs, table: str, keys: Rows, refresh: Callable[[], object]
    ) -> None:
        """SchemaMismatchError, UsageError or AppendOnlyError for keys that cannot be deleted."""
        self._epochs = epochs
        self._name = table
        self._refresh = refresh
        state = epochs.look_up()
        self._definition = user_table(state, table, "erased from")
        self._table_id = self._definition.table_id
        self._keys = _keys_of(self._definition, keys)
        encoding = encoding_of(self._definition, state.settings.vnode_count)
        self._erased: Bytes | None = None
        shards = None
        if self._keys is not None:
            self._erased = encoding.encode_keys(encoding.conform_keys(self._keys))
            vnodes = encoding.prefix.vnodes_in(self._erased)
            settings = state.settings
            numbers = shards_of(np.unique(vnodes), settings.vnode_count, settings.shards)
            shards = frozenset(numbers.tolist())
        self._shards = shards

    def estimate(self) -> ErasureReport:
        """Return the tables and files that may hold the rows, and change nothing."""
        state = self._epochs.look_up()
        scope = self._scope(state)
        files = concerned_files(state, scope)
        size = sum(file.size for file in files)
        names = _names(state, scope)
        remaining = self._remaining(state, self._quarantined())
        return ErasureReport(state.epoch, names, len(files), size, 0, 0, 0, remaining)

    def run(self) -> ErasureReport:
        """Erase. The errors of `Store.erase`."""
        deleted = self._delete()
        quarantined = self._delete_quarantined()
        state = self._follow(deleted)
        rewritten, files, size = self._rewrite(state)
        removed = self._expire(rewritten)
        newest, log_files = redact(self._epochs.log, self._epochs.look_up())
        newest = self._epochs.advance(newest)
        scope = self._scope(newest)
        for view_id in scope.tables & newest.views.keys():
            forget_failures(self._epochs.environment, view_id)
        return ErasureReport(
            newest.epoch,
            _names(newest, scope),
            files,
            size,
            removed.files,
            removed.bytes,
            log_files,
            self._remaining(newest, quarantined),
        )

    def _scope(self, state: StoreState) -> Scope:
        if self._table_id not in state.tables:
            raise TableNotFoundError(
                f"the table {self._name!r} was dropped meanwhile: what it held stays in files "
                "until a vacuum"
            )
        return Scope.of(state, self._table_id, self._shards)

    # 1

    def _delete(self) -> int:
        """Delete the rows, whatever their versions; return an epoch from which they are gone."""
        if self._keys is None:
            return self._epochs.look_up().epoch
        columns = _version_names(self._definition)
        if not columns:
            return write_rows(self._epochs, self._name, self._keys, kind=Kind.DELETE)
        for _ in range(_ATTEMPTS):
            snapshot = Snapshot(self._epochs, self._epochs.look_up())
            names = [column.name for column in self._definition.schema.key_columns]
            rows = snapshot.table(self._name).get_rows(self._keys, [*names, *columns])
            if not rows.num_rows:
                return snapshot.epoch
            # A delete wins over a row of its own version, and over older ones.
            write_rows(self._epochs, self._name, rows, kind=Kind.DELETE)
        raise ConflictError(
            f"rows of {self._name!r} were written again {_ATTEMPTS} times while they were erased: "
            "stop what writes them, and erase them again"
        )

    def _delete_quarantined(self) -> QuarantinedKeys:
        """Delete the rows of the keys that writes have set aside, and return which they were."""
        quarantined = self._quarantined()
        if len(quarantined.ids):
            quarantine = self._epochs.look_up().quarantine_of(self._table_id)
            assert quarantine is not None
            ids = pa.record_batch({"id": quarantined.ids})
            write_rows(self._epochs, quarantine.name, ids, kind=Kind.DELETE)
        return quarantined

    def _quarantined(self) -> QuarantinedKeys:
        """Return the rows of the keys that writes have set aside."""
        snapshot = Snapshot(self._epochs, self._epochs.look_up())
        state = snapshot.state
        quarantine = state.quarantine_of(self._table_id)
        if quarantine is None or self._erased is None:
            return QuarantinedKeys(pa.array([], pa.string()), 0)
        encoding = encoding_of(self._definition, state.settings.vnode_count)
        batches = snapshot.table(quarantine.name).scan(["id", "row_json"])
        return find_keys(batches, encoding, self._erased)

    # 2

    def _follow(self, deleted: int) -> StoreState:
        """Refresh the views; return a state at which none has the rows any more."""
        for _ in range(_ATTEMPTS):
            self._refresh()
            state = self._epochs.look_up()
            behind = sorted(_behind(state, self._scope(state), deleted))
            if not behind:
                return state
        raise DependentViewsError(
            f"the rows are deleted from {self._name!r}, and still in files: the views "
            f"{', '.join(behind)} do not follow it; refresh or drop them, then erase again "
            "(db.erase and the command relstate erase refresh them)"
        )

    # 3

    def _rewrite(self, state: StoreState) -> tuple[int, int, int]:
        """Rewrite what holds more than the newest rows; return (epoch, files, their bytes)."""
        log, files, size = self._epochs.log, 0, 0
        erased = None if self._erased is None else {self._table_id: self._erased}
        # What was written since is new: each component is rewritten once.
        for table_ids in [frozenset(c.table_ids) for c, _ in self._merges(state)]:
            for _ in range(_ATTEMPTS):
                merges = [pair for pair in self._merges(state) if table_ids & {*pair[0].table_ids}]
                try:
                    for component, merge in merges:
                        time = rewrite_time(log.environment, state)
                        rewrite = Rewrite.of(state, component, merge, time, erased)
                        state = run_rewrite(log, state, rewrite, OPERATION)
                        files, size = files + len(merge.inputs), size + merge.size
                    break
                except (ConflictError, TableNotFoundError):
                    state = log.refresh(state)
            else:
                raise ConflictError(
                    f"{self._epochs.path}: other compactions replaced the files {_ATTEMPTS} times; "
                    "the rows are deleted and still in files: erase again while none compacts"
                )
        self._epochs.advance(state)
        return state.epoch, files, size

    def _merges(self, state: StoreState) -> list[tuple[Component, Merge]]:
        return list(erasing_merges(state, self._scope(state)))

    # 4

    def _expire(self, epoch: int) -> VacuumReport:
        """Make an epoch the oldest, and remove the files of those before it."""
        for _ in range(_ATTEMPTS):
            self._refresh()
            try:
                state, report = expire(self._epochs.log, self._epochs.look_up(), epoch)
            except ConflictError:
                continue
            self._epochs.advance(state)
            return report
        state = self._epochs.look_up()
        raise DependentViewsError(
            f"the rows are deleted, and still in files of older epochs: a view has to read epoch "
            f"{oldest_epoch_needed_by_views(state)}, before epoch {epoch}; refresh the views of "
            "the store or drop those that fail, then erase again"
        )

    # 5

    def _remaining(self, state: StoreState, quarantined: QuarantinedKeys) -> tuple[str, ...]:
        places = tuple(_remaining(self._epochs, state))
        if not quarantined.unread:
            return places
        quarantine = quarantine_name(state.name_of(self._table_id))
        unread = (
            f"{quarantined.unread} rows of {quarantine!r} whose keys cannot be read: look at them, "
            "delete those that are concerned, and erase again"
        )
        return (unread, *places)


def _keys_of(definition: TableDefinition, keys: Rows) -> pa.RecordBatch | None:
    """Return keys as one batch of the key's columns; None if there are none."""
    schema = definition.schema
    names = [column.name for column in schema.key_columns]
    batches = list(batches_of(keys, schema))
    if not sum(batch.num_rows for batch in batches):
        return None
    if schema.row_id is not None:
        advice = "delete its rows by SQL (DELETE FROM … WHERE …), then erase without keys"
        raise no_key_error(definition.name, advice)
    if definition.properties.append_only:
        raise append_only_error(definition, "erase")
    lower = {name.lower() for name in names}
    for batch in batches:
        if {name.lower() for name in batch.schema.names} != lower:
            raise SchemaMismatchError(
                f"keys to erase have the columns of the primary key ({', '.join(names)}), not "
                f"({', '.join(batch.schema.names)}); nothing was erased"
            )
    conformed = [
        pa.RecordBatch.from_arrays([_column(batch, name) for name in names], names)
        for batch in batches
    ]
    (batch,) = pa.Table.from_batches(conformed).combine_chunks().to_batches()
    return batch


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = [column.lower() for column in batch.schema.names].index(name.lower())
    return batch.column(index)


def _version_names(definition: TableDefinition) -> list[str]:
    ids = definition.properties.version_columns
    by_id = {column.id: column.name for column in definition.schema.columns}
    return [by_id[column_id] for column_id in ids]


def _names(state: StoreState, scope: Scope) -> tuple[str, ...]:
    return tuple(sorted(state.name_of(table_id) for table_id in scope.tables))


def _behind(state: StoreState, scope: Scope, deleted: int) -> Iterator[str]:
    """Yield the names of the views that may have rows which the table lost by an epoch."""
    for view_id in scope.tables & state.views.keys():
        view = state.views[view_id]
        if not view.progress.is_populated:
            yield state.title_of(view)
            continue
        for table_id, epoch in view.progress.inputs:
            followed = table_id == scope.table_id and epoch >= deleted
            if table_id in scope.tables and not followed and state.has_changed(table_id, epoch):
                yield state.title_of(view)
                break


def _remaining(epochs: Epochs, state: StoreState) -> Iterator[str]:
    """Yield where rows may be besides the files that commits name."""
    environment = epochs.environment
    needed = readable_segments(epochs.log, state)
    names = map(parse_segment_file, environment.list(SEGMENTS))
    unnamed = sum(name is not None and name not in needed for name in names)
    unnamed += sum(map(is_temporary, environment.list(LOG) + environment.list(ARCHIVE)))
    if unnamed:
        yield (
            f"{unnamed} files that no commit names, of writes that failed or are not done: vacuum "
            "removes them when they are 24 hours old"
        )
    if any(map(parse_manifest_file, environment.list(ARCHIVE))):
        yield "keys of rows in manifests of the log: vacuum removes them when they are 24 hours old"
    yield "backups and other copies of the store"
    yield "memory and open files of other processes that read the store, until they end or look"
    if environment.is_remote:
        yield "older versions of objects, if the bucket keeps them"
        yield "the caches of other machines, until the segments are evicted"
