"""The 64-bit xxHash (XXH64), over whole columns at once.

Promises: every function returns, for each row, exactly what the reference implementation returns
for that row's bytes and that row's seed. No Python loop over rows, except over rows so long that
one call for each costs less than the vectorised steps.
Does not know: types, NULL, what the bytes mean.

The algorithm is specified in https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from xxhash import xxh64_intdigest

Words: TypeAlias = NDArray[np.uint64]
Positions: TypeAlias = NDArray[np.int64]
Buffer: TypeAlias = NDArray[np.uint8]

# XXH64's five primes.
_PRIME_1 = 0x9E3779B185EBCA87
_PRIME_2 = 0xC2B2AE3D27D4EB4F
_PRIME_3 = 0x165667B19E3779F9
_PRIME_4 = 0x85EBCA77C2B2AE63
_PRIME_5 = 0x27D4EB2F165667C5
_MASK = 0xFFFF_FFFF_FFFF_FFFF

_STRIPE = 32
_LONG = 4 * _STRIPE


def hash_words(words: NDArray[np.integer], seeds: Words) -> Words:
    """Return the hash of each row's eight bytes, little endian, under that row's seed.

    ``words`` holds 64-bit integers, signed or not.
    """
    hashes = seeds + (_PRIME_5 + 8)
    return _avalanche(_mix_word(hashes, words.view(np.uint64)))


def hash_half_words(half_words: NDArray[np.integer], seeds: Words) -> Words:
    """Return the hash of each row's four bytes, little endian, under that row's seed.

    ``half_words`` holds 32-bit integers, signed or not.
    """
    hashes = seeds + (_PRIME_5 + 4)
    return _avalanche(_mix_half_word(hashes, half_words.view(np.uint32)))


def hash_bytes(data: Buffer, starts: Positions, lengths: Positions, seeds: Words) -> Words:
    """Return the hash of ``data[starts[i]:starts[i] + lengths[i]]`` under ``seeds[i]``, for each i.

    ``data`` is contiguous. Rows may be anywhere in ``data``, in any order, and may overlap.
    """
    long_rows = np.flatnonzero(lengths > _LONG)
    if not len(long_rows):
        return _hash_short(data, starts, lengths, seeds)
    hashes = np.empty(len(starts), np.uint64)
    short_rows = np.flatnonzero(lengths <= _LONG)
    for rows, hash_rows in ((short_rows, _hash_short), (long_rows, _hash_singly)):
        hashes[rows] = hash_rows(data, starts[rows], lengths[rows], seeds[rows])
    return hashes


def _hash_singly(data: Buffer, starts: Positions, lengths: Positions, seeds: Words) -> Words:
    view = data.data
    rows = zip(starts.tolist(), (starts + lengths).tolist(), seeds.tolist(), strict=True)
    digests = [xxh64_intdigest(view[start:end], seed) for start, end, seed in rows]
    return np.array(digests, np.uint64)


def _hash_short(data: Buffer, starts: Positions, lengths: Positions, seeds: Words) -> Words:
    hashes = seeds + _PRIME_5
    longest = int(lengths.max(initial=0))
    if longest >= _STRIPE:
        rows = _rows_where(lengths >= _STRIPE)
        hashes[rows] = _hash_stripes(data, starts[rows], lengths[rows] // _STRIPE, seeds[rows])
    hashes += lengths.view(np.uint64)

    # What is left after the stripes: words, at most one half word, then single bytes.
    words = (lengths % _STRIPE) // 8
    after_stripes = starts + (lengths - lengths % _STRIPE)
    for step in range(min(longest // 8, 3)):
        rows = _rows_where(words > step)
        loaded = _load(data, after_stripes[rows] + 8 * step, "<u8")
        hashes[rows] = _mix_word(hashes[rows], loaded)
    rows = _rows_where((lengths & 4) != 0)
    loaded = _load(data, starts[rows] + (lengths[rows] & ~7), "<u4")
    hashes[rows] = _mix_half_word(hashes[rows], loaded)
    for step in range(min(longest, 3)):
        rows = _rows_where((lengths & 3) > step)
        loaded = data[starts[rows] + (lengths[rows] & ~3) + step]
        hashes[rows] = _mix_byte(hashes[rows], loaded)
    return _avalanche(hashes)


def _hash_stripes(data: Buffer, starts: Positions, stripes: Positions, seeds: Words) -> Words:
    """Return the state after ``stripes`` (at least one) times 32 bytes of every row."""
    lanes = [
        seeds + ((_PRIME_1 + _PRIME_2) & _MASK),
        seeds + _PRIME_2,
        seeds.copy(),
        seeds - _PRIME_1,
    ]
    for step in range(int(stripes.max())):
        rows = _rows_where(stripes > step)
        positions = starts[rows] + _STRIPE * step
        for index, lane in enumerate(lanes):
            lane[rows] = _round(lane[rows], _load(data, positions + 8 * index, "<u8"))
    hashes = np.zeros(len(seeds), np.uint64)
    for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True):
        hashes += _rotate(lane.copy(), turn)
    for lane in lanes:
        hashes = (hashes ^ _round(np.zeros_like(lane), lane)) * _PRIME_1 + _PRIME_4
    return hashes


def _rows_where(mask: NDArray[np.bool_]) -> Positions | slice:
    """Return an index of the rows where ``mask`` holds; a slice, which copies nothing, for all."""
    if mask.all():
        return slice(None)
    return np.flatnonzero(mask)


def _load(data: Buffer, positions: Positions, dtype: DTypeLike) -> NDArray[np.unsignedinteger]:
    """Return the numbers of ``dtype`` at byte ``positions``, aligned or not."""
    number_type = np.dtype(dtype)
    count = max(len(data) - number_type.itemsize + 1, 0)
    overlapping: NDArray[np.unsignedinteger] = np.ndarray((count,), number_type, data, 0, (1,))
    return overlapping[positions]


# What a step makes is changed in place: each new array would be another 8 bytes per row to write.


def _rotate(words: Words, bits: int) -> Words:
    """Rotate words to the left, in place, and return them."""
    low_bits = words >> np.uint64(64 - bits)
    words <<= np.uint64(bits)
    words |= low_bits
    return words


def _round(lane: Words, words: NDArray[np.unsignedinteger]) -> Words:
    mixed: Words = words * _PRIME_2
    mixed += lane
    mixed = _rotate(mixed, 31)
    mixed *= _PRIME_1
    return mixed


def _mix_word(hashes: Words, words: NDArray[np.unsignedinteger]) -> Words:
    mixed: Words = words * _PRIME_2
    mixed = _rotate(mixed, 31)
    mixed *= _PRIME_1
    mixed ^= hashes
    mixed = _rotate(mixed, 27)
    mixed *= _PRIME_1
    mixed += _PRIME_4
    return mixed


def _mix_half_word(hashes: Words, half_words: NDArray[np.unsignedinteger]) -> Words:
    mixed = _mix(hashes, half_words, _PRIME_1, 23, _PRIME_2)
    mixed += _PRIME_3
    return mixed


def _mix_byte(hashes: Words, single_bytes: NDArray[np.uint8]) -> Words:
    return _mix(hashes, single_bytes, _PRIME_5, 11, _PRIME_1)


def _mix(
    hashes: Words,
    numbers: NDArray[np.unsignedinteger],
    factor: int,
    bits: int,
    last_factor: int,
) -> Words:
    mixed = numbers.astype(np.uint64)
    mixed *= factor
    mixed ^= hashes
    mixed = _rotate(mixed, bits)
    mixed *= last_factor
    return mixed


def _avalanche(hashes: Words) -> Words:
    """Return the final scrambling of the states, in place."""
    hashes ^= hashes >> 33
    hashes *= _PRIME_2
    hashes ^= hashes >> 29
    hashes *= _PRIME_3
    hashes ^= hashes >> 32
    return hashes
