"""What another process needs to write rows of a table.

Does not know: how rows are written; whoever plans or commits a write writes none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ..environment import Environment
from ..environment_choice import environment_of
from ..log.table_definition import TableDefinition
from .encoding import document_encoding, encoding_of
from .rowid import no_key_error

if TYPE_CHECKING:
    from .tablewriter import TableWriter


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """One table to write to, and the last epoch and the time when that was planned. Picklable.

    ``planned``: microseconds since 1970; all tasks of a write, and their repetitions, have this one
    as the present time of defaults. None: each has its own.
    """

    path: str
    definition: TableDefinition
    vnode_count: int
    shards: int
    epoch: int = 0
    planned: int | None = None

    def check_patch(self, schema: pa.Schema) -> None:
        """Raise what `TableWriter.patch` raises for all batches of a schema.

        UsageError for a table without a primary key.
        """
        if self.definition.schema.row_id is not None:
            raise no_key_error(
                self.definition.name, "no row can be patched by key: use SQL, UPDATE … WHERE …"
            )
        encoding = document_encoding(encoding_of(self.definition, self.vnode_count))
        encoding.patch_changes(pa.RecordBatch.from_pylist([], schema=schema))

    def open(self, environment: Environment | None = None) -> TableWriter:
        """Return a writer for one task of this process."""
        from .tablewriter import TableWriter

        encoding = encoding_of(self.definition, self.vnode_count)
        environment = environment or environment_of(self.path)
        return TableWriter(environment, encoding, self.shards, self.epoch, self.planned)
