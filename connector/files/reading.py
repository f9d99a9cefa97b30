"""The rows of a file as batches of Arrow, with the types of a table.

Promises: a file is read as its rows are asked for, some megabytes at a time; a row that cannot be
read is an error that names the file, the row, and what is wrong with it, and so are those after it
up to a few. Columns are found by their names, in any case and order; an empty cell of CSV that is
not quoted is NULL.
Does not know: tables, commits.
"""

from __future__ import annotations

import csv
import json
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from relstate.storage import arrow, errors, types

from .file_format import FileFormat
from .row_file import InputFile, parquet_file
from .values import BadValue, Converted, parse_json, parse_texts

_BLOCK = 4 << 20
_NAMED = 5
"""So many bad rows are named."""
_PARQUET_ROWS = 65_536
# What parsers raise: csv, json and Arrow, of which compressed files that end too early are OSError.
_UNREADABLE = (pa.ArrowException, csv.Error, OSError, ValueError, OverflowError, RecursionError)


def read_rows(
    file: InputFile,
    file_format: FileFormat,
    fields: Sequence[types.Field],
    delimiter: str = ",",
    versions: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, in its order.

    ``fields``: of the table that they are for; only CSV and JSON are fitted to them, the values of
    other formats have types of their own. ``delimiter``: between the cells of CSV. ``versions``:
    the names of columns which JSON objects of one batch all have, or all lack.
    SchemaMismatchError for a column that is not one of them, ValueRangeError for values that do not
    fit, DataError for a file that is not of the format.
    """
    try:
        match file_format:
            case FileFormat.CSV:
                yield from _read_csv(file, fields, delimiter)
            case FileFormat.JSON:
                yield from _read_json(file, fields, versions)
            case FileFormat.PARQUET:
                yield from parquet_file(file.raw).iter_batches(_PARQUET_ROWS)
            case FileFormat.ARROW:
                yield from _read_arrow(file)
    except _UNREADABLE as error:
        raise errors.DataError(f"{file.path} cannot be read as {file_format}: {error}") from error


def infer_fields(
    file: InputFile, file_format: FileFormat, delimiter: str = ","
) -> tuple[types.Field, ...]:
    """Return the columns that a file has; of CSV and JSON, as its first megabytes show them.

    None of an empty file. DataError for a file that is not of the format, or has values of several
    types in a column.
    """
    try:
        schema = _schema_of(file, file_format, delimiter)
    except _UNREADABLE as error:
        raise errors.DataError(f"{file.path} cannot be read as {file_format}: {error}") from error
    return tuple(
        types.Field(
            field.name, types.String() if isinstance(field.type, types.Void) else field.type
        )
        for field in arrow.fields_of(schema)
    )


def _type_of(name: str, values: Sequence[Any]) -> pa.DataType:
    """Return the type of all values under a name. DataError if they are of several types."""
    try:
        array = pa.array(values)
    except pa.ArrowException as error:
        raise errors.DataError(
            f"the values of {name!r} are of several types: {error}; create the table first"
        ) from error
    return _text_type(array.drop_null()) if pa.types.is_string(array.type) else array.type


def _text_type(texts: pa.Array) -> pa.DataType:
    """Return the type that all of some texts have: dates, times, or text."""
    for pattern, candidates in _MOMENTS:
        if not pc.all(pc.match_substring_regex(texts, pattern), min_count=1).as_py():
            continue
        for candidate in candidates:
            with suppress(pa.ArrowInvalid):
                return texts.cast(candidate).type
    return pa.string()


_MOMENTS = (
    (r"^\d{4}-\d\d-\d\d$", (pa.date32(),)),
    (r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d", (pa.timestamp("us"), pa.timestamp("us", "UTC"))),
)


def _schema_of(file: InputFile, file_format: FileFormat, delimiter: str) -> pa.Schema:
    match file_format:
        case FileFormat.CSV:
            # Arrow does not read a file without a header.
            if not file.stream.peek(1):
                return pa.schema([])
            return pa_csv.open_csv(
                file.stream,
                pa_csv.ReadOptions(block_size=_BLOCK),
                pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pa_csv.ConvertOptions(null_values=[""]),
            ).schema
        case FileFormat.JSON:
            _, objects = next(_json_blocks(file, float), (0, []))
            columns = _columns_of(objects).items()
            return pa.schema([(name, _type_of(name, values)) for name, values in columns])
        case FileFormat.PARQUET:
            return parquet_file(file.raw).schema_arrow
        case FileFormat.ARROW:
            return _arrow_reader(file).schema


# CSV


def _read_csv(
    file: InputFile, fields: Sequence[types.Field], delimiter: str
) -> Iterator[pa.RecordBatch]:
    names = next(csv.reader([file.first_line()], delimiter=delimiter), [])
    columns = _fields_of(file, names, fields)
    source = _WithEnd(file.stream)
    reader = pa_csv.open_csv(
        pa.PythonFile(source, "r"),
        pa_csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        pa_csv.ParseOptions(
            delimiter=delimiter,
            newlines_in_values=True,
            # A line of one cell that is NULL is empty.
            ignore_empty_lines=len(names) > 1,
        ),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    first = 2  # the header is a row of the file
    last = None
    for batch in reader:
        if batch.num_rows:
            last = batch.columns[-1][-1].as_py()
        converted = [parse_texts(*pair) for pair in zip(batch.columns, columns, strict=True)]
        yield _batch_of(columns, converted, f"{file.path}, row", first)
        first += batch.num_rows
    if last is not None and source.is_open_quote(last, delimiter):
        raise errors.DataError(
            f"{file.path}, row {first - 1} ends with a quote that is not closed: {last!r:.60}. "
            "Nothing was written"
        )


class _WithEnd:
    """A stream that remembers its end: two blocks, more than what Arrow takes for a row."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._blocks: deque[bytes] = deque(maxlen=3)

    def read(self, size: int = -1) -> bytes:
        """Read bytes, as a file does."""
        block: bytes = self._stream.read(size)
        if block:
            self._blocks.append(block)
        return block

    def close(self) -> None:
        """Leave the stream to who opened it."""

    def is_open_quote(self, value: str, delimiter: str) -> bool:
        """Return whether the last cell, with a value, is quoted and ends only with the file.

        Arrow takes that for a value. Such a cell is one quote and what the value is written as.
        """
        cell = b'"' + value.replace('"', '""').encode()
        end = b"".join(self._blocks)
        return any(end.endswith(sign + cell) for sign in (delimiter.encode(), b"\n", b"\r"))


def _fields_of(
    file: InputFile, names: Sequence[str], fields: Sequence[types.Field]
) -> list[types.Field]:
    """Return the fields of columns of a file. SchemaMismatchError for one that is not there."""
    by_name = {field.name.lower(): field for field in fields}
    unknown = [name for name in names if name.lower() not in by_name]
    if unknown:
        field_names = ", ".join(field.name for field in fields)
        raise errors.SchemaMismatchError(
            f"{file.path} has the column {unknown[0]!r}, and the table has only {field_names}: "
            "remove it from the file, or add it to the table (ALTER TABLE t ADD COLUMNS)"
        )
    return [by_name[name.lower()] for name in names]


# JSON


def _read_json(
    file: InputFile, fields: Sequence[types.Field], versions: Collection[str]
) -> Iterator[pa.RecordBatch]:
    has_decimals = any("DECIMAL" in str(field.type) for field in fields)
    for line, objects in _json_blocks(file, Decimal if has_decimals else _number):
        first = line
        for run in _runs(objects, versions):
            yield _json_batch(file, fields, run, first)
            first += len(run)


def _runs(
    objects: list[dict[str, Any]], versions: Collection[str]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the objects in runs that all have the same of some columns."""
    if not versions:
        yield objects
        return
    names = {name.lower() for name in versions}
    for _, run in groupby(objects, key=lambda item: names.intersection(map(str.lower, item))):
        yield list(run)


def _json_batch(
    file: InputFile,
    fields: Sequence[types.Field],
    objects: Sequence[dict[str, Any]],
    first: int,
) -> pa.RecordBatch:
    values = _columns_of(objects)
    if not values:
        return _batch_of_nothing(len(objects))
    columns = _fields_of(file, list(values), fields)
    converted = [parse_json(*pair) for pair in zip(values.values(), columns, strict=True)]
    return _batch_of(columns, converted, f"{file.path}, line", first)


def _number(text: str) -> float | Decimal:
    """Return a number as a float; exactly if it is too large for one."""
    number = float(text)
    return number if math.isfinite(number) else Decimal(text)


def _columns_of(objects: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of objects by name; what an object lacks is None."""
    names = dict.fromkeys(name for item in objects for name in item)
    return {name: [item.get(name) for item in objects] for name in names}


def _json_blocks(
    file: InputFile, number: Callable[[str], Any]
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the objects of some megabytes of lines, and the number of the first line.

    ``number`` makes numbers with a point of their text. A file that is one array of objects is one
    block.
    """
    line, rest, block = 1, b"", file.stream.read(_BLOCK)
    if block.lstrip().startswith(b"["):
        yield 1, _array_of(file, (block + file.stream.read()).decode(), number)
        return
    while block:
        following = file.stream.read(_BLOCK)
        lines = (rest + block).split(b"\n")
        # The last line of a file may have no end.
        rest = lines.pop() if following else b""
        if lines:
            yield line, _objects_of(file, line, lines, number)
        line += len(lines)
        block = following


def _array_of(file: InputFile, text: str, number: Callable[[str], Any]) -> list[dict[str, Any]]:
    try:
        return [_object(item) for item in json.loads(text, parse_float=number)]
    except ValueError as error:
        raise errors.DataError(f"{file.path} is not an array of JSON objects: {error}") from error


def _objects_of(
    file: InputFile, first: int, lines: Sequence[bytes], number: Callable[[str], Any]
) -> list[dict[str, Any]]:
    objects = []
    for line, text in enumerate(lines, first):
        try:
            if text.strip():
                objects.append(_object(json.loads(text, parse_float=number)))
        except ValueError as error:
            raise errors.DataError(
                f"{file.path}, line {line} is not a JSON object: {error}"
            ) from error
    return objects


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it is {json.dumps(value)[:40]}")
    return value


# Arrow


def _read_arrow(file: InputFile) -> Iterator[pa.RecordBatch]:
    reader = _arrow_reader(file)
    if isinstance(reader, pa.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


def _arrow_reader(file: InputFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    """Return the reader of a file of either form: with a footer (Feather), or as a stream."""
    if file.size is not None:
        try:
            return pa.ipc.open_file(file.raw)
        except pa.ArrowInvalid:
            file.raw.seek(0)
    return pa.ipc.open_stream(file.raw)


# Rows that cannot be read


def _batch_of(
    fields: Sequence[types.Field], converted: Sequence[Converted], place: str, first: int
) -> pa.RecordBatch:
    """Return columns as a batch. ValueRangeError that names the first bad rows.

    ``place``: the file, and what the numbers of its rows count; ``first``: that of the first row.
    """
    bad = sorted((value for _, values in converted for value in values), key=_row)
    if bad:
        problems = "; ".join(f"{place} {first + value.row}: {value}" for value in bad[:_NAMED])
        more = len(bad) - _NAMED
        others = f"; {more:,} more near by" if more > 0 else ""
        raise errors.ValueRangeError(f"{problems}{others}. Nothing was written")
    columns = [column for column, _ in converted]
    return pa.RecordBatch.from_arrays(columns, [field.name for field in fields])


def _batch_of_nothing(rows: int) -> pa.RecordBatch:
    """Return a batch of rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


def _row(value: BadValue) -> int:
    return value.row
