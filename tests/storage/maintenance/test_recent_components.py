"""Automatic merges of a large store look at its newest files only, and choose soundly."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from relstate.storage.log.entry import Entry
from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from relstate.storage.log.state import StoreState
from relstate.storage.maintenance.components import (
    bottom_cells,
    components,
    is_sound,
    output_sequence_number,
    recent_components,
)
from relstate.storage.maintenance.policy import Merge, automatic
from support.commits import SETTINGS, new_store, quick_environment
from support.divided_logs import divided_log
from support.faulty_environment import FaultyEnvironment

SHARDS = 3
MB = 1 << 20


class Grower:
    """Folds entries that no file stands for, as writers and their merges would make them."""

    def __init__(self, state: StoreState, seed: int) -> None:
        self.state = state
        self._random = random.Random(seed)

    def record(self, shards: list[int], table_ids: list[int], size: int) -> SegmentRecord:
        """Return the record of a segment."""
        bytes_by_shard = tuple(
            size // len(shards) * (shard in shards) for shard in range(SETTINGS.shards)
        )
        statistics = (
            TableStatistics(
                table_id, 1, self._random.randint(0, 1), b"a", b"b", bytes_by_shard, b"a", b"b"
            )
            for table_id in table_ids
        )
        name = f"{self._random.getrandbits(128):032x}-0"
        return SegmentRecord(name, size, "0123456789abcdef", tuple(statistics))

    def apply(self, added: list[SegmentRecord], removed: list[str], merge: bool = False) -> None:
        """Add an entry."""
        state = self.state
        entry = Entry(
            commit_id=f"{state.epoch + 1}",
            parent=state.commit_id,
            epoch=state.epoch + 1,
            time=state.time,
            started=state.time,
            operation="write",
            data_change=not merge,
            added=tuple(added),
            removed=tuple(removed),
        )
        self.state = state.apply(entry)

    def write(self) -> None:
        """Add files as a commit does: a small one of several shards, or large ones of one each."""
        draw = self._random
        tables = draw.choice([[1], [1], [2], [1, 2]])
        if draw.random() < 0.7:
            shards = draw.sample(range(SHARDS), draw.randint(1, SHARDS))
            self.apply([self.record(shards, tables, draw.choice([5_000, 200_000]))], [])
        else:
            sizes = [draw.choice([100_000, 3 * MB, 60 * MB]) for _ in range(draw.randint(1, 3))]
            self.apply([self.record([draw.randrange(SHARDS)], tables, size) for size in sizes], [])

    def merge(self, chosen: Merge) -> None:
        """Replace the inputs of a merge by its outputs."""
        number = output_sequence_number(chosen.inputs)
        shards = sorted({shard for file in chosen.inputs for shard in file.shards})
        tables = sorted({table for file in chosen.inputs for table, _ in file.cells})
        groups = [[shard] for shard in shards] if chosen.by_shard else [shards]
        size = chosen.size // len(groups)
        added = [self.record(group, tables, size) for group in groups]
        added = [replace(record, sequence_number=number) for record in added]
        self.apply(added, [file.name for file in chosen.inputs], merge=True)


@pytest.mark.parametrize("seed", range(6))
def test_merges_of_recent_files_are_sound_among_all(tmp_path: Path, seed: int) -> None:
    """No file overtakes another, and no delete is dropped above an older file."""
    environment = quick_environment(tmp_path / "store")
    _, state = new_store(environment, "orders", "items")
    grower = Grower(state, seed)
    log = divided_log(environment)
    merges = 0
    for number in range(250):
        if number % 10 == 0:
            log.folding.put_checkpoint(grower.state)
        grower.write()
        for recent in recent_components(grower.state, {1, 2}):
            (everything,) = (
                component
                for component in components(grower.state)
                if set(recent.table_ids) <= set(component.table_ids)
            )
            files = {file.name: file for file in everything.files}
            for chosen in automatic(recent):
                inputs = [files[file.name] for file in chosen.inputs]
                assert [file.name for file in sorted(inputs, key=_order)] == [
                    file.name for file in chosen.inputs
                ]
                assert is_sound(everything.files, inputs)
                assert bottom_cells(recent.files, chosen.inputs) <= bottom_cells(
                    everything.files, inputs
                )
                grower.merge(chosen)
                merges += 1
    assert merges > 10
    # What is small is merged, as if all files were looked at.
    small = [
        segment
        for segment in grower.state.segments.values()
        if segment.record.size < MB and segment.shard is not None
    ]
    assert len(small) <= 12 * SHARDS


def _order(file: object) -> tuple[object, object]:
    return file.sequence_number, file.name  # type: ignore[attr-defined]


def test_the_choice_of_merges_reads_the_newest_manifests(tmp_path: Path) -> None:
    """Whatever is compacted already stays unread."""
    environment = quick_environment(tmp_path / "store")
    _, state = new_store(environment, "orders")
    grower = Grower(state, 0)
    for shard in range(SHARDS):
        grower.apply([grower.record([shard], [1], 60 * MB) for _ in range(100)], [])
    log = divided_log(environment)
    log.folding.put_checkpoint(grower.state)
    watched = FaultyEnvironment(environment.root)
    grower.state = divided_log(watched).files.checkpoint(grower.state.epoch)
    for _ in range(8):
        grower.apply([grower.record([0, 1], [1], 100_000)], [])
    ((chosen,),) = map(automatic, recent_components(grower.state, {1}))

    assert len(chosen.inputs) == 8
    assert [touch for touch in watched.touches if "manifest" in touch] == []
