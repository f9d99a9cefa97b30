"""Generated columns: what a writer computes, and what it refuses.

Promises: whatever door a row came by, its generated columns have the values of their expressions. A
writer computes those that are missing and compares those that are given, and names the definition
that it knew; the commit compares what was written under another one (`checks.ConstraintCheck`).
Does not know: how rows are encoded, or where a row comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import CheckViolationError
from ..expression.generated_value import generated_value
from ..expression.value import DESCRIPTIONS, Failure, Failures, Value
from ..log.table_definition import TableDefinition
from ..predicate.condition import Flags, valid_rows
from ..schema.arrow import arrow_schema
from ..schema.batch import BatchShape, Misfit, describe_row
from ..schema.schema import Column, default_values
from ..segment.key import Kind


@dataclass(frozen=True, slots=True)
class _Generated:
    """A generated column; ``text``: its expression; ``shape``: the column alone.

    ``shown``: the columns by which a message names a row, those of the key and those it reads.
    """

    column: Column
    text: str
    value: Value
    shape: BatchShape
    shown: tuple[str, ...]


class Generation:
    """The generated columns of a table, prepared for many batches. Immutable."""

    def __init__(self, definition: TableDefinition) -> None:
        """The table has at least one: see `generation_of`."""
        schema = definition.schema
        self._table = definition.name
        keys = [column for column in schema.key_columns if not column.hidden]
        self._generated = []
        ids: set[int] = set()
        for column in schema.generated_columns:
            generated = column.generated
            assert generated is not None
            ids.update(generated.columns)
            value = generated_value(generated, schema)
            shape = BatchShape(arrow_schema([replace(column, nullable=True).field]), ())
            shown = dict.fromkeys([*(key.name for key in keys), *value.columns()])
            self._generated.append(
                _Generated(column, generated.expression, value, shape, tuple(shown))
            )
        used = [column for column in schema.columns if column.id in ids and column not in keys]
        columns = [replace(column, nullable=True) for column in (*keys, *used)]
        self._sources = [column.name for column in columns]
        self._shape = BatchShape(
            arrow_schema(column.field for column in columns), (), default_values(columns)
        )
        self.names = [*self._sources, *(item.column.name for item in self._generated)]

    def completed(
        self, batch: pa.RecordBatch, kinds: NDArray[np.uint8] | None = None
    ) -> pa.RecordBatch:
        """Return rows with the generated columns that they lack.

        ``kinds``: a `Kind` a row; deletes have none. CheckViolationError for a row with another
        value, or whose expression fails; the errors of `BatchShape.conform`.
        """
        is_written = np.ones(batch.num_rows, np.bool_) if kinds is None else kinds != Kind.DELETE
        if not is_written.any():
            return batch
        rows = batch if is_written.all() else batch.filter(pa.array(is_written))
        sources = self._shape.conform(_selected(rows, self._sources))
        for item in self._generated:
            values = self._computed(item, sources)
            own_column = _selected(rows, [item.column.name])
            if own_column.num_columns:
                self._check_given(item, own_column, values, sources)
            else:
                values = _scattered(values, is_written)
                batch = batch.append_column(item.column.name, values)
        return batch

    def misfits(self, batch: pa.RecordBatch) -> Iterator[Misfit]:
        """Yield why rows cannot have their generated columns, if there are any.

        The rows fit the table's columns, and none is deleted.
        """
        sources = self._shape.conform(_selected(batch, self._sources))
        for item in self._generated:
            name = item.column.name
            described = f"the column {name!r}, GENERATED ALWAYS AS ({item.text}),"
            values, failure_codes = item.value.computed(sources)
            for code in np.unique(failure_codes[failure_codes != 0]).tolist():
                reason = f"{described} cannot be computed: it {DESCRIPTIONS[Failure(code)]}"
                yield Misfit(name, reason, failure_codes == code)
            own_column = _selected(batch, [name])
            if own_column.num_columns:
                (column,) = item.shape.conform(own_column).columns
                is_other = ~_same(column, values) & (failure_codes == 0)
                if is_other.any():
                    yield Misfit(name, f"{described} has another value", is_other)

    def with_computed(self, batch: pa.RecordBatch, name: str, flags: Flags) -> pa.RecordBatch:
        """Return rows of which those with a flag have the value of a generated column.

        ``name``: of the column, which the batch has. Errors as of `completed`.
        """
        (item,) = (item for item in self._generated if item.column.name == name)
        rows = batch.filter(pa.array(flags))
        if not rows.num_rows:
            return batch
        values = self._computed(item, self._shape.conform(_selected(rows, self._sources)))
        index = batch.schema.get_field_index(name)
        column = batch.column(index)
        column = pc.replace_with_mask(column, pa.array(flags), values.cast(column.type))
        return batch.set_column(index, name, column)

    def _computed(self, item: _Generated, sources: pa.RecordBatch) -> pa.Array:
        """Return the values of a generated column. CheckViolationError where it fails."""
        values, failures = item.value.computed(sources)
        if failures.any():
            row = int(np.argmax(failures != 0))
            raise CheckViolationError(
                f"{self._named(item, sources, row)} cannot be computed: the expression "
                f"{_reason(failures, row)}; nothing was committed: correct the row, or leave it out"
            )
        return values

    def _check_given(
        self, item: _Generated, batch: pa.RecordBatch, values: pa.Array, sources: pa.RecordBatch
    ) -> None:
        (column,) = item.shape.conform(batch).columns
        is_other = ~_same(column, values)
        if is_other.any():
            row = int(np.argmax(is_other))
            raise CheckViolationError(
                f"{self._named(item, sources, row)} is {values[row].as_py()!r:.80}, but "
                f"{column[row].as_py()!r:.80} was given; nothing was committed: leave the column "
                "out, and its value is computed"
            )

    def _named(self, item: _Generated, sources: pa.RecordBatch, row: int) -> str:
        shown = describe_row(sources.slice(row, 1).select(item.shown))
        return (
            f"table {self._table!r}: the column {item.column.name!r}, GENERATED ALWAYS AS "
            f"({item.text}), of the row with {shown}"
        )


def generation_of(definition: TableDefinition) -> Generation | None:
    """Return the generated columns of a table; None if it has none."""
    return Generation(definition) if definition.schema.generated_columns else None


def _selected(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Return the columns of these names, in any case, that a batch has."""
    own = {name.lower() for name in names}
    indices = [index for index, name in enumerate(batch.schema.names) if name.lower() in own]
    return batch.select(indices)


def _scattered(values: pa.Array, is_written: Flags) -> pa.Array:
    """Return values of the rows with a flag as a column of all rows, NULL elsewhere."""
    if is_written.all():
        return values
    return values.take(pa.array(np.cumsum(is_written) - 1, mask=~is_written))


def _same(left: pa.Array, right: pa.Array) -> Flags:
    """Return which values are the same, as Spark's ``<=>``: NULLs are, and NaNs."""
    same = pc.fill_null(pc.equal(left, right), pa.scalar(False)).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(left.type):
        both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
        same = same | pc.fill_null(both_nan, pa.scalar(False)).to_numpy(zero_copy_only=False)
    result: Flags = same | ~(valid_rows(left) | valid_rows(right))
    return result


def _reason(failures: Failures, row: int) -> str:
    return DESCRIPTIONS[Failure(int(failures[row]))]
