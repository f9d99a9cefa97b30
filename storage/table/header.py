"""The header of a value: what precedes the bytes of the row.

    kind u8 | flags u8 | schema version u16            (little endian)
    expiry i64                                         if flags & 1
    version column's value: length u16 and its bytes   if flags & 2

An expiry is in microseconds since 1970. The version column's value is memcomparable. In tables
without either the flags are 0 and a header is four bytes.

Promises: headers of whole blocks are read and written column by column.
Does not know: what follows from a kind or an expiry.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import Bytes, Positions, concat, constant, from_matrix, gather, lengths_of, load
from ..schema.schema import Column
from ..schema.types import BigInt
from ..segment.block import Block
from ..segment.key import EXPIRES, Kind

# On disk: never change or reuse.
FIXED = struct.Struct("<BBH")
VERSIONED = 2
_EXPIRY, _LENGTH = struct.Struct("<q"), struct.Struct("<H")

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
    def words(self) -> NDArray[np.uint32]:
        """The fixed part of every header as a number."""
        return load(self.block.values, self.block.value_starts, "<u4")

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """The `Kind` of every value."""
        return self.words.astype(np.uint8)

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """The flags of every value."""
        return (self.words >> np.uint32(8)).astype(np.uint8)

    @cached_property
    def schema_versions(self) -> NDArray[np.uint16]:
        """The version of the schema under which every row is encoded."""
        return (self.words >> np.uint32(16)).astype(np.uint16)

    @cached_property
    def expiries(self) -> Positions:
        """The expiry of every value; `NEVER` where it has none."""
        expiries = np.full(len(self.block), NEVER, np.int64)
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
        if not self.flags.any():
            return self.block.value_starts + FIXED.size
        starts, lengths = self._version_spans
        return starts + lengths

    @cached_property
    def body_lengths(self) -> Positions:
        """How many bytes every row has."""
        return self.block.value_lengths - (self.body_starts - self.block.value_starts)

    @cached_property
    def _version_spans(self) -> tuple[Positions, Positions]:
        """Return (starts, lengths) of the version column's values; 0 long where there is none."""
        starts = self.block.value_starts + FIXED.size
        starts = starts + np.where(self.flags & EXPIRES, _EXPIRY.size, 0)
        lengths = np.zeros(len(starts), np.int64)
        rows = np.flatnonzero(self.flags & VERSIONED)
        if len(rows):
            lengths[rows] = load(self.block.values, starts[rows], "<u2")
            starts[rows] += _LENGTH.size
        if (starts + lengths > self.block.value_starts + self.block.value_lengths).any():
            raise ValueError("the header of a value is longer than the value")
        return starts, lengths

    def are_visible(self, time: int) -> NDArray[np.bool_]:
        """Return which values are rows that have not expired at a time."""
        visible: NDArray[np.bool_] = self.kinds != Kind.DELETE
        if (self.flags & EXPIRES).any():
            visible &= self.expiries > time
        return visible


def encode_headers(
    kinds: NDArray[np.uint8] | int,
    schema_version: int,
    rows: int,
    expiries: Positions | None = None,
    versions: Bytes | None = None,
) -> Bytes:
    """Return the headers of some rows.

    ``kinds``: a `Kind` for all or each; ``expiries``: int64, `NEVER` where a row has none, or None
    if none has; ``versions``: memcomparable values of the version column, None if there is none.
    """
    expires = np.zeros(rows, bool) if expiries is None else expiries != NEVER
    fixed = np.zeros((rows, FIXED.size), np.uint8)
    fixed[:, 0] = kinds
    fixed[:, 1] = np.where(expires, EXPIRES, 0) | (0 if versions is None else VERSIONED)
    fixed[:, 2:] = np.frombuffer(schema_version.to_bytes(2, "little"), np.uint8)
    parts = [from_matrix(fixed)]
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


def is_delete(value: bytes) -> bool:
    """Return whether a value deletes its key."""
    return value[0] == Kind.DELETE


def expiry_of(value: bytes) -> int:
    """Return the expiry of a value, `NEVER` if it has none."""
    if not value[1] & EXPIRES:
        return int(NEVER)
    expiry: int = _EXPIRY.unpack_from(value, FIXED.size)[0]
    return expiry


def body_start(value: bytes) -> int:
    """Return where the bytes of the row begin in a value."""
    start = FIXED.size
    if value[1]:
        if value[1] & EXPIRES:
            start += _EXPIRY.size
        if value[1] & VERSIONED:
            start += _LENGTH.size + _LENGTH.unpack_from(value, start)[0]
    return start
