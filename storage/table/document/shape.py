"""Shapes: how the values of a type become parts, and parts values; and those of plain values.

Promises: collecting the parts of a value gives the value, except that the entries of a map come in
the order of their keys, -0 as a key becomes 0 and every NaN the same NaN. Recursion is over types,
never over values.
Does not know: which of several parts at a path counts, or which types have parts: see
containers.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.ragged import (
    Bytes,
    Positions,
    constant,
    lengths_of,
    parts_of,
)
from ...codec.row import RowCodec
from ...codec.value_field import bitmap_of
from ...schema import types as t
from ...schema.arrow import arrow_type
from ...segment.key import Kind
from .part import Parts

Flags: TypeAlias = NDArray[np.bool_]
PutParts: TypeAlias = Callable[["Shape", pa.Array, Bytes], Parts]
"""How a value that replaces another one is written: `put_whole` or `put_parts`."""

MOST_DEPTH = 255
"""A path deeper than this would not fit the header of its entry."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The parts in one field, entry or element of each of some values.

    ``rows``: the indices of the parts; ``starts``: where the rest of each path begins.
    """

    shape: Shape
    rows: Positions
    starts: Positions


@dataclass(frozen=True, slots=True)
class Items:
    """The fields, entries or elements of some values, with the same shape.

    ``owners``: the number of the value of each item, int64.
    """

    shape: Shape
    values: pa.Array
    owners: Positions
    paths: Bytes


class Shape(ABC):
    """The parts of the values of a type whose paths have ``depth`` components. Immutable.

    Paths are given and returned whole, from the column on. ``has_parts``: whether a value can have
    parts; ``has_places``: whether some of them are elements of arrays, known by their places.
    """

    has_parts = False
    has_places = False

    def __init__(self, data_type: t.DataType, depth: int) -> None:
        self.arrow_type = arrow_type(data_type)
        self.depth = depth
        self._codec = RowCodec([data_type])

    # Whole values

    def encode(self, values: pa.Array) -> Bytes:
        """Return the bodies of some values: row bodies of one column."""
        return self._codec.encode([values], b"")

    def encode_value(self, value: Any) -> bytes:
        """Return the body of one value, a Python value; errors as of `RowCodec.encode_row`."""
        return self._codec.encode_row([value])

    def decode(self, bodies: Bytes) -> pa.Array:
        """Return the values of some bodies. ValueError if the bytes are not such values."""
        data, offsets = parts_of(bodies)
        return self._codec.decode(data, offsets[:-1], [0], np.diff(offsets))[0]

    def whole(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return one part for each value, NULLs included."""
        return self._parts(values, paths, np.full(len(values), Kind.PUT, np.uint8))

    def deletes(self, paths: Bytes) -> Parts:
        """Return a DELETE at each of some paths."""
        kinds = np.full(len(paths), Kind.DELETE, np.uint8)
        return self._parts(pa.nulls(len(paths), self.arrow_type), paths, kinds)

    def _parts(self, values: pa.Array, paths: Bytes, kinds: NDArray[np.uint8]) -> Parts:
        """Return the parts at some paths; those that are PUTs have the values at their index."""
        count = len(values)
        depths = np.full(count, self.depth, np.uint8)
        puts = np.flatnonzero(kinds == Kind.PUT)
        if not len(puts):
            bodies = constant(b"", count)
        elif len(puts) == count:
            bodies = self.encode(values)
        else:
            encoded = self.encode(values.take(pa.array(puts)))
            indices = np.full(count, len(puts))
            indices[puts] = np.arange(len(puts))
            bodies = pa.concat_arrays([encoded, constant(b"", 1)]).take(pa.array(indices))
        return Parts(np.arange(count), paths, depths, kinds, bodies)

    # Parts

    @abstractmethod
    def explode(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return all parts of some values, a value before its parts; NULL is a PUT of NULL."""

    def explode_stored(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return what `explode` does, of values that were written as parts.

        ValueError if the bytes of one are not what may be written.
        """
        return self.explode(values, paths)

    @abstractmethod
    def patch(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return the parts that change the values at some paths as a JSON merge patch does.

        NULL removes, structs and maps are merged, all else is replaced, written by ``put``.
        """

    @abstractmethod
    def branches(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the parts, among ``rows``, below this value, by the item that they are in.

        ``starts``: where the rest of each path in ``rows`` begins. ValueError or IndexError for a
        path that values of the type do not have.
        """

    @abstractmethod
    def collect(self, count: int, parts: Parts, starts: Positions) -> pa.Array:
        """Return ``count`` values from their parts; NULL where there is no part.

        ``parts`` are in the order of their owners and paths, and no two at one path. None is a
        DELETE, and only NULL and plain values are PUTs. Errors as of `branches`.
        """

    def packed(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the PUTs, among ``rows``, of values that may have parts, by shape."""
        lengths = lengths_of(parts.paths)[rows]
        is_own = starts == lengths
        own = rows[is_own]
        own = own[parts.kinds[own] == Kind.PUT]
        if len(own):
            yield Branch(self, own, lengths[is_own][parts.kinds[rows[is_own]] == Kind.PUT])
        below = np.flatnonzero(~is_own)
        if len(below):
            for branch in self.branches(parts, rows[below], starts[below]):
                yield from branch.shape.packed(parts, branch.rows, branch.starts)

    def puts(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Yield the PUTs, among ``rows``, at and below this value, by shape.

        Errors as of `branches`.
        """
        lengths = lengths_of(parts.paths)[rows]
        is_put = (starts == lengths) & (parts.kinds[rows] == Kind.PUT)
        if is_put.any():
            yield Branch(self, rows[is_put], starts[is_put])
        is_below = starts < lengths
        if is_below.any():
            for branch in self.branches(parts, rows[is_below], starts[is_below]):
                yield from branch.shape.puts(parts, branch.rows, branch.starts)


class Leaf(Shape):
    """Values without parts."""

    def explode(self, values: pa.Array, paths: Bytes) -> Parts:
        """Return one part for each value."""
        return self.whole(values, paths)

    def patch(self, values: pa.Array, paths: Bytes, put: PutParts) -> Parts:
        """Return a PUT for each value, a DELETE for each NULL."""
        valid = np.asarray(values.is_valid())
        return self._parts(values, paths, np.where(valid, Kind.PUT, Kind.DELETE).astype(np.uint8))

    def branches(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """ValueError: there is nothing below a plain value."""
        raise ValueError(f"a path goes on below a value of the type {self.arrow_type}")

    def packed(self, parts: Parts, rows: Positions, starts: Positions) -> Iterator[Branch]:
        """Return nothing: a plain value has no parts."""
        return iter(())

    def collect(self, count: int, parts: Parts, starts: Positions) -> pa.Array:
        """Return the values of the PUTs."""
        if (starts != lengths_of(parts.paths)).any() or (parts.kinds != Kind.PUT).any():
            raise ValueError(f"a value of the type {self.arrow_type} has parts")
        return scattered(self.decode(parts.bodies), parts.owners, count)


def put_whole(shape: Shape, values: pa.Array, paths: Bytes) -> Parts:
    """Return one part for each value."""
    return shape.whole(values, paths)


def put_parts(shape: Shape, values: pa.Array, paths: Bytes) -> Parts:
    """Return all parts of the values."""
    return shape.explode(values, paths)


def scattered(values: pa.Array, owners: Positions, count: int) -> pa.Array:
    """Return ``count`` values: ``values[i]`` at ``owners[i]``, NULL elsewhere."""
    if len(values) == count and (owners == np.arange(count)).all():
        return values
    indices = np.full(count, -1)
    indices[owners] = np.arange(len(owners))
    return values.take(pa.array(indices, mask=indices < 0))


def validity_of(exists: Flags) -> pa.Buffer | None:
    """Return the validity bitmap of values, of which some exist; None if all do."""
    return None if exists.all() else bitmap_of(~exists)
