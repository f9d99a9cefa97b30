"""The bytes of trees of variants, of many at once: see variant.py.

Promises: values that are built hold each key of theirs once, fields in the order of UTF-16; plain
values keep their bytes. The bytes depend on nothing but the trees.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .ragged import (
    Buffer,
    Bytes,
    Positions,
    concat,
    content_of,
    equal_neighbours,
    expand,
    from_matrix,
    from_parts,
    lengths_of,
    offsets_of,
    sort_order,
)
from .variant import ARRAY, OBJECT, VERSION, WIDEST, Node, Tree, components

# The first bytes of characters in UTF-8.
_LEAD_OF_U_E000, _LEAD_OF_4_BYTES = 0xEE, 0xF0


def build(tree: Tree, roots: Positions) -> tuple[Bytes, Bytes]:
    """Return (the values, the metadata) of some nodes of a tree, each as a variant."""
    return _Build(tree, roots).variants()


def _levels_for_spark(tree: Tree, roots: Positions) -> Iterator[Positions]:
    """Yield what `Tree.levels` does, the fields of each object in the order of UTF-16.

    Spark searches the fields of large objects by `String.compareTo`. The order differs from that of
    UTF-8 only between characters above U+FFFF, of 4 bytes, and those from U+E000 on.
    """
    may_differ = bool((content_of(tree.keys) >= _LEAD_OF_4_BYTES).any())
    while len(roots):
        yield roots
        roots = tree.items(roots)
        if may_differ and len(roots):
            roots = _in_utf16_order(tree, roots)


def _in_utf16_order(tree: Tree, items: Positions) -> Positions:
    """Return the items of some nodes, those of each together; fields in the order of UTF-16."""
    keys, parents = tree.keys.take(pa.array(items)), tree.parents[items]
    content = content_of(keys).copy()
    content[(content >= _LEAD_OF_U_E000) & (content < _LEAD_OF_4_BYTES)] += 0x10
    ranks = np.empty(len(items), np.int64)
    ranks[sort_order(from_parts(content, offsets_of(lengths_of(keys))))] = np.arange(len(items))
    ranks[tree.kinds[parents] != Node.OBJECT] = 0
    groups = np.cumsum(np.append(False, parents[1:] != parents[:-1]))
    ordered: Positions = items[np.lexsort((ranks, groups))]
    return ordered


class _Build:
    """The bytes of some nodes of a tree, and all below them.

    Arrays are indexed by the nodes of the tree; what is not below the roots is not set.
    """

    def __init__(self, tree: Tree, roots: Positions) -> None:
        self._tree = tree
        self._levels = list(_levels_for_spark(tree, roots)) or [roots]
        count = len(tree.parents)
        self._variants = np.zeros(count, np.int64)
        self._variants[roots] = np.arange(len(roots))
        for items in self._levels[1:]:
            self._variants[items] = self._variants[tree.parents[items]]
        self._ids, self.metadata = self._dictionaries(len(roots))
        self._id_widths, self._widths, self._data_sizes = np.zeros((3, count), np.int64)
        self._count_widths = np.where(tree.counts > 0xFF, WIDEST, 1)
        self._sizes = lengths_of(tree.plain).copy()
        self._greatest = np.zeros(count, np.int64)
        below = [*self._levels[1:], roots[:0]]
        for nodes, items in zip(reversed(self._levels), reversed(below), strict=True):
            self._measure(nodes, items)

    def _dictionaries(self, count: int) -> tuple[Positions, Bytes]:
        """Return (the id of the key of every field, the metadata of every variant)."""
        tree = self._tree
        items = np.concatenate([np.empty(0, np.int64), *self._levels[1:]])
        fields = items[tree.kinds[tree.parents[items]] == Node.OBJECT]
        keys, variants = tree.keys.take(pa.array(fields)), self._variants[fields]
        numbers = from_matrix(variants.astype(">u8").view(np.uint8).reshape(len(fields), 8))
        sorted_keys = concat([numbers, components(keys)])
        order = sort_order(sorted_keys)
        repeats = equal_neighbours(sorted_keys.take(pa.array(order)))
        is_first = np.append(True, ~repeats)[: len(order)]
        distinct = order[is_first]
        counts = np.bincount(variants[distinct], minlength=count)
        begins = np.cumsum(counts) - counts
        ids = np.zeros(len(tree.parents), np.int64)
        ids[fields[order]] = np.cumsum(is_first) - 1 - begins[variants[order]]
        return ids, _metadata(keys.take(pa.array(distinct)), counts)

    def _measure(self, nodes: Positions, items: Positions) -> None:
        """Set the sizes and widths of some nodes whose items are measured."""
        tree = self._tree
        inner = nodes[tree.kinds[nodes] != Node.PLAIN]
        np.add.at(self._data_sizes, tree.parents[items], self._sizes[items])
        np.maximum.at(self._greatest, tree.parents[items], self._ids[items])
        is_object = tree.kinds[inner] == Node.OBJECT
        self._id_widths[inner] = np.where(is_object, _width_of(self._greatest[inner]), 0)
        self._widths[inner] = _width_of(self._data_sizes[inner])
        self._sizes[inner] = self._header_sizes(inner) + self._data_sizes[inner]

    def _header_sizes(self, nodes: Positions) -> Positions:
        """Return how many bytes there are before the items of objects and arrays."""
        counts = self._tree.counts[nodes]
        ids, offsets = counts * self._id_widths[nodes], (counts + 1) * self._widths[nodes]
        sizes: Positions = 1 + self._count_widths[nodes] + ids + offsets
        return sizes

    def variants(self) -> tuple[Bytes, Bytes]:
        """Return the values and the metadata."""
        roots = self._levels[0]
        offsets = np.concatenate([[0], np.cumsum(self._sizes[roots])])
        content = np.zeros(int(offsets[-1]), np.uint8)
        starts = np.zeros(len(self._tree.parents), np.int64)
        starts[roots] = offsets[:-1]
        for nodes, items in zip(self._levels, [*self._levels[1:], roots[:0]], strict=True):
            self._write(content, starts, nodes, items)
        return from_parts(content, offsets), self.metadata

    def _write(
        self, content: Buffer, starts: Positions, nodes: Positions, items: Positions
    ) -> None:
        """Write some nodes but for their items, and set the starts of these."""
        tree = self._tree
        plain = nodes[tree.kinds[nodes] == Node.PLAIN]
        places = expand(starts[plain], self._sizes[plain])
        content[places] = content_of(tree.plain.take(pa.array(plain)))
        inner = nodes[tree.kinds[nodes] != Node.PLAIN]
        counts, widths = tree.counts[inner], self._widths[inner]
        content[starts[inner]] = self._headers(inner)
        ids = starts[inner] + 1 + self._count_widths[inner]
        _write_numbers(content, starts[inner] + 1, counts, self._count_widths[inner])
        offsets = ids + counts * self._id_widths[inner]
        _write_numbers(content, offsets + counts * widths, self._data_sizes[inner], widths)
        owners = np.repeat(np.arange(len(inner)), counts)
        parents, sizes = inner[owners], self._sizes[items]
        ranks = expand(np.zeros(len(inner), np.int64), counts)
        before = np.cumsum(sizes) - sizes
        firsts = np.flatnonzero(ranks == 0)
        within = before - np.repeat(before[firsts], counts[counts > 0])
        starts[items] = (starts[parents] + self._header_sizes(parents)) + within
        item_ids, id_widths = self._ids[items], self._id_widths[parents]
        _write_numbers(content, ids[owners] + ranks * id_widths, item_ids, id_widths)
        item_widths = widths[owners]
        _write_numbers(content, offsets[owners] + ranks * item_widths, within, item_widths)

    def _headers(self, nodes: Positions) -> NDArray[np.uint8]:
        """Return the header of some objects and arrays."""
        is_object = self._tree.kinds[nodes] == Node.OBJECT
        is_large = (self._count_widths[nodes] > 1).astype(np.int64)
        widths, id_widths = self._widths[nodes] - 1, self._id_widths[nodes] - 1
        objects = is_large << 6 | id_widths << 4 | widths << 2 | OBJECT
        arrays = is_large << 4 | widths << 2 | ARRAY
        return np.where(is_object, objects, arrays).astype(np.uint8)


def _metadata(keys: Bytes, counts: Positions) -> Bytes:
    """Return the metadata of variants that have so many of some keys each."""
    lengths = lengths_of(keys)
    owners = np.repeat(np.arange(len(counts)), counts)
    sizes = np.zeros(len(counts), np.int64)
    np.add.at(sizes, owners, lengths)
    widths = _width_of(np.maximum(sizes, counts))
    header_sizes = 1 + widths + (counts + 1) * widths
    ends = np.cumsum(header_sizes + sizes)
    starts = ends - header_sizes - sizes
    content = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    content[starts] = VERSION | (widths - 1) << 6
    _write_numbers(content, starts + 1, counts, widths)
    offsets = starts + 1 + widths
    _write_numbers(content, offsets + counts * widths, sizes, widths)
    before = np.cumsum(lengths) - lengths
    within = before - (np.cumsum(sizes) - sizes)[owners]
    ranks = expand(np.zeros(len(counts), np.int64), counts)
    _write_numbers(content, offsets[owners] + ranks * widths[owners], within, widths[owners])
    content[expand((starts + header_sizes)[owners] + within, lengths)] = content_of(keys)
    return from_parts(content, np.concatenate([[0], ends]))


def _width_of(numbers: Positions) -> Positions:
    """Return how many bytes each of some numbers takes, at least 1."""
    return 1 + (numbers > 0xFF) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF).astype(np.int64)


def _write_numbers(
    content: Buffer, positions: Positions, numbers: Positions, widths: Positions
) -> None:
    for byte in range(WIDEST):
        rows = np.flatnonzero(widths > byte)
        content[positions[rows] + byte] = numbers[rows] >> 8 * byte & 0xFF
