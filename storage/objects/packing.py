"""A segment as an object: in blocks, each compressed by zstd where that pays.

    magic (8 bytes) | size of the segment (8) | its hash (8) | bytes of a block (4) | blocks (4)
    for each block: bytes in the object (4), hash of its content (8)
    hash of all above (8)
    the blocks

Numbers are little-endian, hashes those of xxh3_64, big-endian. The first block has `FIRST_BYTES`,
the last what is left. A block that has as many bytes in the object as in the segment is not
compressed. An object without the magic is the segment itself; a segment begins with a page number,
never so.

Promises: `unpacked(packed(content)) == content`; a block is verified by itself.
Does not know: what is in a segment, except that the start is asked for first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pyarrow as pa
import xxhash

_MAGIC = b"RELSTZST"
_HEADER = struct.Struct("<8sQ8sII")
_BLOCK = struct.Struct("<I8s")
HEADER_BYTES = _HEADER.size
_HASH_BYTES = 8
# The first block is read together with the index: a segment begins with the root of its tree.
FIRST_BYTES = 8192
BLOCK_BYTES = 256 << 10
# A level that compresses faster than a network carries.
_LEVEL = 1
# Compressed content is kept if it has at most this share of the bytes.
_MOST_SHARE = 0.85


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Where the blocks of a segment are.

    ``starts``: in the segment, and ``stored_starts`` in the object, each with the end of the last;
    ``hashes``: of the blocks' contents; ``digest``: the segment's hash, in hexadecimal.
    """

    digest: str
    starts: Sequence[int]
    stored_starts: Sequence[int]
    hashes: Sequence[bytes]

    @property
    def size(self) -> int:
        """The size of the segment."""
        return self.starts[-1]

    @property
    def object_size(self) -> int:
        """The size of the object."""
        return self.stored_starts[-1]

    def block(self, number: int, data: bytes | memoryview) -> bytes:
        """Return the content of a block, of its bytes in the object. ValueError for damage."""
        size = self.starts[number + 1] - self.starts[number]
        try:
            content = bytes(data) if len(data) == size else _decompressed(data, size)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"a damaged block of zstd ({error})") from None
        if xxhash.xxh3_64_digest(content) != self.hashes[number]:
            raise ValueError(f"the hash of block {number} differs from that in the object's index")
        return content


def packed(content: memoryview) -> bytes:
    """Return the object of a segment."""
    codec = pa.Codec("zstd", compression_level=_LEVEL)
    starts = _starts(len(content), BLOCK_BYTES)
    blocks, entries = [], []
    for start, stop in pairwise(starts):
        raw = content[start:stop]
        frame = codec.compress(raw, asbytes=True)
        blocks.append(raw if len(frame) > _MOST_SHARE * len(raw) else frame)
        entries.append(_BLOCK.pack(len(blocks[-1]), xxhash.xxh3_64_digest(raw)))
    digest = xxhash.xxh3_64_digest(content)
    header = _HEADER.pack(_MAGIC, len(content), digest, BLOCK_BYTES, len(blocks))
    index = b"".join([header, *entries])
    return b"".join([index, xxhash.xxh3_64_digest(index), *blocks])


def _starts(size: int, block_bytes: int) -> list[int]:
    """Return where the blocks of a segment begin, and its end."""
    return [0, *range(min(FIRST_BYTES, size), size, block_bytes), size] if size else [0]


def packed_size(start: bytes) -> int | None:
    """Return the size of the segment in an object that begins so; None if it is the object's."""
    if not start.startswith(_MAGIC) or len(start) < HEADER_BYTES:
        return None
    size: int = _HEADER.unpack_from(start)[1]
    return size


def index_bytes(start: bytes) -> int | None:
    """Return the size of the index of an object that begins so; None if it has none."""
    if packed_size(start) is None:
        return None
    count: int = _HEADER.unpack_from(start)[4]
    return HEADER_BYTES + count * _BLOCK.size + _HASH_BYTES


def block_index(start: bytes | memoryview) -> BlockIndex:
    """Return the index of an object, of its first `index_bytes`. ValueError if it is damaged."""
    _, size, digest, block_bytes, count = _HEADER.unpack_from(start)
    end = HEADER_BYTES + count * _BLOCK.size
    if len(start) < end + _HASH_BYTES or (
        xxhash.xxh3_64_digest(start[:end]) != start[end : end + _HASH_BYTES]
    ):
        raise ValueError("the index of the object's blocks is damaged")
    lengths, hashes = [], []
    for length, content_hash in _BLOCK.iter_unpack(start[HEADER_BYTES:end]):
        lengths.append(length)
        hashes.append(content_hash)
    starts = _starts(size, block_bytes)
    if len(starts) != count + 1:
        raise ValueError("the index of the object's blocks does not fit the segment")
    return BlockIndex(
        digest.hex(), starts, [*accumulate(lengths, initial=end + _HASH_BYTES)], hashes
    )


def unpacked(data: bytes, most: int) -> bytes:
    """Return the segment in an object. ValueError if it is damaged, or larger than ``most``."""
    size = packed_size(data)
    if size is None:
        return data
    if size > most:
        raise ValueError(f"a segment of {size} bytes")
    view = memoryview(data)
    index = block_index(view)
    if index.object_size != len(data):
        raise ValueError(f"an object of {len(data)} bytes instead of {index.object_size}")
    stored = index.stored_starts
    return b"".join(
        index.block(number, view[stored[number] : stored[number + 1]])
        for number in range(len(index.hashes))
    )


def _decompressed(data: bytes | memoryview, size: int) -> bytes:
    return bytes(pa.Codec("zstd").decompress(data, size, asbytes=True))
