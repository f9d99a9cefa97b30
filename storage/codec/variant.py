"""Values of VARIANT as trees: objects, arrays and plain values, of many values at once.

A variant is two runs of bytes: the value, and metadata with the names of the keys in it. Both are
Parquet's variant encoding, version 1, which Spark uses too.

    value      header u8: basic type in the lowest 2 bits, 6 bits of its own above
      object   count | an id of a key for each field | count + 1 offsets | the fields' values
      array    count | count + 1 offsets | the elements' values
      others   a plain value, whose length follows from its header
    metadata   header u8 | count | count + 1 offsets | the keys

Counts, ids and offsets are little endian, of 1 to 4 bytes as a header says.
Promises: memory in proportion to the bytes that are parsed.
Does not know: what a plain value is, or how trees are written (variant_build.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..schema import types as t
from .key_field import Tagged, join, key_field_of
from .ragged import (
    Buffer,
    Bytes,
    Positions,
    constant,
    expand,
    gather,
    lengths_of,
    load,
    parts_of,
)

VERSION, VERSION_MASK = 1, 0x0F
NO_KEYS = bytes([VERSION, 0, 0])
"""The metadata of a value without keys."""
NULL = b"\0"
"""The value that is JSON's null."""
_SHORT_TEXT, OBJECT, ARRAY = 1, 2, 3
_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.int64)
WIDEST = 4
MOST_LEVELS = 1_000
"""How many objects and arrays may be in one another; Spark's parser takes as many."""
# Of the bytes of a variant to those of its keys where each is in an object: in one of 3 bytes with
# its id, offset and value a key may have 768.
KEYS_RATIO = 256
_KEYS = Tagged(key_field_of(t.String()))


Widths: TypeAlias = Positions | int
"""How many bytes numbers have: each, or all of them."""


class Node(IntEnum):
    """What a node of a tree is."""

    PLAIN = 0
    OBJECT = 1
    ARRAY = 2


_PLAIN = int(Node.PLAIN)
# What each header says. The bytes of a plain value, with the header: 0 for a type that there is
# not, and for objects and arrays; -1 where a length of 4 bytes follows the header.
_BASIC, _INFO = np.arange(256) & 3, np.arange(256) >> 2
_LENGTHS = np.zeros(64, np.int64)
_LENGTHS[:21] = [1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, -1, -1, 9, 9, 9, 17]
SIZES = np.select([_BASIC == 0, _BASIC == _SHORT_TEXT], [_LENGTHS[_INFO], 1 + _INFO], 0)
KINDS = np.array([Node.PLAIN, Node.PLAIN, Node.OBJECT, Node.ARRAY], np.uint8)[_BASIC]
COUNT_WIDTHS = np.where(np.where(_BASIC == OBJECT, _INFO >> 4, _INFO >> 2) & 1, WIDEST, 1)
ID_WIDTHS = np.where(_BASIC == OBJECT, (_INFO >> 2 & 3) + 1, 0)
OFFSET_WIDTHS = (_INFO & 3) + 1


@dataclass(frozen=True)
class Tree:
    """Variants as nodes, each after the one that it is in; the items of each in order.

    ``parents``: -1 of whole values; ``keys``: those of the fields of objects, UTF-8, else empty;
    ``kinds``: a `Node` each; ``plain``: the bytes of the plain values, else empty.
    """

    parents: Positions
    keys: Bytes
    kinds: NDArray[np.uint8]
    plain: Bytes

    @cached_property
    def counts(self) -> Positions:
        """How many items each node has."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self.parents))

    @cached_property
    def _by_parent(self) -> tuple[Positions, Positions]:
        """Return (the nodes in the order of their parents, where the items of each begin)."""
        order = np.argsort(self.parents, kind="stable")
        roots = len(order) - int(self.counts.sum())
        return order, roots + np.cumsum(self.counts) - self.counts

    def items(self, nodes: Positions) -> Positions:
        """Return the items of some nodes, those of each together."""
        order, starts = self._by_parent
        return order[expand(starts[nodes], self.counts[nodes])]

    def levels(self, roots: Positions) -> Iterator[Positions]:
        """Yield some nodes, then their items, then the items of these, as long as there are any."""
        while len(roots):
            yield roots
            roots = self.items(roots)


def components(keys: Bytes) -> Bytes:
    """Return keys, UTF-8, as components of paths; they sort as the keys do."""
    if not len(keys):
        return keys
    texts = keys.cast(pa.binary()).cast(pa.string())
    return join(_KEYS.parts(texts), len(keys))


# Reading


def parse(values: Bytes, metadata: Bytes, deepest: int = MOST_LEVELS) -> Tree:
    """Return the trees of some variants; the first nodes are the whole values, in their order.

    ValueError if the bytes of one are not a variant: its keys are not UTF-8, it nests objects and
    arrays more than ``deepest`` times, or values in it share bytes. Memory is in proportion to the
    bytes: keys in more than `KEYS_RATIO` times as many are a ValueError too.
    """
    try:
        return _parse(values, metadata, deepest)
    except IndexError as error:
        raise ValueError(f"a variant ends early ({error})") from error


def check(values: Bytes, metadata: Bytes) -> None:
    """ValueError, as of `parse`, if the bytes of one of some variants are not a variant."""
    try:
        for _ in _levels(values, metadata, MOST_LEVELS):
            pass
    except IndexError as error:
        raise ValueError(f"a variant ends early ({error})") from error


def parse_stored(values: Bytes, metadata: Bytes, deepest: int) -> Tree:
    """Return the trees of some variants as `parse` does; what is not a variant is JSON's null."""
    try:
        return parse(values, metadata, deepest)
    except ValueError:
        is_damaged = np.zeros(len(values), np.bool_)
        for index in _damaged(values, metadata, deepest, range(len(values))):
            is_damaged[index] = True
        flags = pa.array(is_damaged)
        null, no_keys = (pa.scalar(value, pa.large_binary()) for value in (NULL, NO_KEYS))
        return _parse(
            pc.if_else(flags, null, values), pc.if_else(flags, no_keys, metadata), deepest
        )


def _damaged(values: Bytes, metadata: Bytes, deepest: int, rows: range) -> Iterator[int]:
    """Yield which of some variants are damaged: halves are parsed until those are found."""
    try:
        parse(values[rows.start : rows.stop], metadata[rows.start : rows.stop], deepest)
    except ValueError:
        if len(rows) == 1:
            yield rows.start
            return
        middle = len(rows) // 2
        yield from _damaged(values, metadata, deepest, rows[:middle])
        yield from _damaged(values, metadata, deepest, rows[middle:])


def _parse(values: Bytes, metadata: Bytes, deepest: int) -> Tree:
    nothing = constant(b"", len(values))
    parents, keys = [np.full(len(values), -1)], [nothing]
    kinds, plain = [np.empty(0, np.uint8)], [nothing.slice(0, 0)]
    first = 0
    for level in _levels(values, metadata, deepest):
        kinds.append(level.kinds)
        plain.append(level.plain())
        parents.append(first + level.items)
        keys.append(level.read_keys())
        first += len(level.kinds)
    return Tree(
        np.concatenate(parents),
        pa.concat_arrays(keys),
        np.concatenate(kinds),
        pa.concat_arrays(plain),
    )


def _levels(values: Bytes, metadata: Bytes, deepest: int) -> Iterator[_Level]:
    """Yield the values within some variants, level by level. ValueError as of `parse`."""
    data, offsets = parts_of(values)
    buffer, limits = _padded(data), offsets[1:]
    dictionaries = _Dictionaries(metadata)
    owners, starts = np.arange(len(values)), offsets[:-1]
    budgets = np.diff(offsets)
    key_budgets = KEYS_RATIO * (budgets + lengths_of(metadata))
    # Plain values are a level of their own.
    for _ in range(deepest + 1):
        if not len(starts):
            return
        level = _Level(buffer, starts, limits[owners])
        _spend(budgets, owners, level.sizes, "values in a variant share bytes")
        if not level.has_items:
            yield level
            return
        ids, starts = level.find_items()
        owners = owners[level.items]
        is_field = level.kinds[level.items] == Node.OBJECT
        begins, lengths = dictionaries.find(owners, ids, is_field)
        _spend(key_budgets, owners, lengths, "the keys in a variant are too long")
        dictionaries.check_keys(begins, lengths)
        level.read_keys = partial(dictionaries.keys, begins, lengths)
        yield level
    if len(starts):
        raise ValueError(f"a variant nests objects and arrays more than {deepest} times")


def _spend(budgets: Positions, owners: Positions, sizes: Positions, message: str) -> None:
    """Take sizes off the budgets of their owners. ValueError with the message if one is spent."""
    # Floats hold the sums: they are below 2**53.
    budgets -= np.bincount(owners, sizes, len(budgets)).astype(np.int64)
    if (budgets < 0).any():
        raise ValueError(message)


class _Level:
    """Values that begin at some positions of a buffer, and end before others.

    ``sizes``: how many bytes each has without its items; ``items``: of each item of theirs the
    index of the value that it is in; ``read_keys`` returns the keys of the items. ValueError if a
    value is cut off.
    """

    def __init__(self, buffer: Buffer, starts: Positions, limits: Positions) -> None:
        self.items: Positions = np.empty(0, np.int64)
        self.read_keys: Callable[[], Bytes] = partial(constant, b"", 0)
        if (starts >= limits).any():
            raise ValueError("a variant ends before its items")
        self._starts, self._buffer = starts, buffer
        headers = load(buffer, starts, "u1")
        self.kinds = KINDS[headers]
        self.sizes = SIZES[headers]
        is_long = np.flatnonzero(self.sizes < 0)
        self.sizes[is_long] = 5 + _numbers(buffer, starts[is_long] + 1, WIDEST)
        self._is_plain = self.kinds == _PLAIN
        if not self.sizes[self._is_plain].all():
            raise ValueError("a variant holds a value of an unknown type")
        self._rows = np.flatnonzero(~self._is_plain)
        self._measure_containers(headers[self._rows])
        if (starts + self.sizes > limits).any():
            raise ValueError("a variant ends within a value")

    def _measure_containers(self, headers: NDArray[np.uint8]) -> None:
        """Set what the headers of objects and arrays say, and their sizes."""
        starts, count_widths = self._starts[self._rows], _common(COUNT_WIDTHS[headers])
        self._id_widths = _common(ID_WIDTHS[headers])
        self._widths = _common(OFFSET_WIDTHS[headers])
        self._counts = _numbers(self._buffer, starts + 1, count_widths)
        self._ids = starts + 1 + count_widths
        self._offsets = self._ids + self._counts * self._id_widths
        self._data = self._offsets + (self._counts + 1) * self._widths
        self.sizes[self._rows] = self._data - starts

    @property
    def has_items(self) -> bool:
        """Whether there are objects or arrays, which may have items."""
        return len(self._rows) > 0

    def plain(self) -> Bytes:
        """Return the bytes of the plain values, and none for the others."""
        return gather(self._buffer, self._starts, np.where(self._is_plain, self.sizes, 0))

    def find_items(self) -> tuple[Positions, Positions]:
        """Set the items, and return (the id of the key of each, where each starts)."""
        owners = np.repeat(np.arange(len(self._rows)), self._counts)
        ranks = expand(np.zeros(len(self._rows), np.int64), self._counts)
        widths, id_widths = _of(owners, self._widths), _of(owners, self._id_widths)
        starts = _numbers(self._buffer, self._offsets[owners] + ranks * widths, widths)
        ids = _numbers(self._buffer, self._ids[owners] + ranks * id_widths, id_widths)
        self.items = self._rows[owners]
        return ids, self._data[owners] + starts


class _Dictionaries:
    """The keys of some variants. ValueError for metadata of another version."""

    def __init__(self, metadata: Bytes) -> None:
        data, offsets = parts_of(metadata)
        if (offsets[1:] == offsets[:-1]).any():
            raise ValueError("a variant ends early (it has no metadata)")
        self._buffer = _padded(data)
        headers = load(self._buffer, offsets[:-1], "u1").astype(np.int64)
        if (headers & VERSION_MASK != VERSION).any():
            raise ValueError("the metadata of a variant is of an unknown version")
        self._widths = _common((headers >> 6) + 1)
        self._sizes = _numbers(self._buffer, offsets[:-1] + 1, self._widths)
        self._offsets = offsets[:-1] + 1 + self._widths
        self._texts = self._offsets + (self._sizes + 1) * self._widths
        self._limits = offsets[1:]
        self._is_ascii = int(np.bitwise_or.reduce(self._buffer)) < 0x80

    def find(
        self, owners: Positions, ids: Positions, is_field: NDArray[np.bool_]
    ) -> tuple[Positions, Positions]:
        """Return (where the keys of some ids of variants begin, their lengths); 0 for no field."""
        rows = np.flatnonzero(is_field)
        variants = owners[rows]
        widths = _of(variants, self._widths)
        if (ids[rows] >= self._sizes[variants]).any():
            raise ValueError("a variant has a key that is not in its metadata")
        first: Positions = self._offsets[variants] + ids[rows] * widths
        second: Positions = first + widths
        begins = _numbers(self._buffer, first, widths)
        ends = _numbers(self._buffer, second, widths)
        if (begins > ends).any() or (self._texts[variants] + ends > self._limits[variants]).any():
            raise ValueError("the metadata of a variant ends within a key")
        starts, lengths = np.zeros((2, len(ids)), np.int64)
        starts[rows], lengths[rows] = self._texts[variants] + begins, ends - begins
        return starts, lengths

    def check_keys(self, starts: Positions, lengths: Positions) -> None:
        """ValueError if one of the keys that begin at some positions is not UTF-8."""
        if not self._is_ascii:
            self.keys(starts, lengths).cast(pa.large_string())

    def keys(self, starts: Positions, lengths: Positions) -> Bytes:
        """Return the keys that begin at some positions."""
        return gather(self._buffer, starts, lengths)


def _padded(data: Buffer) -> Buffer:
    """Return a buffer from which the widest number can be loaded at each of its positions."""
    return np.concatenate([data, np.zeros(WIDEST, np.uint8)])


def _common(widths: Positions) -> Widths:
    """Return some widths, as one number if they are all the same."""
    return int(widths[0]) if len(widths) and (widths == widths[0]).all() else widths


def _of(owners: Positions, widths: Widths) -> Widths:
    """Return the widths of some owners."""
    return widths if isinstance(widths, int) else widths[owners]


def _numbers(buffer: Buffer, positions: Positions, widths: Widths) -> Positions:
    """Return the numbers of so many bytes each, at most 4, at some positions."""
    if isinstance(widths, int) and widths == 1:
        return load(buffer, positions, "u1").astype(np.int64)
    numbers: Positions = load(buffer, positions, "<u4").astype(np.int64) & _MASKS[widths]
    return numbers
