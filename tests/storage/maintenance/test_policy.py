"""The merges after commits: few files per shard, whatever the number of epochs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.maintenance.components import (
    Component,
    File,
    bottom_cells,
    is_sound,
    output_sequence_number,
)
from relstate.storage.maintenance.policy import BUDGET, CUT, Merge, automatic, full

_SHARDS = 16
_LEAST = 12 << 10  # an LMDB file of one entry
_ALL = frozenset((1, shard) for shard in range(_SHARDS))


def component(files: Sequence[File], needs_base: bool = False) -> Component:
    """Return a component of some files, of tables that do not matter."""
    return Component(
        (), tuple(sorted(files, key=lambda file: (file.sequence_number, file.name))), needs_base
    )


def merged(merge: Merge, number: int, most: int) -> list[File]:
    """Return the files that a merge writes, if the live rows have at most so many bytes."""
    size, newest = min(merge.size, most), output_sequence_number(merge.inputs)
    shards = sorted({shard for file in merge.inputs for shard in file.shards})
    if not merge.by_shard:
        return [File(f"m{number}", newest, size, frozenset((1, shard) for shard in shards))]
    part = max(size // len(shards), _LEAST)
    return [File(f"m{number}-{shard}", newest, part, frozenset({(1, shard)})) for shard in shards]


class Simulation:
    """Files that commits add and automatic merges replace."""

    def __init__(self, most: int = 1 << 40, needs_base: bool = False) -> None:
        self.files: list[File] = []
        self.most, self.needs_base = most, needs_base
        self.written = self.read = self.most_live = self.merges = 0

    def commit(self, size: int, shards: Sequence[int]) -> None:
        """Add a file and run the merges that are due."""
        epoch = len(self.files) and max(file.sequence_number for file in self.files)[0]
        cells = frozenset((1, shard) for shard in shards)
        self.files.append(File(f"c{epoch + 1}", (epoch + 1, 0), size, cells))
        self.written += size
        before = component(self.files, self.needs_base)
        merges = automatic(before)
        self.check(before, merges)
        for merge in merges:
            self.read += merge.size
            self.merges += 1
            remaining = [file for file in self.files if file not in merge.inputs]
            self.files = remaining + merged(merge, self.merges, self.most)
        self.most_live = max(self.most_live, live(self.files))

    def check(self, before: Component, merges: Sequence[Merge]) -> None:
        """Check the laws of every plan."""
        inputs = [file for merge in merges for file in merge.inputs]
        assert sum(file.size for file in inputs) <= BUDGET
        assert len(set(inputs)) == len(inputs)
        for merge in merges:
            assert is_sound(before.files, merge.inputs)
            assert len(merge.inputs) > 1 or merge.by_shard
            if self.needs_base:
                cells = {cell for file in merge.inputs for cell in file.cells}
                assert bottom_cells(before.files, merge.inputs) == cells


def live(files: Sequence[File]) -> int:
    """Return the number of files in the shard that has the most."""
    return max(Counter(shard for file in files for shard in file.shards).values())


_DRAWN = random.Random(7)
_SIZES: list[Callable[[], int]] = [
    lambda: _LEAST,
    lambda: 64 << 10,
    lambda: int(_LEAST * 2 ** _DRAWN.uniform(0, 3)),
]


@pytest.mark.parametrize("size", _SIZES, ids=["12 KiB", "64 KiB", "12 to 96 KiB"])
@pytest.mark.parametrize("width", [1, 2, _SHARDS])
def test_two_thousand_epochs_leave_twelve_files_a_shard(
    size: Callable[[], int], width: int
) -> None:
    """At every moment, and each row is rewritten a few times only."""
    simulation, drawn = Simulation(), random.Random(3)
    for _ in range(2000):
        simulation.commit(size(), drawn.sample(range(_SHARDS), width))

    assert simulation.most_live <= 12
    assert simulation.read < 16 * simulation.written
    assert simulation.merges < 1500


@pytest.mark.parametrize("live_bytes", [60 << 10, 1 << 20])
def test_the_same_keys_for_ever_leave_few_files(live_bytes: int) -> None:
    """A table that does not grow is merged to one file again and again, at a low cost."""
    simulation = Simulation(most=live_bytes)
    for _ in range(2000):
        simulation.commit(60 << 10, range(_SHARDS))

    assert simulation.most_live <= 7
    assert len(simulation.files) <= 7
    assert simulation.read < 6 * simulation.written


@pytest.mark.parametrize("most", [1 << 20, 1 << 40])
def test_what_folds_from_the_base_only_is_merged_to_the_bottom(most: int) -> None:
    """As long as all of it fits into the budget there are few files."""
    simulation = Simulation(most, needs_base=True)
    for _ in range(200):
        simulation.commit(_LEAST, range(_SHARDS))

    assert simulation.most_live <= 12


@given(
    st.lists(
        st.tuples(
            st.integers(12, 9 << 10).map(lambda size: size << 10) | st.just(_LEAST),
            st.sets(st.integers(0, _SHARDS - 1), min_size=1, max_size=3).map(tuple)
            | st.just(tuple(range(_SHARDS))),
        ),
        max_size=60,
    ),
    st.booleans(),
)
def test_every_plan_is_lawful(commits: list[tuple[int, tuple[int, ...]]], needs_base: bool) -> None:
    """Sound, within the budget, without a file in two merges, from the oldest file on if needed."""
    simulation = Simulation(needs_base=needs_base)
    for size, shards in commits:
        simulation.commit(size, shards)


def test_a_large_file_is_let_lie() -> None:
    """Files too large for automatic merges are left to a full compaction."""
    simulation = Simulation()
    simulation.commit(BUDGET + 1, range(_SHARDS))
    large = simulation.files[0]
    for _ in range(100):
        simulation.commit(_LEAST, range(_SHARDS))

    assert large in simulation.files
    assert live(simulation.files) <= 12


def test_large_files_take_the_places_of_unmerged_ones() -> None:
    """Files of more than two fifths of the budget wait, and three small ones beside them too."""
    medium = [File(f"m{epoch}", (epoch, 0), BUDGET * 2 // 5, _ALL) for epoch in range(7)]
    large = [File(f"l{epoch}", (epoch, 0), BUDGET * 2 // 5 + 1, _ALL) for epoch in range(7)]
    small = [File(f"s{epoch}", (9 + epoch, 0), _LEAST, _ALL) for epoch in range(4)]

    assert automatic(component(medium)) == [Merge(tuple(medium[:2]), by_shard=True)]
    assert automatic(component(large)) == []
    assert automatic(component([*large, *small[:3]])) == []
    assert automatic(component([*large, *small])) == [Merge(tuple(small), by_shard=False)]


def test_a_full_compaction_takes_everything_or_nothing() -> None:
    """Nothing where no file hides rows of another, or holds deletes or parts, and all are cut."""
    small = File("small", (1, 0), _LEAST, _ALL)
    cut = [File(f"s{shard:02}", (9, 0), CUT, frozenset({(1, shard)})) for shard in range(_SHARDS)]
    deletes = File("deletes", (1, 0), _LEAST, _ALL, has_deletes=True)
    parts = File("parts", (1, 0), _LEAST, _ALL, has_parts=True)
    over = File("over", (10, 0), _LEAST, frozenset({(1, 3)}))

    assert full(component([small])) is None
    assert full(component(cut)) is None
    assert full(component([deletes])) == Merge((deletes,), by_shard=False)
    assert full(component([parts])) == Merge((parts,), by_shard=False)
    assert full(component([*cut, over])) == Merge((*cut, over), by_shard=True)
    large = File("large", (1, 0), CUT + 1, _ALL)
    assert full(component([large])) == Merge((large,), by_shard=True)


def test_a_full_compaction_may_spare_what_is_young() -> None:
    """The files after the last one too large for automatic merges; without such a file, none."""
    large = File("large", (1, 0), BUDGET + 1, _ALL)
    between = File("between", (2, 0), _LEAST, _ALL)
    last = [
        File(f"s{shard:02}", (3, 0), BUDGET + 1, frozenset({(1, shard)}))
        for shard in range(_SHARDS)
    ]
    young = [File(f"y{epoch}", (epoch, 0), _LEAST, _ALL) for epoch in (4, 5)]

    files = [large, between, *last, *young]
    assert full(component(files), spares_young=True) == Merge(tuple(files[:-2]), by_shard=True)
    assert full(component([*last, *young]), spares_young=True) is None
    assert full(component(young), spares_young=True) == Merge(tuple(young), by_shard=False)
