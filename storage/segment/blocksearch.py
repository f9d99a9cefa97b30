"""The search for many keys in a block at once.

Promises: the cost grows with the keys that are searched, and with a small part of the block's; the
keys of the block are compared where they are.
Does not know: what keys and values mean.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, gather, lengths_of, load_matrix, padded, texts_of
from .block import Block

Flags: TypeAlias = NDArray[np.bool_]

# Longer keys are compared as bytes, not as texts of one width.
_MOST_BYTES = 64
# Of a block so many keys for each searched one are compared in one step, which takes as long as one
# of the steps that it saves.
_FENCES_PER_KEY = 8


def find_in_block(block: Block, keys: Bytes) -> tuple[Positions, Flags]:
    """Return (the index of the first entry whose key is not less than each key, if it has the key).

    The keys of the block ascend. None of them may be a proper prefix of a searched key, nor the
    other way round, as is true of the full keys of rows.
    """
    count = len(block)
    if not count or not len(keys):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    width = max(int(lengths_of(keys).max()), 1)
    if width > _MOST_BYTES:
        return _find_long(block, keys)
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
    """Return what `find_in_block` does, key by key: long keys are few."""
    searched = keys.to_pylist()
    indices = np.array([block.first_at_or_after(key) for key in searched], np.int64)
    pairs = zip(indices.tolist(), searched, strict=True)
    is_found = [index < len(block) and block.key(index) == key for index, key in pairs]
    return indices, np.array(is_found, np.bool_)


def _texts(block: Block, rows: Positions, width: int) -> NDArray[np.bytes_]:
    """Return the first ``width`` bytes of the keys of some rows as texts; zeros after a key."""
    starts, lengths = block.key_starts[rows], block.key_lengths[rows]
    if len(starts) and int(starts.max()) + width > len(block.keys):
        return padded(gather(block.keys, starts, np.minimum(lengths, width)), width)
    matrix = load_matrix(block.keys, starts, width)
    if int(lengths.min()) < width:
        matrix[np.arange(width) >= lengths[:, None]] = 0
    return texts_of(matrix)
