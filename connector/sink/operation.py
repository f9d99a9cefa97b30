"""The operation column of a change stream: what each of its values does to a row.

Promises: a value that names no operation, or one that the table does not take, is refused, in
whatever batch it stands; the rows that remain keep their order.
Does not know: where the changes come from. Names are those of Delta's and Spark's change feeds
and Debezium's ``op``, whatever their case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import Kind, errors

from .column import place_of

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
    """

    name: str
    stored: bool
    upsert: Kind = Kind.PUT
    append_only: bool = False

    def check_schema(self, found: pa.Schema) -> pa.Schema:
        """Return ``found`` without the column, unless it is stored.

        SchemaMismatchError if it is missing or is not text.
        """
        place = self._place(found)
        if not pa.types.is_string(found.field(place).type):
            raise errors.SchemaMismatchError(
                f"the operation column {self.name!r} is {found.field(place).type}, not a string"
            )
        return found if self.stored else found.remove(place)

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.uint8]]:
        """Return (rows, kinds): the rows that change something and the `Kind` of each, uint8.

        UnknownOperationError for a value that names no operation, NULL included; AppendOnlyError
        for one that an append-only table does not take.
        """
        place = self._place(batch.schema)
        operations = batch.column(place)
        found = pc.index_in(pc.utf8_lower(operations), value_set=pa.array(_OPERATIONS))
        if found.null_count:
            row = pc.index(found.is_null(), True).as_py()
            raise errors.UnknownOperationError(
                f"row {row} of the batch has {operations[row].as_py()!r} in the operation column "
                f"{self.name!r}; operations are {', '.join(_OPERATIONS)}"
            )
        codes = _CODES[found.to_numpy()]
        self._check_append_only(codes, operations)
        rows = batch if self.stored else batch.remove_column(place)
        kinds = np.where(codes == _DELETE, Kind.DELETE, self.upsert).astype(np.uint8)
        if (codes != _IGNORED).all():
            return rows, kinds
        changing = np.flatnonzero(codes != _IGNORED)
        return rows.take(pa.array(changing)), kinds[changing]

    def _check_append_only(self, codes: NDArray[np.uint8], operations: pa.Array) -> None:
        if self.append_only and (codes != _INSERT).any():
            row = int(np.argmax(codes != _INSERT))
            raise errors.AppendOnlyError(
                f"row {row} of the batch has {operations[row].as_py()!r} in the operation column "
                f"{self.name!r}, and the table is append-only: it takes inserts"
            )

    def _place(self, schema: pa.Schema) -> int:
        return place_of(schema, self.name, "operation column")
