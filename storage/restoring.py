"""The rows of an earlier epoch as the rows of now: the columns that they have in both.

Promises: columns are the same if they have one id, whatever they were called.
Does not know: how rows are read or written.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from .errors import SchemaError, TableNotFoundError
from .log.state import StoreState
from .log.table_definition import TableDefinition


@dataclass(frozen=True, slots=True)
class RestoredColumns:
    """What a table was called at an epoch, and which of its columns there were.

    ``old_names``: by the names that columns have now; what came later is not among them but in
    ``new_columns``.
    """

    old_table: str
    old_names: dict[str, str]
    new_columns: tuple[str, ...]

    def restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the old columns as rows of now; columns that came later are NULL."""
        names = [*self.old_names, *self.new_columns]
        nulls = [pa.nulls(batch.num_rows) for _ in self.new_columns]
        return pa.RecordBatch.from_arrays([*batch.columns, *nulls], names)


def restored_columns(now: TableDefinition, then: StoreState) -> RestoredColumns:
    """Return how the rows of a table at an epoch become rows of it now.

    TableNotFoundError if the table did not exist then, SchemaError if it had a column that was
    dropped since.
    """
    if now.table_id not in then.tables:
        raise TableNotFoundError(
            f"there was no table {now.name!r} at epoch {then.epoch}: it was created at epoch "
            f"{now.created_epoch}"
        )
    definition = then.tables[now.table_id].definition
    old_names = {column.id: column.name for column in definition.schema.visible_columns}
    columns = now.schema.visible_columns
    for column_id in old_names.keys() - {column.id for column in columns}:
        raise SchemaError(
            f"the column {old_names[column_id]!r}, which table {now.name!r} had at epoch "
            f"{then.epoch}, was dropped since, and RESTORE brings back rows, not columns: write "
            f"CREATE TABLE … AS SELECT * FROM {definition.name} VERSION AS OF {then.epoch}"
        )
    return RestoredColumns(
        definition.name,
        {column.name: old_names[column.id] for column in columns if column.id in old_names},
        tuple(column.name for column in columns if column.id not in old_names),
    )
