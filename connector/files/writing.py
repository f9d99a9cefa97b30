"""Rows as a file: CSV, JSON lines, Parquet or Arrow.

Promises: one batch is in memory at a time; `reading` reads the file back as the same rows.
Does not know: tables, or where the file is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from relstate.connector.figures.rows import Rows
from relstate.connector.row_json import json_rows
from relstate.storage import arrow, types

from .file_format import FileFormat
from .row_file import parquet_writer
from .values import texts_of

_Write = Callable[[pa.RecordBatch], None]


def write_rows(
    rows: Rows, stream: Any, file_format: FileFormat, progress: Callable[[int], None]
) -> int:
    """Write rows to an open file and return how many; ``progress`` takes how many are written.

    The errors of reading them, and OSError.
    """
    written = 0
    with _writer(rows, stream, file_format) as write:
        for batch in rows.batches:
            write(batch)
            written += batch.num_rows
            progress(written)
    return written


@contextmanager
def _writer(rows: Rows, stream: Any, file_format: FileFormat) -> Iterator[_Write]:
    """Yield what writes a batch of the rows."""
    fields = [types.Field(*pair) for pair in zip(rows.names, rows.types, strict=True)]
    schema = arrow.arrow_schema(fields)
    match file_format:
        case FileFormat.CSV:
            with _csv_writer(fields, stream) as write:
                yield write
        case FileFormat.JSON:
            yield lambda batch: stream.write(_lines(batch, rows))
        case FileFormat.PARQUET:
            with parquet_writer(stream, schema) as writer:
                yield lambda batch: writer.write_batch(batch.cast(schema))
        case FileFormat.ARROW:
            with pa.ipc.new_stream(stream, schema) as writer:
                yield lambda batch: writer.write_batch(batch.cast(schema))


@contextmanager
def _csv_writer(fields: list[types.Field], stream: Any) -> Iterator[_Write]:
    empty = [texts_of(pa.array([], arrow.arrow_type(field.type)), field) for field in fields]
    names = [field.name for field in fields]
    schema = pa.RecordBatch.from_arrays(empty, names).schema
    with pa_csv.CSVWriter(stream, schema) as writer:

        def write(batch: pa.RecordBatch) -> None:
            columns = [texts_of(*pair) for pair in zip(batch.columns, fields, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))

        yield write


def _lines(batch: pa.RecordBatch, rows: Rows) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False) for row in json_rows(batch, rows.types))
    return "".join(f"{line}\n" for line in lines).encode()
