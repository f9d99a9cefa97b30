"""The room that entries take in the pages of a file.

Does not know: files.
"""

from __future__ import annotations

import numpy as np

from ..codec.ragged import Bytes, Positions, lengths_of

_PAGE = 4096
_PAGE_HEADER = 16
# What a node takes in addition to key and value: its header and its pointer.
_NODE_HEADER = 10
# The value of a larger node, a little less than half a page, is in overflow pages.
_NODE_BYTES = 2000
_PAGE_NUMBER = 8


def page_bytes(keys: Bytes, values: Bytes) -> Positions:
    """Return how much each entry adds to a file of entries like it, int64.

    A page holds whole nodes: the larger they are, the more of the page stays empty.
    """
    key_lengths, value_lengths = lengths_of(keys), lengths_of(values)
    nodes = key_lengths + value_lengths + _NODE_HEADER
    overflowing = np.flatnonzero(nodes > _NODE_BYTES)
    nodes[overflowing] = key_lengths[overflowing] + _PAGE_NUMBER + _NODE_HEADER
    nodes_per_page = (_PAGE - _PAGE_HEADER) // np.maximum(nodes, 1)
    # The branch page above a leaf page has its first key.
    sizes: Positions = (_PAGE + key_lengths + _NODE_HEADER) // np.maximum(nodes_per_page, 1)
    sizes[overflowing] += -(-(value_lengths[overflowing] + _PAGE_HEADER) // _PAGE) * _PAGE
    return sizes
