"""What an entry of a segment is: the full key of its row, and the kind of its value.

    full key    table id | vnode | primary key
    table id    below 128 u8; below 16,384 u16 with its highest bit set; else 0xc0 and u32
    vnode       u8 in a store of up to 256 vnodes, else u16
    value       head u8 | ..., or the row itself: see `heads_of`

Promises: byte order is (table, vnode, primary key), for keys of any length. LMDB takes keys of up
to 511 bytes; longer ones are stored in groups, see `longkey`. The version of a row is not in its
key: the log knows the epoch and rank of its segment. A number means one kind for ever.
Does not know: how a primary key is encoded, only that encodings are prefix-free; how entries of one
key are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.key_field import Part, join
from ..codec.ragged import Buffer, Bytes, Positions, gather, load, parts_of

# On disk: never change or reuse. Ids below the first number have one byte, those below the second
# two; the first byte of those is `_MIDDLE` or more, that of others `_LONG`.
_SHORT_IDS, _MIDDLE_IDS = 0x80, 0x4000
_MIDDLE, _LONG, _LONG_ID_BYTES = 0x80, 0xC0, 4
_SHORT_VNODES = 256
LEAST_PREFIX_BYTES = 2
"""No full key has fewer bytes before its primary key."""
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


@dataclass(frozen=True)
class KeyPrefix:
    """What precedes the primary key in the full keys of one table: its id and the vnode. Immutable.

    ``vnode_count``: that of the store.
    """

    table_id: int
    vnode_count: int

    @cached_property
    def id_bytes(self) -> bytes:
        """The table's id as it is in keys."""
        if self.table_id < _SHORT_IDS:
            return bytes([self.table_id])
        if self.table_id < _MIDDLE_IDS:
            return (_MIDDLE << 8 | self.table_id).to_bytes(2, "big")
        return bytes([_LONG]) + self.table_id.to_bytes(_LONG_ID_BYTES, "big")

    @cached_property
    def vnode_bytes(self) -> int:
        """How many bytes the vnode has."""
        return 1 if self.vnode_count <= _SHORT_VNODES else 2

    @cached_property
    def size(self) -> int:
        """How many bytes the prefix has."""
        return len(self.id_bytes) + self.vnode_bytes

    @cached_property
    def _first(self) -> int:
        """The prefix of the first vnode, as a number."""
        return int.from_bytes(self.id_bytes, "big") << 8 * self.vnode_bytes

    def of(self, vnode: int) -> bytes:
        """Return the bytes with which all keys of one vnode of the table begin.

        ``vnode`` may be one past the last: then it is the upper bound of the table's keys.
        """
        return (self._first + vnode).to_bytes(self.size, "big")

    def parts(self, vnodes: NDArray[np.uint16]) -> list[Part]:
        """Return what the full keys of rows begin with, as `key_field.join` takes it."""
        return [self.id_bytes, vnodes.astype(f"u{self.vnode_bytes}")]

    def compose(self, vnodes: NDArray[np.uint16], primary_keys: Bytes) -> Bytes:
        """Return the full keys of rows."""
        return join([*self.parts(vnodes), primary_keys], len(primary_keys))

    def primary_keys(self, full_keys: Bytes) -> Bytes:
        """Return what follows the prefix in some full keys of the table."""
        data, offsets = parts_of(full_keys)
        return gather(data, offsets[:-1] + self.size, np.diff(offsets) - self.size)

    def vnode_of(self, full_key: bytes) -> int:
        """Return the vnode in a full key of the table."""
        return int.from_bytes(full_key[len(self.id_bytes) : self.size], "big")

    def vnodes_in(self, full_keys: Bytes) -> NDArray[np.uint16]:
        """Return the vnode in every full key of the table, uint16."""
        data, offsets = parts_of(full_keys)
        return self.vnodes_at(data, offsets[:-1])

    def vnodes_at(self, buffer: Buffer, starts: Positions) -> NDArray[np.uint16]:
        """Return the vnode in the full keys of the table that begin at some positions, uint16."""
        vnodes = load(buffer, starts + len(self.id_bytes), f">u{self.vnode_bytes}")
        return vnodes.astype(np.uint16)


def table_id_of(full_key: bytes) -> int:
    """Return the id of the table of a full key. IndexError if there are no bytes."""
    if full_key[0] < _MIDDLE:
        return full_key[0]
    if full_key[0] < _LONG:
        return int.from_bytes(full_key[:2], "big") & _MIDDLE_IDS - 1
    return int.from_bytes(full_key[1 : 1 + _LONG_ID_BYTES], "big")


def table_ids_at(buffer: Buffer, starts: Positions) -> NDArray[np.int64]:
    """Return the ids of the tables of the full keys that begin at some positions."""
    first_bytes = load(buffer, starts, "u1")
    table_ids = first_bytes.astype(np.int64)
    middle = np.flatnonzero((first_bytes >= _MIDDLE) & (first_bytes < _LONG))
    table_ids[middle] = load(buffer, starts[middle], ">u2") & np.uint16(_MIDDLE_IDS - 1)
    long = np.flatnonzero(first_bytes >= _LONG)
    table_ids[long] = load(buffer, starts[long] + 1, ">u4")
    return table_ids


def successor(prefix: bytes) -> bytes | None:
    """Return the least bytes above all bytes that begin with ``prefix``; None if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
