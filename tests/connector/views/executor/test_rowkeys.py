"""The keys of rows are bytes that say what is equal, and values as a state gives them back."""

from __future__ import annotations

import pyarrow as pa

from relstate.connector.views.executor.rowkeys import RowKeys
from relstate.connector.views.plan.node import Order
from relstate.storage import arrow, types

NAN = float("nan")
POINT = types.Struct((types.Field("x", types.Float()),))
FIELDS = (
    types.Field("d", types.Date()),
    types.Field("f", types.Double()),
    types.Field("a", types.Array(types.Double())),
    types.Field("p", POINT),
    types.Field("v", types.Double()),
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"d": None, "f": -0.0, "a": [-0.0, None], "p": {"x": -0.0}, "v": -0.0},
        {"d": None, "f": 0.0, "a": [0.0, None], "p": {"x": 0.0}, "v": 1.0},
        {"d": None, "f": None, "a": None, "p": None, "v": NAN},
    ],
    arrow.arrow_schema(FIELDS),
)


def test_equal_keys_are_equal_bytes() -> None:
    """-0 and 0 are one key, NULL is another, whatever the values are."""
    keys = RowKeys(FIELDS, [Order("f"), Order("a"), Order("p")]).encode(ROWS)

    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_normal_rows_are_as_a_state_gives_them_back() -> None:
    """Floats of the key, in arrays and structs too, lose what the key loses; values do not."""
    normal = RowKeys(FIELDS, [Order("f", True), Order("a"), Order("p")]).normal(ROWS)

    assert normal.schema == ROWS.schema
    assert "-0.0" not in repr(normal.select(["f", "a", "p"]).to_pylist())
    assert repr(normal.column("v").to_pylist()) == repr(ROWS.column("v").to_pylist())
    assert normal.column("f").to_pylist() == [0.0, 0.0, None]


def test_a_key_is_described_whatever_it_holds() -> None:
    """An error can name a date that Python has not."""
    late = pa.array([5_000_000], pa.int32()).cast(pa.date32())
    rows = pa.RecordBatch.from_arrays([late], names=["d"])

    assert RowKeys(FIELDS, [Order("d")]).described(rows, 0).startswith("d = ")
