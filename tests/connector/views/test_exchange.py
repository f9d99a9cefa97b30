"""Packets: what a task distributes itself reaches the unit to which Spark would have sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from relstate.connector.types import struct_of
from relstate.connector.views import exchange
from relstate.connector.views.exchange import PacketOutput, RowOutput
from relstate.connector.views.executor.changes import chunk_schema
from relstate.connector.views.frame import owner_expression
from relstate.connector.views.wire import TARGET, Received, control_rows, wire_fields
from relstate.storage import OP_COLUMN, types
from relstate.vnode import VnodeMapping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = (
    types.Field("i", types.Int()),
    types.Field("s", types.String()),
    types.Field("d", types.Double()),
    types.Field("a", types.Array(types.Int())),
)
ROWS = {
    OP_COLUMN: [1, 2, 1, 1, 2, 1, 1, 2],
    "i": [0, 1, 2, None, -5, 7, 7, 1 << 30],
    "s": ["", "a", None, "bc", "\u00e4", "a", "a", "xyz" * 20],
    "d": [0.0, -0.0, None, float("nan"), 1.5, -1.5, 1e300, 2.0],
    "a": [[1], None, [], [None, 2], [3], [4], [5, 6], [7]],
}
MAPPING = VnodeMapping.balanced(16, 5)


def chunk() -> pa.RecordBatch:
    """Return changes with values of several types."""
    return pa.RecordBatch.from_pydict(ROWS, chunk_schema(FIELDS))


def by_unit(output: PacketOutput, chunks: list[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """Return what the units receive of chunks: in each packet one batch."""
    received: dict[int, list[pa.RecordBatch]] = {}
    for batch in output.batches(chunks):
        target = batch.column(TARGET).to_pylist()[0]
        rows = Received.of(iter([batch]), FIELDS)
        assert rows.control == ()
        received.setdefault(target, []).append(rows.chunk)
    return received


@pytest.mark.parametrize("distribution", [("i",), ("s", "i"), ("d",)])
def test_a_row_is_in_the_packet_of_the_unit_that_spark_would_send_it_to(
    spark: SparkSession, distribution: tuple[str, ...]
) -> None:
    """For all kinds of values, NULL among them."""
    output = PacketOutput(FIELDS, distribution, MAPPING)
    rows = spark.createDataFrame(
        pa.Table.from_batches(RowOutput(FIELDS).batches([chunk()])),
        struct_of(wire_fields(FIELDS)),
    )
    owners = rows.selectExpr(owner_expression(MAPPING, distribution)).collect()
    assert len(set(owners)) > 1
    packets = by_unit(output, [chunk()])
    for unit in range(MAPPING.units):
        expected = chunk().filter(pa.array([owner == unit for (owner,) in owners]))
        parts = pa.Table.from_batches(packets.get(unit, []), expected.schema)
        # As texts: NaN is not equal to itself.
        assert str(parts.to_pydict()) == str(expected.to_pydict())


def test_small_chunks_share_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all rows arrive in their order, without a distribution in unit 0."""
    monkeypatch.setattr(exchange, "_PACKED_ROWS", 3 * len(chunk()))
    received = by_unit(PacketOutput(FIELDS, (), MAPPING), [chunk()] * 7)
    assert list(received) == [0]
    assert [len(part) for part in received[0]] == [24, 24, 8]
    assert by_unit(PacketOutput(FIELDS, ("i",), MAPPING), []) == {}


def test_a_packet_of_wide_rows_has_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """None has more bytes than one row of Spark may have, and each at least a row."""
    monkeypatch.setattr(exchange, "_PACKET_BYTES", chunk().nbytes // 3)
    received = by_unit(PacketOutput(FIELDS, (), MAPPING), [chunk()])
    assert [len(part) for part in received[0]] == [2, 2, 2, 2]
    monkeypatch.setattr(exchange, "_PACKET_BYTES", 1)
    received = by_unit(PacketOutput(FIELDS, (), MAPPING), [chunk()])
    assert [len(part) for part in received[0]] == [1] * 8
    assert str(pa.Table.from_batches(received[0]).to_pydict()) == str(ROWS)


def test_packets_and_reports_are_told_apart() -> None:
    """A task gets both as messages; a packet is a part of its changes."""
    output = PacketOutput(FIELDS, (), MAPPING)
    report = control_rows([3], b'{"a": 1}', output.schema)
    nothing = control_rows([4], b"", output.schema)
    received = Received.of(iter([report, *output.batches([chunk()]), nothing]), FIELDS)
    assert received.control == ((3, b'{"a": 1}'), (4, b""))
    assert received.messages == [b'{"a": 1}']
    assert str(received.chunk.to_pydict()) == str(ROWS)
