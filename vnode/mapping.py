"""How vnodes are grouped: shards, the units of files, and the mapping to parallel units.

A vnode is a number from 0 to ``vnode_count - 1``. A shard is a ``range`` of vnodes. Neither the
vnode of a row nor the shard of a vnode ever changes, because files depend on both; only the mapping
changes with the parallelism. RisingWave calls this a consistent hash:
https://github.com/risingwavelabs/risingwave, "Consistent Hash".

Promises: pure functions and immutable values. The numbers of vnodes that units own differ by at
most one in a balanced or rescaled mapping; a rescale moves the fewest vnodes that reach that, and
the same ones every time.
Does not know: what a parallel unit is, where it runs, how many rows a vnode has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, groupby, pairwise

import numpy as np
from numpy.typing import NDArray

DEFAULT_VNODE_COUNT = 256
# On disk a vnode takes two bytes. Never raise it.
MAX_VNODE_COUNT = 32768
DEFAULT_SHARDS = 16


def check_vnode_count(vnode_count: int) -> None:
    """Raise ValueError unless ``vnode_count`` is 1 to 32768."""
    if not 1 <= vnode_count <= MAX_VNODE_COUNT:
        raise ValueError(f"vnode_count must be 1 to {MAX_VNODE_COUNT}, not {vnode_count}")


def shard_ranges(vnode_count: int, shards: int) -> tuple[range, ...]:
    """Return the vnodes of every shard: ranges of equal sizes, the first ones larger by one.

    ValueError unless there are 1 to ``vnode_count`` shards.
    """
    # On disk: files are cut at these bounds. Never change them.
    check_vnode_count(vnode_count)
    if not 1 <= shards <= vnode_count:
        raise ValueError(f"shards must be 1 to {vnode_count} (the vnode_count), not {shards}")
    return _even_ranges(vnode_count, shards)


def shards_of(vnodes: NDArray[np.integer], vnode_count: int, shards: int) -> NDArray[np.int64]:
    """Return for every vnode the index in ``shard_ranges(vnode_count, shards)`` of its shard.

    Requires: vnodes from 0 to ``vnode_count - 1``. ValueError as of `shard_ranges`.
    """
    starts = [shard.start for shard in shard_ranges(vnode_count, shards)]
    return np.searchsorted(starts, vnodes, side="right") - 1


@dataclass(frozen=True, slots=True)
class VnodeMapping:
    """The owner of every vnode: unit ``owners[vnode]``, of units ``0 .. units - 1``."""

    owners: tuple[int, ...]
    units: int

    def __post_init__(self) -> None:
        check_vnode_count(len(self.owners))
        _check_units(self.units)
        invalid_owners = [unit for unit in self.owners if not 0 <= unit < self.units]
        if invalid_owners:
            raise ValueError(f"owners must be units 0 to {self.units - 1}, not {invalid_owners[0]}")

    @classmethod
    def balanced(cls, vnode_count: int, units: int) -> VnodeMapping:
        """Return the mapping to contiguous blocks of vnodes, of equal sizes.

        If they do not divide evenly, the first units own one more. ValueError unless there are 1 to
        32768 vnodes and at least one unit.
        """
        check_vnode_count(vnode_count)
        _check_units(units)
        blocks = _even_ranges(vnode_count, units)
        return cls(tuple(unit for unit, block in enumerate(blocks) for _ in block), units)

    @property
    def vnode_count(self) -> int:
        """The number of vnodes."""
        return len(self.owners)

    def ranges_of(self, unit: int) -> tuple[range, ...]:
        """Return the vnodes of ``unit`` as the fewest ranges, ascending."""
        self._check_unit(unit)
        return tuple(vnodes for owner, vnodes in self._runs() if owner == unit)

    def rescale(self, units: int) -> VnodeMapping:
        """Return the balanced mapping to ``units`` units that moves the fewest vnodes.

        A unit that stays (its number is below ``units``) keeps its vnodes up to its share and
        gives up its highest ones; a unit that is removed gives up all. They are assigned in
        ascending order to the units below their share, the first unit first. If the vnodes do not
        divide evenly, the shares of the most loaded units are larger by one. ValueError for less
        than one unit.
        """
        _check_units(units)
        owned = self._vnodes_by_unit()
        remaining = owned[:units] + [[] for _ in range(units - self.units)]
        shares = _shares(self.vnode_count, [len(vnodes) for vnodes in remaining])
        surplus_by_unit = [vnodes[share:] for vnodes, share in zip(remaining, shares, strict=True)]
        receivers = (
            unit
            for unit, (vnodes, share) in enumerate(zip(remaining, shares, strict=True))
            for _ in range(share - len(vnodes))
        )
        owners = list(self.owners)
        surplus = sorted(chain(*surplus_by_unit, *owned[units:]))
        for vnode, unit in zip(surplus, receivers, strict=True):
            owners[vnode] = unit
        return VnodeMapping(tuple(owners), units)

    def to_json(self) -> dict[str, object]:
        """Return the mapping for JSON: the units, and runs of [owner, number of vnodes]."""
        # On disk: never change the names or what they mean.
        return {
            "units": self.units,
            "runs": [[owner, len(vnodes)] for owner, vnodes in self._runs()],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> VnodeMapping:
        """Return the mapping from the result of `to_json`; ValueError for another value."""
        match value:
            case {"units": int(units), "runs": list(runs)} if all(map(_is_run, runs)):
                # Checked first: lengths that were read from a file could need any memory.
                check_vnode_count(sum(length for _, length in runs))
                owners = chain.from_iterable([owner] * length for owner, length in runs)
                return cls(tuple(owners), units)
        raise ValueError(f"not a vnode mapping: {value!r}")

    def _runs(self) -> list[tuple[int, range]]:
        runs, start = [], 0
        for owner, vnodes in groupby(self.owners):
            end = start + sum(1 for _ in vnodes)
            runs.append((owner, range(start, end)))
            start = end
        return runs

    def _vnodes_by_unit(self) -> list[list[int]]:
        owned: list[list[int]] = [[] for _ in range(self.units)]
        for vnode, unit in enumerate(self.owners):
            owned[unit].append(vnode)
        return owned

    def _check_unit(self, unit: int) -> None:
        if not 0 <= unit < self.units:
            raise ValueError(f"unit must be 0 to {self.units - 1}, not {unit}")


def _shares(vnode_count: int, loads: list[int]) -> list[int]:
    """Return how many vnodes each unit will own, given how many of them it owns now."""
    share, larger = divmod(vnode_count, len(loads))
    most_loaded = sorted(range(len(loads)), key=lambda unit: (-loads[unit], unit))
    favoured = set(most_loaded[:larger])
    return [share + (unit in favoured) for unit in range(len(loads))]


def _is_run(run: object) -> bool:
    match run:
        case [int(owner), int(length)]:
            return owner >= 0 and length > 0
    return False


def _check_units(units: int) -> None:
    if units < 1:
        raise ValueError(f"a mapping needs at least 1 unit, not {units}")


def _even_ranges(vnode_count: int, count: int) -> tuple[range, ...]:
    """Return ranges whose sizes differ by at most one, the larger ones first."""
    size, larger = divmod(vnode_count, count)
    ends = [size * index + min(index, larger) for index in range(count + 1)]
    return tuple(range(start, end) for start, end in pairwise(ends))
