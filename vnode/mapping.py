"""The vnode mapping: which parallel unit owns which virtual node.

Rows hash to vnodes for ever; only the mapping changes when the parallelism does. That is
RisingWave's consistent hash: https://github.com/risingwavelabs/risingwave, "Consistent Hash".

Promises: a mapping is immutable; units' loads (the numbers of vnodes they own) differ by at most
one in a balanced or rescaled mapping; a rescale moves the fewest vnodes that reach that, and the
same ones every time.
Does not know: what a parallel unit is, where it runs, what a vnode weighs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from typing import NamedTuple

from .group import check_vnode_count, even_ranges


class Move(NamedTuple):
    """One vnode whose owner differs between two mappings."""

    vnode: int
    origin: int
    destination: int


@dataclass(frozen=True, slots=True)
class VnodeMapping:
    """The owner of every vnode: unit ``owners[vnode]``, of units ``0 .. units - 1``."""

    owners: tuple[int, ...]
    units: int

    def __post_init__(self) -> None:
        check_vnode_count(len(self.owners))
        _check_units(self.units)
        strays = [unit for unit in self.owners if not 0 <= unit < self.units]
        if strays:
            raise ValueError(f"owners must be units 0 to {self.units - 1}, not {strays[0]}")

    @classmethod
    def balanced(cls, vnode_count: int, units: int) -> VnodeMapping:
        """Return the mapping to contiguous blocks; the first units own one more where needed.

        ValueError unless there are 1 to 32768 vnodes and at least one unit.
        """
        check_vnode_count(vnode_count)
        _check_units(units)
        blocks = even_ranges(vnode_count, units)
        return cls(tuple(unit for unit, block in enumerate(blocks) for _ in block), units)

    @property
    def vnode_count(self) -> int:
        """The number of vnodes."""
        return len(self.owners)

    @property
    def loads(self) -> tuple[int, ...]:
        """The number of vnodes that each unit owns."""
        return tuple(len(vnodes) for vnodes in self._vnodes_by_unit())

    def vnodes_of(self, unit: int) -> tuple[int, ...]:
        """Return the vnodes that ``unit`` owns, ascending; ValueError if there is no such unit."""
        self._check_unit(unit)
        return tuple(vnode for vnode, owner in enumerate(self.owners) if owner == unit)

    def ranges_of(self, unit: int) -> tuple[range, ...]:
        """Return the vnodes of ``unit`` as the fewest ranges, ascending."""
        self._check_unit(unit)
        return tuple(vnodes for owner, vnodes in self._runs() if owner == unit)

    def rescale(self, units: int) -> VnodeMapping:
        """Return the balanced mapping to ``units`` units that moves the fewest vnodes.

        A unit that stays (its number is below ``units``) keeps its vnodes up to its share and
        gives up its highest ones; a unit that is removed gives up all. These go, ascending, to the
        units below their share, the first ones first. Vnodes that do not divide evenly make the
        share of the most loaded units one larger. ValueError for less than one unit.
        """
        _check_units(units)
        owned = self._vnodes_by_unit()
        remaining = owned[:units] + [[] for _ in range(units - self.units)]
        shares = _shares(self.vnode_count, [len(vnodes) for vnodes in remaining])
        surrendered = [vnodes[share:] for vnodes, share in zip(remaining, shares, strict=True)]
        wanting = (
            unit
            for unit, (vnodes, share) in enumerate(zip(remaining, shares, strict=True))
            for _ in range(share - len(vnodes))
        )
        owners = list(self.owners)
        surplus = sorted(chain(*surrendered, *owned[units:]))
        for vnode, unit in zip(surplus, wanting, strict=True):
            owners[vnode] = unit
        return VnodeMapping(tuple(owners), units)

    def moves_to(self, target: VnodeMapping) -> tuple[Move, ...]:
        """Return the vnodes whose owners differ, ascending.

        ValueError where the mappings have different numbers of vnodes.
        """
        if target.vnode_count != self.vnode_count:
            raise ValueError(
                f"a mapping of {self.vnode_count} vnodes cannot become one of {target.vnode_count}"
            )
        pairs = enumerate(zip(self.owners, target.owners, strict=True))
        return tuple(Move(vnode, old, new) for vnode, (old, new) in pairs if old != new)

    def to_json(self) -> dict[str, object]:
        """Return the mapping for JSON: the units, and runs of [owner, number of vnodes]."""
        # On disk: never change the names or what they mean.
        return {
            "units": self.units,
            "runs": [[owner, len(vnodes)] for owner, vnodes in self._runs()],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> VnodeMapping:
        """Return the mapping that ``to_json`` turned into ``value``; ValueError where none did."""
        match value:
            case {"units": int(units), "runs": list(runs)} if all(map(_is_run, runs)):
                # Lengths are looked at before they are unrolled.
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
