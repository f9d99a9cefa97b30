"""The items of values that are known by a key, as their parts name them.

Does not know: types of values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...codec.key_field import KeyBytes, Tagged
from ...codec.ragged import Positions, equal_neighbours, gather, parts_of
from .part import Parts
from .shape import Flags


def read_keys(
    field: Tagged, parts: Parts, rows: Positions, starts: Positions
) -> tuple[pa.Array, Positions]:
    """Return the key that begins at each start, and how many bytes it has.

    ``rows``: the indices of the parts, ``starts``: positions in their paths. ValueError or
    IndexError if there is no such key.
    """
    data, offsets = parts_of(parts.paths)
    lengths = np.diff(offsets)[rows] - starts
    rests = gather(data, offsets[:-1][rows] + starts, lengths)
    rest_data, rest_offsets = parts_of(rests)
    begins = rest_offsets[:-1] - rest_offsets[0]
    keys, ends = field.read(KeyBytes(rest_data[rest_offsets[0] :]), begins)
    sizes = ends - begins
    if (sizes > lengths).any() or keys.null_count:
        raise ValueError("a path does not hold the key of an item where one is expected")
    return keys, sizes


def begin_items(members: Parts, starts: Positions, ends: Positions) -> Flags:
    """Return which parts, in order, are the first of an item of their value.

    The component of an item is from ``starts`` to ``ends`` of each path.
    """
    if not len(members):
        return np.zeros(0, np.bool_)
    data, offsets = parts_of(members.paths)
    components = gather(data, offsets[:-1] + starts, ends - starts)
    same = equal_neighbours(components) & (members.owners[1:] == members.owners[:-1])
    return np.append(True, ~same)
