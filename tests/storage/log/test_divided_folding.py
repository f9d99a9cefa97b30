"""Crashes and errors between manifests and the checkpoint that names them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from relstate.storage.errors import RelstateError
from support.commits import quick_environment
from support.divided_logs import Writer, divided_log
from support.faulty_environment import FaultyEnvironment, trials


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
