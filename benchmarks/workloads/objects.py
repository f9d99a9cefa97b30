"""A store in a bucket: scans, commits, writers at once, and the requests that they make."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from multiprocessing import get_context
from statistics import median
from typing import Any

from relstate.storage import Location, ReadPlan, SegmentRecord, Store
from relstate.storage.log.entry import Entry
from relstate.storage.log.state import StoreState
from relstate.storage.segment.registry import registry

from .. import rows
from ..buckets import CountedEnvironment, bucket_server
from ..figure import Comparison, Figure, Samples
from ..link import limited_link
from ..turns import Run, in_turns, seconds
from ..workbench import Workbench, eighths, new_table, write

_BUCKET = "s3://bench"
_WRITERS = 8
# Of a turn: of one writer, and of each of several; fewer where each takes longer.
_COMMITS, _FEW_COMMITS = 20, 6
_ENTRY_BYTES = 700
_FETCHES_AT_ONCE = 8
# Of a network: 400 Mbit/s, and the time until the first byte of an answer of S3.
_LINK_BYTES, _DELAY = 50_000_000, 0.025


def objects(bench: Workbench) -> Iterator[Figure]:
    """Measure a store on a server of S3's protocol. Nothing without moto's server."""
    if find_spec("moto") is None or find_spec("obstore") is None:
        print("not measured: moto[server] or obstore is not installed", file=sys.stderr)
        return
    with bucket_server(bench.folder()) as options:
        yield from _scans(bench, options)
        yield _commit(bench, options)
        yield from _writers(bench, options, "writers", "", _COMMITS)
        port = int(options["endpoint"].rsplit(":", 1)[1])
        with limited_link(port, _LINK_BYTES, _DELAY) as link:
            limited = {**options, "endpoint": f"http://127.0.0.1:{link}"}
            case = f", {_DELAY * 1e3:.0f} ms per request"
            yield from _writers(bench, limited, "apart", case, _FEW_COMMITS)
    yield from _requests(bench)


def _location(bench: Workbench, options: Mapping[str, str], name: str) -> Location:
    """Return the location of a store, with a new, empty cache."""
    return Location(f"{_BUCKET}/{name}", {**options, "cache_folder": bench.folder()})


def _scans(bench: Workbench, options: Mapping[str, str]) -> Iterator[Figure]:
    """Measure scans of eight segments: all here, and none."""
    total = bench.size.rows // 5
    with Store.create(_location(bench, options, "scan")) as there, bench.store() as here:
        for store in (there, here):
            new_table(store, "t")
            for part in eighths(total):
                write(store, "t", rows.batches(part))
        warm = in_turns(
            seconds(lambda: _scan(there)), seconds(lambda: _scan(here)), bench.size.turns
        )
        records = [segment.record for segment in there.state.segments.values()]
    yield Figure(
        workload="object-store",
        case=f"scan from the cache, {total:,} rows in 8 segments",
        unit="M rows/s",
        samples=warm.rates(total / 1e6),
        comparison=Comparison.RATE,
        against="the same store in a folder",
        asked=0.95,
    )
    yield from _cold_scans(bench, options, "scan", records, "")
    with Store.create(_location(bench, options, "large")) as large:
        new_table(large, "t")
        for part in eighths(bench.size.rows):
            write(large, "t", rows.batches(part))
        large_records = [segment.record for segment in large.state.segments.values()]
    port = int(options["endpoint"].rsplit(":", 1)[1])
    with limited_link(port, _LINK_BYTES, _DELAY) as link:
        limited = {**options, "endpoint": f"http://127.0.0.1:{link}"}
        case = f", {_LINK_BYTES / 1e6:.0f} MB/s and {_DELAY * 1e3:.0f} ms per request"
        yield from _cold_scans(bench, limited, "scan", records, case)
        yield from _cold_scans(bench, limited, "large", large_records, case)


def _cold_scans(
    bench: Workbench,
    options: Mapping[str, str],
    name: str,
    records: Sequence[SegmentRecord],
    case: str,
) -> Iterator[Figure]:
    """Measure a scan that begins with an empty cache, and filling it, of a store that is open.

    ``name``: of the store; ``case``: what is said of the network.
    """
    bucket = _bare_bucket(options)
    keys = [f"{name}/segments/{record.name}.lmdb" for record in records]
    size = sum(bucket.head(key)["size"] for key in keys)

    def cold() -> float:
        with Store.open(_location(bench, options, name)) as store:
            return seconds(lambda: _scan(store))()

    def fetch() -> None:
        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            list(pool.map(lambda key: bucket.get(key).bytes(), keys))

    def fill() -> float:
        with Store.open(_location(bench, options, name)) as store:
            return seconds(lambda: _fill(store, records))()

    for what, ours, asked in (
        ("scan without a cache", cold, 0.7),
        ("segments into an empty cache, verified", fill, None),
    ):
        samples = in_turns(ours, seconds(fetch), bench.size.turns)
        yield Figure(
            workload="object-store",
            case=f"{what}, {size / 1e6:.0f} MB{case}",
            unit="MB/s",
            samples=samples.rates(size / 1e6),
            comparison=Comparison.RATE,
            against="the bare client that fetches the same objects, eight at once",
            asked=asked,
        )


def _scan(store: Store) -> int:
    return sum(batch.num_rows for batch in store.table("t").scan())


def _fill(store: Store, records: Sequence[SegmentRecord]) -> None:
    files = [registry.open(store.environment, record) for record in records]
    for file in files:
        file.contents  # noqa: B018  (waits for the whole)


def _bare_bucket(options: Mapping[str, str]) -> Any:
    from obstore.store import S3Store

    config: Any = dict(options)
    return S3Store("bench", config=config)


def _commit(bench: Workbench, options: Mapping[str, str]) -> Figure:
    """Measure the commit of one row, in milliseconds."""
    bucket, names = _bare_bucket(options), count()
    with Store.create(_location(bench, options, "commit")) as store:
        new_table(store, "small")

        def ours() -> None:
            store.write("small", [_row(next(names))])

        ours()
        (segment,) = (f"commit/segments/{name}.lmdb" for name in store.state.segments)
        content = bytes(bucket.get(segment).bytes())

        def bare() -> None:
            name = next(names)
            bucket.put(f"bare/{name}", content)
            bucket.put(f"bare/{name}.json", b"x" * _ENTRY_BYTES, mode="create", use_multipart=False)

        samples = in_turns(_typical(ours), _typical(bare), bench.size.turns)
    return Figure(
        workload="object-store",
        case="commit of 1 row",
        unit="ms",
        samples=samples.scaled(1e3),
        comparison=Comparison.TIME,
        against="two puts of the bare client: a segment of one row, and an entry, create-only",
        asked=1.5,
    )


def _typical(action: Callable[[], object]) -> Run:
    """Return a run that does ``action`` many times and measures the median of its seconds."""
    run = seconds(action)
    return lambda: median(run() for _ in range(_COMMITS))


def _writers(
    bench: Workbench, options: Mapping[str, str], name: str, case: str, commits: int
) -> Iterator[Figure]:
    """Measure eight processes that commit at once beside one, and the longest wait of a commit.

    ``name``: of their store; ``case``: what is said of the network; ``commits``: of each, per turn.
    """
    path = _location(bench, options, name)
    with Store.create(path) as store:
        new_table(store, "small")
    waits: list[float] = []
    with ProcessPoolExecutor(_WRITERS, get_context("spawn")) as pool:

        def rate(writers: int) -> tuple[float, float]:
            start = time.time() + 1.0
            results = [
                pool.submit(_commit_rows, path, number, start, commits) for number in range(writers)
            ]
            spans = [begin_end for result in results for begin_end in result.result()]
            longest = max(end - begin for begin, end in spans)
            span = max(end for _, end in spans) - min(begin for begin, _ in spans)
            return len(spans) / span, longest

        def ours() -> float:
            together, longest = rate(_WRITERS)
            waits.append(longest)
            return together

        samples = in_turns(ours, lambda: rate(1)[0], bench.size.turns)
    yield Figure(
        workload="object-store",
        case=f"{_WRITERS} writers at once{case}",
        unit="commits/s",
        samples=samples,
        comparison=Comparison.RATE,
        against="one writer",
        asked=0.5,
    )
    yield Figure(
        workload="object-store",
        case=f"the longest wait of a commit of {_WRITERS} writers{case}",
        unit="s",
        samples=Samples(tuple(waits[1:])),
        comparison=Comparison.ALONE,
        against="",
    )


def _commit_rows(
    path: Location, number: int, start: float, commits: int
) -> Sequence[tuple[float, float]]:
    """Commit rows one by one from a time on; return when each commit began and ended."""
    times = []
    with Store.open(path) as store:
        time.sleep(max(start - time.time(), 0))
        for key in range(commits):
            begin = time.time()
            store.write("small", [_row(number * commits + key)])
            times.append((begin, time.time()))
    return times


def _row(key: int) -> dict[str, object]:
    return {"k": key, "a": 0, "d": 0.0, "ts": None, "s": "thirteen char"}


def _with_segments(store: Store, count: int) -> StoreState:
    """Return the state of a store that also has so many copies of a segment."""
    state = store.state
    record = next(iter(state.segments.values())).record
    copies = (replace(record, name=f"{record.name}-{copy}") for copy in range(count))
    entry = Entry(
        commit_id="0" * 32,
        parent=state.commit_id,
        epoch=state.epoch + 1,
        time=state.time,
        started=state.time,
        operation="write",
        data_change=True,
        added=tuple(copies),
    )
    return state.apply(entry)


def _requests(bench: Workbench) -> Iterator[Figure]:
    """Count the requests of single operations, of a bucket in memory."""
    root, folder = Location("memory://requests/shop"), bench.folder()
    with Store.create("", environment=CountedEnvironment(root, folder)) as store:
        new_table(store, "small")
        while store.epoch % 32 != 1:
            write(store, "small", rows.batches(range(1)))
        environment = store.environment
        assert isinstance(environment, CountedEnvironment)
        table, state = store.table("small"), _with_segments(store, 1000)
        table.get(0)
        opened = CountedEnvironment(root, folder)
        counts = {
            "open after a checkpoint": (
                opened.taken(lambda: Store.open("", environment=opened).close()), 3
            ),
            "look for a newer epoch": (environment.taken(lambda: store.epoch), 1),
            "get from the cache": (environment.taken(lambda: table.get(0)), 1),
            f"plan a read of {len(state.segments)} segments": (
                environment.taken(lambda: ReadPlan.of(store.path, state, "small")), 0
            ),
            "commit of one segment": (
                environment.taken(lambda: write(store, "small", rows.batches(range(1)))), 4
            ),
        }  # fmt: skip
    for case, (requests, asked) in counts.items():
        yield Figure(
            workload="object-store",
            case=case,
            unit="requests",
            samples=Samples((float(requests),)),
            comparison=Comparison.ALONE,
            against="",
            asked=float(asked),
        )
