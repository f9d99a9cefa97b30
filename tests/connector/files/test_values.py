"""The laws of texts and JSON values as columns."""

from __future__ import annotations

import datetime
import io
import json
import math
from typing import Any

import pytest

from relstate.connector.files.file_format import FileFormat
from relstate.connector.files.reading import read_rows
from relstate.connector.files.row_file import InputFile
from relstate.storage import types
from relstate.storage.errors import ValueRangeError


def read(file_format: FileFormat, text: str, *fields: types.Field) -> list[dict[str, Any]]:
    """Return the rows of a text."""
    stream = io.BufferedReader(io.BytesIO(text.encode()))
    batches = read_rows(InputFile("-", stream, stream), file_format, fields)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e39"])
def test_a_number_that_is_too_large_is_refused(text: str) -> None:
    """It is not stored as infinite: of CSV, of JSON as a number and as a text."""
    field = types.Field("x", types.Float() if text == "1e39" else types.Double())
    cases = [
        (FileFormat.CSV, f"x\n1\n{text}\n"),
        (FileFormat.JSON, f'{{"x": 1}}\n{{"x": {text}}}\n'),
        (FileFormat.JSON, f'{{"x": "1"}}\n{{"x": {json.dumps(text)}}}\n'),
    ]
    for file_format, content in cases:
        with pytest.raises(ValueRangeError, match=f"is not a {field.type}, the type of"):
            read(file_format, content, field)


@pytest.mark.parametrize("data_type", [types.Float(), types.Double()])
def test_infinity_is_a_value(data_type: types.DataType) -> None:
    """Where it is written as such."""
    field = types.Field("x", data_type)
    expected = [{"x": math.inf}, {"x": -math.inf}, {"x": 1.5}]
    assert read(FileFormat.CSV, "x\ninf\n -Infinity\n1.5\n", field) == expected
    numbers = '{"x": Infinity}\n{"x": -Infinity}\n{"x": 1.5}\n'
    assert read(FileFormat.JSON, numbers, field) == expected


def test_a_closed_quote_at_the_end_of_csv_is_a_value() -> None:
    """With or without the end of a line, whatever is in it."""
    field = types.Field("x", types.String())
    for value in ("", "a", 'a"', '"', ',"', '\n"a', "a\n", '5" pipe'):
        cell = '"' + value.replace('"', '""') + '"'
        for end in ("", "\n", "\r\n"):
            assert read(FileFormat.CSV, f"x\n{cell}{end}", field) == [{"x": value}]
    assert read(FileFormat.CSV, 'x\n5" pipe\n', field) == [{"x": '5" pipe'}]


def test_a_time_of_day_is_no_part_of_a_date() -> None:
    """It would be lost; midnight, as other systems write dates, is none."""
    field = types.Field("d", types.Date())
    for text in ("2026-01-02 03:04:05", "2026-01-02T00:00:01", "2026-1-2 x"):
        for file_format, content in (
            (FileFormat.CSV, f"d\n2026-01-01\n{text}\n"),
            (FileFormat.JSON, f'{{"d": "2026-01-01"}}\n{{"d": "{text}"}}\n'),
        ):
            with pytest.raises(ValueRangeError, match="is not a DATE, the type of"):
                read(file_format, content, field)
    expected = [{"d": datetime.date(2026, 1, 2)}] * 3
    assert read(FileFormat.CSV, "d\n2026-01-02\n2026-1-2\n2026-01-02 00:00:00\n", field) == expected
