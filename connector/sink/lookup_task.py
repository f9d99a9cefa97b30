"""The tasks that look up the rows of a table by values that Spark computed.

A statement that changes rows and names them by the rows of a source reads these rows and no others:
by the values of the primary key, or of the columns of an index.

Promises: the rows are those at the plan's epoch. NULL equals nothing. A pass over the values: no
task holds more than some megabytes of rows, nor more than all of its values.
Does not know: statements, or what becomes of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.connector.failure import strip_tracebacks
from relstate.connector.spark.received import received
from relstate.storage import ReadPlan, StorageTable, cast

# Many keys are looked up in less time than few: each file is searched once for all of them. So many
# at most are looked up at once, and so many if the rows, or those of a source, have many bytes.
_MOST_VALUES, _FEW_VALUES = 131_072, 16_384
_BYTES_AT_ONCE = 16 << 20
# Rows of a batch that goes to Spark.
_BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Lookup:
    """How rows are looked up: by values of ``columns`` of the table that ``plan`` reads.

    ``index``: the index whose columns these are; None: they are the primary key. Picklable.
    """

    plan: ReadPlan
    columns: tuple[str, ...]
    index: str | None = None

    def values_at_once(self, table: StorageTable) -> int:
        """Return how many values are looked up at once, by the size of a row."""
        row_bytes = table.stored_bytes // max(table.stored_rows, 1) + 1
        return min(max(_BYTES_AT_ONCE // row_bytes, _FEW_VALUES), _MOST_VALUES)

    def find(
        self, table: StorageTable, values: pa.RecordBatch
    ) -> tuple[NDArray[np.int64], pa.RecordBatch]:
        """Return (indices, rows): the rows with each of some values, and whose values they have.

        ``values``: in the order of the columns.
        """
        key_values = values.rename_columns(list(self.columns))
        is_complete = reduce(pc.and_, (column.is_valid() for column in key_values.columns))
        complete = np.flatnonzero(np.asarray(is_complete))
        if len(complete) < key_values.num_rows:
            key_values = key_values.filter(is_complete)
        if self.index is None:
            indices, rows = table.get_rows(key_values, self.plan.columns)
        else:
            indices, rows = table.get_rows_by(self.index, key_values, self.plan.columns)
        return complete[indices], rows


@dataclass(frozen=True, slots=True)
class PairLookup:
    """Puts beside each row of a source the rows with its values. Sent to the tasks.

    The values are the last columns of what it is called with; those before them are the source's.
    A pair has the source's columns, whether there is a row, and the columns of the row.
    ``schema``: of the rows. ``keeps_unmatched``: a row of the source without a row makes a pair.
    """

    lookup: Lookup
    schema: pa.Schema
    keeps_unmatched: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of one task."""
        return strip_tracebacks(self._pairs(received(batches)))

    def _pairs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = self.lookup.plan.open()
        most = self.lookup.values_at_once(table)
        for batch in _joined(batches, most):
            for start in range(0, batch.num_rows, most):
                yield from _slices(self._pairs_of(table, batch.slice(start, most)))

    def _pairs_of(self, table: StorageTable, batch: pa.RecordBatch) -> pa.RecordBatch:
        passed = batch.num_columns - len(self.lookup.columns)
        values = batch.select(range(passed, batch.num_columns))
        owners, rows = self.lookup.find(table, values)
        unmatched = np.empty(0, np.int64)
        if self.keeps_unmatched:
            unmatched = np.flatnonzero(np.bincount(owners, minlength=batch.num_rows) == 0)
        is_found = np.arange(len(owners) + len(unmatched)) < len(owners)
        source = batch.select(range(passed)).take(pa.array(np.concatenate([owners, unmatched])))
        positions = pa.array(np.arange(len(is_found)), mask=~is_found)
        columns = [
            *source.columns,
            pa.array(is_found),
            *_cast(rows.take(positions).columns, self.schema),
        ]
        return pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])


@dataclass(frozen=True, slots=True)
class RowLookup:
    """Returns the rows with some values, each row once. Sent to the tasks.

    It is called with values, perhaps repeated; equal ones come to one task.
    ``schema``: of the rows.
    """

    lookup: Lookup
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        return strip_tracebacks(self._rows(received(batches)))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        distinct = pa.Table.from_batches(filled).group_by(filled[0].schema.names).aggregate([])
        table = self.lookup.plan.open()
        for values in distinct.combine_chunks().to_batches(self.lookup.values_at_once(table)):
            _, rows = self.lookup.find(table, values)
            columns = _cast(rows.columns, self.schema)
            yield from _slices(pa.RecordBatch.from_arrays(columns, schema=self.schema))


def _joined(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in batches of about ``most`` rows, of fewer if they are large."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if group and (rows + batch.num_rows > most or size + batch.nbytes > _BYTES_AT_ONCE):
            yield pa.concat_batches(group)
            group, rows, size = [], 0, 0
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if group:
        yield pa.concat_batches(group)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(start, _BATCH_ROWS)


def _cast(columns: Sequence[pa.Array], schema: pa.Schema) -> list[pa.Array]:
    """Return columns in the types in which Spark takes them."""
    return [
        cast.exact_cast(column.type, field.type)(column)
        for column, field in zip(columns, schema, strict=True)
    ]
