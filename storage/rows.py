"""Rows as users hand them over: Arrow data of any library, or dicts.

Promises: batches come in the order of the rows; nothing is read before the first batch is taken.
Does not know: what is done with the rows, or whether they fit a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from .errors import DataError, UsageError
from .python_conversion import converted_values
from .python_values import check_values
from .schema import types as t
from .schema.arrow import arrow_type
from .schema.schema import TableSchema
from .table.record import Row

_Shape: TypeAlias = tuple[tuple[str, Any], ...]
"""The names of a dict, each with the shape of the struct below it, else None."""
_SHOWN = 80
_TOGETHER = 16_384
"""Dicts of an iterator that are held at once."""


@runtime_checkable
class ArrowStream(Protocol):
    """What hands its rows over as Arrow data: a DataFrame of pandas or polars, for example."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the rows as a PyCapsule of Arrow's C stream interface."""


Rows: TypeAlias = (
    pa.RecordBatch
    | pa.Table
    | pa.RecordBatchReader
    | ArrowStream
    | Iterator[pa.RecordBatch]
    | Iterator[Mapping[str, Any]]
    | Iterator[Row]
    | Sequence[Mapping[str, Any]]
    | Sequence[Row]
)
_ADVICE = {
    "dict": "; of one row, write [row], and of columns, pyarrow.table(columns)",
    "str": "; to delete by a condition, use SQL (DELETE FROM ... WHERE ...)",
    "LazyFrame": "; call its collect()",
}


def batches_of(
    rows: Rows, schema: TableSchema, *, are_patches: bool = False
) -> Iterable[pa.RecordBatch]:
    """Return rows as batches. UsageError for what is not rows.

    ``schema``: of the table, whose types the values in dicts get. A dict has just the columns that
    it names, and of ``are_patches`` just the fields of structs. DataError, from the batches, for a
    stream that fails or a value of another type.
    """
    to_batches = partial(_batches_of_dicts, schema=schema, are_patches=are_patches)
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, pa.Table):
        batches: list[pa.RecordBatch] = rows.to_batches()
        return batches or [_empty_batch(rows.schema)]
    if isinstance(rows, list | tuple) and not isinstance(rows, Row):
        return to_batches([_dict_of(row) for row in rows])
    if isinstance(rows, Iterator) and not isinstance(rows, ArrowStream):
        return _batches_of_items(rows, to_batches)
    if not isinstance(rows, ArrowStream):
        name = type(rows).__name__
        raise UsageError(
            "rows are a pyarrow Table, RecordBatch or RecordBatchReader, an iterator of "
            "RecordBatches or dicts, a DataFrame or a result that exports Arrow data (pandas, "
            f"polars, DuckDB), or a list of dicts, not {name}{_ADVICE.get(name, '')}"
        )
    return _read(rows)


def _batches_of_items(
    items: Iterator[Any],
    to_batches: Callable[[Sequence[Mapping[str, Any]]], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an iterator of batches, or of dicts. UsageError for anything else."""
    for first in items:
        if isinstance(first, pa.RecordBatch):
            yield first
        elif isinstance(first, Mapping | Row):
            rows = chain([first], islice(items, _TOGETHER - 1))
            yield from to_batches([_dict_of(row) for row in rows])
        else:
            raise UsageError(
                "rows in an iterator are pyarrow RecordBatches, or dicts from the names of columns "
                f"to values, not {type(first).__name__}"
            )


def _read(rows: ArrowStream) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream. DataError if it fails, or holds what Arrow cannot."""
    try:
        reader = pa.RecordBatchReader.from_stream(rows)
        # The columns of a stream without rows are checked, too.
        yield from chain(reader, [_empty_batch(reader.schema)])
    # Arrow has no class of its own for a source that cannot read or write: that is an OSError.
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"the rows of a {type(rows).__name__} cannot be read: {error}") from error


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _dict_of(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Row):
        return row.as_dict()
    if isinstance(row, Mapping):
        return row
    raise UsageError(f"a row is a dict from the names of columns to values, not {row!r:.{_SHOWN}}")


def _batches_of_dicts(
    rows: Sequence[Mapping[str, Any]], schema: TableSchema, are_patches: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a batch for each run of dicts with the same keys, in patches also within structs."""
    types = {column.name.lower(): column.type for column in schema.columns}
    has_structs = any(isinstance(data_type, t.Struct) for data_type in types.values())

    def shape_of(row: Mapping[str, Any]) -> _Shape:
        return tuple(
            (name, _shape(value, types.get(str(name).lower()))) for name, value in row.items()
        )

    runs: Iterable[tuple[_Shape, Iterable[Mapping[str, Any]]]] = (
        groupby(rows, key=shape_of)
        if are_patches and has_structs
        else (
            (tuple((name, None) for name in names), run) for names, run in groupby(rows, key=tuple)
        )
    )
    for shape, run in runs:
        run_rows = list(run)
        arrays = [
            _array(name, run_rows, schema, types.get(str(name).lower()), field_shapes)
            for name, field_shapes in shape
        ]
        yield pa.RecordBatch.from_arrays(arrays, [str(name) for name, _ in shape])


def _shape(value: Any, data_type: t.DataType | None) -> Any:
    """Return the fields that a struct in a patch has, with theirs; None of any other value."""
    if not isinstance(data_type, t.Struct) or not isinstance(value, Mapping):
        return None
    types = {field.name: field.type for field in data_type.fields}
    return tuple((name, _shape(item, types.get(name))) for name, item in value.items())


def _type_of_shape(data_type: t.DataType, shape: Any) -> t.DataType:
    """Return a type with only those fields of its structs that a patch has."""
    if shape is None or not isinstance(data_type, t.Struct):
        return data_type
    shapes = dict(shape)
    return t.Struct(
        tuple(
            replace(field, type=_type_of_shape(field.type, shapes[field.name]))
            for field in data_type.fields
            if field.name in shapes
        )
    )


def _array(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    schema: TableSchema,
    data_type: t.DataType | None,
    shape: Any,
) -> pa.Array:
    """Return the values that dicts have under a name; without a type, Arrow finds one.

    ``shape``: of the structs in patches, None of whole values. DataError for a value of which there
    is none of the type.
    """
    values = [row[name] for row in rows]

    def array_of(part: Sequence[Any]) -> pa.Array:
        if data_type is None:
            return pa.array(part)
        part = converted_values(part, data_type)
        check_values(part, data_type)
        return pa.array(part, arrow_type(_type_of_shape(data_type, shape)))

    try:
        return array_of(values)
    except _UNFIT as error:
        if data_type is None:
            raise DataError(
                f"the values of the column {name!r} cannot be of one type: {error}; nothing was "
                "written"
            ) from None
    number, reason = _first_unfit(values, array_of)
    raise DataError(
        f"the value of the column {name!r} cannot be {data_type}: {reason}. It is in "
        f"{_described(rows[number], number, schema)}; nothing was written"
    )


_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)


def _first_unfit(
    values: Sequence[Any], array_of: Callable[[Sequence[Any]], pa.Array]
) -> tuple[int, Exception]:
    """Return (index, error) of the first of some values that alone is refused, by halving."""
    start, stop = 0, len(values)
    reason: Exception = ValueError("the values are of several types")
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            array_of(values[start:middle])
            start = middle
        except _UNFIT as error:
            reason, stop = error, middle
    try:
        array_of(values[start:stop])
    except _UNFIT as error:
        reason = error
    return start, reason


def _described(row: Mapping[str, Any], number: int, schema: TableSchema) -> str:
    """Return how a message names a row: by its key where it has one, and its number."""
    names = {column.name.lower() for column in schema.key_columns}
    key = ", ".join(
        f"{name} = {value!r:.{_SHOWN}}" for name, value in row.items() if str(name).lower() in names
    )
    return f"the row with {key} (row {number})" if key else f"row {number}"
