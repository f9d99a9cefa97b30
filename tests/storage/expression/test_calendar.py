"""The laws of dates and times: they are those of the calendar, at the session's offset from UTC."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from relstate.storage import TableSchema
from relstate.storage.expression.calendar import truncated
from relstate.storage.expression.column import ColumnValue
from relstate.storage.schema.ddl import parse_columns
from support.examples import Seeds

SCHEMA = TableSchema.build(parse_columns("k INT, ts TIMESTAMP"), ["k"])
OFFSETS = [0, 19_800, -12_600, 45_900, -1]
LENGTHS = {"day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
FIRST, LAST = datetime(1583, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("unit", LENGTHS)
def test_a_time_is_truncated_in_local_time(unit: str, offset: int, seeds: Seeds) -> None:
    """It is the start of the day, hour or minute at the offset, before 1970 too; NULL is NULL."""
    zone = timezone(timedelta(seconds=offset))
    seconds = int((LAST - FIRST).total_seconds())
    value = truncated(unit, ColumnValue.named("ts", SCHEMA), offset)
    for seed in seeds(5):
        chance = random.Random(seed)
        times = [
            FIRST + timedelta(seconds=chance.randrange(seconds), microseconds=chance.randrange(10))
            for _ in range(50)
        ]
        batch = pa.record_batch({"ts": pa.array([*times, None], pa.timestamp("us", "UTC"))})
        midnight = FIRST.replace(tzinfo=zone)
        starts = [time - (time - midnight) % LENGTHS[unit] for time in times]

        assert value.of(batch).to_pylist() == [*starts, None]
