"""Laws of the segments of a state: which names they certainly do not have."""

from __future__ import annotations

from pathlib import Path

from relstate.storage.environment import Environment
from relstate.storage.environment_choice import environment_of
from support.divided_logs import Writer, divided_log


def environment_at(path: Path) -> Environment:
    """Return the environment of a new store."""
    path.mkdir(exist_ok=True)
    return environment_of(str(path / "store"))


def test_a_name_of_no_segment_is_absent(tmp_path: Path) -> None:
    """Those of live segments are not; merged ones are."""
    writer = Writer.of(environment_at(tmp_path))
    seen: set[str] = set()
    while writer.state.epoch < 30:
        writer.step()
        seen |= set(writer.state.segments)
    live = writer.state.segments

    assert live.absent([*seen, "other"]) == {*(seen - set(live)), "other"}


def test_no_name_is_absent_while_segments_are_not_in_memory(tmp_path: Path) -> None:
    """A manifest that was not read may have any; nothing is read to know it."""
    writer = Writer.of(environment_at(tmp_path))
    writer.advance(64)
    state = divided_log(writer.environment).load()

    assert state.segments.absent(["other"]) == set()
    assert len([*state.segments.values()]) == len(state.segments)
    assert state.segments.absent(["other"]) == {"other"}
