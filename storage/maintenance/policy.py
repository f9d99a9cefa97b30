"""The choice of files to merge: size-tiered, after RocksDB's universal compaction.

Commits leave *wide* files, with rows of several shards, or *narrow* ones, of one shard. A few files
of each kind are left unmerged. When there are more, neighbours in the order of their sequence
numbers are merged, the newest first, as long as the next older file is not much larger than the
files gathered so far. So a row is rewritten about once each time the data around it doubles.
A merge of more than some MiB is cut by shard, the oldest files first, and from then on each shard
is merged by itself.

Automatic merges read a bounded number of bytes, because a writer waits for them. A file larger than
this budget is never an input; it separates the newer files from the older ones. A file larger than
two fifths of it is *large*: it counts as one of the few unmerged files, as long as some remain for
small ones, because merges of such files would only make every commit of their size wait.

Promises: pure functions; every merge is sound (components.py), and those of one plan share no file.
Does not know: how files are merged, or when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .components import LEAST_SMALL, Cell, Component, File, SequenceNumber, is_sound

BUDGET = 6 << 20
"""Bytes of input that automatic merges read after one commit."""
CUT = 4 << 20
"""Bytes of input above which a merge writes one file per shard."""

MOST_WIDE = 6
MOST_NARROW = 6
# Shards are merged early: after a cut all of them reach the limit at once.
_EARLY_NARROW = 4
FEW = min(MOST_WIDE, _EARLY_NARROW)
"""A table with at most this many files is not considered after a commit."""
# A merge takes at least this many files if possible: each merge costs a commit.
_LEAST_FILES = 4
# The next older file is taken if it is at most this many times as large as those gathered so far.
_RATIO = 2


@dataclass(frozen=True, slots=True)
class Merge:
    """Files to merge, the oldest first; ``by_shard``: into one file per shard, else into one."""

    inputs: tuple[File, ...]
    by_shard: bool

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return _size(self.inputs)


def automatic(component: Component, budget: int = BUDGET) -> list[Merge]:
    """Return the merges that a component needs most, together within a budget; often none."""
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

    ``has_expired``: whether there are rows that a merge would remove because they have expired.
    ``spares_young``: leave the files newer than the last one too large for automatic merges: a busy
    writer would replace them before a long merge is done.
    """
    files = _settled(component.files) if spares_young else component.files
    by_shard = _size(files) > CUT
    if _is_compact(files, by_shard) and not has_expired:
        return None
    return Merge(tuple(files), by_shard)


def _settled(files: Sequence[File]) -> Sequence[File]:
    """Return the files up to the newest one too large for automatic merges; all without one."""
    large = [file.sequence_number for file in files if file.size > BUDGET]
    return [file for file in files if file.sequence_number <= large[-1]] if large else files


def _is_compact(files: Sequence[File], by_shard: bool) -> bool:
    """Return whether no file hides another's rows, none holds deletes or parts, and all are cut."""
    if any(file.has_deletes or file.has_parts or (by_shard and file.is_wide) for file in files):
        return False
    numbers: dict[Cell, SequenceNumber] = {}
    return all(
        numbers.setdefault(cell, file.sequence_number) == file.sequence_number
        for file in files
        for cell in file.cells
    )


def _are_too_many(files: Sequence[File], most: int, budget: int) -> bool:
    """Return whether there are more small files than may remain beside the large ones."""
    large = sum(file.size > budget * 2 // 5 for file in files)
    return len(files) - large > max(most - large, LEAST_SMALL)


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
        # Files that are already cut by shard are older; they are merged shard by shard.
        first = next((index for index, file in enumerate(stretch) if file.is_wide), 0)
        inputs = _newest(component.files, stretch[first:], budget)
        if _size(inputs) > CUT:
            # A cut must not leave older wide files behind: nothing would merge them later.
            return Merge(tuple(_oldest(component.files, stretch[first:], budget)), by_shard=True)
        if inputs:
            return Merge(tuple(inputs), by_shard=False)
    return None


def _merge(inputs: Sequence[File]) -> Merge | None:
    return Merge(tuple(inputs), _size(inputs) > CUT) if len(inputs) > 1 else None


def _narrow_by_shard(files: Sequence[File]) -> dict[int, list[File]]:
    by_shard: dict[int, list[File]] = {}
    for file in files:
        if not file.is_wide:
            (shard,) = file.shards
            by_shard.setdefault(shard, []).append(file)
    return by_shard


def _narrow_merges(component: Component, budget: int) -> Iterator[Merge]:
    """Yield merges within shards, those with the most files first, within the budget."""
    by_shard = _narrow_by_shard(component.files)
    remaining_budget = budget
    for shard in sorted(by_shard, key=lambda shard: -len(by_shard[shard])):
        if not _are_too_many(by_shard[shard], _EARLY_NARROW, budget):
            continue
        inputs = _narrow_run(component, shard, budget)
        if len(inputs) > 1 and _size(inputs) <= remaining_budget:
            remaining_budget -= _size(inputs)
            yield Merge(tuple(inputs), by_shard=False)


def _narrow_run(component: Component, shard: int, budget: int) -> Sequence[File]:
    """Return neighbouring files to merge that have rows in one shard only; often none."""
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
    """Return the oldest files that fit into the budget and can be merged soundly."""
    stop = size = 0
    while stop < len(stretch) and size + stretch[stop].size <= budget:
        size += stretch[stop].size
        stop += 1
    while stop and not is_sound(files, stretch[:stop]):
        stop -= 1
    return stretch[:stop]
