"""Rows whose full keys are as long as LMDB's longest key, or longer.

All rows whose keys share the first 511 bytes form one entry, a *group*: its key is those 511 bytes,
a length no other key has; its value is the list of its rows. Primary keys are prefix-free, so a
group sorts exactly where its rows would, and every order, prefix and reverse scan stays exact.

    group value = count u32 | rest ends count * u32 | value ends count * u64 | rests | values
                                                                         (ends: little endian)

Rest i is what the key of row i holds after the shared bytes.
Promises: rows of a group keep their order. Does not know: tables, or what a value holds.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import (
    Buffer,
    Bytes,
    Positions,
    concat,
    equal_neighbours,
    expand,
    from_matrix,
    from_parts,
    gather,
    lengths_of,
    load,
    load_matrix,
    parts_of,
)
from .block import Block

# On disk: never change or reuse.
GROUP_KEY_BYTES = 511
_COUNT_BYTES, _REST_END_BYTES, _VALUE_END_BYTES = 4, 4, 8
_REST_END, _VALUE_END = struct.Struct("<I"), struct.Struct("<Q")


def is_long(key: bytes) -> bool:
    """Return whether a row with this full key is stored in a group."""
    return len(key) >= GROUP_KEY_BYTES


def has_long(keys: Bytes) -> bool:
    """Return whether any of the rows with these full keys is stored in a group."""
    return bool((lengths_of(keys) >= GROUP_KEY_BYTES).any())


def group_key(key: bytes) -> bytes:
    """Return the key of the group that holds a row with a long full key."""
    return key[:GROUP_KEY_BYTES]


def entry_bounds(low: bytes, high: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the bounds of the entries that hold all rows with ``low <= full key < high``.

    A group may hold rows outside of them too: its key is only the bytes that its rows share.
    """
    if high is not None and len(high) > GROUP_KEY_BYTES:
        high = group_key(high) + b"\0"
    return low[:GROUP_KEY_BYTES], high


def entry_prefixes(prefixes: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return (prefixes of entries, flags): the entries that hold all rows with some key prefixes.

    Where the flag is set the prefix was cut off: its entries may hold other rows too.
    """
    lengths = lengths_of(prefixes)
    is_long = lengths > GROUP_KEY_BYTES
    if not is_long.any():
        return prefixes, is_long
    data, offsets = parts_of(prefixes)
    return gather(data, offsets[:-1], np.minimum(lengths, GROUP_KEY_BYTES)), is_long


def row_counts(block: Block) -> Positions | None:
    """Return how many rows `unpack` makes of each entry; None if all of them are rows.

    IndexError if a group's value is damaged.
    """
    is_group = block.key_lengths == GROUP_KEY_BYTES
    if not is_group.any():
        return None
    counts = np.ones(len(block), np.int64)
    counts[is_group] = load(block.values, block.value_starts[is_group], "<u4")
    return counts


def find(group: bytes, key: bytes) -> bytes | None:
    """Return the value of the row with the full key ``key`` in a group's value, None if absent.

    IndexError if an end lies outside of the group's value, which is damaged.
    """
    try:
        return _find(group, key)
    except struct.error as error:
        raise IndexError(f"a group of rows is damaged: {error}") from error


def _find(group: bytes, key: bytes) -> bytes | None:
    (count,) = _REST_END.unpack_from(group)
    rests = _COUNT_BYTES + count * (_REST_END_BYTES + _VALUE_END_BYTES)
    rest = key[GROUP_KEY_BYTES:]
    row = bisect_left(range(count), rest, key=lambda row: _rest(group, rests, row))
    if row == count or _rest(group, rests, row) != rest:
        return None
    value_ends = _COUNT_BYTES + count * _REST_END_BYTES
    values = rests + _end(_REST_END, group, _COUNT_BYTES, count - 1)
    start = _end(_VALUE_END, group, value_ends, row - 1)
    return group[values + start : values + _end(_VALUE_END, group, value_ends, row)]


def _rest(group: bytes, rests: int, row: int) -> bytes:
    start = _end(_REST_END, group, _COUNT_BYTES, row - 1)
    return group[rests + start : rests + _end(_REST_END, group, _COUNT_BYTES, row)]


def _end(width: struct.Struct, group: bytes, ends: int, row: int) -> int:
    """Return where the piece of a row ends, from the list of ends at ``ends``."""
    end: int = 0 if row < 0 else width.unpack_from(group, ends + row * width.size)[0]
    return end


def pack(keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes]:
    """Return the entries for rows with ascending full keys: rows with long keys become groups."""
    long = lengths_of(keys) >= GROUP_KEY_BYTES
    if not long.any():
        return keys, values
    indices = np.flatnonzero(long)
    group_keys, group_values, starts = _groups(
        keys.take(pa.array(indices)), values.take(pa.array(indices))
    )
    short = np.flatnonzero(~long)
    order = pa.array(np.argsort(np.concatenate([short, indices[starts]]), kind="stable"))
    rows = pa.array(short)
    return (
        pa.concat_arrays([keys.take(rows), group_keys]).take(order),
        pa.concat_arrays([values.take(rows), group_values]).take(order),
    )


def _groups(keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes, Positions]:
    """Return (group keys, group values, index of each group's first row)."""
    data, offsets = parts_of(keys)
    shared = load_matrix(data, offsets[:-1], GROUP_KEY_BYTES)
    starts = np.flatnonzero(np.concatenate([[True], ~equal_neighbours(from_matrix(shared))]))
    bounds = np.append(starts, len(keys))
    rests = gather(data, offsets[:-1] + GROUP_KEY_BYTES, np.diff(offsets) - GROUP_KEY_BYTES)
    parts = [
        from_matrix(np.diff(bounds).astype("<u4").view(np.uint8).reshape(-1, 4)),
        _ends(rests, bounds, "<u4"),
        _ends(values, bounds, "<u8"),
        _joined(rests, bounds),
        _joined(values, bounds),
    ]
    return from_matrix(shared[starts]), concat(parts), starts


def _joined(rows: Bytes, bounds: Positions) -> Bytes:
    """Return the rows from each bound to the next as one, without a copy."""
    data, offsets = parts_of(rows)
    return from_parts(data, offsets[bounds])


def _ends(rows: Bytes, bounds: Positions, dtype: str) -> Bytes:
    """Return, for each group of rows, where each of its rows ends, counted from the group's."""
    _, offsets = parts_of(rows)
    ends = offsets[1:] - np.repeat(offsets[bounds[:-1]], np.diff(bounds))
    raw = ends.astype(dtype).view(np.uint8)
    return from_parts(raw, bounds * np.dtype(dtype).itemsize)


def unpack(block: Block) -> Block:
    """Return the block with the rows of its groups as entries of their own; values are not copied.

    IndexError or ValueError if a group's value is damaged.
    """
    grouped = block.key_lengths == GROUP_KEY_BYTES
    if not grouped.any():
        return block
    groups = np.flatnonzero(grouped)
    counts, keys, value_starts, value_lengths = _rows_of(block, groups)
    single = np.flatnonzero(~grouped)
    order = np.argsort(np.concatenate([single, np.repeat(groups, counts)]), kind="stable")
    single_keys = gather(block.keys, block.key_starts[single], block.key_lengths[single])
    data, offsets = parts_of(pa.concat_arrays([single_keys, keys]))
    return replace(
        block,
        keys=data,
        key_starts=offsets[:-1][order],
        key_lengths=np.diff(offsets)[order],
        value_starts=np.concatenate([block.value_starts[single], value_starts])[order],
        value_lengths=np.concatenate([block.value_lengths[single], value_lengths])[order],
    )


def _rows_of(block: Block, groups: Positions) -> tuple[Positions, Bytes, Positions, Positions]:
    """Return (rows per group, full keys, value positions, value lengths) of some groups."""
    buffer, starts = block.values, block.value_starts[groups]
    counts = load(buffer, starts, "<u4").astype(np.int64)
    if (counts * (_REST_END_BYTES + _VALUE_END_BYTES) > block.value_lengths[groups]).any():
        raise ValueError("a group of long keys counts more rows than it has room for")
    rest_ends_at = starts + _COUNT_BYTES
    value_ends_at = rest_ends_at + counts * _REST_END_BYTES
    rests_at = value_ends_at + counts * _VALUE_END_BYTES
    rest_starts, rest_lengths, rests_size = _spans(buffer, rest_ends_at, counts, rests_at, "<u4")
    values_at = rests_at + rests_size
    value_starts, value_lengths, values_size = _spans(
        buffer, value_ends_at, counts, values_at, "<u8"
    )
    if (values_at + values_size != starts + block.value_lengths[groups]).any():
        raise ValueError("a group of long keys does not end where its value ends")
    shared = load_matrix(block.keys, block.key_starts[groups], GROUP_KEY_BYTES)
    rests = gather(buffer, rest_starts, rest_lengths)
    keys = concat([from_matrix(np.repeat(shared, counts, 0)), rests])
    return counts, keys, value_starts, value_lengths


def _spans(
    buffer: Buffer, ends_at: Positions, counts: Positions, base: Positions, dtype: str
) -> tuple[Positions, Positions, Positions]:
    """Return (start, length) of every row's piece and the total size of each group's pieces."""
    width = np.dtype(dtype).itemsize
    ends = load(buffer, expand(ends_at, counts, width), dtype).astype(np.int64)
    firsts = np.cumsum(counts) - counts
    begins = np.empty_like(ends)
    begins[1:] = ends[:-1]
    begins[firsts] = 0
    lengths = ends - begins
    if (lengths < 0).any():
        raise ValueError("the rows of a group of long keys overlap")
    return np.repeat(base, counts) + begins, lengths, ends[firsts + counts - 1]
