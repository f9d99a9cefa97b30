"""Vectorised primitives over rows of unequal length.

A *bytes array* is a ``pa.LargeBinaryArray`` without nulls: one run of bytes a row. A *buffer* is
a one-dimensional ``uint8`` array, often a memory map; rows in it are named by their positions.

Promises: no function here loops over rows in Python, and none copies what it can view.
Does not know: what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

Bytes: TypeAlias = pa.LargeBinaryArray
Buffer: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]

_EMPTY = pa.scalar(b"", pa.large_binary())
_WORD = 8
_SORTED_WORDS = 4


def from_parts(data: Buffer, offsets: Positions) -> Bytes:
    """Return the bytes array whose row i is ``data[offsets[i]:offsets[i + 1]]``, without a copy.

    ``data`` must be contiguous; ``offsets`` holds one more element than there are rows and
    never falls.
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def from_matrix(matrix: NDArray[np.uint8]) -> Bytes:
    """Return the bytes array whose rows are the rows of ``matrix``, shape (rows, width)."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    return from_parts(np.ascontiguousarray(matrix).reshape(-1), offsets)


def constant(value: bytes, rows: int) -> Bytes:
    """Return ``rows`` copies of ``value``."""
    return from_matrix(np.tile(np.frombuffer(value, np.uint8), (rows, 1)))


def from_binary(array: pa.Array) -> Bytes:
    """Return a string or binary array (any width of offsets) as a bytes array; NULL is empty."""
    if array.null_count:
        array = array.fill_null("" if pa.types.is_string(array.type) else b"")
    return array.cast(pa.large_binary())


def parts_of(array: Bytes) -> tuple[Buffer, Positions]:
    """Return (data, offsets) of a bytes array: row i is ``data[offsets[i]:offsets[i + 1]]``.

    ``offsets`` is int64, one longer than the array; ``data`` may hold more than these rows.
    """
    _, offsets, data = array.buffers()
    window = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
    if data is None:
        return np.empty(0, np.uint8), window
    return np.frombuffer(data, np.uint8), window


def content_of(array: Bytes) -> Buffer:
    """Return the bytes of all rows of a bytes array, one after another, without a copy."""
    data, offsets = parts_of(array)
    return data[offsets[0] : offsets[-1]]


def lengths_of(array: Bytes) -> Positions:
    """Return the length of every row in bytes, int64."""
    return np.diff(parts_of(array)[1])


def common_length(lengths: Positions) -> int | None:
    """Return the length that all rows have, if it is one and not 0; else None."""
    if not len(lengths) or not lengths[0] or (lengths != lengths[0]).any():
        return None
    return int(lengths[0])


def rows_at(buffer: Buffer, starts: Positions, lengths: Positions) -> Bytes:
    """Return the rows at ``starts`` as `gather` does, by the quickest way their lengths allow."""
    width = common_length(lengths)
    if width is None:
        return gather(buffer, starts, lengths)
    return from_matrix(load_matrix(buffer, starts, width))


def matrix_of(array: Bytes, width: int) -> NDArray[np.uint8]:
    """Return a bytes array whose rows are all ``width`` bytes long as a (rows, width) view."""
    return content_of(array).reshape(len(array), width)


def load(buffer: Buffer, positions: Positions, dtype: DTypeLike) -> NDArray[Any]:
    """Return the values of ``dtype`` that stand at byte ``positions``, aligned or not.

    IndexError if one of them would end beyond the buffer.
    """
    kind = np.dtype(dtype)
    count = max(len(buffer) - kind.itemsize + 1, 0)
    if not count:
        if len(positions):
            raise IndexError(f"a value of {kind.itemsize} bytes in a buffer of {len(buffer)}")
        return np.empty(0, kind)
    overlapping: NDArray[Any] = np.ndarray((count,), kind, buffer, 0, (1,))
    return overlapping[positions]


def load_matrix(buffer: Buffer, positions: Positions, width: int) -> NDArray[np.uint8]:
    """Return the ``width`` bytes at each of ``positions`` as a (rows, width) copy."""
    if not width or not len(positions):
        return np.empty((len(positions), width), np.uint8)
    # "S" moves items with memcpy; "V" goes through a slower, generic path.
    return load(buffer, positions, f"S{width}").view(np.uint8).reshape(len(positions), width)


def gather(buffer: Buffer, starts: Positions, lengths: Positions) -> Bytes:
    """Return the rows ``buffer[starts[i]:starts[i] + lengths[i]]``, in that order, as a copy.

    Rows may stand anywhere in the buffer, in any order, and may overlap.
    """
    rows = len(starts)
    if not rows:
        return pa.array([], pa.large_binary())
    ranks = None
    ends = starts + lengths
    if (starts[1:] < ends[:-1]).any():
        order = np.argsort(starts, kind="stable")
        if (starts[order[1:]] < ends[order[:-1]]).any():
            return _gather_overlapping(buffer, starts, lengths)
        ranks = np.empty(rows, np.int64)
        ranks[order] = np.arange(rows)
        starts, ends = starts[order], ends[order]
    # Rows and the gaps between them alternate; taking every other one copies in C++.
    offsets = np.empty(2 * rows + 1, np.int64)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = ends[-1]
    wanted = np.arange(0, 2 * rows, 2) if ranks is None else ranks * 2
    return from_parts(buffer, offsets).take(pa.array(wanted))


def _gather_overlapping(buffer: Buffer, starts: Positions, lengths: Positions) -> Bytes:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return from_parts(buffer[expand(starts, lengths)], offsets)


def concat(parts: Sequence[Bytes | pa.Scalar]) -> Bytes:
    """Return row by row the concatenation of several bytes arrays (or one-value scalars)."""
    return pc.binary_join_element_wise(*parts, _EMPTY)


def expand(starts: Positions, counts: Positions, width: int = 1) -> Positions:
    """Return the positions of ``counts[i]`` items of ``width`` bytes from ``starts[i]`` on.

    The result holds ``counts.sum()`` positions, int64, those of row 0 first.
    """
    before = np.cumsum(counts) - counts
    total = int(counts.sum())
    return np.repeat(starts - before * width, counts) + np.arange(total, dtype=np.int64) * width


def equal_neighbours(array: Bytes) -> NDArray[np.bool_]:
    """Return, for each row but the first, whether it equals the row before it."""
    if len(array) < 2:
        return np.empty(0, np.bool_)
    width = common_length(lengths_of(array))
    if width is not None:
        words = _words_of_matrix(matrix_of(array, width))
        same: NDArray[np.bool_] = np.logical_and.reduce([w[1:] == w[:-1] for w in words])
        return same
    # Different tails or lengths tell most rows apart; Arrow compares the rest byte by byte.
    return np.asarray(pc.equal(array.slice(1), array.slice(0, len(array) - 1)))


def sort_order(array: Bytes) -> Positions:
    """Return the stable order of the rows by their bytes, as ``memcmp`` sees them.

    No row may be a proper prefix of another that continues with zero bytes only; prefix-free
    rows, such as memcomparable keys, never are.
    """
    rows = len(array)
    if rows < 2:
        return np.arange(rows, dtype=np.int64)
    lengths = lengths_of(array)
    width = int(lengths.max())
    if width == int(lengths.min()) and width <= _SORTED_WORDS * _WORD:
        return _order_by(_words_of_matrix(matrix_of(array, width)), rows)
    words = prefix_words(array, min(-(-width // _WORD), _SORTED_WORDS))
    order = _order_by([word for word in words if word.min() != word.max()], rows)
    return order if width <= _SORTED_WORDS * _WORD else _settle_ties(array, words, order)


def first_of_each(array: Bytes) -> Positions:
    """Return the index of the first of each set of equal rows, in the order of the rows' bytes.

    Requires what `sort_order` requires.
    """
    if not len(array):
        return np.empty(0, np.int64)
    word = _single_word(array)
    if word is None:
        order = sort_order(array)
        return order[~_repeats(equal_neighbours(array.take(pa.array(order))))]
    # The fast, unstable sort will do: the least index of a run is its first row.
    order = np.argsort(word)
    placed = word[order]
    repeats = _repeats(placed[1:] == placed[:-1])
    if not repeats.any():
        return order
    return np.minimum.reduceat(order, np.flatnonzero(~repeats))


def _repeats(equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return, for every row, whether it equals the row before it."""
    return np.concatenate([np.zeros(1, np.bool_), equal])


def _single_word(array: Bytes) -> NDArray[Any] | None:
    """Return one number a row that orders the rows as their bytes do, None if one cannot."""
    width = common_length(lengths_of(array))
    if width is None:
        return None
    words = _words_of_matrix(matrix_of(array, width))
    return words[0] if len(words) == 1 else None


def prefix_words(array: Bytes, count: int) -> list[NDArray[np.uint64]]:
    """Return the first ``8 * count`` bytes of every row as ``count`` arrays of numbers.

    Each number is 8 bytes read big endian, zeros beyond the row's end, so that comparing the
    numbers in turn compares the bytes.
    """
    data, offsets = parts_of(array)
    lengths = np.diff(offsets)
    if int(offsets[-1]) + _WORD * count > len(data):
        data = np.concatenate([data, np.zeros(_WORD * count, np.uint8)])
    words = []
    for index in range(count):
        present = np.clip(lengths - index * _WORD, 0, _WORD).astype(np.uint64)
        loaded = load(data, offsets[:-1] + np.minimum(lengths, index * _WORD), ">u8")
        word = loaded.astype(np.uint64)
        spare = (np.uint64(_WORD) - present) * np.uint64(8)
        # A shift by 64 is undefined in C: two shifts of at most 32 do it.
        half = spare >> np.uint64(1)
        words.append(word >> half >> (spare - half) << half << (spare - half))
    return words


def _words_of_matrix(matrix: NDArray[np.uint8]) -> list[NDArray[Any]]:
    """Return numbers that order the rows of a matrix, most significant first.

    Columns that are the same in every row order nothing and are left out; the last word has
    eight bytes, the first what remains, so that a short remainder sorts by radix.
    """
    rows = len(matrix)
    varying = np.flatnonzero((matrix != matrix[0]).any(axis=0))
    words: list[NDArray[Any]] = []
    for end in range(len(varying), 0, -_WORD):
        columns = varying[max(end - _WORD, 0) : end]
        size = next(size for size in (1, 2, 4, 8) if size >= len(columns))
        padded = np.zeros((rows, size), np.uint8)
        padded[:, size - len(columns) :] = matrix[:, columns]
        words.append(padded.view(f">u{size}").reshape(rows).astype(f"u{size}"))
    return words[::-1] or [np.zeros(rows, np.uint8)]


def _order_by(words: Sequence[NDArray[Any]], rows: int) -> Positions:
    """Return the stable order of rows by several words, the most significant first."""
    if not words:
        return np.arange(rows, dtype=np.int64)
    least = words[-1]
    order = np.argsort(least)
    placed = least[order]
    if (placed[1:] == placed[:-1]).any():
        order = np.argsort(least, kind="stable")
    for word in reversed(words[:-1]):
        order = order[np.argsort(word[order], kind="stable")]
    return order


def _settle_ties(array: Bytes, words: Sequence[NDArray[np.uint64]], order: Positions) -> Positions:
    """Put rows whose leading words are equal in the order of their whole bytes."""
    tied = np.logical_and.reduce([word[order[1:]] == word[order[:-1]] for word in words])
    if not tied.any():
        return order
    follows = np.concatenate([[False], tied])
    places = np.flatnonzero(follows | np.concatenate([tied, [False]]))
    groups = np.cumsum(~follows)[places]
    table = pa.table({"group": groups, "row": array.take(pa.array(order[places]))})
    settled = pc.sort_indices(table, [("group", "ascending"), ("row", "ascending")])
    result = order.copy()
    result[places] = order[places][np.asarray(settled)]
    return result
