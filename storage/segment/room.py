"""The room that entries take: in pages of a file, in its map, and while LMDB is given them.

Does not know: files.
"""

from __future__ import annotations

import numpy as np

from ..codec.ragged import Bytes, Positions, content_of, lengths_of

MOST_ROWS_AT_ONCE = 65_536
_MOST_BYTES_AT_ONCE = 8 << 20
_PAGE = 4096
_PAGE_HEADER = 16
# What a node takes in addition to key and value: its header and its pointer.
_NODE_HEADER = 10
# The value of a larger node, a little less than half a page, is in overflow pages.
_NODE_BYTES = 2000
_PAGE_NUMBER = 8
_SPARE_BYTES = 1 << 20


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


def rows_at_once(keys: Bytes, values: Bytes) -> int:
    """Return how many entries of this size to pass to LMDB at once: they are copied for it."""
    size = len(content_of(keys)) + len(content_of(values))
    return min(max(_MOST_BYTES_AT_ONCE * len(keys) // max(size, 1), 1), MOST_ROWS_AT_ONCE)


def most_bytes(keys: Bytes, values: Bytes) -> int:
    """Return an upper bound of the file's size: LMDB refuses to grow beyond it."""
    # A node header and a pointer per entry; whole pages for a value in overflow pages; twice the
    # content because a leaf page is left partly empty if the next entry does not fit.
    sizes = lengths_of(keys) + lengths_of(values)
    overflowing = int((sizes > _NODE_BYTES).sum())
    return _SPARE_BYTES + 2 * int(sizes.sum()) + 32 * len(keys) + 2 * _PAGE * overflowing
