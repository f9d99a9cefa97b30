"""Keys of several blocks as numbers that compare as the keys do.

Keys of one table and shard differ in a few bytes only. These are put into one number per key, and
numbers are sorted and searched in a fraction of the time that bytes take.

Promises: keys are equal if and only if their numbers are. Does not know: what keys mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import leading_bits, load
from .block import Block

Numbers: TypeAlias = NDArray[np.uint64]

_WORD = 8
_MOST_WORDS = 4
_BITS = 64


def key_numbers(blocks: Sequence[Block]) -> list[Numbers] | None:
    """Return a number for each key of some blocks, at least one, in the order of the keys.

    None if the keys differ in more bytes than a number has, or are of several lengths.
    """
    width = _common_width(blocks)
    if width is None:
        return None
    begins = range(0, width, _WORD)
    words = [np.concatenate([_words(block, begin, width) for block in blocks]) for begin in begins]
    numbers, rest = leading_bits(words, _BITS)
    if rest:
        return None
    return np.split(numbers, np.cumsum([len(block) for block in blocks])[:-1])


def _common_width(blocks: Sequence[Block]) -> int | None:
    """Return the length of all keys if it is one, and they are short enough; else None."""
    first = next((block for block in blocks if len(block)), None)
    if first is None:
        return None
    width = int(first.key_lengths[0])
    if width > _MOST_WORDS * _WORD:
        return None
    return width if all((block.key_lengths == width).all() for block in blocks) else None


def _words(block: Block, begin: int, width: int) -> Numbers:
    """Return eight bytes of each key, or as many as it has from ``begin`` on, as numbers."""
    if width < _WORD:
        return _short_words(block, width)
    # The last word begins early enough to end with the key; what it repeats is shifted out.
    start = min(begin, width - _WORD)
    words: Numbers = load(block.keys, block.key_starts + start, ">u8").astype(np.uint64)
    if start < begin:
        words <<= np.uint64(8 * (begin - start))
    return words


def _short_words(block: Block, width: int) -> Numbers:
    """Return keys of fewer than eight bytes as numbers."""
    # Loaded with what is before them, where there is something.
    keys, starts = block.keys, block.key_starts - (_WORD - width)
    if len(starts) and int(starts.min()) < 0:
        keys, starts = np.concatenate([np.zeros(_WORD, np.uint8), keys]), starts + _WORD
    words: Numbers = load(keys, starts, ">u8").astype(np.uint64)
    words &= np.uint64((1 << 8 * width) - 1)
    return words
