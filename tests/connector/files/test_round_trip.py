"""The law of files of rows: what is written is read back as the same rows."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from relstate.connector.figures.rows import Rows
from relstate.connector.files.file_format import FileFormat, compression_of, format_of
from relstate.connector.files.reading import read_rows
from relstate.connector.files.row_file import InputFile, open_input, open_output
from relstate.connector.files.values import BadValue
from relstate.connector.files.writing import write_rows
from relstate.connector.row_json import json_values
from relstate.storage import types
from relstate.storage.errors import FilesystemError, OptionError
from relstate.storage.schema.arrow import arrow_schema
from support.datatypes import array_of, value_types, values_of

# A variant's text does not say which type its numbers have, and a NULL has no type at all.
_UNTYPED = (types.Variant, types.Void)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[types.DataType], list[list[Any]]]:
    """Return the types of some columns and the values of each."""
    data_types = draw(st.lists(value_types(), min_size=1, max_size=3))
    count = draw(st.integers(0, 4))
    rows = [draw(st.lists(values_of(t), min_size=count, max_size=count)) for t in data_types]
    return data_types, rows


@pytest.mark.parametrize("file_format", list(FileFormat))
@given(columns())
def test_what_is_written_is_read_back(
    file_format: FileFormat, case: tuple[list[types.DataType], list[list[Any]]]
) -> None:
    """Of every type and format, NULL and the empty text told apart."""
    data_types, values = case
    assume(not any(holds(t, _UNTYPED) for t in data_types))
    # Parquet has no struct without fields.
    assume(file_format is not FileFormat.PARQUET or not any(map(is_hollow, data_types)))
    fields = [types.Field(f"c{n}", data_type) for n, data_type in enumerate(data_types)]
    arrays = [array_of(*pair) for pair in zip(data_types, values, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))
    rows = Rows(tuple(f.name for f in fields), tuple(data_types), iter([batch]))

    sink = pa.BufferOutputStream()
    write_rows(rows, sink, file_format, lambda _: None)
    content = sink.getvalue().to_pybytes()
    file = InputFile("a file", io.BufferedReader(io.BytesIO(content)), pa.BufferReader(content))
    read = list(read_rows(file, file_format, fields))

    for number, field in enumerate(fields):
        expected = json_values(batch.column(number), field.type)
        assert [v for b in read for v in shown(b, field)] == expected


def shown(batch: pa.RecordBatch, field: types.Field) -> list[Any]:
    """Return the values of a column of a batch as JSON; without the column there are NULLs."""
    if field.name not in batch.schema.names:
        return [None] * batch.num_rows
    return json_values(batch.column(field.name), field.type)


def holds(data_type: types.DataType, sought: tuple[type, ...]) -> bool:
    """Return whether a type is one of some, or has one inside."""
    return isinstance(data_type, sought) or any(holds(part, sought) for part in parts(data_type))


def is_hollow(data_type: types.DataType) -> bool:
    """Return whether a type is a struct without fields, or has one inside."""
    hollow = isinstance(data_type, types.Struct) and not data_type.fields
    return hollow or any(map(is_hollow, parts(data_type)))


def parts(data_type: types.DataType) -> list[types.DataType]:
    """Return the types directly inside a type."""
    match data_type:
        case types.Array(element, _):
            return [element]
        case types.Map(key, value, _):
            return [key, value]
        case types.Struct(fields):
            return [field.type for field in fields]
    return []


@pytest.mark.parametrize(
    ("name", "file_format", "compression"),
    [
        ("a.csv", FileFormat.CSV, None),
        ("x/A.CSV.GZ", FileFormat.CSV, "gzip"),
        ("a.b.jsonl.zst", FileFormat.JSON, "zstd"),
        ("a.ndjson", FileFormat.JSON, None),
        ("a.parquet", FileFormat.PARQUET, None),
        ("a.feather", FileFormat.ARROW, None),
    ],
)
def test_a_name_says_the_format(
    name: str, file_format: FileFormat, compression: str | None
) -> None:
    """By its end, in any case."""
    assert (format_of(name), compression_of(name)) == (file_format, compression)


@pytest.mark.parametrize("name", ["a", "a.txt", "csv", "a.gz", "a.parquet.gz"])
def test_other_names_say_none(name: str) -> None:
    """The error names them."""
    with pytest.raises(OptionError, match=name):
        format_of(name)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """An error in the block leaves what was there before, and nothing else."""
    path = tmp_path / "a.csv.gz"
    with open_output(str(path)) as stream:
        stream.write(b"whole")
    with pytest.raises(TypeError), open_output(str(path)) as stream:
        stream.write(object())

    with open_input(str(path)) as file:
        assert file.stream.read() == b"whole"
        assert file.position == file.size == path.stat().st_size
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error names the file as it was given, and the reason."""
    path = tmp_path / "nothing" / "a.csv"
    with (
        pytest.raises(FilesystemError, match=f"^{path}: cannot write this file: No such file"),
        open_output(str(path)),
    ):
        pass
    with (
        pytest.raises(FilesystemError, match=f"^{tmp_path}: .*: Is a directory"),
        open_output(str(tmp_path)),
    ):
        pass


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    """Only files are replaced; with devices, such as /dev/null, it is as with pipes."""
    link, pipe = tmp_path / "link.csv", tmp_path / "pipe.csv"
    link.symlink_to(tmp_path / "a.csv")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (link, pipe):
        with open_output(str(path)) as stream:
            stream.write(b"rows")
    assert os.read(reader, 100) == b"rows"
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert link.read_bytes() == b"rows"
    with pytest.raises(TypeError), open_output(str(pipe)) as stream:
        stream.write(object())
    assert pipe.is_fifo()
    os.close(reader)


def test_a_bad_value_is_said_to_be_what_it_is_not() -> None:
    """An object with another field is not answered by asking for an object."""
    struct = types.Struct((types.Field("a", types.Int()),))
    assert str(BadValue(0, '{"x": 1}', types.Field("s", struct))) == (
        "'{\"x\": 1}' is not a STRUCT<a: INT>, the type of the column 's'; write it as a JSON "
        "object with values of these fields only"
    )
    assert "'x' is not an INT, " in str(BadValue(0, "x", types.Field("n", types.Int())))
