"""How many bytes a row of a table takes, before there is one.

Promises: counted of a row that is encoded as a write encodes it, so that no size of the format is
repeated here.
Does not know: the rows that there will be: texts and binary values count as 16 bytes, arrays and
maps as two elements, numbers as of middle size.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ..log.table_definition import TableDefinition
from ..schema import types as t
from ..segment.page import NODE_HEADER
from ..table.encoding import encoding_of

_TEXT_BYTES = 16
_ELEMENTS = 2
_POINTER = 2  # of a page, to the node
_VALUES: dict[type[t.DataType], Any] = {
    t.Boolean: True,
    t.TinyInt: 100,
    t.SmallInt: 10_000,
    t.Int: 1_000_000,
    t.BigInt: 1_000_000_000,
    t.Float: 1.5,
    t.Double: 1.5,
    t.String: "x" * _TEXT_BYTES,
    t.Binary: b"x" * _TEXT_BYTES,
    t.Date: date(2030, 1, 1),
    t.Timestamp: datetime(2030, 1, 1, tzinfo=UTC),
    t.TimestampNtz: datetime(2030, 1, 1),
    t.Time: time(12),
    t.DayTimeInterval: timedelta(days=1),
    t.Variant: {"value": b"x" * _TEXT_BYTES, "metadata": b"\x01\x00\x00"},
}


def typical_row_bytes(definition: TableDefinition, vnode_count: int) -> int:
    """Return about how many bytes of a segment a row takes: its key, its value and their node."""
    columns, schema = definition.schema.columns, definition.schema.arrow_schema
    values = [
        pa.array([_value(c.field.type)], f.type) for c, f in zip(columns, schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(values, schema=schema)
    keys, rows = encoding_of(definition, vnode_count).encode(batch)
    return len(keys[0].as_py()) + len(rows[0].as_py()) + NODE_HEADER + _POINTER


def _value(data_type: t.DataType) -> Any:
    match data_type:
        case t.Decimal(precision, scale):
            return Decimal(10 ** (precision // 2)).scaleb(-scale)
        case t.Array(element):
            return [_value(element)] * _ELEMENTS
        case t.Map(key, value):
            return [(_value(key), _value(value))]
        case t.Struct(fields):
            return {field.name: _value(field.type) for field in fields}
    return _VALUES.get(type(data_type))
