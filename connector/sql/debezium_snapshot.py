"""The order of rows of snapshots among Debezium's events: before every change that is streamed.

A row of a snapshot (op r) has the position in the log at which the snapshot began, or that of the
last event before it, or none (PostgreSQL's incremental snapshots). This position is no order:
a transaction that was open when PostgreSQL or Oracle began the snapshot has changes with lesser
positions, which the snapshot does not see. But a change that is streamed has the same state of its
row as a snapshot after it, or a later one. So rows of snapshots come before all changes of their
key, by negative numbers, or text that begins with '-'.

Promises: of two snapshots the later has the greater sequence, by the time of its row, and within
one second (of text: within one millisecond) by the position.
Does not know: how positions are read.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

_LEAST = -(1 << 63)
# A number has the seconds of the time and the last bits of the position, so many:
_POSITION_BITS = 31
_MOST_SECONDS = (1 << (63 - _POSITION_BITS)) - 1
# Without a position (of an incremental snapshot) a row comes last in its second.
_LAST_POSITION = (1 << _POSITION_BITS) - 1
_MOST = (1 << 62) - 1


def snapshot_number(time: Column, position: Column) -> Column:
    """Return a negative BIGINT for a row of a snapshot.

    ``time``: milliseconds since 1970, NULL where a flattened event does not have it; then the
    position orders snapshots, and a row without one comes last. ``position`` may be NULL.
    """
    seconds = f.least(f.greatest(f.floor(time / 1_000), f.lit(0)), f.lit(_MOST_SECONDS))
    part = f.coalesce(f.pmod(position, f.lit(1 << _POSITION_BITS)), f.lit(_LAST_POSITION))
    timed = seconds * (1 << _POSITION_BITS) + part
    untimed = f.coalesce(f.least(f.greatest(position, f.lit(0)), f.lit(_MOST)), f.lit(_MOST + 1))
    return f.coalesce(timed, untimed) + f.lit(_LEAST)


def snapshot_text(time: Column, position: Column) -> Column:
    """Return a text for a row of a snapshot: see `snapshot_number`."""
    milliseconds = f.lpad(f.coalesce(time, f.lit(0)).cast("string"), 20, "0")
    return f.concat_ws("/", f.concat(f.lit("-"), milliseconds), f.coalesce(position, f.lit("~")))
