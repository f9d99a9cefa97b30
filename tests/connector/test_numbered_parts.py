"""The laws of jobs in numbered parts: each part counts once, or nothing does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from relstate.connector.sink.numbered_parts import PartsTask, received_segments
from relstate.connector.task_report import TaskReport
from relstate.storage import SegmentRecord, errors


def _part(number: int) -> tuple[SegmentRecord, ...]:
    return (SegmentRecord(f"job-{number}", number, "0" * 16, ()),)


def _reports(*numbers: int) -> list[TaskReport]:
    batch = pa.record_batch({"id": pa.array(numbers, pa.int64())})
    reports = PartsTask(_part)(iter([batch]))
    return [TaskReport.from_json(row["report"]) for out in reports for row in out.to_pylist()]


def test_segments_are_in_the_order_of_the_parts() -> None:
    """Whatever the order in which the tasks end."""
    names = [segment.name for segment in received_segments(_reports(2, 0, 1), 3)]

    assert names == ["job-0", "job-1", "job-2"]


@pytest.mark.parametrize("numbers", [(), (0, 2), (0, 1, 1, 2), (0, 1, 2, 3)])
def test_a_part_that_is_missing_or_repeated_is_an_error(numbers: tuple[int, ...]) -> None:
    """A segment that is committed twice or not at all would change rows."""
    with pytest.raises(errors.LostMessageError, match="of 3; nothing was committed"):
        received_segments(_reports(*numbers), 3)
