"""What an entry of a segment is: the full key of its row, and the kind of its value.

    full key    table_id u32 | vnode u16 | primary key
    value       head u8 | ..., or the row itself: see `heads_of`

Promises: byte order is (table, vnode, primary key), for keys of any length. LMDB takes keys of up
to 511 bytes; longer ones are stored in groups, see `longkey`. The version of a row is not in its
key: the log knows the epoch and rank of its segment. A number means one kind for ever.
Does not know: how a primary key is encoded, only that encodings are prefix-free; how entries of one
key are merged.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..codec.key_field import Part, join
from ..codec.ragged import Bytes, load, parts_of

# On disk: never change or reuse.
PREFIX_BYTES = 6
# The first byte of a value: whether a header begins with it, the bits of the kind, and flags: the
# value has an expiry; it is of a part of a row.
HEADER = 0x80
KIND_BITS = 0x07
EXPIRES = 0x08
PART = 0x20


class Kind(IntEnum):
    """What an entry does to the row of its key; the lowest bits of the head of its value.

    A put replaces the row that is there, a delete removes it. A partial row gives it the columns
    that are not NULL, or becomes the row if there is none; a row of kind ignore does only that.
    In a document table an entry may be about a part of the row; an object is a row, or a part, that
    is there and has nothing in it; a liveness says that the part above it is an object, and leaves
    what is in it: see `table.document.part`.
    """

    # On disk: never change or reuse.
    PUT = 1
    DELETE = 2
    PARTIAL = 3
    IGNORE = 4
    OBJECT = 5
    LIVENESS = 6


# The head of values that have none: of a put, without flags, under the first schema.
PLAIN_HEAD = HEADER | Kind.PUT


def heads_of(first_bytes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the heads of values, given their first bytes: kinds and flags.

    A put without flags under the first schema of its table has no header. Its first byte is that of
    the row, which never has the bit `HEADER`.
    """
    heads: NDArray[np.uint8] = np.where(first_bytes < HEADER, np.uint8(PLAIN_HEAD), first_bytes)
    return heads


def prefix_parts(table_id: int, vnodes: NDArray[np.uint16]) -> list[Part]:
    """Return what the full keys of rows begin with, as `key_field.join` takes it."""
    return [table_id.to_bytes(4, "big"), vnodes]


def compose(table_id: int, vnodes: NDArray[np.uint16], primary_keys: Bytes) -> Bytes:
    """Return the full keys of rows."""
    return join([*prefix_parts(table_id, vnodes), primary_keys], len(primary_keys))


def prefix_of(table_id: int, vnode: int) -> bytes:
    """Return the bytes with which all keys of one vnode of a table begin.

    ``vnode`` may be one past the last: the prefix then is the upper bound of the table's keys.
    """
    return ((table_id << 16) + vnode).to_bytes(PREFIX_BYTES, "big")


def vnode_of(full_key: bytes) -> int:
    """Return the vnode in a full key."""
    return int.from_bytes(full_key[4:PREFIX_BYTES], "big")


def vnodes_in(full_keys: Bytes) -> NDArray[np.uint16]:
    """Return the vnode in every full key, uint16."""
    data, offsets = parts_of(full_keys)
    return load(data, offsets[:-1] + 4, ">u2").astype(np.uint16)


def successor(prefix: bytes) -> bytes | None:
    """Return the least bytes above all bytes that begin with ``prefix``; None if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
