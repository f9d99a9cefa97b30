"""The header of a value: what precedes the bytes of the row.

    head u8: 0x80 | flags | kind
    schema version u16                                 (little endian)
    expiry i64                                         if head & 0x08
    version column's value: length u16 and its bytes   if head & 0x10
    path: length u16 and depth u8                      if head & 0x20

A put without flags under schema version 1, as most rows are, has no header: its first byte is that
of the row body, below 0x80. An expiry is in microseconds since 1970. The version column's value is
memcomparable. The path of a part of a document is the end of its key; only its length is here, and
its number of components. A row with flag 0x40 is there only while one of its columns is not NULL.

Promises: headers of whole blocks are read and written column by column.
Does not know: what follows from a kind or an expiry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import (
    Bytes,
    Positions,
    concat,
    constant,
    from_matrix,
    from_parts,
    gather,
    lengths_of,
    load,
)
from ..errors import ValueRangeError
from ..schema.schema import Column
from ..schema.types import BigInt
from ..segment.block import Block
from ..segment.key import (
    EXPIRES,
    HEADER,
    KIND_BITS,
    PART,
    PLAIN_HEAD,
    Kind,
    heads_of,
)

# On disk: never change or reuse.
FIXED = struct.Struct("<BH")
VERSIONED = 0x10
BY_COLUMNS = 0x40
FLAGS = EXPIRES | VERSIONED | PART | BY_COLUMNS
_FIRST_SCHEMA = 1
_EXPIRY, _LENGTH, _PATH = struct.Struct("<q"), struct.Struct("<H"), struct.Struct("<HB")

MAX_PATH_BYTES = 0xFFFF
MAX_VERSION_BYTES = 0xFFFF

NEVER = np.iinfo(np.int64).max
"""The expiry of a row that does not expire."""
EXPIRY = Column(0, "_expiry", BigInt(), nullable=False, hidden=True)
"""What readers of rows that may have expired get as a column; no table has a column of this id."""


@dataclass(frozen=True)
class Headers:
    """The headers of the values of a block, each field read when it is first used.

    IndexError or ValueError from any field if the bytes are not headers.
    """

    block: Block

    @cached_property
    def are_absent(self) -> bool:
        """Whether no value has a header, so that each is the bytes of its row."""
        return int(self.block.first_bytes.max(initial=0)) < HEADER

    @cached_property
    def heads(self) -> NDArray[np.uint8]:
        """The head of every value; `PLAIN_HEAD` where it has no header."""
        return heads_of(self.block.first_bytes)

    @cached_property
    def bits(self) -> int:
        """The bits that are set in any of the heads."""
        return PLAIN_HEAD if self.are_absent else int(np.bitwise_or.reduce(self.heads))

    @property
    def have_flags(self) -> bool:
        """Whether any value has a flag."""
        return bool(self.bits & FLAGS)

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """The `Kind` of every value."""
        return self.heads & np.uint8(KIND_BITS)

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """The flags of every value."""
        return self.heads & np.uint8(FLAGS)

    @cached_property
    def schema_versions(self) -> NDArray[np.uint16]:
        """The version of the schema under which every row is encoded."""
        versions = np.full(len(self.block), _FIRST_SCHEMA, np.uint16)
        if not self.are_absent:
            rows = np.flatnonzero(self._have_header)
            versions[rows] = load(self.block.values, self.block.value_starts[rows] + 1, "<u2")
        return versions

    def are_all(self, head: int, schema_version: int) -> bool:
        """Return whether all values have this head and schema version."""
        if self.are_absent:
            is_plain = head == PLAIN_HEAD and schema_version == _FIRST_SCHEMA
            return is_plain or not len(self.block)
        return bool((self.heads == head).all() and (self.schema_versions == schema_version).all())

    @cached_property
    def expiries(self) -> Positions:
        """The expiry of every value; `NEVER` where it has none."""
        expiries = np.full(len(self.block), NEVER, np.int64)
        if not self.bits & EXPIRES:
            return expiries
        rows = np.flatnonzero(self.flags & EXPIRES)
        if len(rows):
            starts = self.block.value_starts[rows] + FIXED.size
            expiries[rows] = load(self.block.values, starts, "<i8")
        return expiries

    @cached_property
    def versions(self) -> Bytes:
        """The version column's value of every row, memcomparable; empty where it has none."""
        starts, lengths = self._version_spans
        return gather(self.block.values, starts, lengths)

    @cached_property
    def body_starts(self) -> Positions:
        """Where the bytes of every row begin."""
        if self.are_absent:
            return self.block.value_starts
        if not self.have_flags:
            return self._fixed_ends
        starts, lengths = self._version_spans
        return starts + lengths + np.where(self.flags & PART, _PATH.size, 0)

    @cached_property
    def is_part(self) -> NDArray[np.bool_]:
        """Which values are those of parts of a row."""
        is_part: NDArray[np.bool_] = self.flags & PART != 0
        return is_part

    @cached_property
    def is_divided(self) -> NDArray[np.bool_]:
        """Which values are not whole rows, nor deletes of rows: parts, and rows of no columns."""
        if not self.bits & PART and self.bits & Kind.OBJECT != Kind.OBJECT:
            return np.zeros(len(self.block), np.bool_)
        is_divided: NDArray[np.bool_] = self.is_part | (self.kinds == Kind.OBJECT)
        return is_divided

    @cached_property
    def path_lengths(self) -> Positions:
        """How many bytes of every key are the path of a part; 0 for a row.

        ValueError if a key is too short for its path.
        """
        lengths = np.zeros(len(self.block), np.int64)
        if not self.bits & PART:
            return lengths
        rows, starts = self._paths
        if len(rows):
            lengths[rows] = load(self.block.values, starts, "<u2")
        if (lengths >= self.block.key_lengths).any() or not lengths[rows].all():
            raise ValueError("the path of a part does not fit its key")
        return lengths

    @cached_property
    def depths(self) -> NDArray[np.uint8]:
        """How many components the path of every part has; 0 for a row."""
        depths = np.zeros(len(self.block), np.uint8)
        rows, starts = self._paths
        if len(rows):
            depths[rows] = self.block.values[starts + _LENGTH.size]
        if not depths[rows].all():
            raise ValueError("a part has a path of no components")
        return depths

    @cached_property
    def _paths(self) -> tuple[Positions, Positions]:
        """Return (the parts, where the lengths of their paths are)."""
        rows = np.flatnonzero(self.is_part)
        starts, lengths = self._version_spans
        return rows, (starts + lengths)[rows]

    @cached_property
    def body_lengths(self) -> Positions:
        """How many bytes every row has."""
        if self.are_absent:
            return self.block.value_lengths
        return self.block.value_lengths - (self.body_starts - self.block.value_starts)

    @cached_property
    def _have_header(self) -> NDArray[np.bool_]:
        """Which values have a header."""
        have_header: NDArray[np.bool_] = self.block.first_bytes >= HEADER
        return have_header

    @property
    def _fixed_ends(self) -> Positions:
        """Where the fixed part of every header ends; where the value begins if it has none."""
        return self.block.value_starts + np.where(self._have_header, FIXED.size, 0)

    @cached_property
    def _version_spans(self) -> tuple[Positions, Positions]:
        """Return (starts, lengths) of the version column's values; 0 long where there is none."""
        starts = self._fixed_ends + np.where(self.flags & EXPIRES, _EXPIRY.size, 0)
        lengths = np.zeros(len(starts), np.int64)
        rows = np.flatnonzero(self.flags & VERSIONED)
        if len(rows):
            lengths[rows] = load(self.block.values, starts[rows], "<u2")
            starts[rows] += _LENGTH.size
        if (
            starts + lengths + np.where(self.flags & PART, _PATH.size, 0)
            > self.block.value_starts + self.block.value_lengths
        ).any():
            raise ValueError("the header of a value is longer than the value")
        return starts, lengths

    def are_visible(self, time: int) -> NDArray[np.bool_]:
        """Return which values are rows that have not expired at a time."""
        if self.bits & Kind.DELETE:
            visible: NDArray[np.bool_] = self.kinds != Kind.DELETE
        else:
            visible = np.ones(len(self.block), np.bool_)
        if self.bits & EXPIRES:
            visible &= self.expiries > time
        return visible


def encode_headers(
    kinds: NDArray[np.uint8] | int,
    schema_version: int,
    rows: int,
    expiries: Positions | None = None,
    versions: Bytes | None = None,
    flags: NDArray[np.uint8] | int = 0,
) -> Bytes:
    """Return the headers of some rows: no bytes for those that have none.

    ``kinds``: a `Kind` for all or each; ``expiries``: int64, `NEVER` where a row has none, or None
    if none has; ``versions``: memcomparable values of the version column, None if there is none;
    ``flags``: others, for all or each.
    """
    expires = np.zeros(rows, bool) if expiries is None else expiries != NEVER
    fixed = np.empty(rows, np.dtype([("head", "u1"), ("schema version", "<u2")]))
    heads = np.where(expires, EXPIRES, 0) | (0 if versions is None else VERSIONED)
    fixed["head"] = heads | HEADER | kinds | flags
    fixed["schema version"] = schema_version
    if schema_version == _FIRST_SCHEMA:
        is_needed = fixed["head"] != PLAIN_HEAD
        ends = np.cumsum(np.where(is_needed, FIXED.size, 0))
        parts = [from_parts(fixed[is_needed].view(np.uint8), np.append(0, ends))]
    else:
        parts = [from_matrix(fixed.view(np.uint8).reshape(rows, FIXED.size))]
    if expiries is not None and expires.any():
        parts.append(_expiry_bytes(expiries, expires))
    if versions is not None:
        lengths = lengths_of(versions).astype("<u2").view(np.uint8).reshape(rows, _LENGTH.size)
        parts += [from_matrix(lengths), versions]
    return parts[0] if len(parts) == 1 else concat(parts)


def _expiry_bytes(expiries: Positions, expires: NDArray[np.bool_]) -> Bytes:
    """Return the bytes of every expiry; empty where there is none."""
    encoded = from_matrix(
        expiries.astype("<i8").view(np.uint8).reshape(len(expiries), _EXPIRY.size)
    )
    if expires.all():
        return encoded
    rows = np.where(expires, np.arange(len(expiries)), len(expiries))
    return pa.concat_arrays([encoded, constant(b"", 1)]).take(pa.array(rows))


def delete_value(schema_version: int) -> bytes:
    """Return the value of a delete that does not expire and has no version."""
    return FIXED.pack(HEADER | Kind.DELETE, schema_version)


def is_delete(value: bytes) -> bool:
    """Return whether a value deletes its key."""
    return value[0] & (HEADER | KIND_BITS) == HEADER | Kind.DELETE


def has_expired(value: bytes, time: Callable[[], int]) -> bool:
    """Return whether a value has expired at a time, which is asked for if it expires."""
    if value[0] < HEADER or not value[0] & EXPIRES:
        return False
    expiry: int = _EXPIRY.unpack_from(value, FIXED.size)[0]
    return expiry <= time()


class PointHeader(NamedTuple):
    """The header of one value; ``expiry``: None if it does not expire.

    ``path_length``: how many bytes of its key are a path, 0 for a row.
    """

    kind: int
    flags: int
    version: int
    expiry: int | None
    path_length: int
    body_start: int


_NO_HEADER = PointHeader(Kind.PUT, 0, _FIRST_SCHEMA, None, 0, 0)


def read_header(value: bytes) -> PointHeader:
    """Return the header of a value. IndexError or struct.error if the bytes are not a header."""
    if value[0] < HEADER:
        return _NO_HEADER
    head, version = FIXED.unpack_from(value)
    kind, flags = head & KIND_BITS, head & FLAGS
    expiry, path_length, start = None, 0, FIXED.size
    if flags & EXPIRES:
        (expiry,) = _EXPIRY.unpack_from(value, start)
        start += _EXPIRY.size
    if flags & VERSIONED:
        start += _LENGTH.size + _LENGTH.unpack_from(value, start)[0]
    if flags & PART:
        path_length, _ = _PATH.unpack_from(value, start)
        start += _PATH.size
    return PointHeader(kind, flags, version, expiry, path_length, start)


def path_length(block: Block, index: int) -> int:
    """Return how many bytes of one key of a block are the path of a part; 0 for a row.

    ValueError if the bytes are not a header, or the key is too short for its path.
    """
    start, length = int(block.value_starts[index]), int(block.value_lengths[index])
    head = int(block.values[start]) if length else HEADER
    if head < HEADER or (length >= FIXED.size and not head & PART):
        return 0
    try:
        path = read_header(block.values[start : start + length].tobytes()).path_length
    except (IndexError, struct.error) as error:
        raise ValueError(f"the header of a value is longer than the value ({error})") from error
    if not 0 < path < block.key_lengths[index]:
        raise ValueError("the path of a part does not fit its key")
    return path


def encode_part_headers(
    kinds: NDArray[np.uint8],
    schema_version: int,
    path_lengths: Positions,
    depths: NDArray[np.uint8],
    expiries: Positions | None = None,
    other_flags: NDArray[np.uint8] | int = 0,
) -> Bytes:
    """Return the headers of parts, or, of depth 0, of rows.

    ``expiries``: as `encode_headers` takes them; ``other_flags``: besides those of parts.
    ValueRangeError for a path that is too long.
    """
    check_path_length(int(path_lengths.max(initial=0)))
    flags = np.where(depths > 0, np.uint8(PART), np.uint8(0)) | np.uint8(other_flags)
    headers = encode_headers(kinds, schema_version, len(kinds), expiries, flags=flags)
    parts = np.flatnonzero(depths)
    paths = np.zeros(len(parts), np.dtype([("length", "<u2"), ("depth", "u1")]))
    paths["length"], paths["depth"] = path_lengths[parts], depths[parts]
    ends = np.cumsum(np.where(depths > 0, _PATH.size, 0))
    path_bytes = from_parts(paths.view(np.uint8), np.append(0, ends))
    return concat([headers, path_bytes])


def check_path_length(length: int) -> None:
    """ValueRangeError for a path of too many bytes."""
    if length > MAX_PATH_BYTES:
        raise ValueRangeError(
            f"a path of {length} bytes: the keys of maps down to one part of a document take at "
            f"most {MAX_PATH_BYTES} bytes together; write the map as a whole"
        )
