"""Times as numbers of microseconds since 1970, as Spark stores them, and back.

Promises: the numbers of a TIMESTAMP_NTZ do not depend on the time zone of the session, as those of
Spark's timestampdiff() do: it reads a local time of that zone, which lacks an hour each spring.
"""

from __future__ import annotations

from relstate.storage import types

EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"


def micros_text(time: str, data_type: types.DataType) -> str:
    """Return the number of a time, in Spark's SQL; ``data_type``: TIMESTAMP or TIMESTAMP_NTZ."""
    if isinstance(data_type, types.TimestampNtz):
        return length_text(f"({time}) - {EPOCH}")
    return f"unix_micros({time})"


def time_at(micros: str, data_type: types.DataType) -> str:
    """Return the time of a number, in Spark's SQL; ``data_type``: TIMESTAMP or TIMESTAMP_NTZ."""
    if isinstance(data_type, types.TimestampNtz):
        return f"timestampadd(MICROSECOND, {micros}, {EPOCH})"
    return f"timestamp_micros({micros})"


def length_text(interval: str) -> str:
    """Return how many microseconds an interval of days to seconds has, in Spark's SQL."""
    seconds = f"CAST(CAST({interval} AS INTERVAL SECOND) AS DECIMAL(20, 6))"
    return f"CAST({seconds} * 1000000 AS BIGINT)"
