"""What is worth merging: size-tiered, after RocksDB's universal compaction.

Commits leave *wide* files, with rows of several shards, or *narrow* ones, of one shard. Of each
kind a few are let lie. When there are more, neighbours in the order of their places are merged,
from the newest on, as long as the next older one is not much larger than what is gathered: so a
row is rewritten about once each time the data around it doubles. What has grown beyond some MiB is
cut by shard, the oldest first, and from then on each shard is merged by itself.

Automatic merges stay within a budget of input, because a writer waits for them. A file larger than
the budget is never touched; it divides the files over it from those under it. One larger than half
of it takes a place among the few, as long as some are left for small ones.

Promises: pure functions; every merge is sound (layout.py), and those of one plan share no file.
Does not know: how files are merged, or when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .layout import Component, File, is_sound

BUDGET = 6 << 20
"""Bytes of input that automatic merges read after one commit."""
CUT = 4 << 20
"""Bytes of input of which a merge makes one file a shard."""

MOST_WIDE = 6
MOST_NARROW = 6
# Shards are merged before they must be: after a cut all of them want it at once.
_EARLY_NARROW = 4
FEW = min(MOST_WIDE, _EARLY_NARROW)
"""Of a table with so many files none are merged after a commit."""
# How many places are left for small files, however many large ones there are.
_LEAST_PLACES = 3
# A merge takes so many files at least, where it can: each costs a commit.
_LEAST_FILES = 4
# The next older file is taken if it is at most so many times as large as what is gathered.
_RATIO = 2


@dataclass(frozen=True, slots=True)
class Merge:
    """Files to be merged, the oldest first; ``by_shard``: into one file a shard, else into one."""

    inputs: tuple[File, ...]
    by_shard: bool

    @property
    def size(self) -> int:
        """The bytes of the files."""
        return _size(self.inputs)


def automatic(component: Component, budget: int = BUDGET) -> list[Merge]:
    """Return the merges, within a budget together, that a component needs most; often none."""
    files = component.files
    wide = [file for file in files if file.is_wide]
    if _are_too_many(wide, MOST_WIDE, budget):
        merge = _wide_merge(component, budget)
        if merge is not None:
            return [merge]
    merges = list(_narrow_merges(component, budget))
    if not merges and any(
        _are_too_many(narrow, MOST_NARROW, budget) for narrow in _narrow_by_shard(files).values()
    ):
        merge = _wide_merge(component, budget)
        merges = [] if merge is None else [merge]
    return merges


def full(
    component: Component, *, has_expired: bool = False, spares_young: bool = False
) -> Merge | None:
    """Return the merge of all files of a component; None if it would change nothing.

    ``has_expired``: whether there are rows that would leave because they have expired.
    ``spares_young``: leave the files that came after the last one too large for automatic merges.
    Beside a writer those would be gone before a long merge is done.
    """
    files = _settled(component.files) if spares_young else component.files
    by_shard = _size(files) > CUT
    if _is_compact(files, by_shard) and not has_expired:
        return None
    return Merge(tuple(files), by_shard)


def _settled(files: Sequence[File]) -> Sequence[File]:
    """Return the files up to the place of the last that no automatic merge takes; else all."""
    large = [file.place for file in files if file.size > BUDGET]
    return [file for file in files if file.place <= large[-1]] if large else files


def _is_compact(files: Sequence[File], by_shard: bool) -> bool:
    """Return whether no file hides another's rows, none holds deletes, and all are cut."""
    if any(file.has_deletes or (by_shard and file.is_wide) for file in files):
        return False
    places = dict[tuple[int, int], tuple[int, int]]()
    return all(
        places.setdefault(cell, file.place) == file.place for file in files for cell in file.cells
    )


def _are_too_many(files: Sequence[File], most: int, budget: int) -> bool:
    large = sum(file.size > budget // 2 for file in files)
    return len(files) - large > max(most - large, _LEAST_PLACES)


def _size(files: Sequence[File]) -> int:
    return sum(file.size for file in files)


def _stretches(files: Sequence[File], budget: int) -> list[list[File]]:
    """Return the files between those larger than the budget, the newest stretch first."""
    stretches: list[list[File]] = [[]]
    for file in files:
        if file.size > budget:
            stretches.append([])
        else:
            stretches[-1].append(file)
    return stretches[::-1]


def _wide_merge(component: Component, budget: int) -> Merge | None:
    if component.needs_base:
        return _merge(_oldest(component.files, component.files, budget))
    for stretch in _stretches(component.files, budget):
        # What is cut by shard already is older; it is merged shard by shard.
        first = next((at for at, file in enumerate(stretch) if file.is_wide), 0)
        inputs = _newest(component.files, stretch[first:], budget)
        if _size(inputs) > CUT:
            # What is cut must not come to lie over wide files that would stay beneath it for ever.
            return Merge(tuple(_oldest(component.files, stretch[first:], budget)), by_shard=True)
        if inputs:
            return Merge(tuple(inputs), by_shard=False)
    return None


def _merge(inputs: Sequence[File]) -> Merge | None:
    return Merge(tuple(inputs), _size(inputs) > CUT) if len(inputs) > 1 else None


def _narrow_by_shard(files: Sequence[File]) -> dict[int, list[File]]:
    found: dict[int, list[File]] = {}
    for file in files:
        if not file.is_wide:
            (shard,) = file.shards
            found.setdefault(shard, []).append(file)
    return found


def _narrow_merges(component: Component, budget: int) -> Iterator[Merge]:
    """Yield merges inside of shards, those with the most files first, while there is budget."""
    by_shard = _narrow_by_shard(component.files)
    left = budget
    for shard in sorted(by_shard, key=lambda shard: -len(by_shard[shard])):
        if not _are_too_many(by_shard[shard], _EARLY_NARROW, budget):
            continue
        inputs = _narrow_run(component, shard, budget)
        if len(inputs) > 1 and _size(inputs) <= left:
            left -= _size(inputs)
            yield Merge(tuple(inputs), by_shard=False)


def _narrow_run(component: Component, shard: int, budget: int) -> Sequence[File]:
    """Return neighbours in a shard that lie in no other."""
    stretches: list[list[File]] = [[]]
    for file in component.files:
        if shard not in file.shards:
            continue
        if file.is_wide or file.size > budget:
            stretches.append([])
        else:
            stretches[-1].append(file)
    if component.needs_base:
        return _oldest(component.files, stretches[0], budget)
    runs = (_newest(component.files, stretch, budget) for stretch in reversed(stretches))
    return next((run for run in runs if run), ())


def _newest(files: Sequence[File], stretch: Sequence[File], budget: int) -> Sequence[File]:
    """Return the newest neighbours worth merging, at least two; none if all are too large."""
    for stop in range(len(stretch), 1, -1):
        start, size = stop - 1, stretch[stop - 1].size
        while start and size + stretch[start - 1].size <= budget:
            if stop - start >= _LEAST_FILES and stretch[start - 1].size > size * _RATIO:
                break
            start -= 1
            size += stretch[start].size
        if stop - start > 1 and is_sound(files, stretch[start:stop]):
            return stretch[start:stop]
    return ()


def _oldest(files: Sequence[File], stretch: Sequence[File], budget: int) -> Sequence[File]:
    """Return the oldest files that fit into the budget, but for the last ones of a torn merge."""
    stop = size = 0
    while stop < len(stretch) and size + stretch[stop].size <= budget:
        size += stretch[stop].size
        stop += 1
    while stop and not is_sound(files, stretch[:stop]):
        stop -= 1
    return stretch[:stop]
