"""The operation column of a change stream: what each of its values does to a row.

Promises: a value that names no operation is refused, in whatever batch it stands; the rows that
remain keep their order.
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

_IGNORED = 0
_KINDS = {
    "insert": Kind.PUT,
    "i": Kind.PUT,
    "c": Kind.PUT,  # Debezium: create
    "r": Kind.PUT,  # Debezium: read, by its first snapshot
    "update": Kind.PUT,
    "u": Kind.PUT,
    "update_postimage": Kind.PUT,
    "update_preimage": _IGNORED,
    "delete": Kind.DELETE,
    "d": Kind.DELETE,
}
_CODES = np.array(list(_KINDS.values()), np.uint8)


@dataclass(frozen=True, slots=True)
class OperationColumn:
    """The column ``name`` of the data; ``stored`` if the table has a column of that name too."""

    name: str
    stored: bool

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

        UnknownOperationError for a value that names no operation, NULL included.
        """
        place = self._place(batch.schema)
        operations = batch.column(place)
        codes = pc.index_in(pc.utf8_lower(operations), value_set=pa.array(_KINDS))
        if codes.null_count:
            row = pc.index(codes.is_null(), True).as_py()
            raise errors.UnknownOperationError(
                f"row {row} of the batch has {operations[row].as_py()!r} in the operation column "
                f"{self.name!r}; operations are {', '.join(_KINDS)}"
            )
        kinds = _CODES[codes.to_numpy()]
        rows = batch if self.stored else batch.remove_column(place)
        if (kinds != _IGNORED).all():
            return rows, kinds
        changing = np.flatnonzero(kinds != _IGNORED)
        return rows.take(pa.array(changing)), kinds[changing]

    def _place(self, schema: pa.Schema) -> int:
        for place, name in enumerate(schema.names):
            if name.lower() == self.name.lower():
                return place
        raise errors.SchemaMismatchError(
            f"the data has no operation column {self.name!r}; it has {', '.join(schema.names)}"
        )
