"""Looking rows up by their keys in one process: one by one, and many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa

from relstate.storage import ReadPlan

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, eighths

_SINGLE = 20_000
_MANY = 100_000

Get = Callable[[bytes], object]


def get(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.get` of random keys that are there, in microseconds a call."""
    yield _get(bench, "one", "1 segment", asked=10)
    yield _get(bench, "eight", "8 segments", asked=25)


def get_rows(bench: Workbench) -> Iterator[Figure]:
    """Measure `Table.get_rows` of random keys that are there, in keys a second."""
    yield _get_rows(bench, "one", "1 segment")
    yield _get_rows(bench, "eight", "8 segments")


def _get(bench: Workbench, name: str, case: str, asked: float) -> Figure:
    table, plan = bench.filled.table(name), bench.filled.read_plan(name)
    keys = _random_keys(bench, name, _SINGLE)
    with bench.bare(name) as segments:
        bare = _where_they_are(segments, _full_keys(plan, keys))
        samples = in_turns(
            seconds(lambda: [table.get(key) for key in keys]),
            seconds(lambda: [call(key) for call, key in bare]),
            bench.size.turns,
        )
    return Figure(
        workload="get",
        case=case,
        unit="us",
        samples=samples.scaled(1e6 / len(keys)),
        comparison=Comparison.TIME,
        against="one bare LMDB get of the encoded key, from the segment that holds it",
        asked=asked,
    )


def _get_rows(bench: Workbench, name: str, case: str) -> Figure:
    table, plan = bench.filled.table(name), bench.filled.read_plan(name)
    keys = _random_keys(bench, name, _MANY)
    batch = pa.record_batch([pa.array(keys)], names=list(rows.PRIMARY_KEY))
    full_keys = sorted(_full_keys(plan, keys))
    with bench.bare(name) as segments:
        samples = in_turns(
            seconds(lambda: table.get_rows(batch)),
            seconds(lambda: [_get_many(segment, full_keys) for segment in segments]),
            bench.size.turns,
        )
    return Figure(
        workload="get-rows",
        case=f"{len(keys):,} keys, {case}",
        unit="M keys/s",
        samples=samples.rates(len(keys) / 1e6),
        comparison=Comparison.RATE,
        against="a bare getmulti from every segment of all keys, encoded and sorted beforehand",
        asked=0.3,
    )


def _random_keys(bench: Workbench, name: str, count: int) -> list[int]:
    """Return keys of rows that are in a table, in random order."""
    present = eighths(bench.size.rows)[0].stop if name == "one" else bench.size.rows
    picked = np.random.default_rng(0).integers(0, present, count)
    keys: list[int] = rows.keys_of(picked).tolist()
    return keys


def _full_keys(plan: ReadPlan, keys: Sequence[int]) -> list[bytes]:
    """Return keys as they stand in segments."""
    encoding = plan.open().encoding
    return [encoding.encode_key((key,)) for key in keys]


def _where_they_are(
    segments: Sequence[lmdb.Transaction], keys: Sequence[bytes]
) -> list[tuple[Get, bytes]]:
    """Return for every key the get of the segment that has it, and the key."""
    ascending = sorted(set(keys))
    holders = {key: segment.get for segment in segments for key, _ in _get_many(segment, ascending)}
    return [(holders[key], key) for key in keys]


def _get_many(segment: lmdb.Transaction, keys: Sequence[bytes]) -> list[Any]:
    """Return (key, value) of those keys that a segment has."""
    with segment.cursor() as cursor:
        return cursor.getmulti(keys)
