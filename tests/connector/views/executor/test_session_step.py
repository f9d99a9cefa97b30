"""Sessions: rows of a group whose intervals touch are one, however they come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relstate.connector.views.executor.changes import chunk_schema
from relstate.connector.views.executor.keyed_rows import row_fields
from relstate.connector.views.executor.session_step import SessionStep, sessions_of
from relstate.connector.views.plan.session import SessionRecompute, session_type
from relstate.connector.views.plan.stateless import Scan, ScanColumn
from relstate.storage import Op, types

END_OF_TIME = 2**63 - 1
moments = st.integers(-4, 12) | st.sampled_from([-(2**63), END_OF_TIME])
intervals = st.tuples(st.integers(0, 2), moments, moments).map(
    lambda row: (row[0], min(row[1:]), max(row[1:]))
)


def touching(rows: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return the session of each row, by joining those that touch until none does."""
    sessions = [{number} for number in range(len(rows))]

    def touch(left: int, right: int) -> bool:
        (left_group, start, end), (group, other_start, other_end) = rows[left], rows[right]
        return left_group == group and start <= other_end and other_start <= end

    for left in range(len(rows)):
        for right in range(left):
            if touch(left, right) and sessions[left] is not sessions[right]:
                joined = sessions[left] | sessions[right]
                for number in joined:
                    sessions[number] = joined
    return [
        (min(rows[number][1] for number in session), max(rows[number][2] for number in session))
        for session in sessions
    ]


@example([])
@example([(0, 1, 9), (0, 2, 3), (0, 5, 6), (1, 5, 6)])
@given(st.lists(intervals, max_size=12))
def test_rows_that_touch_have_one_session(rows: list[tuple[int, int, int]]) -> None:
    """Directly or by others, up to the ends of time; not those of another group."""
    columns = np.array(rows, np.int64).reshape(-1, 3).T

    starts, ends = sessions_of(*columns)

    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == touching(rows)


@pytest.mark.parametrize("moment", [types.Timestamp(), types.TimestampNtz()], ids=str)
def test_a_marker_has_no_session(moment: types.DataType) -> None:
    """It passes with its group; rows keep their columns and their order."""
    fields = (
        types.Field("g", types.String()),
        types.Field("start", moment, nullable=False),
        types.Field("end", moment, nullable=False),
    )
    session = types.Field("session", session_type(moment), nullable=False)
    columns_read = tuple(ScanColumn(field.name, field) for field in fields)
    scan = Scan(1, "t", columns_read, ("g", "start"))
    node = SessionRecompute(scan, ("g",), "start", "end", session)
    schema = chunk_schema(row_fields(node))
    op, group, number, *_ = schema
    rows = [
        (Op.INSERT, 1, 0, "b", 20, 30),
        (Op.DELETE, 0, None, "a", None, None),
        (Op.INSERT, 1, 1, "b", 10, 20),
    ]
    columns = [
        pa.array(values, pa.int64()).cast(field.type) if field.name != "g" else pa.array(values)
        for field, values in zip(schema, zip(*rows, strict=True), strict=True)
    ]
    assert (op.name, group.name, number.name) == tuple(schema.names[:3])

    result = SessionStep(node).run(pa.RecordBatch.from_arrays(columns, schema=schema))

    assert result.schema == chunk_schema(node.fields)
    assert result.column("g").to_pylist() == ["b", "a", "b"]
    sessions = result.column("session")
    for index, expected in enumerate(([10, None, 10], [30, None, 30])):
        assert sessions.field(index).cast(pa.int64()).to_pylist() == expected
