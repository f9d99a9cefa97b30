"""Chunks of a table by its key: ranges of primary keys, each of which is sorted in memory.

Files are sorted by vnode first, so the rows of a range of keys are spread over all vnodes. To read
a table in key order, it is read range by range: the ends of the ranges are taken from a sample, so
that each holds about equally many rows. To merge the vnodes instead takes a stream for each of up
to 32,768, and steps that are bounded by the nearest end of any of them.

Promises: the ranges follow one another without a gap. No row's entries are in two of them.
Does not know: files, or how ranges are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.ragged import sort_order
from ..segment.block import Block
from .encoding import Encoding
from .scan import SORTED, Bounds

# With so many keys of a sample in each chunk, hardly any has a quarter more than its share.
_KEYS_PER_CHUNK = 256
# The end of a chunk need not be a whole key. Far below a long key's length.
_MOST_KEY_BYTES = 128


@dataclass(frozen=True, slots=True)
class Sample:
    """Some entries of a table, for each of which there are about ``step`` like it."""

    entries: Block
    step: int = 1


def key_chunks(encoding: Encoding, samples: Iterable[Sample], within: Bounds) -> list[Bounds]:
    """Return ranges of primary keys, ascending, that together are the range ``within``.

    A range holds about half of the entries, or of the bytes, that are sorted at once.
    """
    low, high = within
    keys = [pa.array([], pa.large_binary())]
    weight = 0.0
    for sample in samples:
        block = sample.entries
        sizes = block.key_lengths + block.value_lengths
        shares = 2 * np.maximum(1 / SORTED.rows, sizes / SORTED.size)
        reached = weight + np.cumsum(shares) * sample.step * _KEYS_PER_CHUNK
        # An entry is taken as often as its weight, with those before it, passes a whole number.
        wholes = np.append(int(weight), reached.astype(np.int64))
        counts = wholes[1:] - wholes[:-1]
        weight = float(reached[-1]) if len(reached) else weight
        taken = encoding.row_keys(block.take(np.repeat(np.arange(len(block)), counts)))
        start = encoding.prefix.size
        keys.append(pc.binary_slice(taken, start, start + _MOST_KEY_BYTES))
    joined = pa.concat_arrays(keys)
    is_inside = pc.greater(joined, pa.scalar(low, pa.large_binary()))
    if high is not None:
        is_inside = pc.and_(is_inside, pc.less(joined, pa.scalar(high, pa.large_binary())))
    inside = joined.filter(is_inside)
    count = -(-len(inside) // _KEYS_PER_CHUNK)
    places = np.arange(1, count) * len(inside) // max(count, 1)
    ends = inside.take(pa.array(sort_order(inside)[places])).to_pylist() if count > 1 else []
    bounds: list[bytes] = [low, *sorted(set(ends))]
    return list(zip(bounds, [*bounds[1:], high], strict=True))
