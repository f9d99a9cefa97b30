"""From batches of rows to partial rows, in bounded memory.

Rows are grouped some hundred thousand at a time, and the partial rows of these are added up as they
gather. Where groups are nearly as many as rows, adding up does not pay: then each row goes on as a
partial row of its own.

Promises: the partial rows of a group, added up, are what all its rows are. A sum of whole numbers
never wraps around: rows and partial rows whose sum might not fit are passed on one by one.
Memory is bounded by some hundred thousand rows and some hundred MiB, whatever the number of groups
and the size of their values.
Does not know: tables, or where rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..schema.arrow import arrow_schema
from . import moments
from .measure import Function
from .partial import PartialAggregate

# Rows that are grouped at once, or that take so many bytes.
_ROWS_AT_ONCE = 262_144
_BYTES_AT_ONCE = 32 << 20
# Partial rows that may gather before they are added up, and how many groups may remain then; the
# same in bytes.
_MOST_PARTIALS = 262_144
_MOST_GROUPS = 131_072
_MOST_PARTIAL_BYTES = 64 << 20
_MOST_GROUP_BYTES = 32 << 20
# Grouping pays if it leaves at most one partial row of so many rows.
_LEAST_ROWS_PER_GROUP = 2
_OUTPUT_ROWS = 65_536
_MOMENTS = str(Function.MOMENTS)
_LIST, _EVERYTHING = "list", "all"


@dataclass(frozen=True, slots=True)
class GroupingLimits:
    """What is held while rows are added up, in rows and in bytes.

    ``at_once``: rows that are grouped at once; ``partials``: partial rows that may gather before
    they are added up; ``groups``: those that may remain then. ``rows_per_group``: grouping goes on
    if it leaves at most one partial row of so many rows.
    """

    at_once: tuple[int, int]
    partials: tuple[int, int]
    groups: tuple[int, int]
    rows_per_group: int

    @classmethod
    def of_task(cls) -> GroupingLimits:
        """Return the limits of one of many tasks, whose partial rows another job adds up."""
        return cls(
            (_ROWS_AT_ONCE, _BYTES_AT_ONCE),
            (_MOST_PARTIALS, _MOST_PARTIAL_BYTES),
            (_MOST_GROUPS, _MOST_GROUP_BYTES),
            _LEAST_ROWS_PER_GROUP,
        )


MANY_GROUPS = GroupingLimits((2 << 20, 64 << 20), (2 << 20, 128 << 20), (1 << 20, 64 << 20), 0)
"""The limits of a thread of few, for up to a million groups: many rows at once repeat more."""


def partial_rows(
    aggregate: PartialAggregate,
    batches: Iterable[pa.RecordBatch],
    limits: GroupingLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the partial rows of batches of rows that have the aggregate's columns.

    ``limits``: by default those of a task.
    """
    limits = limits or GroupingLimits.of_task()
    adder = _Adder(aggregate, limits)
    for rows in _gathered(batches, aggregate, limits):
        yield from adder.add(rows)
    yield from adder.rest()


def partials_of_all(
    aggregate: PartialAggregate, batches: Sequence[pa.RecordBatch]
) -> tuple[list[pa.RecordBatch], bool]:
    """Return the partial rows of batches, added up at once, and whether each group has only one."""
    adder = _Adder(aggregate, MANY_GROUPS)
    partials = list(adder.add(pa.Table.from_batches(batches).select(aggregate.columns)))
    is_merged = not partials
    return [*partials, *adder.rest()], is_merged


def merged_partials(aggregate: PartialAggregate, partials: pa.Table) -> pa.Table:
    """Return partial rows with those of one group added up; as they are if a sum might not fit."""
    return _Adder(aggregate, GroupingLimits.of_task()).merged(partials)


def _gathered(
    batches: Iterable[pa.RecordBatch], aggregate: PartialAggregate, limits: GroupingLimits
) -> Iterator[pa.Table]:
    """Yield the rows of batches as tables of the size that is grouped at once."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = batch.select(aggregate.columns) if aggregate.columns else batch
        group.append(columns)
        rows += columns.num_rows
        size += columns.get_total_buffer_size()
        if rows >= limits.at_once[0] or size >= limits.at_once[1]:
            yield pa.Table.from_batches(group)
            group, rows, size = [], 0, 0
    if group:
        yield pa.Table.from_batches(group)


class _Adder:
    """The partial rows of one task. For one thread."""

    def __init__(self, aggregate: PartialAggregate, limits: GroupingLimits) -> None:
        self._limits = limits
        self._measures = aggregate.measures
        self._group = list(aggregate.group)
        # Names of our own: Arrow gives results names that columns of the table may have.
        self._keys = [f"g{index}" for index in range(len(self._group))]
        self._values = [f"m{index}" for index in range(len(self._measures))]
        self._names = [*self._keys, *self._values]
        self._schema = arrow_schema(aggregate.fields)
        self._pending: list[pa.Table] = []
        self._pays = True
        # Spark gathers the moments of a group in memory, so that they are never those of rows
        # where groups would do.
        self._has_moments = any(measure.has_moments for measure in self._measures)

    def add(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Add up some rows; yield partial rows that are not kept."""
        prepared = self._prepared(rows)
        if not self._fit(prepared) or not (self._pays or self._has_moments):
            yield from self._finished(self._lifted(prepared))
            return
        partials = self._grouped(prepared, [measure.of_rows for measure in self._measures])
        if not self._pays:
            yield from self._finished(partials)
            return
        self._pays = partials.num_rows * self._limits.rows_per_group <= max(rows.num_rows, 2)
        self._pending.append(partials)
        if _are_more(self._pending, *self._limits.partials):
            yield from self._shrink(*self._limits.groups)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the partial rows that are kept."""
        yield from self._shrink(0, 0)

    def _shrink(self, most_rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
        """Add up what is kept; yield it if these are more partial rows or bytes than given."""
        if not self._pending:
            return
        partials = pa.concat_tables(self._pending)
        if len(self._pending) > 1 and self._fit(partials):
            partials = self._grouped(partials, [measure.of_partials for measure in self._measures])
        self._pending = [partials]
        if _are_more(self._pending, most_rows, most_bytes):
            self._pending = []
            yield from self._finished(partials)

    def merged(self, partials: pa.Table) -> pa.Table:
        """Return what `merged_partials` does."""
        columns = partials.columns[: len(self._keys)]
        columns += [
            measure.resumed(_one_chunk(column))
            for measure, column in zip(
                self._measures, partials.columns[len(self._keys) :], strict=True
            )
        ]
        resumed = pa.Table.from_arrays(columns, names=self._names)
        if not self._fit(resumed):
            return partials
        groups = self._grouped(resumed, [measure.of_partials for measure in self._measures])
        return pa.Table.from_batches(self._finished(groups), self._schema)

    def _prepared(self, rows: pa.Table) -> pa.Table:
        """Return a table of the group's values and one column per measure."""
        (batch,) = rows.combine_chunks().to_batches()
        columns = [value.of(batch) for value in self._group]
        columns += [measure.prepared(batch) for measure in self._measures]
        return pa.Table.from_arrays(columns, names=self._names)

    def _lifted(self, prepared: pa.Table) -> pa.Table:
        """Return one partial row per row."""
        columns = [prepared.column(name) for name in self._keys]
        columns += [
            measure.lifted(_one_chunk(prepared.column(name)))
            for measure, name in zip(self._measures, self._values, strict=True)
        ]
        return pa.Table.from_arrays(columns, names=self._names)

    def _grouped(self, table: pa.Table, functions: Sequence[str]) -> pa.Table:
        """Return the groups of a table, with one aggregate per measure."""
        aggregates = [
            _Aggregate(function, name, _one_chunk(table.column(name)))
            for name, function in zip(self._values, functions, strict=True)
        ]
        for aggregate in aggregates:
            if aggregate.merges_moments:
                table = table.append_column(aggregate.row, pa.array(np.arange(table.num_rows)))
        calls = [call for aggregate in aggregates for call in aggregate.calls()]
        keys = self._keys
        if not keys and any(aggregate.merges_moments for aggregate in aggregates):
            # Arrow makes lists of the rows of groups only, not of all rows.
            keys = [_EVERYTHING]
            table = table.append_column(_EVERYTHING, pa.nulls(table.num_rows))
        groups = table.group_by(keys, use_threads=False).aggregate(calls)
        # Arrow names results by their columns, and puts the group's columns first or last.
        columns = [groups.column(name) for name in self._keys]
        columns += [aggregate.result(groups) for aggregate in aggregates]
        return pa.Table.from_arrays(columns, names=self._names)

    def _fit(self, table: pa.Table) -> bool:
        """Return whether no sum of values of a table can leave its type."""
        return all(
            measure.fits(table.column(name))
            for measure, name in zip(self._measures, self._values, strict=True)
        )

    def _finished(self, partials: pa.Table) -> Iterator[pa.RecordBatch]:
        columns = [partials.column(name) for name in self._keys]
        columns += [
            measure.finished(_one_chunk(partials.column(name)))
            for measure, name in zip(self._measures, self._values, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_OUTPUT_ROWS)


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """One measure's aggregate over a column, by the calls of Arrow that it takes."""

    function: str
    name: str
    column: pa.Array

    @property
    def merges_moments(self) -> bool:
        """Whether the column has partial moments."""
        return self.function == _MOMENTS and pa.types.is_struct(self.column.type)

    @property
    def row(self) -> str:
        """The name of a column with the number of each row, for moments to merge."""
        return f"{self.name}_row"

    def calls(self) -> Sequence[Any]:
        """Return the calls, for `pa.TableGroupBy.aggregate`."""
        if self.function == "count_all":
            return [([], self.function)]
        if self.merges_moments:
            return [(self.row, _LIST)]
        functions = moments.OF_VALUES if self.function == _MOMENTS else [self.function]
        return [(self.name, function) for function in functions]

    def result(self, groups: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Return the aggregate of each group, of the results of the calls."""
        if self.function == "count_all":
            return groups.column(self.function)
        if self.merges_moments:
            return moments.merged(self.column, _one_chunk(groups.column(f"{self.row}_{_LIST}")))
        if self.function == _MOMENTS:
            results = (groups.column(f"{self.name}_{part}") for part in moments.OF_VALUES)
            return moments.of_groups(*map(_one_chunk, results))
        return groups.column(f"{self.name}_{self.function}")


def _are_more(tables: Sequence[pa.Table], rows: int, size: int) -> bool:
    """Return whether some tables have more than so many rows or bytes together."""
    row_count: int = sum(table.num_rows for table in tables)
    byte_count: int = sum(table.get_total_buffer_size() for table in tables)
    return row_count > rows or byte_count > size


def _one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
