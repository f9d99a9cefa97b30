"""The year's flights as the stream of changes that they once were.

    when                                change   the row then
    a week before it is to leave        insert   its schedule
    it departs                          update   + aircraft, time and delay of departure
    it lands                            update   + time and delay of arrival, time in the air
    it was to leave, but is cancelled   delete

Promises: a change carries the whole row as it is from then on, and the moment of the change; all
changes are in the order of their moments, cut into files of `BATCH_DAYS` days each.
Does not know: who reads the stream.

The key is carrier, flight, origin and scheduled hour. It had to be looked at: a flight number may
leave an airport twice a day, and some do. All 336,776 flights of the year differ in it, and so do
they in no fewer columns of these.

The source lacks two moments, which decide only about the order of changes. A diverted flight (it
landed, elsewhere, without a delay) has no time in the air: six hours are assumed. 458 flights
departed and no landing is known: they stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEY = ("carrier", "flight", "origin", "time_hour")
COLUMNS = """
    carrier STRING, flight INT, origin STRING, time_hour TIMESTAMP, dest STRING, distance INT,
    sched_dep_time INT, sched_arr_time INT, tailnum STRING, dep_time INT, dep_delay INT,
    arr_time INT, arr_delay INT, air_time INT, status STRING, updated_at TIMESTAMP"""
CHANGES = f"op STRING, {COLUMNS}"

START = datetime(2012, 12, 25, tzinfo=UTC)  # when the first flights of the year are announced
LEAD = timedelta(days=7)
BATCH_DAYS = 3
DIVERTED_MINUTES = 6 * 60

_ANNOUNCED = ("dest", "distance", "sched_dep_time", "sched_arr_time")
_AT_DEPARTURE = ("tailnum", "dep_time", "dep_delay")
_AT_LANDING = ("arr_time", "arr_delay", "air_time")


def changes(flights: pa.Table) -> pa.Table:
    """Return every change of ``flights``, with the columns `CHANGES`, in the order they happened."""
    scheduled = _later(flights["time_hour"], flights["minute"])
    departed = _later(scheduled, flights["dep_delay"])
    landed = _later(departed, pc.fill_null(flights["air_time"], DIVERTED_MINUTES))
    cancelled = pc.is_null(flights["dep_time"])
    arrival = pc.if_else(pc.is_null(flights["arr_delay"]), "diverted", "landed")
    announced = pc.subtract(scheduled, pa.scalar(LEAD, pa.duration("us")))

    events = (
        _event(flights, "insert", announced, "scheduled"),
        _event(flights, "update", departed, "departed", _AT_DEPARTURE, ~cancelled),
    )
    return pa.concat_tables(events)
