"""How long the rows of a write live, where it says so.

Does not know: what a table makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from relstate.storage import errors

from .column import place_of


@dataclass(frozen=True, slots=True)
class RowExpiry:
    """Seconds after which rows expire: those in ``column``, where NULL or without one ``ttl``.

    ``stored``: the table has a column of that name too. NULL leaves it to the table.
    """

    ttl: int | None
    column: str | None = None
    stored: bool = False

    def check_schema(self, found: pa.Schema) -> pa.Schema:
        """Return ``found`` without the column, unless it is stored.

        SchemaMismatchError if it is missing, or holds no whole numbers.
        """
        if self.column is None:
            return found
        place = place_of(found, self.column, "column of TTLs")
        if not pa.types.is_integer(found.field(place).type):
            raise errors.SchemaMismatchError(
                f"the column of TTLs {self.column!r} is {found.field(place).type}, not a whole "
                "number of seconds"
            )
        return found if self.stored else found.remove(place)

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Return (rows, seconds after which each expires: int64)."""
        if self.column is None:
            return batch, pa.repeat(pa.scalar(self.ttl, pa.int64()), batch.num_rows)
        place = place_of(batch.schema, self.column, "column of TTLs")
        seconds = batch.column(place).cast(pa.int64())
        if self.ttl is not None:
            seconds = pc.fill_null(seconds, self.ttl)
        return (batch if self.stored else batch.remove_column(place)), seconds
