"""Constraints: what a writer and a commit refuse to write to a table, drop, or count.

Promises: whatever door a row came by, it makes no constraint of its table false, and its generated
columns have the values of their expressions. A writer checks
the rows that it encodes, and names the definition that it knew; the commit checks what was written
under another one, and the rows of a table that gets a CHECK. Of expectations every violation is
counted once, by the writer or by the commit.
Does not know: the race for an epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Positions
from ..environment import Environment
from ..errors import CheckViolationError
from ..expression.check_expression import CheckExpression
from ..log.proposal import Proposal
from ..log.sequenced_segment import SequencedSegment, sequence_segments
from ..log.state import StoreState
from ..log.table_definition import TableDefinition
from ..log.violations import Violations
from ..schema.arrow import arrow_schema
from ..schema.batch import BatchShape, Misfit, describe_row
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
        checks = [
            (constraint, CheckExpression.from_json(constraint.condition, schema))
            for constraint in constraints
        ]
        self._checks = [check for check in checks if check[0].refuses]
        self._expectations = [check for check in checks if not check[0].refuses]

    def violations(
        self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None = None
    ) -> tuple[dict[CheckConstraint, int], Positions]:
        """Return (how many rows violate each expectation, the positions of rows to be dropped).

        Deletes violate none; a row that is dropped counts for each expectation that it violates.
        Expectations that fail a write are the matter of `check`. The errors of
        `BatchShape.conform`.
        """
        counts: dict[CheckConstraint, int] = {}
        if not self._expectations:
            return counts, _NO_ROWS
        positions = np.arange(batch.num_rows)
        if kinds is not None:
            positions = np.flatnonzero(kinds != Kind.DELETE)
            batch = batch.take(pa.array(positions))
        batch = self._selected(batch)
        if not batch.num_rows or not batch.num_columns:
            return counts, _NO_ROWS
        rows = self._shape.conform(batch)
        is_dropped = np.zeros(rows.num_rows, np.bool_)
        for constraint, check in self._expectations:
            flags = check.violated(rows)
            if flags.any():
                counts[constraint] = int(np.count_nonzero(flags))
                if constraint.on_violation == "drop":
                    is_dropped |= flags
        return counts, positions[is_dropped]

    def check(self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None = None) -> None:
        """CheckViolationError if a row makes a constraint false, or has another generated value.

        A column that is missing has its default, or is NULL.
        ``kinds``: a `Kind` a row; deletes are not checked. The errors of `BatchShape.conform`.
        """
        if self._generation is not None:
            self._generation.completed(batch, kinds)
        if kinds is not None and (kinds == Kind.DELETE).any():
            batch = batch.filter(pa.array(kinds != Kind.DELETE))
        batch = self._selected(batch)
        if not batch.num_rows or not batch.num_columns:
            return
        rows = self._shape.conform(batch)
        for constraint, check in self._checks:
            flags = check.violated(rows)
            if flags.any():
                row = rows.slice(int(np.argmax(flags)), 1)
                raise self._violation_error(constraint, row, check.failure(row))

    def misfits(self, batch: pa.RecordBatch) -> Iterator[Misfit]:
        """Yield the constraints that rows make false, if there are any.

        The rows fit the table's columns, and none is deleted.
        """
        batch = self._selected(batch)
        if not batch.num_rows or not batch.num_columns:
            return
        rows = self._shape.conform(batch)
        for constraint, check in self._checks:
            flags = check.violated(rows)
            if flags.any():
                reason = f"it violates the constraint {constraint.name!r}, {constraint.clause}"
                yield Misfit(constraint.name, reason, flags)

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a batch that the constraints read, and those of the key."""
        own = {name.lower() for name in self._names}
        names = [name.lower() for name in batch.schema.names]
        return batch.select([index for index, name in enumerate(names) if name in own])

    def _violation_error(
        self, constraint: CheckConstraint, row: pa.RecordBatch, failure: str | None
    ) -> CheckViolationError:
        reason = "" if failure is None else f", whose expression {failure}"
        return CheckViolationError(
            f"table {self._table!r}: the row with {describe_row(row)} violates the constraint "
            f"{constraint.name!r}, {constraint.clause}{reason}; nothing was "
            "committed: correct it, or leave it out"
        )


def row_checks(definition: TableDefinition) -> RowChecks | None:
    """Return the checks of all constraints of a table; None if it has none."""
    return RowChecks(definition, definition.constraints) if definition.constraints else None


_NO_ROWS: Positions = np.zeros(0, np.int64)


class ConstraintCheck:
    """The check of one proposal, made at every attempt to commit it.

    ``violations``: of the expectations that the writers of the rows did not know, as of the last
    attempt.
    """

    def __init__(self, environment: Environment, proposal: Proposal) -> None:
        self._environment = environment
        self._proposal = proposal
        self._checked: set[str] = set()
        self.violations: tuple[Violations, ...] = ()

    def __call__(self, state: StoreState) -> None:
        """CheckViolationError if a row would violate the definition that follows.

        The tables that the proposal writes and alters are in the state.
        """
        self.violations = ()
        for table_id in sorted(self._proposal.written if self._proposal.data_change else ()):
            self._check_written(state, state.tables[table_id].definition)
        for altered in self._proposal.altered_tables:
            added = {
                constraint
                for constraint in set(altered.after.constraints) - set(altered.before.constraints)
                if not constraint.is_expectation
            }
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
        checks = _UnknownChecks(RowChecks(definition, unknown, generation))
        rows = self._proposal.rows
        if rows is not None and rows.table_id == definition.table_id:
            block = Block.over(rows.keys, rows.values)
            block = block.take(np.flatnonzero(Headers(block).kinds != Kind.DELETE))
            encoding = encoding_of(definition, state.settings.vnode_count)
            checks.check(encoding.decode(block, encoding.schema.columns))
        added = sequence_segments(self._proposal.segments, state.epoch + 1, definition.table_id)
        self._check_segments(state, definition, checks, added)
        self.violations += checks.violations(definition.table_id)

    def _check_stored(
        self,
        state: StoreState,
        definition: TableDefinition,
        constraints: tuple[CheckConstraint, ...],
    ) -> None:
        """Check the rows of a table; at a later attempt only those that were added since."""
        segments = state.segments_of(definition.table_id)
        unchecked = [segment for segment in segments if segment.name not in self._checked]
        checks = _UnknownChecks(RowChecks(definition, constraints))
        self._check_segments(state, definition, checks, unchecked)
        self._checked |= {segment.name for segment in segments}

    def _check_segments(
        self,
        state: StoreState,
        definition: TableDefinition,
        checks: _UnknownChecks,
        segments: Sequence[SequencedSegment],
    ) -> None:
        encoding = encoding_of(definition, state.settings.vnode_count)
        # Rows that have expired are checked too: they are still to be read at earlier times.
        table = StorageTable(self._environment, encoding, segments, lambda: 0)
        for batch in table.scan(checks.names):
            checks.check(batch)


class _UnknownChecks:
    """Checks of rows that were written by somebody who did not know the constraints."""

    def __init__(self, checks: RowChecks) -> None:
        self._checks = checks
        self._counts: Counter[CheckConstraint] = Counter()
        self.names = checks.names

    def check(self, batch: pa.RecordBatch) -> None:
        """Count the violations of expectations. Errors as of `RowChecks.check`.

        CheckViolationError, too, for a row that is to be dropped: it is in a file already.
        """
        self._checks.check(batch)
        counts, dropped = self._checks.violations(batch)
        if len(dropped):
            constraint = next(item for item in counts if item.on_violation == "drop")
            raise CheckViolationError(
                f"{len(dropped)} rows violate the constraint {constraint.name!r}, "
                f"{constraint.clause}, which their writer did not know, so that it has not dropped "
                "them; nothing was committed: try again, or leave them out"
            )
        self._counts.update(counts)

    def violations(self, table_id: int) -> tuple[Violations, ...]:
        """Return what was counted."""
        return violations_of(table_id, self._counts)


def violations_of(table_id: int, counts: Mapping[CheckConstraint, int]) -> tuple[Violations, ...]:
    """Return how many rows violated each of some expectations of a table."""
    return tuple(
        Violations(table_id, item.name, item.on_violation, rows) for item, rows in counts.items()
    )
