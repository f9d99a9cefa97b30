"""The tables that views are measured over: flights, and the airports they leave from.

The columns of a flight follow from its index and a version, so that a change is another version
of the same index. Promises: the same rows and changes whenever they are made again.
Does not know: views.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.storage import Kind, Proposal, Store

AIRPORTS = 300
CARRIERS = 15
# Of an airport so many others are reached: 6,000 routes in all.
_DESTINATIONS = 20
# A year of departures.
_SECONDS = 365 * 24 * 3600
_FIRST_SECOND = 1_704_067_200
_BATCH_ROWS = 1 << 17
# A prime: steps of this many indices visit each index once before any is visited again.
_STEP = 982_451_653

SCHEMA = pa.schema(
    [
        pa.field("flight", pa.int64(), nullable=False),
        pa.field("carrier", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("destination", pa.string()),
        pa.field("departure", pa.timestamp("us", tz="UTC")),
        pa.field("delay", pa.int32()),
    ]
)
_COLUMNS = (
    "flight BIGINT NOT NULL, carrier STRING, origin STRING, destination STRING, "
    "departure TIMESTAMP, delay INT"
)
_AIRPORT_COLUMNS = "airport STRING NOT NULL, city STRING, elevation INT"
_AIRPORT_NAMES = pa.array([f"A{number:03}" for number in range(AIRPORTS)])
_CARRIER_NAMES = pa.array([f"C{number:02}" for number in range(CARRIERS)])

Indices = NDArray[np.int64]


def fill(store: Store, count: int) -> None:
    """Create both tables; ``count`` flights are there as one epoch, and compacted."""
    store.create_table("airports", _AIRPORT_COLUMNS, primary_key=["airport"])
    store.write("airports", airports())
    store.create_table("flights", _COLUMNS, primary_key=["flight"])
    writer, started = store.jobs.write_target("flights").open(), store.environment.now()
    for batch in batches(range(count)):
        writer.write(batch)
    store.jobs.commit(Proposal(operation="write", started=started, segments=writer.finish()))
    store.compact("flights")


def airports() -> pa.RecordBatch:
    """Return all airports but every tenth, from which flights leave all the same."""
    known = [number for number in range(AIRPORTS) if number % 10]
    return pa.record_batch(
        {
            "airport": _AIRPORT_NAMES.take(pa.array(known)),
            "city": [f"city {number}" for number in known],
            "elevation": pa.array(known, pa.int32()),
        }
    )


def batches(indices: range) -> Iterator[pa.RecordBatch]:
    """Yield the first version of the flights with these indices."""
    for start in range(indices.start, indices.stop, _BATCH_ROWS):
        stop = min(start + _BATCH_ROWS, indices.stop)
        yield flights(np.arange(start, stop, dtype=np.int64), 0)


def flights(indices: Indices, version: int) -> pa.RecordBatch:
    """Return a version of the flights with these indices: what changes is the delay."""
    scattered = mixed_bits(indices)
    origins = (scattered % AIRPORTS).astype(np.int64)
    hops = (scattered >> np.uint64(10)) % _DESTINATIONS
    carriers = ((scattered >> np.uint64(20)) % CARRIERS).astype(np.int64)
    seconds = ((scattered >> np.uint64(30)) % _SECONDS).astype(np.int64)
    delays = (mixed_bits(indices + version * 7919) % 1500).astype(np.int32) // 3 - 30
    return pa.RecordBatch.from_arrays(
        [
            pa.array(indices),
            _CARRIER_NAMES.take(pa.array(carriers)),
            _AIRPORT_NAMES.take(pa.array(origins)),
            _AIRPORT_NAMES.take(pa.array((origins + 1 + hops.astype(np.int64)) % AIRPORTS)),
            pa.array((_FIRST_SECOND + seconds) * 1_000_000).cast(SCHEMA.field("departure").type),
            pa.array(delays),
        ],
        schema=SCHEMA,
    )


class Changes:
    """Changes of a filled table, epoch by epoch: no flight is changed twice before all have been.

    Of ten changed rows six are updates, two inserts and two deletes.
    """

    def __init__(self, count: int, bad_every: int = 0) -> None:
        """``count``: of the flights there are.

        One of ``bad_every`` changed rows is bad (`with_bad_rows`); with 0 none is.
        """
        self._count = count
        self._bad_every = bad_every
        self._next = count
        self._place = 0
        self._version = 0

    def commit(self, store: Store, count: int) -> int:
        """Commit this many changed rows as one epoch and return it."""
        started = store.environment.now()
        batch, kinds = self._changed(count)
        writer = store.jobs.write_target("flights").open()
        writer.write(batch, kinds)
        proposal = Proposal(operation="write", started=started, segments=writer.finish())
        return store.jobs.commit(proposal).epoch

    def _changed(self, count: int) -> tuple[pa.RecordBatch, NDArray[np.uint8]]:
        inserts, deletes = count // 5, count // 5
        old = count - inserts
        places = np.arange(self._place, self._place + old, dtype=np.int64)
        indices = np.append(
            places * (_STEP % self._count) % self._count,
            np.arange(self._next, self._next + inserts),
        )
        self._place, self._next = self._place + old, self._next + inserts
        self._version += 1
        kinds = np.full(count, Kind.PUT, np.uint8)
        kinds[:deletes] = Kind.DELETE
        batch = flights(indices, self._version)
        return (with_bad_rows(batch, self._bad_every) if self._bad_every else batch), kinds


def with_bad_rows(batch: pa.RecordBatch, every: int) -> pa.RecordBatch:
    """Return flights of which one of so many is bad, the last of each.

    By turns its delay is -31 or does not fit 16 bits, its carrier has no number, or its origin is
    unknown.
    """
    places = np.arange(every - 1, batch.num_rows, every)
    turns = places // every % 4
    delay = np.array(batch.column("delay"))
    delay[places[turns == 0]], delay[places[turns == 1]] = -31, 100_000
    is_bad = np.zeros((2, batch.num_rows), np.bool_)
    for column, turn in enumerate((2, 3)):
        is_bad[column, places[turns == turn]] = True
    carrier = pc.if_else(pa.array(is_bad[0]), "none", batch.column("carrier"))
    origin = pc.if_else(pa.array(is_bad[1]), None, batch.column("origin"))
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {"delay": pa.array(delay), "carrier": carrier, "origin": origin}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def mixed_bits(indices: Indices) -> NDArray[np.uint64]:
    """Return numbers in which all bits of the indices are mixed: the steps of SplitMix64."""
    mixed = indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
