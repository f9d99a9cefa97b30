"""Many ranges of a sorted run are read as one run."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from relstate.storage.segment.block import Block
from relstate.storage.table.scan import Bounds
from relstate.storage.table.spread import gathered, spread

ENTRIES = Block.over(
    pa.array([b"%03d" % number for number in range(100)], pa.large_binary()),
    pa.array([b"v%d" % number for number in range(100)], pa.large_binary()),
)


def source(bounds: Bounds, _leaves: int, _descending: bool) -> Iterator[Block]:
    """The entries within bounds, one a block."""
    inside = ENTRIES.between(*bounds)
    return (inside.slice(place, place + 1) for place in range(len(inside)))


def test_ranges_are_read_in_few_blocks_in_order() -> None:
    """Blocks over one buffer become one, without a copy."""
    ranges: list[Bounds] = [(b"003", b"006"), (b"010", b"010"), (b"050", b"052"), (b"098", None)]

    (block,) = spread(source, ranges)((b"", None), 4, False)
    assert block.key_bytes().to_pylist() == [
        b"003", b"004", b"005", b"050", b"051", b"098", b"099",
    ]  # fmt: skip
    assert block.value_bytes().to_pylist()[-1] == b"v99"
    assert block.keys is ENTRIES.keys


def test_blocks_of_other_buffers_stay_apart() -> None:
    """Nothing is copied to bring them together."""
    pairs = [Block.of_pairs([(b"a", b"1")]), Block.of_pairs([(b"b", b"2")])]

    assert [block.key(0) for block in gathered(pairs)] == [b"a", b"b"]
    assert list(gathered([])) == []
