"""CHECK constraints: what a writer and a commit refuse to write to a table.

Promises: whatever door a row came by, it makes no constraint of its table false, and its generated
columns have the values of their expressions. A writer checks
the rows that it encodes, and names the definition that it knew; the commit checks what was written
under another one, and the rows of a table that gets a constraint.
Does not know: the race for an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..environment import Environment
from ..errors import CheckViolationError
from ..expression.check_expression import CheckExpression
from ..log.proposal import Proposal
from ..log.sequenced_segment import SequencedSegment, sequence_segments
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..schema.arrow import arrow_schema
from ..schema.batch import BatchShape, describe_row
from ..schema.constraint import CheckConstraint
from ..schema.schema import default_values
from ..segment.block import Block
from ..segment.key import Kind
from .encoding import encoding_of
from .generation import Generation, generation_of
from .header import Headers
from .storagetable import StorageTable


class RowChecks:
    """Some constraints of a table, prepared for many batches. Immutable.

    ``generation``: the generated columns that are compared too, None for none.
    """

    def __init__(
        self,
        definition: TableDefinition,
        constraints: Sequence[CheckConstraint],
        generation: Generation | None = None,
    ) -> None:
        schema = definition.schema
        self._table = definition.name
        ids = {column_id for constraint in constraints for column_id in constraint.columns}
        keys = [column for column in schema.key_columns if not column.hidden]
        used = [column for column in schema.columns if column.id in ids and column not in keys]
        self._columns = [replace(column, nullable=True) for column in (*keys, *used)]
        self._shape = BatchShape(
            arrow_schema(column.field for column in self._columns),
            (),
            default_values(self._columns),
        )
        self._names = [column.name for column in self._columns]
        self._generation = generation
        generated = [] if generation is None else generation.names
        self.names = list(dict.fromkeys([*self._names, *generated]))
        self._checks = [
            (constraint, CheckExpression.from_json(constraint.condition, schema))
            for constraint in constraints
        ]

    def check(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None = None) -> None:
        """CheckViolationError if a row makes a constraint false, or has another generated value.

        A column that is missing has its default, or is NULL.
        ``kinds``: a `Kind` a row; deletes are not checked. The errors of `BatchShape.conform`.
        """
        if self._generation is not None:
            self._generation.completed(batch, kinds)
        own = {name.lower() for name in self._names}
        names = [name.lower() for name in batch.schema.names]
        batch = batch.select([index for index, name in enumerate(names) if name in own])
        if kinds is not None and (kinds == Kind.DELETE).any():
            batch = batch.filter(pa.array(kinds != Kind.DELETE))
        if not batch.num_rows or not batch.num_columns:
            return
        rows = self._shape.conform(batch)
        for constraint, check in self._checks:
            flags = check.violated(rows)
            if flags.any():
                row = rows.slice(int(np.argmax(flags)), 1)
                raise self._violation_error(constraint, row, check.failure(row))

    def _violation_error(
        self, constraint: CheckConstraint, row: pa.RecordBatch, failure: str | None
    ) -> CheckViolationError:
        reason = "" if failure is None else f", whose expression {failure}"
        return CheckViolationError(
            f"table {self._table!r}: the row with {describe_row(row)} violates the constraint "
            f"{constraint.name!r}, CHECK ({constraint.expression}){reason}; nothing was "
            "committed: correct it, or leave it out"
        )


def row_checks(definition: TableDefinition) -> RowChecks | None:
    """Return the checks of all constraints of a table; None if it has none."""
    return RowChecks(definition, definition.constraints) if definition.constraints else None


class ConstraintCheck:
    """The check of one proposal, made at every attempt to commit it."""

    def __init__(self, environment: Environment, proposal: Proposal) -> None:
        self._environment = environment
        self._proposal = proposal
        self._checked: set[str] = set()

    def __call__(self, state: StoreState) -> None:
        """CheckViolationError if a row would violate the definition that follows.

        The tables that the proposal writes and alters are in the state.
        """
        for table_id in sorted(self._proposal.written if self._proposal.data_change else ()):
            self._check_written(state, state.tables[table_id].definition)
        for altered in self._proposal.altered_tables:
            added = set(altered.after.constraints) - set(altered.before.constraints)
            if added:
                self._check_stored(state, altered.after, tuple(added))

    def _check_written(self, state: StoreState, definition: TableDefinition) -> None:
        """Check the rows that were written by somebody who did not know a constraint."""
        writers = [
            written
            for written in self._proposal.written_under
            if written.table_id == definition.table_id
            and written.schema.version == definition.schema.version
        ]
        checked_constraints = {
            constraint for written in writers for constraint in written.constraints
        }
        unknown = tuple(item for item in definition.constraints if item not in checked_constraints)
        # They are there since the table was created.
        generation = None if writers else generation_of(definition)
        if not unknown and generation is None:
            return
        checks = RowChecks(definition, unknown, generation)
        rows = self._proposal.rows
        if rows is not None and rows.table_id == definition.table_id:
            block = Block.over(rows.keys, rows.values)
            block = block.take(np.flatnonzero(Headers(block).kinds != Kind.DELETE))
            encoding = encoding_of(definition, state.settings.vnode_count)
            checks.check(encoding.decode(block, encoding.schema.columns))
        added = sequence_segments(self._proposal.segments, state.epoch + 1, definition.table_id)
        self._check_segments(state, definition, checks, added)

    def _check_stored(
        self,
        state: StoreState,
        definition: TableDefinition,
        constraints: tuple[CheckConstraint, ...],
    ) -> None:
        """Check the rows of a table; at a later attempt only those that were added since."""
        segments = state.segments_of(definition.table_id)
        unchecked = [segment for segment in segments if segment.name not in self._checked]
        self._check_segments(state, definition, RowChecks(definition, constraints), unchecked)
        self._checked |= {segment.name for segment in segments}

    def _check_segments(
        self,
        state: StoreState,
        definition: TableDefinition,
        checks: RowChecks,
        segments: Sequence[SequencedSegment],
    ) -> None:
        encoding = encoding_of(definition, state.settings.vnode_count)
        # Rows that have expired are checked too: they are still to be read at earlier times.
        table = StorageTable(self._environment, encoding, segments, lambda: 0)
        for batch in table.scan(checks.names):
            checks.check(batch)
