"""The tables of docs/scaling.md, printed as they are measured."""

from __future__ import annotations

import gc
import pickle
import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from relstate.storage.log.entry import Entry
from relstate.storage.log.history import EntryCache
from relstate.storage.log.live_segments import file_names
from relstate.storage.log.log import Log
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.state import StoreState
from relstate.storage.log.table_segments import select
from relstate.storage.maintenance.components import recent_components
from relstate.storage.maintenance.policy import automatic
from relstate.storage.paths import checkpoint_path
from relstate.storage.read_plan import ReadPlan
from relstate.storage.table.rangetest import RangeTest

from .bucket import SimulatedBucket
from .segments import KEYS, PREFIX, SHARDS, TABLE, VNODES, full_key, spread, unsorted
from .simulated_time import SimulatedTime
from .table_commits import Writer, merge, new_store, with_data, write

TB = 10**12


def seconds_of(work: Callable[[], object], times: int = 3) -> float:
    """Return the least processor time of several runs."""
    durations = []
    for _ in range(times):
        started = time.process_time()
        work()
        durations.append(time.process_time() - started)
    return min(durations)


def _print_head(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def sizes(tables: Sequence[float] = (1, 10, 100)) -> None:
    """Print what the state costs of tables of so many TB."""
    _print_head(
        "table", "segments", "first checkpoint", "open", "downloaded", "memory", "apply", "choose"
    )
    for terabytes in tables:
        _print_size(terabytes)


def _print_size(terabytes: float) -> None:
    """Print the costs of one size; the first checkpoint is that of a load of the whole table."""
    environment = SimulatedBucket(SimulatedTime())
    log, empty = new_store(environment)
    state = with_data(environment, empty, round(terabytes * TB))
    count = len(state.segments)
    started = time.process_time()
    log.folding.put_checkpoint(state)
    written = time.process_time() - started
    files = sum(map(len, environment.files.values()))
    del state, log, empty
    gc.collect()
    environment.requests.clear()
    started = time.process_time()
    state = Log(environment, EntryCache(), ManifestCache()).load()
    opened = time.process_time() - started
    downloaded = environment.requests["get bytes"]
    memory = _memory_of(lambda: Log(environment, EntryCache(), ManifestCache()).load())
    apply = seconds_of(lambda: _commit_without_log(environment, state))
    grown = state
    for _ in range(8):
        grown = _commit_without_log(environment, grown)
    choose = seconds_of(lambda: list(map(automatic, recent_components(grown, {TABLE}))))
    print(
        f"| {terabytes} TB | {count:,} | {files / 1e6:,.0f} MB, {written:.1f} s "
        f"| {1e3 * opened:,.0f} ms | {downloaded / 1e3:,.0f} KB | {memory / 1e6:,.1f} MB "
        f"| {1e3 * apply:,.1f} ms | {1e3 * choose:,.1f} ms |",
        flush=True,
    )


def reads(tables: Sequence[float] = (1, 10, 100)) -> None:
    """Print what it takes to find the files of reads of tables of so many TB."""
    _print_head(
        "table", "read", "manifests", "downloaded", "time", "memory", "files", "what travels"
    )
    for terabytes in tables:
        environment = SimulatedBucket(SimulatedTime())
        log, empty = new_store(environment)
        log.folding.put_checkpoint(with_data(environment, empty, round(terabytes * TB)))
        del log, empty
        gc.collect()
        _print_reads(environment, terabytes)


def _print_reads(environment: SimulatedBucket, terabytes: float) -> None:
    """Print the costs of some reads of one table, each by a process that has read nothing else."""

    def plan(state: StoreState) -> ReadPlan:
        planned = ReadPlan.of("s3://bucket/store", state, "t")
        assert planned.stored_bytes
        assert len(planned.partitions(VNODES)) == VNODES
        return planned

    def files(
        ranges: Sequence[tuple[bytes, bytes]],
    ) -> Callable[[StoreState], Sequence[SequencedSegment]]:
        test = RangeTest.of(ranges, PREFIX, SHARDS)
        return lambda state: select(state.segments_of(TABLE), TABLE, test, test.shards)

    key, prefix = full_key(77, KEYS // 3), full_key(77, KEYS // 3)[:-7]
    works: dict[str, Callable[[StoreState], ReadPlan | Sequence[SequencedSegment]]] = {
        "plan all": plan,
        "task of a vnode": files([(PREFIX.of(77), PREFIX.of(78))]),
        "get": files([(key, key + b"\0")]),
        "prefix in a vnode": files([(prefix, prefix + b"\xff" * 8)]),
        "range in all vnodes": files(
            [(full_key(v, KEYS // 3), full_key(v, KEYS // 3 + 1)) for v in range(VNODES)]
        ),
    }
    for name, work in works.items():
        state = Log(environment, EntryCache(), ManifestCache()).load()
        environment.requests.clear()
        started = time.process_time()
        result = work(state)
        seconds = time.process_time() - started
        gets, size = environment.requests["get"], environment.requests["get bytes"]
        segments = result.segments if isinstance(result, ReadPlan) else result
        travels = len(pickle.dumps(result)) if isinstance(result, ReadPlan) else 0
        fresh = Log(environment, EntryCache(), ManifestCache()).load()
        memory = _memory_of(partial(work, fresh))
        print(
            f"| {terabytes} TB | {name} | {gets} | {size / 1e6:,.2f} MB | {1e3 * seconds:,.0f} ms "
            f"| {memory / 1e6:,.1f} MB | {len(segments):,} | {travels / 1e6:.2f} MB |",
            flush=True,
        )


def checkpoints(tables: Sequence[float] = (1, 10, 100), commits: int = 640) -> None:
    """Print what commits to tables of so many TB write to the log, and what they read."""
    _print_head(
        "table", "per commit", "get", "put", "written per checkpoint", "its own file", "seconds"
    )
    for terabytes in tables:
        _print_checkpoints(terabytes, commits)


def _print_checkpoints(terabytes: float, commits: int) -> None:
    environment = SimulatedBucket(SimulatedTime())
    log, state = new_store(environment)
    state = with_data(environment, state, round(terabytes * TB))
    log.folding.put_checkpoint(state)
    del state
    gc.collect()
    log = Log(environment, EntryCache(), ManifestCache())
    state = log.load()
    names = set(file_names(state.segments.manifests))
    environment.requests.clear()
    durations, epochs = [], range(state.epoch, state.epoch + commits)
    put = files = 0
    while state.epoch < epochs.stop:
        started = time.process_time()
        state = write(environment, log, state, 1_000_000)
        state, _ = merge(environment, log, state)
        durations.append(time.process_time() - started)
        environment.clock.wait(60.0)
    for name, data in environment.files.items():
        if name.endswith(".manifest.json") and name.split("/")[1].split(".")[0] not in names:
            put += len(data)
            files += 1
    own = len(environment.files[checkpoint_path(state.epoch // 32 * 32)])
    count = len(durations)
    gets, puts = (environment.requests[kind] / count for kind in ("get", "put"))
    blocks = commits / 32
    print(
        f"| {terabytes} TB | {1e3 * statistics.median(durations):,.1f} ms | {gets:.1f} "
        f"| {puts:.1f} | {put / blocks / 1e6:,.2f} MB in {files / blocks:.0f} files "
        f"| {own / 1e6:,.2f} MB | {max(durations):.2f} s |",
        flush=True,
    )


def _commit_without_log(environment: SimulatedBucket, state: StoreState) -> StoreState:
    """Return the state after one more commit of a small segment, without any request."""
    entry = Entry(
        commit_id=environment.random_id(),
        parent=state.commit_id,
        epoch=state.epoch + 1,
        time=state.time,
        started=state.time,
        operation="write",
        added=(unsorted(environment, spread(100_000)),),
    )
    return state.apply(entry)


def _memory_of(work: Callable[[], object]) -> int:
    """Return the bytes of memory that what a function returns takes."""
    tracemalloc.start()
    result = work()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return size


def writers(seconds: float = 120.0) -> None:
    """Print how many commits a second writers get who commit as fast as they can."""
    _print_head(
        "writers", "commits a second", "wait, median", "longest wait", "requests per commit"
    )
    for count in (1, 4, 16):
        environment = SimulatedBucket(SimulatedTime())
        _, state = new_store(environment)
        environment.requests.clear()
        started = environment.clock.seconds
        works = [
            Writer(environment, Log(environment, EntryCache()), state, started + seconds, [])
            for _ in range(count)
        ]
        environment.clock.run(works)
        waits = sorted(wait for work in works for wait in work.waits)
        requests = sum(environment.requests[kind] for kind in ("get", "head", "put", "list"))
        print(
            f"| {count} | {len(waits) / seconds:.1f} | {1e3 * statistics.median(waits):,.0f} ms "
            f"| {1e3 * waits[-1]:,.0f} ms | {requests / len(waits):.1f} |",
            flush=True,
        )


def year(epochs: int = 20_000) -> None:
    """Print how a table grows by small commits, and what a year of such commits is."""
    _print_head("bytes of a commit", "epochs", "live segments", "rewritten", "`_log`", "`_archive`")
    for size in (20_000, 200_000):
        environment = SimulatedBucket(SimulatedTime())
        log, state = new_store(environment)
        rewritten = written = 0
        while state.epoch < epochs:
            state = write(environment, log, state, size)
            written += size
            state, merged = merge(environment, log, state)
            rewritten += merged
        folders = Counter(name.split("/", 1)[0] for name in environment.files)
        print(
            f"| {size:,} | {state.epoch:,} | {len(state.segments):,} | {rewritten / written:.2f} "
            f"| {folders['_log']:,} | {sum(folders.values()) - folders['_log']:,} |",
            flush=True,
        )
