"""Rows in quarantine, written to their table again: mended, or because the table takes them now.

Promises: in one commit the rows that the table takes become its rows and leave the quarantine; the
others stay there with the reason of now. A row that others have changed in the quarantine meanwhile
is read again. Rows are written in the order in which they were set aside, under the rules by
which the table merges any others.
Does not know: statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.connector.files.values import BadValue, parse_json
from relstate.connector.sink.metadata_columns import OperationColumn
from relstate.connector.sink.quarantine import refused_where
from relstate.connector.sink.write import WriteJob
from relstate.connector.sink.write_plan import operation_column, row_expiry
from relstate.storage import (
    NO_REFUSED_ROWS,
    Kind,
    Misfit,
    Proposal,
    RefusedRows,
    Snapshot,
    Store,
    TableDefinition,
    TableWriter,
    WriteTarget,
    environment_of,
    errors,
    types,
)

_ATTEMPTS = 5
_ROW = "row_json"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The epoch; how many rows the table took, and how many it still does not."""

    epoch: int
    recovered: int
    remaining: int


def recover_quarantine(store: Store, table: str, where: str | None = None) -> Recovery:
    """Write rows in the quarantine of a table again, as one epoch, and return what became of them.

    ``where``: a condition over the columns of the quarantine, as `Table.scan` takes it; None for
    all rows. The driver holds them in memory. TableNotFoundError, InternalTableError, the errors of
    `Table.scan`; ConflictError if others keep changing the same rows; errors of the commit, as of
    any other write.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _recover(store, table, where)
        except errors.ConflictError:
            continue
    return _recover(store, table, where)


def _recover(store: Store, table: str, where: str | None) -> Recovery:
    target = store.jobs.write_target(table)
    snapshot = store.at(target.epoch)
    definition = snapshot.state.quarantine_of(target.definition.table_id)
    if definition is None:
        return Recovery(target.epoch, 0, 0)
    rows = _rows_of(snapshot, definition, where)
    quarantine = replace(target, definition=definition)
    started = environment_of(target.path).now()
    with target.open() as writer, quarantine.open() as quarantine_writer:
        refused = RefusedRows.joined([run.write(target, writer) for run in _runs(rows)])
        recovered = np.delete(np.arange(rows.num_rows), refused.positions)
        recovery = Recovery(target.epoch, len(recovered), len(refused))
        _explain_again(quarantine_writer, rows, refused)
        if len(recovered):
            keys = rows.select(["id"]).take(pa.array(recovered))
            quarantine_writer.write(keys, np.full(len(recovered), Kind.DELETE, np.uint8))
        if not quarantine_writer.rows:
            return recovery
        segments = (*writer.finish(), *quarantine_writer.finish())
        violations = writer.violations
    proposal = Proposal(
        operation="recover quarantine",
        started=started,
        segments=segments,
        written_under=(target.definition, definition),
        violations=violations,
        requires=(definition,),
        reads=store.jobs.row_reads(quarantine, rows.select(["id"])),
    )
    with store.jobs.discarding(segments):
        return replace(recovery, epoch=store.jobs.commit(proposal).epoch)


def _rows_of(snapshot: Snapshot, quarantine: TableDefinition, where: str | None) -> pa.RecordBatch:
    """Return rows in quarantine, in the order in which they were set aside."""
    rows = snapshot.table(quarantine.name).to_arrow(where=where)
    rows = rows.sort_by([("written_at", "ascending"), ("id", "ascending")])
    return pa.RecordBatch.from_struct_array(rows.to_struct_array().combine_chunks())


def _explain_again(writer: TableWriter, rows: pa.RecordBatch, refused: RefusedRows) -> None:
    """Write the rules and reasons of rows that stay in quarantine, where these are others now."""
    remaining = rows.take(pa.array(refused.positions))
    same_rule = pc.equal(remaining["rule"], refused.rules)
    is_same = pc.and_(same_rule, pc.equal(remaining["reason"], refused.reasons))
    names = remaining.schema.names
    columns = {"rule": refused.rules, "reason": refused.reasons}
    arrays = [columns.get(name, remaining.column(name)) for name in names]
    changed = pa.RecordBatch.from_arrays(arrays, names).filter(pc.invert(is_same))
    if changed.num_rows:
        writer.write(changed)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Rows in quarantine, one after the other, of one kind of write and with the same columns.

    ``positions``: of them among all rows; ``options``: of the write that set them aside. ``error``:
    why they cannot be read, else None.
    """

    positions: NDArray[np.int64]
    options: dict[str, Any]
    objects: Sequence[dict[str, Any]]
    error: str | None = None

    def write(self, target: WriteTarget, writer: TableWriter) -> RefusedRows:
        """Write the rows that the table takes, and return the others."""
        if self.error is not None:
            return self._all_refused(self.error)
        try:
            fields = self._fields(target.definition)
            return self._write(target, writer, fields)
        except errors.SchemaMismatchError as error:
            return self._all_refused(str(error))

    def _write(
        self, target: WriteTarget, writer: TableWriter, fields: Sequence[types.Field]
    ) -> RefusedRows:
        columns, misfits = [], []
        flags = np.zeros(len(self.objects), np.bool_)
        for name, field in zip(self.objects[0], fields, strict=True):
            column, bad_values = parse_json([item[name] for item in self.objects], field)
            columns.append(column)
            for value in bad_values:
                if not flags[value.row]:
                    flags[value.row] = True
                    misfits.append(_misfit_of(value, len(self.objects)))
        unread = refused_where(misfits) if misfits else NO_REFUSED_ROWS
        readable = np.flatnonzero(~flags)
        batch = pa.RecordBatch.from_arrays(columns, [field.name for field in fields])
        job = WriteJob(
            target,
            _operations(self.options, target.definition),
            overwrite=False,
            application=None,
            version=None,
            expiry=row_expiry(
                self.options.get("ttl"), self.options.get("ttlColumn"), target.definition.schema
            ),
        )
        refused = job.write_fitting(writer, batch.take(pa.array(readable)))
        refused = replace(refused, positions=readable[refused.positions])
        return self._among_all(RefusedRows.joined([unread, refused]))

    def _among_all(self, refused: RefusedRows) -> RefusedRows:
        return replace(refused, positions=self.positions[refused.positions])

    def _all_refused(self, reason: str) -> RefusedRows:
        flags = np.ones(len(self.positions), np.bool_)
        return self._among_all(refused_where([Misfit(_ROW, reason, flags)]))

    def _fields(self, definition: TableDefinition) -> list[types.Field]:
        """Return the fields of the columns. SchemaMismatchError for one that is not the table's."""
        fields = {
            str(self.options.get(option, "")).lower(): data_type
            for option, data_type in _OPTION_COLUMNS.items()
        }
        fields |= {column.name.lower(): column.type for column in definition.schema.visible_columns}
        unknown = [name for name in self.objects[0] if name.lower() not in fields]
        if unknown:
            raise errors.SchemaMismatchError(
                f"the table has no column {unknown[0]!r} any more: change {_ROW}, or add the column"
            )
        return [types.Field(name, fields[name.lower()], True) for name in self.objects[0]]


_OPTION_COLUMNS: dict[str, types.DataType] = {
    "opColumn": types.String(),
    "ttlColumn": types.BigInt(),
}


def _misfit_of(value: BadValue, rows: int) -> Misfit:
    flags = np.zeros(rows, np.bool_)
    flags[value.row] = True
    return Misfit(value.field.name, str(value), flags)


def _operations(options: dict[str, Any], definition: TableDefinition) -> OperationColumn | None:
    return operation_column(options.get("opColumn"), definition)


def _runs(rows: pa.RecordBatch) -> Iterator[_Run]:
    """Yield the rows in runs that are written alike."""
    texts = rows.column(_ROW).to_pylist()
    options = rows.column("write_options").to_pylist()
    items = [_item(*pair) for pair in zip(texts, options, strict=True)]
    start = 0
    for (options_text, _, error), group in groupby(items, key=_alike):
        objects = [item[1] for item in group]
        positions = np.arange(start, start + len(objects))
        start += len(objects)
        yield _Run(positions, _object(options_text or "{}"), objects, error)


_Item: TypeAlias = tuple[str | None, dict[str, Any], str | None]


def _item(text: str, options: str | None) -> _Item:
    """Return (options, row, why these cannot be read)."""
    try:
        row = _object(text)
    except ValueError as error:
        return None, {}, f"{_ROW} is not a JSON object: {error}"
    try:
        _object(options or "{}")
    except ValueError as error:
        return None, {}, f"write_options is not a JSON object: {error}"
    return options, row, None


def _alike(item: _Item) -> tuple[str | None, tuple[str, ...], str | None]:
    options, row, error = item
    return options, tuple(row), error


def _object(text: str) -> dict[str, Any]:
    """Return a JSON object. ValueError for other text."""
    value = json.loads(text, parse_float=Decimal)
    if not isinstance(value, dict):
        raise ValueError(f"it is {text[:40]}")
    return value
