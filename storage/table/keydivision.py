"""Which sorted runs a scan reads together: the division of a table by primary keys.

Files of a load in key order have keys of their own, and need no merge. A few rows that are written
later, of keys of all of them, would make one merge of all files. So such rows are read first, and
divided by their keys among the groups of the others.

Promises: runs that are read in different groups have no row in common.
Does not know: what the rows of a key become, or files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.ragged import sort_order
from ..log.segment_record import KEY_BOUND_BYTES
from ..segment.block import Block
from .keyspan import KeySpan, disjoint_groups, separate
from .scan import LONE_LEAVES, Bounds, Source

# The least and the greatest primary key of a run.
_PrimarySpan: TypeAlias = tuple[bytes, bytes]

# Of rows that are divided the positions are in memory: some 50 bytes each.
_MOST_SHARED_ROWS = 1 << 20
# With more rows to divide than one for so many others, a merge of all takes about as long.
_OTHERS_PER_SHARED = 4


@dataclass(frozen=True, slots=True)
class KeyDivision:
    """Groups of runs, by their numbers, of which no two have a row in common.

    ``shared``: runs of which each group has the rows with its keys. ``bounds``: if there are such,
    the least primary key of each group but the first, cut after `KEY_BOUND_BYTES`, ascending.
    """

    groups: Sequence[Sequence[int]]
    shared: Sequence[int] = ()
    bounds: Sequence[bytes] = ()

    @classmethod
    def of(
        cls,
        key_spans: Sequence[KeySpan],
        spans: Sequence[tuple[bytes, bytes]],
        rows: Sequence[int],
    ) -> KeyDivision:
        """Divide runs, each with its span of primary keys, that of full keys, and its rows.

        Rows are of one entry each.
        """
        groups = disjoint_groups(key_spans, spans)
        if len(groups) == len(rows):
            return cls(groups)
        primary = [(span.least, span.greatest) for span in key_spans]
        shared = _shared(_few(rows), primary)
        others = separate(sorted({*range(len(rows))}.difference(shared)), primary)
        if len(others) <= len(groups):
            return cls(groups)
        bounds = [min(primary[number][0] for number in group) for group in others[1:]]
        return cls(others, sorted(shared), bounds)

    def parts(
        self, sources: Sequence[Source], prefix_bytes: int, bounds: Bounds
    ) -> Iterator[Sequence[Source]]:
        """Yield the sources of each group, the newest first, for a scan within bounds.

        ``sources``: those of the runs, by their numbers. ``prefix_bytes``: what precedes the
        primary key in a full key.
        """
        divided = {
            number: [
                self.divided(block, prefix_bytes)
                for block in sources[number](bounds, LONE_LEAVES, False)
            ]
            for number in self.shared
        }
        for index, group in enumerate(self.groups):
            own = {number: sources[number] for number in group}
            for number, blocks in divided.items():
                inside = [parts[index] for parts in blocks if len(parts[index])]
                if inside:
                    own[number] = partial(_source_of, inside)
            yield [own[number] for number in sorted(own)]

    def divided(self, block: Block, prefix_bytes: int) -> list[Block]:
        """Return the entries of a block with the keys of each group, in their order.

        ``prefix_bytes``: what precedes the primary key in a full key.
        """
        keys = pc.binary_slice(block.key_bytes(), prefix_bytes, prefix_bytes + KEY_BOUND_BYTES)
        # A key that begins with a bound is not before it: bounds come first among equals.
        order = sort_order(pa.concat_arrays([pa.array(self.bounds, pa.large_binary()), keys]))
        groups = np.empty(len(order), np.int64)
        groups[order] = np.cumsum(order < len(self.bounds))
        groups = groups[len(self.bounds) :]
        by_group = np.argsort(groups, kind="stable")
        ends = np.searchsorted(groups[by_group], np.arange(len(self.groups)), side="right")
        return [block.take(rows) for rows in np.split(by_group, ends[:-1])]


def _source_of(
    blocks: Sequence[Block], _bounds: Bounds, _leaves: int, descending: bool
) -> Iterator[Block]:
    """Yield blocks that were read within the bounds; only scans in no order are divided."""
    assert not descending
    return iter(blocks)


def _few(rows: Sequence[int]) -> list[int]:
    """Return the runs with the fewest rows, ascending, that are few enough to be divided."""
    ascending = np.argsort(rows, kind="stable")
    sums = np.cumsum(np.take(rows, ascending))
    most = min(_MOST_SHARED_ROWS, sum(rows) // (_OTHERS_PER_SHARED + 1))
    fewest: list[int] = ascending[sums <= most].tolist()
    return fewest


def _shared(few: Sequence[int], primary: Sequence[_PrimarySpan]) -> list[int]:
    """Return those of a few runs that have keys between those of others.

    ``few``: by their rows, ascending: of two with the same keys the one with fewer is shared.
    """
    rest = separate(sorted({*range(len(primary))}.difference(few)), primary)
    spans = [
        (min(primary[number][0] for number in group), max(primary[number][1] for number in group))
        for group in rest
    ]
    shared = []
    for number in reversed(few):
        least, greatest = primary[number]
        index = bisect_left(spans, (least, greatest))
        meets_previous = index > 0 and spans[index - 1][1] >= least
        if meets_previous or (index < len(spans) and spans[index][0] <= greatest):
            shared.append(number)
        else:
            spans.insert(index, (least, greatest))
    return shared
