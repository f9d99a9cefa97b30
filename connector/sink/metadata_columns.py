"""Columns of the data that say something about its rows: the operation column and the TTL column.

The operation column of a change stream says what each row does. Its values are those of Delta's and
Spark's change feeds and of Debezium's ``op``, in any case.

Promises: a value that names no operation, or one that the table does not take, is refused, in any
batch; the rows that remain keep their order.
Does not know: where the changes come from, or how a table expires rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import Kind, Misfit, TableDefinition, errors, no_key_error

_IGNORED, _INSERT, _UPDATE, _DELETE = range(4)
_OPERATIONS = {
    "insert": _INSERT,
    "i": _INSERT,
    "c": _INSERT,  # Debezium: create
    "r": _INSERT,  # Debezium: read, by its first snapshot
    "update": _UPDATE,
    "u": _UPDATE,
    "update_postimage": _UPDATE,
    "update_preimage": _IGNORED,
    "delete": _DELETE,
    "d": _DELETE,
}
_CODES = np.array(list(_OPERATIONS.values()), np.uint8)


@dataclass(frozen=True, slots=True)
class OperationColumn:
    """The column ``name`` of the data; ``stored`` if the table has a column of that name too.

    ``upsert``: what an insert or update is in the table. ``append_only``: it takes inserts only.
    ``keys``: the names of the key's columns, for error messages.
    """

    name: str
    stored: bool
    upsert: Kind = Kind.PUT
    append_only: bool = False
    keys: tuple[str, ...] = ()

    def check_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return ``schema`` without the column, unless it is stored.

        SchemaMismatchError if it is missing or is not text.
        """
        index = self._index(schema)
        if not pa.types.is_string(schema.field(index).type):
            raise errors.SchemaMismatchError(
                f"the operation column {self.name!r} is {schema.field(index).type}; it must be a "
                "string"
            )
        return schema if self.stored else schema.remove(index)

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.uint8]]:
        """Return (rows, kinds): the rows that change something and the `Kind` of each, uint8.

        UnknownOperationError for a value that names no operation, NULL included; AppendOnlyError
        for one that an append-only table does not take.
        """
        index = self._index(batch.schema)
        operations = batch.column(index)
        matches = pc.index_in(pc.utf8_lower(operations), value_set=pa.array(_OPERATIONS))
        if matches.null_count:
            row = pc.index(matches.is_null(), True).as_py()
            raise errors.UnknownOperationError(
                f"{self._describe_row(batch, row)} has {operations[row].as_py()!r} in the "
                f"operation column {self.name!r}; operations are {', '.join(_OPERATIONS)}"
            )
        codes = _CODES[matches.to_numpy()]
        if self.append_only and (codes != _INSERT).any():
            row = int(np.argmax(codes != _INSERT))
            raise errors.AppendOnlyError(
                f"{self._describe_row(batch, row)} has {operations[row].as_py()!r} in the "
                f"operation column {self.name!r}, and the table is append-only: it takes inserts"
            )
        rows = batch if self.stored else batch.remove_column(index)
        kinds = np.where(codes == _DELETE, Kind.DELETE, self.upsert).astype(np.uint8)
        if (codes != _IGNORED).all():
            return rows, kinds
        changing = np.flatnonzero(codes != _IGNORED)
        return rows.take(pa.array(changing)), kinds[changing]

    def misfits(self, batch: pa.RecordBatch) -> list[Misfit]:
        """Return which rows `split` refuses, and why; no row has two reasons."""
        codes = self._codes(batch)
        unknown = np.asarray(codes.is_null())
        misfits = [Misfit(self.name, f"{self.name!r} names no operation", unknown)]
        if self.append_only:
            others = np.asarray(codes.fill_null(_INSERT)) != _INSERT
            reason = f"{self.name!r} is not an insert, and the table is append-only"
            misfits.append(Misfit(self.name, reason, others))
        return [misfit for misfit in misfits if misfit.flags.any()]

    def changing(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the positions of the rows that `split` returns."""
        return np.flatnonzero(np.asarray(self._codes(batch)) != _IGNORED)

    def _codes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the code of each row's operation, NULL for one that names none."""
        operations = pc.utf8_lower(batch.column(self._index(batch.schema)))
        return pa.array(_CODES).take(pc.index_in(operations, value_set=pa.array(_OPERATIONS)))

    def _index(self, schema: pa.Schema) -> int:
        return _column_index(schema, self.name, "operation column")

    def _describe_row(self, batch: pa.RecordBatch, row: int) -> str:
        names = {name.lower(): name for name in batch.schema.names}
        present = [names[key.lower()] for key in self.keys if key.lower() in names]
        key = ", ".join(f"{name} = {batch.column(name)[row].as_py()!r}" for name in present)
        return f"the row with the key ({key})" if present else f"row {row} of the batch"


@dataclass(frozen=True, slots=True)
class RowExpiry:
    """Seconds after which rows expire: those in ``column``, where NULL or without one ``ttl``.

    ``stored``: the table has a column of that name too. NULL leaves it to the table.
    """

    ttl: int | None
    column: str | None = None
    stored: bool = False

    def check_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return ``schema`` without the column, unless it is stored.

        SchemaMismatchError if it is missing or does not hold whole numbers.
        """
        if self.column is None:
            return schema
        index = _column_index(schema, self.column, "TTL column")
        if not pa.types.is_integer(schema.field(index).type):
            raise errors.SchemaMismatchError(
                f"the TTL column {self.column!r} is {schema.field(index).type}; it must hold whole "
                "numbers of seconds"
            )
        return schema if self.stored else schema.remove(index)

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Return (rows, seconds after which each expires: int64)."""
        if self.column is None:
            return batch, pa.repeat(pa.scalar(self.ttl, pa.int64()), batch.num_rows)
        index = _column_index(batch.schema, self.column, "TTL column")
        seconds = batch.column(index).cast(pa.int64())
        if self.ttl is not None:
            seconds = pc.fill_null(seconds, self.ttl)
        return (batch if self.stored else batch.remove_column(index)), seconds


def check_order(definition: TableDefinition, clustered: bool, option: str, promise: str) -> None:
    """OptionError unless the changes of a key have an order: by a version column, or promised.

    ``option`` and ``promise``: the options as the caller spells them. UsageError for a table
    without a primary key.
    """
    if definition.schema.row_id is not None:
        raise no_key_error(
            definition.name,
            f"{option} cannot say which of its rows change: append rows, or use UPDATE, DELETE and "
            "MERGE",
        )
    if clustered or definition.properties.is_versioned:
        return
    raise errors.OptionError(
        f"{option} needs a table with a version_column, which orders the changes of a key; the "
        f"table {definition.name!r} has none. If all changes of one key arrive in one task, in "
        f"order, set {promise} instead"
    )


def _column_index(schema: pa.Schema, name: str, role: str) -> int:
    """Return the index of the column of a name, in any case.

    SchemaMismatchError, which calls it by its role, if there is none.
    """
    for index, column in enumerate(schema.names):
        if column.lower() == name.lower():
            return index
    raise errors.SchemaMismatchError(
        f"the data has no {role} {name!r}; it has {', '.join(schema.names)}"
    )
