"""A segment as an object: compressed by zstd where that pays.

    magic (8 bytes) | size of the content (8 bytes, little-endian) | a zstd frame

An object without the magic is the segment itself; a segment begins with a page number, never so.

Promises: `unpacked(packed(content)) == content`.
Does not know: what is in a segment.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_MAGIC = b"RELSTZST"
_HEADER = struct.Struct("<8sQ")
HEADER_BYTES = _HEADER.size
# A level that compresses faster than a network carries.
_LEVEL = 1
# Compressed content is kept if it has at most this share of the bytes.
_MOST_SHARE = 0.85


def packed(content: memoryview) -> bytes | memoryview:
    """Return the object of a segment."""
    codec = pa.Codec("zstd", compression_level=_LEVEL)
    frame: bytes = codec.compress(content, asbytes=True)
    if len(frame) > _MOST_SHARE * len(content):
        return content
    return _HEADER.pack(_MAGIC, len(content)) + frame


def packed_size(start: bytes) -> int | None:
    """Return the size of the segment in an object that begins so; None if it is the object's."""
    if not start.startswith(_MAGIC) or len(start) < HEADER_BYTES:
        return None
    size: int = _HEADER.unpack_from(start)[1]
    return size


def unpacked(data: bytes, most: int) -> bytes:
    """Return the segment in an object. ValueError if it is damaged, or larger than ``most``."""
    size = packed_size(data)
    if size is None:
        return data
    if size > most:
        raise ValueError(f"a segment of {size} bytes")
    try:
        content = pa.Codec("zstd").decompress(memoryview(data)[HEADER_BYTES:], size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"a damaged zstd frame ({error})") from None
    return bytes(content)
