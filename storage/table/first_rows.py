"""The first or the last rows of some ranges of full keys, in the order of the primary key.

Rows are hashed to vnodes, so the first ones are a few of each range: of ``n`` rows in ``r`` ranges
about ``n / r`` are read of each, and more of those of which all were among the first.

Promises: no Python loop over rows. A read that would take many bytes is refused, not made.
Does not know: columns, conditions, files.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from ..codec.ragged import sort_order
from ..segment.block import Block
from ..segment.search import KeyRanges
from .encoding import Encoding
from .prefixes import PrefixReader

# A row comes from a range at random: hardly one has so many deviations more than the mean.
_DEVIATIONS = 4
_SPARE_ROWS = 4
_MORE = 4


def seek_first_rows(
    encoding: Encoding,
    reader: PrefixReader,
    ranges: KeyRanges,
    count: int,
    most: int,
    *,
    descending: bool,
) -> Block | None:
    """Return the first ``count`` visible rows of all ranges, or the last ones, in their order.

    The order is that of the primary key. None if more than ``most`` rows would be read.
    """
    mean = -(-count // max(len(ranges), 1))
    depth = min(mean + _DEVIATIONS * isqrt(mean) + _SPARE_ROWS, count)
    depths = np.full(len(ranges), depth, np.int64)
    while int(depths.sum()) <= most:
        owners, rows = reader.edges(ranges, depths, from_end=descending)
        order = sort_order(encoding.primary_keys_in(rows))
        first = (order[::-1] if descending else order)[:count]
        row_counts = np.bincount(owners[first], minlength=len(ranges))
        is_short = (row_counts == depths) & (depths < count)
        if not is_short.any():
            return rows.take(np.ascontiguousarray(first))
        depths[is_short] = np.minimum(depths[is_short] * _MORE, count)
    return None
