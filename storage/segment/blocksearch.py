"""The search for many keys in a block at once.

Promises: the cost grows with the keys that are searched, and with a small part of the block's,
which are compared where they are; only with very long keys it grows with all of the block's.
Does not know: what keys and values mean.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import (
    Bytes,
    Positions,
    gather,
    lengths_of,
    load_matrix,
    padded,
    sort_order,
    texts_of,
)
from .block import Block

Flags: TypeAlias = NDArray[np.bool_]

# If one key is longer, all are sorted with those of the block: texts of its width would take too
# much memory. So many bytes of shorter ones are searched at once.
_MOST_BYTES, _BYTES_AT_ONCE = 512, 1 << 20
# Of a block so many keys for each searched one are compared in one step, which takes as long as one
# of the steps that it saves.
_FENCES_PER_KEY = 8


def find_in_block(block: Block, keys: Bytes) -> tuple[Positions, Flags]:
    """Return (the index of the first entry whose key is not less than each key, if it has the key).

    The keys of the block ascend. None of them may be a proper prefix of a searched key, nor the
    other way round, as is true of the full keys of rows.
    """
    if not len(block) or not len(keys):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    width = max(int(lengths_of(keys).max()), 1)
    if width > _MOST_BYTES:
        return _find_long(block, keys)
    most = _BYTES_AT_ONCE // width
    pieces = [_find(block, keys.slice(start, most)) for start in range(0, len(keys), most)]
    indices, flags = zip(*pieces, strict=True)
    return np.concatenate(indices), np.concatenate(flags)


def _find(block: Block, keys: Bytes) -> tuple[Positions, Flags]:
    """Return what `find_in_block` does, at least one key and entry; keys are held as texts."""
    count = len(block)
    width = max(int(lengths_of(keys).max()), 1)
    texts = padded(keys, width)
    step = max(count // (_FENCES_PER_KEY * len(keys)), 1)
    fences = _texts(block, np.arange(0, count, step), width)
    after = np.searchsorted(fences, texts)
    # Between the last fence that is less and the first that is not.
    low = np.maximum((after - 1) * step + 1, 0)
    high = np.minimum(after * step, count)
    for _ in range((step - 1).bit_length()):
        is_open = low < high
        middle = np.where(is_open, (low + high) >> 1, 0)
        is_less = _texts(block, middle, width) < texts
        low = np.where(is_open & is_less, middle + 1, low)
        high = np.where(is_open & ~is_less, middle, high)
    indices = np.minimum(low, count - 1)
    is_found = (low < count) & (block.key_lengths[indices] == lengths_of(keys))
    return low, is_found & (_texts(block, indices, width) == texts)


def _find_long(block: Block, keys: Bytes) -> tuple[Positions, Flags]:
    """Return what `find_in_block` does by one sort of all keys: long ones ascend in the block."""
    stored = block.key_bytes()
    order = sort_order(pa.concat_arrays([keys, stored]))
    # The order is stable: a searched key is before an equal one of the block.
    is_stored = order >= len(keys)
    indices = np.empty(len(keys), np.int64)
    indices[order[~is_stored]] = np.cumsum(is_stored)[~is_stored]
    neighbours = stored.take(pa.array(np.minimum(indices, len(block) - 1)))
    is_equal = np.asarray(pc.equal(neighbours, keys))
    return indices, is_equal & (indices < len(block))


def _texts(block: Block, rows: Positions, width: int) -> NDArray[np.bytes_]:
    """Return the first ``width`` bytes of the keys of some rows as texts; zeros after a key."""
    starts, lengths = block.key_starts[rows], block.key_lengths[rows]
    if len(starts) and int(starts.max()) + width > len(block.keys):
        return padded(gather(block.keys, starts, np.minimum(lengths, width)), width)
    matrix = load_matrix(block.keys, starts, width)
    if int(lengths.min()) < width:
        matrix[np.arange(width) >= lengths[:, None]] = 0
    return texts_of(matrix)
