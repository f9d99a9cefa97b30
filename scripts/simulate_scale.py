"""Simulate the log and the compaction of large stores on an object store, without their data.

    python scripts/simulate_scale.py [sizes] [reads] [checkpoints] [writers] [year]

The code of the log, of commits and of the choice of merges is the real one. The environment is not:
it keeps the files of the log in memory and only the sizes of segments, and its clock advances by
what the requests would take, and by what this process computes. What is printed is the table of
docs/scaling.md of that name; without names all five.
"""

from __future__ import annotations

import gc
import heapq
import itertools
import pickle
import random
import statistics
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from relstate.storage.errors import ConflictError
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.entry import Entry, Settings
from relstate.storage.log.history import EntryCache
from relstate.storage.log.live_segments import LiveSegments, file_names
from relstate.storage.log.log import Log
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.proposal import NewTable, Proposal
from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.state import StoreState
from relstate.storage.log.table_segments import select
from relstate.storage.log.transaction import commit
from relstate.storage.maintenance.layout import output_sequence_number, recent_components
from relstate.storage.maintenance.policy import FEW, automatic
from relstate.storage.paths import SEGMENTS, checkpoint_path, segment_path
from relstate.storage.read_plan import ReadPlan
from relstate.storage.schema.schema import TableSchema
from relstate.storage.schema.types import BigInt, Field, String
from relstate.storage.segment.key import KeyPrefix
from relstate.storage.segment.writer import SEGMENT_BYTES
from relstate.storage.table.rangetest import RangeTest

# What requests of an object store take, in seconds, and how fast a process moves bytes.
PUT, GET, LIST = 0.030, 0.015, 0.030
BYTES_PER_SECOND = 100e6
NAMES_PER_LIST = 1_000

TB = 10**12
SHARDS, VNODES = 16, 256
TABLE = 1
_PREFIX = KeyPrefix(TABLE, VNODES)
_KEYS = 1 << 60
_SCHEMA = TableSchema.build(
    [Field("id", BigInt(), nullable=False), Field("name", String())], ["id"], None
)


class Time:
    """A clock for threads that take turns: the one that waits for the earliest moment runs."""

    def __init__(self) -> None:
        self.seconds = 1.6e9
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, threading.Event]] = []
        self._resumed = time.thread_time()

    def wait(self, seconds: float) -> None:
        """Let so much time pass, and what this thread has computed since it last waited."""
        turn = threading.Event()
        moment = self.seconds + seconds + time.thread_time() - self._resumed
        heapq.heappush(self._waiting, (moment, next(self._order), turn))
        self._next()
        turn.wait()
        self._resumed = time.thread_time()

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run functions at the same time, each in a thread, to their ends."""
        threads = []
        for work in works:
            turn = threading.Event()
            heapq.heappush(self._waiting, (self.seconds, next(self._order), turn))
            threads.append(threading.Thread(target=self._work, args=(work, turn)))
            threads[-1].start()
        self._next()
        for thread in threads:
            thread.join()
        self._resumed = time.thread_time()

    def _work(self, work: Callable[[], None], turn: threading.Event) -> None:
        turn.wait()
        self._resumed = time.thread_time()
        work()
        self._next()

    def _next(self) -> None:
        if self._waiting:
            self.seconds, _, turn = heapq.heappop(self._waiting)
            turn.set()


class ObjectStore:
    """An environment whose files are in memory, of segments only the sizes."""

    listing_interval = 600.0
    removal_delay = 600.0
    has_current_names = True
    fills_up = False
    is_remote = True

    def __init__(self, clock: Time) -> None:
        self.clock = clock
        self.requests: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self.put_times: dict[str, int] = {}
        self.segments: dict[str, int] = {}
        self._random = random.Random(0)

    def _request(self, kind: str, seconds: float, size: int = 0) -> None:
        self.requests[kind] += 1
        self.requests[f"{kind} bytes"] += size
        self.clock.wait(seconds + size / BYTES_PER_SECOND)

    def location(self, name: str) -> str:
        """Return the URI of a file."""
        return f"s3://bucket/store/{name}"

    local_path = location

    def read(self, name: str) -> bytes:
        """Get a file."""
        self._request("get", GET, len(self.files.get(name, b"")))
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Get files at the same time."""
        contents = [self.files.get(name) for name in names]
        self.requests["get"] += max(len(names) - 1, 0)
        if names:
            self._request("get", GET, sum(len(content or b"") for content in contents))
        return contents

    def map(self, name: str) -> NDArray[np.uint8]:
        """Get a file."""
        return np.frombuffer(self.read(name), np.uint8)

    def size(self, name: str) -> int:
        """Ask for a file's size."""
        if name.startswith(SEGMENTS):
            # The process has put it: an environment of an object store knows that.
            return self.segments[name]
        self._request("head", GET)
        if name not in self.files:
            raise FileNotFoundError(name)
        return len(self.files[name])

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Ask for the sizes of segments, which this process has put."""
        return [self.segments.get(name) for name in names]

    def identity(self, name: str) -> tuple[int, ...]:
        """Return the file's size, as it never changes."""
        return (self.size(name),)

    def modified(self, name: str) -> int:
        """Ask when a file was put."""
        self._request("head", GET)
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.put_times[name]

    def exists(self, name: str) -> bool:
        """Ask whether there is a file."""
        self._request("head", GET)
        return name in self.files

    def list(self, folder: str) -> list[str]:
        """List a folder, a thousand names per request."""
        prefix = f"{folder}/" if folder else ""
        names = sorted(name[len(prefix) :] for name in self.files if name.startswith(prefix))
        for _ in range(0, max(len(names), 1), NAMES_PER_LIST):
            self._request("list", LIST)
        if not names and not folder:
            raise FileNotFoundError(folder)
        return names

    def folder_version(self, folder: str) -> None:
        """Return None: there is no such thing."""

    def signal(self, name: str) -> None:
        """Return None: processes share no memory."""

    def announce(self, name: str, entry: str) -> None:
        """Do nothing: others look."""

    def make_folders(self, folders: Sequence[str]) -> None:
        """Do nothing: there are no folders."""

    def put_if_absent(
        self, name: str, data: bytes, time: int | None = None, after: Sequence[str] = ()
    ) -> None:
        """Put a file, unless there is one by then."""
        self._request("put", PUT, len(data))
        if name in self.files:
            raise FileExistsError(name)
        self.files[name], self.put_times[name] = data, self.now()

    def put_all_if_absent(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """Put files at the same time."""
        taken = frozenset(name for name in files if name in self.files)
        self.requests["put"] += max(len(files) - 1, 0)
        if files:
            self._request("put", PUT, sum(map(len, files.values())))
        for name in files.keys() - taken:
            self.files[name], self.put_times[name] = files[name], self.now()
        return taken

    def put_segment(self, name: str, size: int) -> None:
        """Put a segment."""
        self._request("put segment", PUT, size)
        self.segments[segment_path(name)] = size

    def write(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Put a file."""
        self.put_if_absent(name, b"".join(parts))

    def remove(self, name: str) -> None:
        """Delete a file, in the background."""
        self.requests["delete"] += 1
        self.files.pop(name, None)
        self.put_times.pop(name, None)

    def publish(self, name: str) -> None:
        """Do nothing: what was put is durable."""

    sync_folder = publish

    def now(self) -> int:
        """Return the simulated time in microseconds."""
        return round(self.clock.seconds * 1e6)

    def monotonic(self) -> float:
        """Return the simulated time in seconds."""
        return self.clock.seconds

    def random_id(self) -> str:
        """Return 32 random hexadecimal digits."""
        return f"{self._random.getrandbits(128):032x}"


# --- Segments without data ------------------------------------------------------------------------


def record(
    name: str, shard_bytes: Sequence[int], first: tuple[int, int], last: tuple[int, int]
) -> SegmentRecord:
    """Return the record of a segment with so many bytes of rows in each shard.

    ``first``, ``last``: the vnode and the number of its first and of its last row.
    """
    numbers = (first[1], last[1]) if first[0] == last[0] else (0, _KEYS - 1)
    of_table = TableStatistics(
        TABLE,
        max(sum(shard_bytes) // 100, 1),
        0,
        full_key(*first),
        full_key(*last),
        tuple(shard_bytes),
        *(full_key(0, number)[_PREFIX.size :] for number in numbers),
    )
    return SegmentRecord(name, max(sum(shard_bytes), 4096), "0123456789abcdef", (of_table,))


def full_key(vnode: int, number: int) -> bytes:
    """Return the full key of a row: its primary key is a BIGINT."""
    return _PREFIX.of(vnode) + b"\x01" + number.to_bytes(8, "big")


def unsorted(environment: ObjectStore, shard_bytes: Sequence[int]) -> SegmentRecord:
    """Return the record of a segment with rows of any keys."""
    shards = [shard for shard, size in enumerate(shard_bytes) if size]
    ends = (shards[0] * VNODES // SHARDS, 0), ((shards[-1] + 1) * VNODES // SHARDS - 1, _KEYS - 1)
    return record(f"{environment.random_id()}-000000", shard_bytes, *ends)


def spread(size: int) -> list[int]:
    """Return a commit's bytes by shard: its rows are spread evenly."""
    return [size // SHARDS + 1] * SHARDS


def cut(sizes: Sequence[int]) -> Iterable[list[int]]:
    """Yield the shard bytes of the segments that a compaction of so many bytes by shard writes."""
    for shard, size in enumerate(sizes):
        for start in range(0, size, SEGMENT_BYTES):
            shard_bytes = [0] * SHARDS
            shard_bytes[shard] = min(SEGMENT_BYTES, size - start)
            yield shard_bytes


def new_store(environment: ObjectStore) -> tuple[Log, StoreState]:
    """Create a store with one table."""
    log = Log(environment, EntryCache())
    state = create_store(log, Settings("5e" * 16, VNODES, SHARDS, 86_400))
    table = NewTable("t", _SCHEMA)
    creation = Proposal(
        operation="create table",
        started=environment.now(),
        data_change=False,
        created_tables=(table,),
    )
    return log, commit(log, state, creation).state


def with_data(environment: ObjectStore, state: StoreState, size: int) -> StoreState:
    """Return a state whose table is compacted and has so many bytes."""
    segments = []
    count, vnodes = -(-size // SHARDS // SEGMENT_BYTES), VNODES // SHARDS
    for shard, job in enumerate([environment.random_id() for _ in range(SHARDS)]):
        sizes = [0] * SHARDS
        sizes[shard] = size // SHARDS // count
        # Sorted by vnode and key, as a compaction writes them.
        ends = [divmod(number * vnodes * _KEYS // count, _KEYS) for number in range(count + 1)]
        for number, (first, last) in enumerate(pairwise(ends)):
            start = shard * vnodes
            made = record(
                f"{job}-{number:06d}",
                sizes,
                (start + first[0], first[1]),
                (start + last[0], last[1] - 1) if last[1] else (start + last[0] - 1, _KEYS - 1),
            )
            segments.append(SequencedSegment(made, state.epoch, 0))
    return replace(state, segments=LiveSegments.of(segments))


def write(environment: ObjectStore, log: Log, state: StoreState, size: int) -> StoreState:
    """Put a segment, and commit it."""
    started = environment.now()
    made = unsorted(environment, spread(size))
    environment.put_segment(made.name, made.size)
    proposal = Proposal(operation="write", started=started, segments=(made,))
    return commit(log, state, proposal).state


def merge(environment: ObjectStore, log: Log, state: StoreState) -> tuple[StoreState, int]:
    """Do what a commit does after it: merge few files if that is due; return the bytes written.

    All rows are new, so that what a merge writes is as large as what it reads.
    """
    if state.segments.count_of(TABLE) <= FEW:
        return state, 0
    (component,) = recent_components(state, {TABLE})
    written, removed = [], []
    for chosen in automatic(component):
        sizes = [0] * SHARDS
        inputs = [state.segments.find(file.name, file.shards) for file in chosen.inputs]
        for segment in inputs:
            for shard, size in enumerate(segment.record.tables[0].shard_bytes):
                sizes[shard] += size
        parts = list(cut(sizes)) if chosen.by_shard else [sizes]
        number = output_sequence_number(chosen.inputs)
        written += [replace(unsorted(environment, part), sequence_number=number) for part in parts]
        removed += inputs
    if not removed:
        return state, 0
    for made in written:
        environment.put_segment(made.name, made.size)
    proposal = Proposal(
        operation="compact",
        started=environment.now(),
        data_change=False,
        segments=tuple(written),
        removed=tuple(removed),
    )
    try:
        return commit(log, state, proposal).state, sum(made.size for made in written)
    except ConflictError:
        return state, 0


# --- What is printed ------------------------------------------------------------------------------


def seconds_of(work: Callable[[], object], times: int = 3) -> float:
    """Return the least processor time of several runs."""
    durations = []
    for _ in range(times):
        started = time.process_time()
        work()
        durations.append(time.process_time() - started)
    return min(durations)


def _head(*columns: str) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def sizes(tables: Sequence[float] = (1, 10, 100)) -> None:
    """Print what the state costs of tables of so many TB."""
    _head(
        "table", "segments", "first checkpoint", "open", "downloaded", "memory", "apply", "choose"
    )
    for terabytes in tables:
        _print_size(terabytes)


def _print_size(terabytes: float) -> None:
    """Print the costs of one size; the first checkpoint is that of a load of the whole table."""
    environment = ObjectStore(Time())
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
    _head("table", "read", "manifests", "downloaded", "time", "memory", "files", "what travels")
    for terabytes in tables:
        environment = ObjectStore(Time())
        log, empty = new_store(environment)
        log.folding.put_checkpoint(with_data(environment, empty, round(terabytes * TB)))
        del log, empty
        gc.collect()
        _print_reads(environment, terabytes)


def _print_reads(environment: ObjectStore, terabytes: float) -> None:
    """Print the costs of some reads of one table, each by a process that has read nothing else."""

    def plan(state: StoreState) -> ReadPlan:
        planned = ReadPlan.of("s3://bucket/store", state, "t")
        assert planned.stored_bytes
        assert len(planned.partitions(VNODES)) == VNODES
        return planned

    def files(
        ranges: Sequence[tuple[bytes, bytes]],
    ) -> Callable[[StoreState], Sequence[SequencedSegment]]:
        test = RangeTest.of(ranges, _PREFIX, SHARDS)
        return lambda state: select(state.segments_of(TABLE), TABLE, test, test.shards)

    key, prefix = full_key(77, _KEYS // 3), full_key(77, _KEYS // 3)[:-7]
    works: dict[str, Callable[[StoreState], ReadPlan | Sequence[SequencedSegment]]] = {
        "plan all": plan,
        "task of a vnode": files([(_PREFIX.of(77), _PREFIX.of(78))]),
        "get": files([(key, key + b"\0")]),
        "prefix in a vnode": files([(prefix, prefix + b"\xff" * 8)]),
        "range in all vnodes": files(
            [(full_key(v, _KEYS // 3), full_key(v, _KEYS // 3 + 1)) for v in range(VNODES)]
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
        memory = _memory_of(lambda work=work, fresh=fresh: (work(fresh), fresh))
        print(
            f"| {terabytes} TB | {name} | {gets} | {size / 1e6:,.2f} MB | {1e3 * seconds:,.0f} ms "
            f"| {memory / 1e6:,.1f} MB | {len(segments):,} | {travels / 1e6:.2f} MB |",
            flush=True,
        )


def checkpoints(tables: Sequence[float] = (1, 10, 100), commits: int = 640) -> None:
    """Print what commits to tables of so many TB write to the log, and what they read."""
    _head("table", "per commit", "get", "put", "written per checkpoint", "its own file", "seconds")
    for terabytes in tables:
        _print_checkpoints(terabytes, commits)


def _print_checkpoints(terabytes: float, commits: int) -> None:
    environment = ObjectStore(Time())
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


def _commit_without_log(environment: ObjectStore, state: StoreState) -> StoreState:
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


@dataclass
class Writer:
    """Commits again and again, and notes how long each commit took."""

    environment: ObjectStore
    log: Log
    state: StoreState
    until: float
    waits: list[float]

    def __call__(self) -> None:
        """Work until the time is over."""
        while self.environment.clock.seconds < self.until:
            started = self.environment.clock.seconds
            self.state = write(self.environment, self.log, self.state, 100_000)
            self.waits.append(self.environment.clock.seconds - started)
            self.state, _ = merge(self.environment, self.log, self.state)


def writers(seconds: float = 120.0) -> None:
    """Print how many commits a second writers get who commit as fast as they can."""
    _head("writers", "commits a second", "wait, median", "longest wait", "requests per commit")
    for count in (1, 4, 16):
        environment = ObjectStore(Time())
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
    _head("bytes of a commit", "epochs", "live segments", "rewritten", "`_log`", "`_archive`")
    for size in (20_000, 200_000):
        environment = ObjectStore(Time())
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


PARTS = {
    "sizes": sizes,
    "reads": reads,
    "checkpoints": checkpoints,
    "writers": writers,
    "year": year,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
