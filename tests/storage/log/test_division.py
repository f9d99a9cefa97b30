"""Checkpoints that are divided among manifests: the same states, read and written in part."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.errors import ConflictError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.checkpoint import encode_checkpoint
from relstate.storage.log.folding import Division
from relstate.storage.log.live_segments import LiveSegments, file_names
from relstate.storage.log.proposal import Proposal
from relstate.storage.log.transaction import commit
from relstate.storage.paths import checkpoint_path
from support.clock import ManualClock
from support.commits import committed, quick_environment
from support.divided_logs import FINE, Writer, divided_log, manifests_of
from support.faulty_environment import FaultyEnvironment


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
