"""The quarantine of a view: the rows of its inputs that it leaves out.

A view that was created with ``on_error = 'quarantine'`` is its SELECT over its inputs without these
rows. They are listed in a table beside it (`quarantine_name`), which is written by the commits that
refresh the view, and by nothing else. All rows of inputs reach a view as changes of a source
(scans): there, and only there, those of rows in quarantine are left out.

Promises: a row is in the view or in its quarantine, never in both; the change of a row in
quarantine has no old row for the view.
Does not know: how such rows are found (isolation).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relstate.connector.row_json import json_rows
from relstate.storage import (
    Kind,
    NewTable,
    ReadPlan,
    Store,
    StoreState,
    TableSchema,
    WriteTarget,
    encoding_of,
    errors,
    quarantine_name,
    ragged,
    types,
)

from .executor.changes import Mask, insert_mask
from .executor.rowkeys import RowKeys
from .plan.node import Order
from .plan.stateless import Scan
from .viewplan import ViewPlan

MOST_QUARANTINED = 100_000
"""Rows that a view may have in quarantine: each refresh has their keys in memory."""
_SOURCE, _ROW_KEY = "source", "row_key"
_FIELDS = (
    types.Field(_SOURCE, types.BigInt()),
    types.Field(_ROW_KEY, types.Binary()),
    types.Field("table", types.String()),
    types.Field("key", types.String()),
    types.Field("error", types.String()),
    types.Field("epoch", types.BigInt()),
)

Keys = Mapping[int, ragged.Bytes]
"""Encoded keys of rows, by the ids of their tables."""


def _no_keys() -> ragged.Bytes:
    return ragged.NO_BYTES


def check_quarantine(plan: ViewPlan) -> None:
    """UnsupportedStatementError if rows for which a view fails cannot be left out of it."""
    if plan.reads_clock:
        raise errors.UnsupportedStatementError(
            "'on_error' = 'quarantine' is not offered for a view that compares rows with the "
            "present time, or reads a table whose rows expire: time lets a row fail that has not "
            "changed, and what is left out is found among the changes; write 'on_error' = 'fail', "
            "or compare with the time in a query over the view"
        )


def new_quarantine(view: str) -> NewTable:
    """Return the table that lists the rows which a view leaves out.

    It is small, and merges look for it in one shard.
    """
    key = [_SOURCE, _ROW_KEY]
    schema = TableSchema.build(_FIELDS, key, distribution_key=(), hidden=key)
    return NewTable(
        quarantine_name(view), schema, comment="rows of inputs that the view leaves out"
    )


def key_codec(scan: Scan) -> RowKeys:
    """Return how the keys of a scan's rows are encoded, in their order in the table."""
    fields = {field.name: field for field in scan.fields}
    return _row_keys(tuple(fields[name] for name in scan.primary_key))


@lru_cache(256)  # preparing one takes longer than to encode a thousand keys
def _row_keys(fields: tuple[types.Field, ...]) -> RowKeys:
    return RowKeys(fields, [Order(field.name) for field in fields])


def key_texts(scan: Scan, keys: ragged.Bytes) -> list[str]:
    """Return encoded keys as JSON, with the names of the table's columns."""
    columns = {column.field.name: column for column in scan.columns}
    key_columns = [columns[name] for name in scan.primary_key]
    rows = pa.RecordBatch.from_arrays(
        key_codec(scan).decode(keys), names=[column.column for column in key_columns]
    )
    return [
        json.dumps(row, ensure_ascii=False)
        for row in json_rows(rows, [column.field.type for column in key_columns])
    ]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which changes of a table a view takes in, by encoded keys. Travels to tasks.

    ``absent``: rows that the view does not have, whose deletes are dropped. ``left_out``: rows of
    which it does not get the new version. ``only``: the rows of which there are changes; None for
    all.
    """

    scan: Scan
    absent: ragged.Bytes = field(default_factory=_no_keys)
    left_out: ragged.Bytes = field(default_factory=_no_keys)
    only: ragged.Bytes | None = None

    @property
    def is_all(self) -> bool:
        """Whether all changes are taken in."""
        return self.only is None and not len(self.absent) and not len(self.left_out)

    def apply(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return the changes of a chunk of the scan's fields that the view takes in."""
        if self.is_all or not chunk.num_rows:
            return chunk
        return chunk.filter(pa.array(self.takes(chunk, key_codec(self.scan).encode(chunk))))

    def takes(self, chunk: pa.RecordBatch, keys: ragged.Bytes) -> Mask:
        """Return for each change of a chunk, whose encoded keys are given, if it is taken in."""
        taken, inserts = np.ones(chunk.num_rows, np.bool_), insert_mask(chunk)
        if self.only is not None:
            taken &= _is_in(keys, self.only)
        if len(self.absent):
            taken &= inserts | ~_is_in(keys, self.absent)
        if len(self.left_out):
            taken &= ~inserts | ~_is_in(keys, self.left_out)
        return taken


def _is_in(keys: ragged.Bytes, of: ragged.Bytes) -> Mask:
    return np.asarray(pc.is_in(keys, of))


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row for which a view cannot be computed: its table, its encoded key, and why."""

    table_id: int
    key: bytes
    error: str


def keys_by_table(rows: Iterable[tuple[int, bytes]]) -> Keys:
    """Return the keys of rows, which are the ids of tables and encoded keys."""
    by_table: dict[int, list[bytes]] = {}
    for table_id, key in rows:
        by_table.setdefault(table_id, []).append(key)
    return {i: pa.array(keys, pa.large_binary()) for i, keys in by_table.items()}


@dataclass(frozen=True, slots=True)
class QuarantineChanges:
    """What a refresh changes in a quarantine.

    ``keys`` and ``values``: the entries of a segment that has them. ``after``: the quarantine once
    they are committed.
    """

    keys: ragged.Bytes
    values: ragged.Bytes
    after: Quarantine


@dataclass(frozen=True)
class Quarantine:
    """The quarantine of a view as a refresh finds it.

    ``target``: its table. ``keys``: those of the rows in it. ``epoch``: that of the tables which
    the refresh reads.
    """

    target: WriteTarget
    keys: Keys
    epoch: int

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return sum(map(len, self.keys.values()))

    def selections(self, plan: ViewPlan) -> dict[int, RowSelection]:
        """Return the selections of the rows that are not in it, by the tables of a plan."""
        return {
            scan.table_id: RowSelection(scan, left_out=self.keys[scan.table_id])
            for scan in plan.scans
            if scan.table_id in self.keys
        }

    def changes(
        self, bad_rows: Sequence[BadRow], released: Keys, scans: Mapping[int, Scan]
    ) -> QuarantineChanges | None:
        """Return what a refresh changes; None for nothing.

        ``released``: rows that were in quarantine and have changed; those that fail again are
        ``bad_rows``, too. ``scans``: one of each table.
        """
        if not bad_rows and not released:
            return None
        bad_keys = keys_by_table((row.table_id, row.key) for row in bad_rows)
        freed = [
            (table_id, key)
            for table_id, keys in released.items()
            for key in _without(keys, bad_keys.get(table_id, ragged.NO_BYTES)).to_pylist()
        ]
        texts = _texts(bad_rows, scans)
        rows: list[tuple[object, ...]] = [(*pair, None, None, None, None) for pair in freed]
        rows += [
            (row.table_id, row.key, scans[row.table_id].table, text, row.error, self.epoch)
            for row, text in zip(bad_rows, texts, strict=True)
        ]
        schema = self.target.definition.schema.arrow_schema
        columns = [
            pa.array(values, field.type)
            for values, field in zip(zip(*rows, strict=True), schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        kinds = np.repeat([Kind.DELETE, Kind.PUT], [len(freed), len(bad_rows)]).astype(np.uint8)
        encoding = encoding_of(self.target.definition, self.target.vnode_count)
        keys, values = encoding.encode(batch, kinds)
        return QuarantineChanges(keys, values, self._after(bad_keys, released))

    def _after(self, bad_keys: Keys, released: Keys) -> Quarantine:
        keys = {}
        for table_id in self.keys.keys() | bad_keys.keys():
            new = bad_keys.get(table_id, ragged.NO_BYTES)
            gone = pa.concat_arrays([released.get(table_id, ragged.NO_BYTES), new])
            remaining = _without(self.keys.get(table_id, ragged.NO_BYTES), gone)
            if len(remaining) + len(new):
                keys[table_id] = pa.concat_arrays([remaining, new])
        return replace(self, keys=keys)


def _without(keys: ragged.Bytes, others: ragged.Bytes) -> ragged.Bytes:
    return keys.filter(pc.invert(pc.is_in(keys, others)))


def _texts(bad_rows: Sequence[BadRow], scans: Mapping[int, Scan]) -> list[str]:
    """Return the keys of rows as text, in their order."""
    texts: dict[tuple[int, bytes], str] = {}
    for table_id in {row.table_id for row in bad_rows}:
        keys = [row.key for row in bad_rows if row.table_id == table_id]
        shown = key_texts(scans[table_id], pa.array(keys, pa.large_binary()))
        texts |= {(table_id, key): text for key, text in zip(keys, shown, strict=True)}
    return [texts[row.table_id, row.key] for row in bad_rows]


class Quarantines:
    """The quarantines of a store's views; what was read or written last is kept.

    Safe between threads.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # By the ids of their tables: the epoch of the last change, and the keys.
        self._known: dict[int, tuple[int, Keys]] = {}

    def of(self, state: StoreState, view_id: int) -> Quarantine | None:
        """Return the quarantine of a view at a state; None if it has none."""
        table_id = state.views[view_id].definition.quarantine
        if table_id is None:
            return None
        settings, table = state.settings, state.tables[table_id]
        target = WriteTarget(
            self._store.path, table.definition, settings.vnode_count, settings.shards
        )
        epoch, keys = self._known.get(table_id, (-1, {}))
        if epoch != table.data_epoch:
            keys = _read_keys(self._store, state, table.definition.name)
            self._known[table_id] = table.data_epoch, keys
        return Quarantine(target, keys, state.epoch)

    def note(self, written: Quarantine, epoch: int) -> None:
        """Take note of what is in a quarantine after the commit of an epoch, so as not to read it.

        ``written``: as the job that was committed leaves it.
        """
        # A commit between, as that of an erasure, may have changed it too.
        if epoch == written.epoch + 1:
            self._known[written.target.definition.table_id] = epoch, written.keys


def _read_keys(store: Store, state: StoreState, name: str) -> Keys:
    plan = ReadPlan.of(store.path, state, name, [_SOURCE, _ROW_KEY])
    batches = list(plan.read((range(plan.vnode_count),), store.environment))
    if not batches:
        return {}
    rows = pa.Table.from_batches(batches).combine_chunks()
    sources, keys = rows.column(_SOURCE), rows.column(_ROW_KEY)
    return {
        table_id: ragged.from_binary(keys.filter(pc.equal(sources, table_id)).combine_chunks())
        for table_id in pc.unique(sources).to_pylist()
    }


def without_quarantined(source: object, keys: Keys) -> RowSelection | None:
    """Return the selection of the rows of a source that are not in quarantine; None for all."""
    if isinstance(source, Scan) and source.table_id in keys:
        return RowSelection(source, left_out=keys[source.table_id])
    return None
