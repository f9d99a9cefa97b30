"""Which manifests stay: those that a checkpoint names, or may be about to name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.errors import FilesystemError
from relstate.storage.log.checkpoint import encode_checkpoint
from relstate.storage.log.live_segments import LiveSegments, file_names
from relstate.storage.maintenance.vacuum import vacuum
from relstate.storage.paths import checkpoint_path, manifest_path
from support.clock import ManualClock
from support.commits import quick_environment
from support.divided_logs import Writer, age, divided_log, manifests_of
from support.faulty_environment import FaultyEnvironment

DAY = 24 * 3600


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
