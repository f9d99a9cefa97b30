"""Checkpoints that are divided among manifests: the same states, read and written in part."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from relstate.storage.check import check
from relstate.storage.environment import Environment
from relstate.storage.errors import (
    ConflictError,
    CorruptionError,
    FilesystemError,
    RelstateError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.checkpoint import encode_checkpoint
from relstate.storage.log.store_creation import create_store
from relstate.storage.log.folding import Division
from relstate.storage.log.frame import seal, unseal
from relstate.storage.log.history import EntryCache
from relstate.storage.log.live_segments import LiveSegments, file_names
from relstate.storage.log.log import Log
from relstate.storage.log.manifest import name_of
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.proposal import Proposal
from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from relstate.storage.log.sequenced_segment import SequencedSegment
from relstate.storage.log.state import StoreState
from relstate.storage.log.transaction import commit
from relstate.storage.maintenance.vacuum import vacuum
from relstate.storage.paths import checkpoint_path, manifest_path, segment_path
from support.clock import ManualClock
from support.commits import SETTINGS, committed, creation, quick_environment, truncation
from support.faulty_environment import FaultyEnvironment, trials

# Everything is divided, four segments to a manifest.
FINE = Division(most=0, size=4)
DAY = 24 * 3600


def divided_log(environment: Environment, division: Division = FINE) -> Log:
    """Return the log of a store as a new process has it: nothing was read before."""
    return Log(environment, EntryCache(), ManifestCache(), division)


@dataclass
class Writer:
    """Commits segments without rows, as drawn from a seed."""

    environment: Environment
    log: Log
    state: StoreState
    random: random.Random

    @classmethod
    def of(cls, environment: Environment, division: Division = FINE, seed: int = 0) -> Writer:
        """Return the writer of a new store with two tables."""
        log = divided_log(environment, division)
        state = create_store(log, SETTINGS)
        for name in ("orders", "items"):
            state = committed(log, state, creation(environment, name))
        return cls(environment, log, state, random.Random(seed))

    def segment(self, shards: list[int], *tables: int, size: int = 100) -> SegmentRecord:
        """Put a file in place of a segment with rows in some shards."""
        name = f"{self.random.getrandbits(128):032x}-0"
        path = Path(self.environment.local_path(segment_path(name)))
        path.write_bytes(b"x" * size)
        bytes_by_shard = tuple(9 * (shard in shards) for shard in range(SETTINGS.shards))
        statistics = (
            TableStatistics(table_id, 1, 0, b"a", b"b", bytes_by_shard, b"a", b"b")
            for table_id in tables
        )
        return SegmentRecord(name, size, "0123456789abcdef", tuple(statistics))

    def write(self, *segments: SegmentRecord) -> None:
        """Commit new segments."""
        started = self.environment.now()
        proposal = Proposal(operation="write", started=started, segments=segments)
        self.state = committed(self.log, self.state, proposal)

    def merge(self, inputs: list[SequencedSegment]) -> None:
        """Replace segments by one in a single shard."""
        number = max((segment.epoch, segment.rank) for segment in inputs)
        (shard,) = {segment.shard for segment in inputs}
        shards = list(range(SETTINGS.shards)) if shard is None else [shard]
        output = replace(self.segment(shards, 1), sequence_number=number)
        proposal = Proposal(
            operation="compact",
            started=self.environment.now(),
            data_change=False,
            segments=(output,),
            removed=tuple(inputs),
        )
        self.state = committed(self.log, self.state, proposal)

    def step(self) -> None:
        """Commit something."""
        draw = self.random
        kind = draw.random()
        live = [*self.state.segments.values()]
        if kind < 0.03:
            self.state = committed(self.log, self.state, truncation(self.environment, 2))
        elif kind < 0.35 and live:
            shard = draw.choice(live).shard
            of_shard = [segment for segment in live if segment.shard == shard]
            self.merge(draw.sample(of_shard, min(len(of_shard), draw.randint(1, 4))))
        else:
            tables = draw.choice([(1,), (2,), (1, 2)])
            shards = draw.sample(range(3), draw.choice([1, 1, 1, 2]))
            self.write(*(self.segment(shards, *tables) for _ in range(draw.randint(1, 2))))

    def advance(self, epoch: int) -> None:
        """Commit until the store is at an epoch."""
        while self.state.epoch < epoch:
            self.step()


def manifests_of(environment: Environment) -> set[str]:
    """Return the names of the manifests that there are."""
    return {
        name.removesuffix(".manifest.json")
        for name in environment.list("_archive")
        if name.endswith(".manifest.json")
    }


@pytest.fixture
def clock() -> ManualClock:
    """A clock set by hand."""
    return ManualClock()


@pytest.mark.parametrize("seed", range(2))
def test_a_divided_checkpoint_is_the_state(tmp_path: Path, seed: int) -> None:
    """Whoever reads it, at any epoch, sees what a writer sees that never divides."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment, seed=seed)
    whole = {}
    while writer.state.epoch < 100:
        writer.step()
        whole[writer.state.epoch] = encode_checkpoint(writer.state)

    newest = divided_log(environment).load()
    assert encode_checkpoint(newest) == whole[100]
    assert newest == writer.state
    log = divided_log(environment)
    for epoch in (32, 33, 64, 95, 96, 99):
        assert encode_checkpoint(log.history.state_at(newest, epoch)) == whole[epoch]


@pytest.mark.parametrize("seed", range(2))
def test_where_manifests_end_follows_from_the_state(tmp_path: Path, seed: int) -> None:
    """A writer that never read a checkpoint makes the same bytes as one that always did."""
    writer = Writer.of(quick_environment(tmp_path / "store"), seed=seed)
    for epoch in (32, 64, 96):
        writer.advance(epoch)
        path = checkpoint_path(epoch)
        written = writer.environment.read(path)
        writer.environment.remove(path)
        again = replace(writer.state, segments=LiveSegments.of(writer.state.segments.values()))
        divided_log(writer.environment).folding.put_checkpoint(again)

        assert writer.environment.read(path) == written


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    """A checkpoint shares the manifests of the shards that nothing was written to."""
    writer = Writer.of(quick_environment(tmp_path / "store"))
    for shard in range(16):
        writer.write(*(writer.segment([shard], 1) for _ in range(20)))
    while writer.state.epoch < 32:
        writer.write(writer.segment([3], 1))
    before = manifests_of(writer.environment)
    while writer.state.epoch < 64:
        writer.write(writer.segment([3], 1))
    added = manifests_of(writer.environment) - before

    named = writer.log.files.checkpoint(64).segments.manifests
    assert len(file_names(named) & before) >= 16
    assert added <= {manifest.file.name for manifest in named[3] if manifest.file}


def test_opening_and_writing_read_no_manifest(tmp_path: Path, clock: ManualClock) -> None:
    """Nor does following another writer; a checkpoint reads the open ends of what has changed."""
    writer = Writer.of(quick_environment(tmp_path / "store", clock))
    for shard in range(16):
        writer.write(*(writer.segment([shard], 1) for _ in range(20)))
    while writer.state.epoch < 40:
        writer.write(writer.segment([1, 2], 1))
    clock.advance(100)
    watched = FaultyEnvironment(tmp_path / "store", clock=clock)
    log = divided_log(watched)
    other = Writer(watched, log, log.load(), random.Random(1))
    other.write(other.segment([1, 2], 1))
    writer.write(writer.segment([1, 2], 1))
    other.state = log.refresh(other.state)

    assert [touch for touch in watched.touches if "manifest" in touch] == []
    other.write(other.segment([5], 1))
    while other.state.epoch < 64:
        other.write(other.segment([1, 2], 1))
    read = [touch for touch in watched.touches if "manifest" in touch and "read" in touch]
    # Of the files of several shards, and of shard 5.
    assert len(read) <= 2
    assert other.log.files.checkpoint(64) == other.state


def test_a_manifest_is_read_once(tmp_path: Path) -> None:
    """The next look at the same segments takes them from the cache."""
    writer = Writer.of(quick_environment(tmp_path / "store"))
    writer.advance(33)
    watched = FaultyEnvironment(tmp_path / "store")
    state = divided_log(watched).load()
    first = state.segments_of(1)
    count = len(watched.touches)

    assert [*state.segments.values()]
    assert state.apply is not None
    assert state.segments_of(1) == first == writer.state.segments_of(1)
    reads = [touch for touch in watched.touches[count:] if "manifest" in touch]
    assert len(reads) == len(set(reads))


def test_a_forgotten_manifest_is_read_again(tmp_path: Path) -> None:
    """The cache is bounded, whatever the size of the store."""
    writer = Writer.of(quick_environment(tmp_path / "store"))
    writer.advance(40)
    cache = ManifestCache(5)
    log = Log(writer.environment, EntryCache(), cache, FINE)
    state = log.load()

    assert state == writer.state
    assert sum(len(content.segments) for content in cache._contents.values()) <= 12
    assert set(state.segments.values()) == set(writer.state.segments.values())


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    """By the read that needs it and by check, whatever byte is another, and if it is missing."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.advance(33)
    name = min(file_names(writer.log.files.checkpoint(32).segments.manifests))
    path = Path(environment.location(manifest_path(name)))
    data = path.read_bytes()
    damaged = [data[:-1], b"", *(_flipped(data, at) for at in range(0, len(data), 97))]
    for content in damaged:
        path.write_bytes(content)
        segments = divided_log(environment).load().segments
        with pytest.raises(CorruptionError, match=str(path)):
            list(segments)
    report = check(environment, divided_log(environment).load())
    assert any(str(path) in problem for problem in report.problems)
    path.unlink()
    segments = divided_log(environment).load().segments
    with pytest.raises(CorruptionError, match=f"{path}: this file is missing"):
        list(segments)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def test_a_manifest_in_the_place_of_another_is_damage(tmp_path: Path) -> None:
    """Its own checksum is right, its name is not."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.advance(33)
    first, second = sorted(file_names(writer.log.files.checkpoint(32).segments.manifests))[:2]
    environment.remove(manifest_path(first))
    other = environment.read(manifest_path(second))
    environment.put_if_absent(manifest_path(first), other)

    segments = divided_log(environment).load().segments
    with pytest.raises(CorruptionError, match=f"{first}.*it holds another manifest"):
        list(segments)


Forgery: TypeAlias = Callable[[dict[str, Any], dict[str, Any], list[bytes]], None]


def swap(values: list[Any]) -> None:
    """Exchange the first two values."""
    values[0], values[1] = values[1], values[0]


def say_first_again(line: dict[str, Any], content: dict[str, Any], records: list[bytes]) -> None:
    """Let the second segment be the first one, under another sequence number."""
    content["segments"]["names"][1] = content["segments"]["names"][0]
    records[1] = records[0]


def swap_segments(line: dict[str, Any], content: dict[str, Any], records: list[bytes]) -> None:
    """Let the first two segments come in the other order."""
    for values in (*content["segments"].values(), records):
        swap(values)


FORGERIES: dict[str, Forgery] = {
    "other shard in the file": lambda line, content, records: content.update(shard=7),
    "other shard in the checkpoint": lambda line, content, records: line.update(shard=7),
    "segment twice": say_first_again,
    "not sorted": swap_segments,
    "fewer segments": lambda line, content, records: line.update(count=line["count"] + 1),
    "another last one": lambda line, content, records: line["last"].__setitem__(0, 99),
    "a record too many": lambda line, content, records: records.append(records[0]),
    "no segments": lambda line, content, records: content.update(segments={}),
    "a table less": lambda line, content, records: content.update(segments_by_table=[]),
    "a table more": lambda line, content, records: content["segments_by_table"].append([9, [0]]),
    "no number": lambda line, content, records: content["segments"]["epochs"].__setitem__(0, "1"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_manifest_is_damage(tmp_path: Path, forgery: str) -> None:
    """Its checksums and names are right, but it is not what the checkpoint says: it is named."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.write(*(writer.segment([shard], 1) for shard in (2, 2, 2, 2, 2, 2)))
    divided_log(environment, Division(most=0, size=1000)).folding.put_checkpoint(writer.state)
    path = checkpoint_path(writer.state.epoch)
    value, lines = unseal("checkpoint", environment.read(path), path)
    assert not lines
    (line,) = value["manifests"]
    old = manifest_path(line["name"])
    content, records = unseal("manifest", environment.read(old), old)
    FORGERIES[forgery](line, content, records)
    data = seal("manifest", content, records)
    line |= {"name": name_of(data), "size": len(data)}
    environment.remove(path)
    environment.remove(old)
    environment.put_if_absent(path, seal("checkpoint", value))
    environment.put_if_absent(manifest_path(line["name"]), data)

    segments = divided_log(environment).load().segments
    with pytest.raises(CorruptionError, match=f"{line['name']}.manifest.json"):
        list(segments)
    report = check(environment, divided_log(environment).load())
    assert any(line["name"] in problem for problem in report.problems)


def test_a_forged_line_of_a_manifest_is_damage(tmp_path: Path) -> None:
    """Wherever it is no line that is written, the checkpoint is named; check compares the sums."""
    environment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment)
    writer.write(*(writer.segment([shard], 1) for shard in (1, 2, 2, 3)))
    writer.log.folding.put_checkpoint(writer.state)
    path = checkpoint_path(writer.state.epoch)
    original = environment.read(path)

    def forge(change: Callable[[list[Any]], None]) -> None:
        value, _ = unseal("checkpoint", original, path)
        change(value["manifests"])
        environment.remove(path)
        environment.put_if_absent(path, seal("checkpoint", value))

    changes: list[Callable[[list[Any]], None]] = [
        lambda lines: lines[0].update(shard=99),
        lambda lines: lines[0].update(name="../../etc"),
        lambda lines: lines[0].update(count="1"),
        lambda lines: lines[0].update(period=-1),
        lambda lines: lines[0]["tables"].append(lines[0]["tables"][0]),
        lambda lines: lines[0]["tables"][0].__setitem__(8, [[99, 1]]),
        lambda lines: lines[0]["tables"][0].__setitem__(9, "ff"),
        lambda lines: lines.append(lines[-1]),
    ]
    for change in changes:
        forge(change)
        with pytest.raises(CorruptionError, match=r"checkpoint\.json"):
            divided_log(environment).load()
    forge(lambda lines: lines[0]["tables"][0].__setitem__(4, 1234))
    (manifest,) = divided_log(environment).load().segments.manifests[1]
    assert manifest.file is not None
    report = check(environment, divided_log(environment).load())
    assert any(manifest.file.name in problem and "sums" in problem for problem in report.problems)


@pytest.fixture
def due(tmp_path: Path) -> Path:
    """A divided store whose next checkpoint changes a few of its manifests."""
    writer = Writer.of(quick_environment(tmp_path / "due"))
    writer.write(*(writer.segment([shard], 1) for shard in (1, 1, 1, 2, 2)))
    writer.log.folding.put_checkpoint(writer.state)
    writer.write(writer.segment([2], 1), writer.segment([1, 2], 2))
    return tmp_path / "due"


def keep(environment: FaultyEnvironment) -> None:
    """A killed process."""


def cut(environment: FaultyEnvironment) -> None:
    """A power cut that loses all that was not synced."""
    environment.power_cut()


def torn(environment: FaultyEnvironment) -> None:
    """A power cut that loses, keeps and tears what was not synced."""
    environment.power_cut(len(environment.touches))


@pytest.mark.parametrize("aftermath", [keep, cut, torn])
def test_a_crash_between_manifests_and_checkpoint_loses_nothing(
    due: Path, tmp_path: Path, aftermath: Callable[[FaultyEnvironment], None]
) -> None:
    """The store opens with all its segments; the next writer completes the checkpoint."""
    for environment in trials(due, tmp_path, "crash_at"):
        state = divided_log(quick_environment(environment.root)).load()
        with environment.crashing():
            divided_log(environment).folding.put_checkpoint(state)
        aftermath(environment)
        assert divided_log(quick_environment(environment.root)).load() == state

        # What the crash left may not be durable yet.
        again = FaultyEnvironment(environment.root)
        divided_log(again).folding.put_checkpoint(state)
        again.power_cut()
        fresh = divided_log(quick_environment(environment.root))
        assert fresh.files.checkpoint(state.epoch) == fresh.load() == state


@pytest.mark.parametrize("kind", ["error_at", "lost_at"])
def test_an_error_in_a_checkpoint_loses_nothing(due: Path, tmp_path: Path, kind: str) -> None:
    """Whatever step fails; the next attempt completes it."""
    for environment in trials(due, tmp_path, kind):
        state = divided_log(quick_environment(environment.root)).load()
        with suppress(RelstateError):
            divided_log(environment).folding.put_checkpoint(state)
        assert divided_log(quick_environment(environment.root)).load() == state
        if environment.struck:
            divided_log(environment).folding.put_checkpoint(state)
        # What the first attempt made is durable, too: at least what a checkpoint names.
        environment.power_cut()
        fresh = divided_log(quick_environment(environment.root))
        assert fresh.load() == state


def age(environment: LocalEnvironment, clock: ManualClock) -> None:
    """Let the files of the archive that are younger than the clock says be as old as it says."""
    for name in environment.list("_archive"):
        path = environment.location(f"_archive/{name}")
        now = clock.now() / 1e6
        if os.stat(path).st_mtime > now:
            os.utime(path, (now, now))


def test_vacuum_removes_manifests_that_no_checkpoint_names(
    tmp_path: Path, clock: ManualClock
) -> None:
    """When they are a day old; all epochs in retention read as before."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment, seed=3)
    for epoch in range(32, 300, 16):
        writer.advance(epoch)
        clock.advance(7200)
        age(environment, clock)
    old = manifests_of(environment)
    states = {epoch: writer.log.history.state_at(writer.state, epoch) for epoch in (200, 250, 288)}
    expected = {epoch: encode_checkpoint(state) for epoch, state in states.items()}
    writer.state, _ = vacuum(writer.log, writer.state, DAY // 3)
    kept = manifests_of(environment)

    assert kept < old
    log = divided_log(environment)
    newest = log.load()
    named: set[str] = set()
    for epoch in log.files.checkpoint_epochs():
        named |= file_names(log.files.checkpoint(epoch).segments.manifests)
    assert named <= kept
    for epoch, data in expected.items():
        if epoch >= newest.oldest_epoch:
            assert encode_checkpoint(log.history.state_at(newest, epoch)) == data
    assert newest.oldest_epoch < 250
    young = clock.now() - (DAY + 60) * 1_000_000
    assert all(environment.modified(manifest_path(name)) >= young for name in kept - named)


def test_young_manifests_without_a_checkpoint_stay(tmp_path: Path, clock: ManualClock) -> None:
    """Their checkpoint may be about to be written."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment)
    writer.advance(40)
    stray = "0" * 32
    environment.put_if_absent(manifest_path(stray), b"")
    age(environment, clock)
    clock.advance(3600)
    writer.state, _ = vacuum(writer.log, writer.state, 0)
    assert stray in manifests_of(environment)

    clock.advance(2 * DAY)
    writer.step()
    writer.state, _ = vacuum(writer.log, writer.state, 0)
    assert stray not in manifests_of(environment)


def test_no_vacuum_removes_what_a_checkpoint_is_about_to_name(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Not even if another writer left the same: of what may be old none is named."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment, seed=5)
    writer.advance(64)
    kept = file_names(writer.log.files.checkpoint(32).segments.manifests)
    environment.remove(checkpoint_path(64))
    age(environment, clock)
    # The youngest was put now, and a vacuum may begin by its clock when it is a day old.
    old = manifests_of(environment) - kept
    assert old
    clock.advance(DAY // 2)

    def vacuum_now(touch: str) -> None:
        for name in old & manifests_of(environment):
            environment.remove(manifest_path(name))

    watched = FaultyEnvironment(
        environment.root, before=vacuum_now, crash_at="sync _log", clock=clock
    )
    in_memory = replace(writer.state, segments=LiveSegments.of(writer.state.segments.values()))
    with watched.crashing():
        divided_log(watched).folding.put_checkpoint(in_memory)
    assert watched.struck
    assert not old & manifests_of(environment)
    assert divided_log(environment).load() == writer.state
    assert divided_log(environment).files.checkpoint(64) == writer.state


def test_a_young_file_is_named_again(tmp_path: Path, clock: ManualClock) -> None:
    """Another writer has just put it: it is not written twice."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment, seed=5)
    writer.advance(64)
    names = manifests_of(environment)
    environment.remove(checkpoint_path(64))
    clock.advance(DAY // 3)
    in_memory = replace(writer.state, segments=LiveSegments.of(writer.state.segments.values()))
    divided_log(environment).folding.put_checkpoint(in_memory)
    assert manifests_of(environment) == names
    assert divided_log(environment).files.checkpoint(64) == writer.state


def test_a_writer_that_slept_leaves_its_checkpoint_out(tmp_path: Path, clock: ManualClock) -> None:
    """What it relied on may be removed by then; the next one is written as ever."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment)
    writer.advance(40)

    def sleep(touch: str) -> None:
        if touch.startswith("link _archive"):
            clock.suspend(DAY // 2)

    watched = FaultyEnvironment(environment.root, before=sleep, clock=clock)
    with pytest.raises(FilesystemError, match="may remove them before a checkpoint names them"):
        divided_log(watched).folding.put_checkpoint(writer.state)
    assert not environment.exists(checkpoint_path(40))
    divided_log(environment).folding.put_checkpoint(writer.state)
    assert divided_log(environment).files.checkpoint(40) == writer.state


def test_a_follower_reads_a_newer_checkpoint_in_time(tmp_path: Path, clock: ManualClock) -> None:
    """It never needs a manifest that vacuum has removed, however long it follows."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment, seed=2)
    while writer.state.epoch < 40:
        writer.write(*(writer.segment([shard], 1) for shard in range(5)))
    # By its own clock no time passes, so that it never lists the log.
    log = divided_log(quick_environment(tmp_path / "store", ManualClock()))
    follower = log.load()
    for epoch in range(42, 250, 2):
        while writer.state.epoch < epoch:
            writer.write(writer.segment([epoch % 3], 1))
        clock.advance(4_000)
        age(environment, clock)
        if epoch % 50 == 0:
            writer.state, _ = vacuum(writer.log, writer.state, 0)
        follower = log.refresh(follower)
        assert manifests_of(environment) >= file_names(follower.segments.manifests)
    assert follower == writer.state


def test_segments_of_a_commit_are_not_committed_twice(tmp_path: Path, clock: ManualClock) -> None:
    """Also by a process that has read no manifest, and that began long ago."""
    environment = quick_environment(tmp_path / "store", clock)
    writer = Writer.of(environment)
    writer.advance(20)
    clock.advance(1000)
    proposals = [
        Proposal(
            operation="write",
            started=environment.now(),
            segments=(writer.segment(shards, 1),),
        )
        for shards in ([1], [1, 2])
    ]
    for proposal in proposals:
        clock.advance(1000)
        writer.state = committed(writer.log, writer.state, proposal)
    while writer.state.epoch < 70:
        clock.advance(100)
        writer.write(writer.segment([5], 1))
    log = divided_log(environment)
    for proposal in proposals:
        with pytest.raises(ConflictError, match="already; nothing was committed"):
            commit(log, log.load(), proposal)


def test_writers_may_divide_differently(tmp_path: Path) -> None:
    """A store is the same, whoever writes which checkpoint."""
    environment: LocalEnvironment = quick_environment(tmp_path / "store")
    writer = Writer.of(environment, seed=9)
    divisions = itertools.cycle([FINE, Division(most=0, size=2), Division(), Division(30, 8)])
    for epoch in range(16, 200, 16):
        writer.log = divided_log(environment, next(divisions))
        writer.state = writer.log.load()
        writer.advance(epoch)
        expected = encode_checkpoint(writer.state)
        assert encode_checkpoint(divided_log(environment).load()) == expected
