"""What a row of a table takes before there is one is about what rows take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import figures
from relstate.storage.schema import types as t
from relstate.storage.schema.arrow import arrow_type
from support.stores import StoreMaker

_EVERY_TYPE = """
    k BIGINT, b BOOLEAN, ti TINYINT, si SMALLINT, i INT, f FLOAT, d DOUBLE, de DECIMAL(12,2),
    big DECIMAL(38,0), s STRING, bi BINARY, da DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, t TIME,
    iv INTERVAL DAY TO SECOND, v VARIANT, a ARRAY<INT>, m MAP<STRING, INT>,
    st STRUCT<x: INT, y: STRING>"""


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ("k BIGINT, g INT, x DOUBLE, ts TIMESTAMP", ["k"]),
        ("k STRING, g INT, x DOUBLE, s STRING", ["k", "g"]),
    ],
)
def test_a_typical_row_takes_what_rows_take(
    make_store: StoreMaker, columns: str, key: list[str]
) -> None:
    """Within a tenth of the bytes of the file of 100,000 such rows."""
    store, count = make_store(vnode_count=16), 100_000
    store.create_table("r", columns, primary_key=key)
    definition = store.read_plan("r").open().encoding.definition
    numbers = np.arange(10**9, 10**9 + count)
    values = {
        column.field.name: _values(column.field.type, numbers)
        for column in definition.schema.columns
    }
    store.write("r", pa.table(values))

    estimate = figures.typical_row_bytes(definition, 16)

    segments = store.state.segments_of(definition.table_id)
    stored = sum(segment.record.size for segment in segments)
    assert estimate * count == pytest.approx(stored, rel=0.1)


def test_every_type_has_a_typical_value(make_store: StoreMaker) -> None:
    """Of none does a row fail to be encoded, and each column adds to its size."""
    store = make_store(vnode_count=16)
    store.create_table("r", _EVERY_TYPE, primary_key=["k"])
    definition = store.read_plan("r").open().encoding.definition
    store.create_table("key", "k BIGINT", primary_key=["k"])
    alone = store.read_plan("key").open().encoding.definition

    size = figures.typical_row_bytes(definition, 16)

    columns = len(definition.schema.columns) - 1
    assert size > figures.typical_row_bytes(alone, 16) + columns


def _values(data_type: t.DataType, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    if data_type == t.String():
        return pa.array([f"{number:016d}" for number in numbers])
    return pa.array(numbers).cast(arrow_type(data_type), safe=False)
