"""Shards, and the vnode mapping: balance, the fewest moves, the same moves every time."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.vnode import (
    DEFAULT_SHARDS,
    DEFAULT_VNODE_COUNT,
    MAX_VNODE_COUNT,
    VnodeMapping,
    shard_ranges,
    shards_of,
)

UNITS = st.integers(1, 40)


@st.composite
def mappings(draw: st.DrawFn) -> VnodeMapping:
    """Draw a mapping of any shape, balanced or not; some units may own no vnode."""
    units = draw(UNITS)
    owners = draw(st.lists(st.integers(0, units - 1), min_size=1, max_size=300))
    return VnodeMapping(tuple(owners), units)


def loads_of(mapping: VnodeMapping) -> list[int]:
    """Return the number of vnodes that each unit owns."""
    counts = Counter(mapping.owners)
    return [counts[unit] for unit in range(mapping.units)]


def moves_between(before: VnodeMapping, after: VnodeMapping) -> list[tuple[int, int]]:
    """Return (old owner, new owner) of each vnode whose owners differ."""
    pairs = zip(before.owners, after.owners, strict=True)
    return [(old, new) for old, new in pairs if old != new]


def fewest_moves(mapping: VnodeMapping, units: int) -> int:
    """Return the surplus: the vnodes of units that are removed, and those beyond a unit's share."""
    share, larger = divmod(mapping.vnode_count, units)
    staying = loads_of(mapping)[:units]
    retained = sum(min(load, share) for load in staying)
    retained += min(larger, sum(load > share for load in staying))
    return mapping.vnode_count - retained


@given(st.integers(1, MAX_VNODE_COUNT), st.data())
def test_shards_hold_every_vnode_and_differ_by_one(vnode_count: int, data: st.DataObject) -> None:
    """Each vnode is in the range of its shard; the larger shards come first."""
    shards = data.draw(st.integers(1, vnode_count))
    ranges = shard_ranges(vnode_count, shards)
    sizes = [len(vnodes) for vnodes in ranges]

    assert list(chain.from_iterable(ranges)) == list(range(vnode_count))
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == shards
    assert sizes[0] - sizes[-1] <= 1
    vnodes = data.draw(st.lists(st.integers(0, vnode_count - 1), min_size=1))
    owners = shards_of(np.array(vnodes, np.uint16), vnode_count, shards).tolist()
    assert all(vnode in ranges[shard] for vnode, shard in zip(vnodes, owners, strict=True))


def test_the_bounds_of_shards_never_change() -> None:
    """Files are cut at them."""
    starts = [shard.start for shard in shard_ranges(DEFAULT_VNODE_COUNT, DEFAULT_SHARDS)]

    assert starts == list(range(0, 256, 16))
    assert shard_ranges(10, 4) == (range(3), range(3, 6), range(6, 8), range(8, 10))


def test_impossible_shards_are_refused() -> None:
    """There is at least one shard, and at least one vnode in each."""
    for shards in (0, 9):
        with pytest.raises(ValueError, match="shards must be 1 to 8"):
            shard_ranges(8, shards)
    for vnode_count in (0, MAX_VNODE_COUNT + 1):
        with pytest.raises(ValueError, match=f"1 to 32768, not {vnode_count}"):
            shard_ranges(vnode_count, 1)


@given(st.integers(1, MAX_VNODE_COUNT), st.integers(1, 2000))
def test_a_balanced_mapping_owns_blocks(vnode_count: int, units: int) -> None:
    """Every unit owns one block, in order; the first ones own one more where needed."""
    mapping = VnodeMapping.balanced(vnode_count, units)
    share, larger = divmod(vnode_count, units)

    assert mapping.owners == tuple(sorted(mapping.owners))
    assert loads_of(mapping) == [share + 1] * larger + [share] * (units - larger)


@given(mappings(), UNITS)
def test_a_rescale_moves_the_surplus_and_never_more(mapping: VnodeMapping, units: int) -> None:
    """What moves is what the mapping's owners hold beyond their shares, not one vnode more."""
    rescaled = mapping.rescale(units)

    assert rescaled.units == units
    assert max(loads_of(rescaled)) - min(loads_of(rescaled)) <= 1
    assert len(moves_between(mapping, rescaled)) == fewest_moves(mapping, units)


@given(st.lists(UNITS, min_size=2, max_size=6), st.integers(1, 600))
def test_rescale_after_rescale_stays_balanced(steps: list[int], vnode_count: int) -> None:
    """Loads differ by at most one after any sequence, each step moving no more than it must."""
    mapping = VnodeMapping.balanced(vnode_count, steps[0])
    for units in steps[1:]:
        rescaled = mapping.rescale(units)
        assert max(loads_of(rescaled)) - min(loads_of(rescaled)) <= 1
        assert len(moves_between(mapping, rescaled)) == fewest_moves(mapping, units)
        mapping = rescaled


@given(mappings(), UNITS)
def test_a_survivor_gains_or_loses_but_not_both(mapping: VnodeMapping, units: int) -> None:
    """No unit both loses a vnode and gets one."""
    moves = moves_between(mapping, mapping.rescale(units))

    assert not {old for old, _ in moves} & {new for _, new in moves}


@given(mappings(), UNITS)
def test_a_rescale_is_deterministic(mapping: VnodeMapping, units: int) -> None:
    """Equal mappings rescale equally, and a rescale to the present number changes nothing."""
    rescaled = mapping.rescale(units)
    again = VnodeMapping(tuple(mapping.owners), mapping.units).rescale(units)

    assert again == rescaled
    assert rescaled.rescale(units) == rescaled


def test_a_rescale_moves_the_same_vnodes_for_ever() -> None:
    """A driver and its successor compute the same owners: these never change."""
    three = VnodeMapping.balanced(12, 3)
    four = three.rescale(4)

    assert three.owners == (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2)
    assert four.owners == (0, 0, 0, 3, 1, 1, 1, 3, 2, 2, 2, 3)
    assert four.rescale(3).owners == (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2)
    assert VnodeMapping((0, 3, 2, 3, 2, 1), 4).rescale(2).owners == (0, 0, 0, 1, 1, 1)
    assert VnodeMapping.balanced(10, 2).rescale(3).owners == (0, 0, 0, 0, 2, 1, 1, 1, 2, 2)


def test_three_to_four_units_moves_a_quarter() -> None:
    """One vnode in four moves; the naive modulo would move three in four."""
    mapping = VnodeMapping.balanced(MAX_VNODE_COUNT, 3)

    assert len(moves_between(mapping, mapping.rescale(4))) == MAX_VNODE_COUNT // 4


def test_there_may_be_more_units_than_vnodes() -> None:
    """Units without a vnode are idle, which is not an error."""
    mapping = VnodeMapping.balanced(3, 5)

    assert loads_of(mapping) == [1, 1, 1, 0, 0]
    assert loads_of(mapping.rescale(2)) == [2, 1]


@given(mappings())
def test_the_ranges_of_a_unit_are_its_vnodes(mapping: VnodeMapping) -> None:
    """In the fewest ranges, ascending."""
    for unit in range(mapping.units):
        ranges = mapping.ranges_of(unit)
        owned = [vnode for vnode, owner in enumerate(mapping.owners) if owner == unit]
        assert list(chain.from_iterable(ranges)) == owned
        assert all(left.stop < right.start for left, right in pairwise(ranges))


@given(mappings())
def test_json_gives_the_mapping_back(mapping: VnodeMapping) -> None:
    """A mapping survives being written as JSON text."""
    assert VnodeMapping.from_json(json.loads(json.dumps(mapping.to_json()))) == mapping


def test_json_is_runs() -> None:
    """A balanced mapping has one run per unit."""
    assert VnodeMapping.balanced(32768, 3).to_json() == {
        "units": 3,
        "runs": [[0, 10923], [1, 10923], [2, 10922]],
    }


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"units": 1},
        {"units": "1", "runs": [[0, 4]]},
        {"units": 1, "runs": [[0, 4, 1]]},
        {"units": 1, "runs": [[0, -4]]},
        {"units": 1, "runs": [[1, 4]]},
        {"units": 1, "runs": []},
        {"units": 0, "runs": [[0, 4]]},
        {"units": 1, "runs": [[0, 10**15]]},
        {"units": 1, "runs": 7},
    ],
)
def test_json_that_is_not_a_mapping_is_refused(value: dict[str, object]) -> None:
    """Damaged JSON is a ValueError, before it takes any memory."""
    with pytest.raises(ValueError, match=r"vnode mapping|vnode_count|units?\b"):
        VnodeMapping.from_json(value)


def test_an_impossible_mapping_is_refused() -> None:
    """Owners are units, and there is at least one unit and one vnode, at most 32768 vnodes."""
    with pytest.raises(ValueError, match="units 0 to 1, not 2"):
        VnodeMapping((0, 2), 2)
    with pytest.raises(ValueError, match="units 0 to 0, not -1"):
        VnodeMapping((-1,), 1)
    for vnode_count in (0, MAX_VNODE_COUNT + 1):
        with pytest.raises(ValueError, match="1 to 32768"):
            VnodeMapping.balanced(vnode_count, 1)
    for units in (0, -1):
        with pytest.raises(ValueError, match="at least 1 unit"):
            VnodeMapping.balanced(8, units)
        with pytest.raises(ValueError, match="at least 1 unit"):
            VnodeMapping.balanced(8, 2).rescale(units)
    for unit in (-1, 2):
        with pytest.raises(ValueError, match="unit must be 0 to 1"):
            VnodeMapping.balanced(8, 2).ranges_of(unit)
