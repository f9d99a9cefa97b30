"""The rows of a batch that a table does not take, each with the rule that it breaks.

Promises: rules are checked by column, for all rows at once; of several rules that a row breaks the
first counts: types and NULLs, then the TTL, generated columns, and constraints. The other rows can
be written.
Does not know: rules about other rows, as those of a unique index; or what becomes of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Positions
from ..log.table_definition import TableDefinition
from ..schema.arrow import arrow_schema
from ..schema.batch import BatchShape, Misfit
from ..segment.key import Kind
from .checks import RowChecks
from .generation import Generation


@dataclass(frozen=True, slots=True, eq=False)
class RefusedRows:
    """The positions of refused rows, ascending, and of each the rule and the reason, as text."""

    positions: Positions
    rules: pa.Array
    reasons: pa.Array

    def __len__(self) -> int:
        return len(self.positions)

    def after(self, rows: int) -> RefusedRows:
        """Return the same, as part of a batch that has a number of rows before these."""
        return replace(self, positions=self.positions + rows)

    @classmethod
    def joined(cls, parts: Iterable[RefusedRows]) -> RefusedRows:
        """Return the refused rows of the parts of a batch, in their order."""
        refused = [NO_REFUSED_ROWS, *parts]
        return cls(
            np.concatenate([part.positions for part in refused]),
            pa.concat_arrays([part.rules for part in refused]),
            pa.concat_arrays([part.reasons for part in refused]),
        )


_NO_TEXTS = pa.nulls(0, pa.string())
NO_REFUSED_ROWS = RefusedRows(np.zeros(0, np.int64), _NO_TEXTS, _NO_TEXTS)


class Misfits:
    """What finds the rows that a table does not take; prepared for many batches. Immutable."""

    def __init__(
        self, definition: TableDefinition, generation: Generation | None, checks: RowChecks | None
    ) -> None:
        schema = definition.schema
        self._schema = schema
        versions = schema.version_columns(definition.properties.version_columns)
        keys = schema.key_columns
        deleted = [*keys, *(replace(c, nullable=True) for c in versions if c not in keys)]
        self._delete_names = [column.name.lower() for column in deleted]
        self._delete_shape = BatchShape(
            arrow_schema(column.field for column in deleted), [column.name for column in keys]
        )
        self._generation = generation
        self._checks = checks

    def find(
        self,
        batch: pa.RecordBatch,
        kinds: NDArray[np.uint8] | None = None,
        ttl_misfits: Iterable[Misfit] = (),
    ) -> RefusedRows:
        """Return the rows that the table refuses.

        ``kinds``: a `Kind` a row; None if no row is a delete. ``ttl_misfits``: flags of all rows.
        SchemaMismatchError as of `BatchShape.conform`.
        """
        found = _Found(batch.num_rows)
        is_delete = np.zeros(batch.num_rows, np.bool_) if kinds is None else kinds == Kind.DELETE
        puts, deletes = np.flatnonzero(~is_delete), np.flatnonzero(is_delete)
        if len(puts):
            found.add(puts, self._schema.misfits(_taken(batch, puts)))
        if len(deletes):
            found.add(deletes, self._delete_shape.misfits(self._deleted(batch, deletes)))
        found.add(np.arange(batch.num_rows), ttl_misfits)
        if self._generation is not None:
            puts = puts[found.are_free(puts)]
            found.add(puts, self._generation.misfits(_taken(batch, puts)))
        if self._checks is not None:
            puts = puts[found.are_free(puts)]
            rows = _taken(batch, puts)
            if self._generation is not None:
                rows = self._generation.completed(rows)
            found.add(puts, self._checks.misfits(rows))
        return found.refused()

    def _deleted(self, batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
        """Return the columns that matter of rows that are deleted."""
        names = [name.lower() for name in batch.schema.names]
        indices = [index for index, name in enumerate(names) if name in self._delete_names]
        return batch.select(indices).take(pa.array(rows))


def _taken(batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
    """Return some rows of a batch: the batch if they are all of them."""
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))


class _Found:
    """The first rule that each row of a batch is found to break."""

    def __init__(self, rows: int) -> None:
        self._numbers = np.full(rows, -1, np.int64)
        self._misfits: list[Misfit] = []

    def add(self, positions: Positions, misfits: Iterable[Misfit]) -> None:
        """Add rules that rows at some positions break; each has a flag for each of them."""
        for misfit in misfits:
            broken = positions[misfit.flags]
            self._numbers[broken[self.are_free(broken)]] = len(self._misfits)
            self._misfits.append(misfit)

    def are_free(self, positions: Positions) -> NDArray[np.bool_]:
        """Return whether the rows at some positions break no rule so far."""
        free: NDArray[np.bool_] = self._numbers[positions] < 0
        return free

    def refused(self) -> RefusedRows:
        """Return the rows that break a rule."""
        positions = np.flatnonzero(self._numbers >= 0)
        if not len(positions):
            return NO_REFUSED_ROWS
        numbers = pa.array(self._numbers[positions])
        rules = pa.array([misfit.rule for misfit in self._misfits], pa.string())
        reasons = pa.array([misfit.reason for misfit in self._misfits], pa.string())
        return RefusedRows(positions, rules.take(numbers), reasons.take(numbers))
