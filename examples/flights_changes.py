"""The year's flights as the stream of changes that they once were.

    when                                   change   the row from then on
    a week before a flight is to leave     insert   its schedule
    it departs                             update   and aircraft, time and delay of departure
    it lands                               update   and time and delay of arrival, time in the air
    it was to leave, but was cancelled     delete

Promises: a change carries the whole row as it is from then on, and its moment as ``updated_at``;
changes are ordered by their moments; those before a day are one file, the history, and those after
it are cut into files of a day each, one per micro-batch.
Does not know: who reads the stream.

The key is carrier, flight number, origin and scheduled hour. It is unique: carrier and flight
number name only 5,725 of the 336,776 flights, since a flight leaves day after day. With the
scheduled hour they name every flight of the year; the origin keeps it unique should one number
leave two airports within an hour. A test holds it.

The source does not have every moment. A diverted flight (it landed, but has no delay) has no time
in the air: six hours are taken, which decides only about the order of changes. For 458 flights
that departed no landing is known: they stay as they are.
"""

# pyarrow makes the functions of `compute` when it is imported: pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEY = ("carrier", "flight", "origin", "time_hour")
SCHEDULE = ("dest", "distance", "sched_dep_time", "sched_arr_time")
DEPARTURE = ("tailnum", "dep_time", "dep_delay")
LANDING = ("arr_time", "arr_delay", "air_time")
COLUMNS = """
    carrier STRING, flight INT, origin STRING, time_hour TIMESTAMP,
    dest STRING, distance INT, sched_dep_time INT, sched_arr_time INT,
    tailnum STRING, dep_time INT, dep_delay INT,
    arr_time INT, arr_delay INT, air_time INT,
    status STRING, updated_at TIMESTAMP"""
CHANGE_COLUMNS = f"op STRING, {COLUMNS}"

START = datetime(2012, 12, 25, tzinfo=UTC)  # the first flight of the year leaves a week later
STREAM_DAYS = 400  # more than there are until the last landing
DAY = timedelta(days=1)
LEAD_DAYS = 7
DIVERTED_MINUTES = 6 * 60


def changes(flights: pa.Table) -> pa.Table:
    """Return every change of ``flights``, in order, with the columns of `CHANGE_COLUMNS`."""
    scheduled = _later(flights["time_hour"], flights["minute"])
    announced = pc.subtract(scheduled, timedelta(days=LEAD_DAYS))
    departed = _later(scheduled, flights["dep_delay"])
    landed = _later(departed, pc.fill_null(flights["air_time"], DIVERTED_MINUTES))
    is_cancelled = pc.is_null(flights["dep_time"])
    is_landed = pc.is_valid(flights["arr_time"])
    arrival = pc.if_else(pc.is_valid(flights["arr_delay"]), "landed", "diverted")

    announcement = flights.select([*KEY, *SCHEDULE])
    departure = flights.select([*KEY, *SCHEDULE, *DEPARTURE])
    landing = flights.select([*KEY, *SCHEDULE, *DEPARTURE, *LANDING])
    stream = (
        _changed("insert", announcement, "scheduled", announced),
        _changed("update", departure, "departed", departed).filter(pc.invert(is_cancelled)),
        _changed("update", landing, arrival, landed).filter(is_landed),
        _changed("delete", announcement, "cancelled", scheduled).filter(is_cancelled),
    )
    # What a change does not know yet, its table lacks; here it becomes null.
    whole = pa.concat_tables(stream, promote_options="default")
    return whole.select(_names()).sort_by("updated_at")


def write(
    flights: pa.Table, history: Path, folder: Path, since: datetime, days: int = STREAM_DAYS
) -> datetime:
    """Write the changes before ``since`` as one file, those of ``days`` days as files in a folder.

    Return until when the files cover the changes. A file that is there stays: the same changes
    make the same file, so a replay that was broken off, or was to be shorter, goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    days_to_stream = min(days, STREAM_DAYS)
    announced = pc.less(flights["time_hour"], since + (days_to_stream + LEAD_DAYS) * DAY)
    stream = changes(flights.filter(announced))
    passed = pc.days_between(since, stream["updated_at"]).to_numpy()
    _write_file(stream.slice(0, np.searchsorted(passed, 0)), history, since)
    for day in range(min(days_to_stream, int(passed[-1]) + 1)):
        first, end = np.searchsorted(passed, [day, day + 1])
        begin = since + day * DAY
        _write_file(stream.slice(first, end - first), folder / f"{begin:%Y-%m-%d}.parquet", begin)
    return max(map(end_of, folder.glob("*.parquet")))


def end_of(file: Path) -> datetime:
    """Return the moment before which the changes of ``file`` happened."""
    return datetime.strptime(f"{file.stem}Z", "%Y-%m-%d%z") + DAY


def batch_end(moment: datetime) -> datetime:
    """Return the moment at which the day of a change, and so its micro-batch, ends."""
    return START + ((moment - START) // DAY + 1) * DAY


def _write_file(stream: pa.Table, file: Path, moment: datetime) -> None:
    """Write one file, whole or not at all: Spark sees no name that begins with a dot."""
    if file.exists():
        return
    unfinished = file.with_name(f".{file.name}")
    pq.write_table(stream, unfinished)
    # Spark takes files in the order of their modification times.
    os.utime(unfinished, times=(moment.timestamp(), moment.timestamp()))
    unfinished.rename(file)


def _changed(op: str, rows: pa.Table, status: str | pa.Array, moment: pa.ChunkedArray) -> pa.Table:
    if isinstance(status, str):
        status = pa.repeat(status, rows.num_rows)
    changed = rows.append_column("status", status).append_column("updated_at", moment)
    return changed.append_column("op", pa.repeat(op, rows.num_rows))


def _later(moment: pa.ChunkedArray, minutes: pa.ChunkedArray) -> pa.ChunkedArray:
    microseconds = pc.multiply(minutes.cast(pa.int64()), 60_000_000)
    return pc.add(moment, microseconds.cast(pa.duration("us")))


def _names() -> list[str]:
    return ["op", *KEY, *SCHEDULE, *DEPARTURE, *LANDING, "status", "updated_at"]
