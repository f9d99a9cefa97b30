"""The pages of an LMDB data file, read in bulk.

LMDB's cursor returns one entry per call. A scan reads millions, so this module finds the entries
of many leaf pages at once, with numpy, in the memory map of an immutable file.

Promises: it checks magic and format version before it reads a file, walks the tree from the
root of the newer meta page, and returns leaf pages in key order. No damage makes it read
outside the file: damage is a ValueError or IndexError, or leads to other bytes of the file.
Does not know: keys, rows or versions. The layout is that of LMDB 0.9 (data format 1): `mdb.c`,
``MDB_page``, ``MDB_node``, ``MDB_meta``, ``MDB_db``.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relstate.vnode import cached_property

from ..codec.ragged import Buffer, Positions, expand, gather, lengths_of, load, load_matrix, padded
from .block import Block

# LMDB's own numbers, in every file that it has written.
MAGIC = 0xBEEFC0DE
DATA_VERSION = 1
PAGE_HEADER = 16
NODE_HEADER = 8
BRANCH_PAGE, LEAF_PAGE = 0x01, 0x02
PAGE_KINDS = 0x0F
BIG_DATA = 0x01
NO_PAGE = 0xFFFFFFFFFFFFFFFF
# Two meta pages of 4 KiB, which all segments have.
META_BYTES = 8192
META = struct.Struct("<IIQQ" + "IHHQQQQQ" * 2 + "QQ")


class LayoutError(ValueError):
    """A file is not an LMDB 0.9 data file: another version's, or none at all."""


class Pages:
    """The leaf pages of one data file, in key order. Immutable; safe between threads.

    ``entry_count``: how many entries they have.
    """

    def __init__(
        self, buffer: Buffer, wait: Callable[[int, int], None] = lambda _start, _stop: None
    ) -> None:
        """Walk the tree in ``buffer``; ``wait``: waits until it has bytes that are to be read.

        LayoutError if it is not an LMDB 0.9 data file, another ValueError or IndexError if it is
        a damaged one.
        """
        self._wait = wait
        wait(0, META_BYTES)
        tree = tree_of(buffer)
        self._page_size = tree.page_size
        self._buffer = buffer
        self.entry_count = tree.entry_count
        # The nodes of the branch pages right above the leaves, one per leaf; None: there are none.
        self._branches: Positions | None = None
        self._leaves = self._find_leaves(tree.root, tree.depth)

    def blocks(
        self, low: bytes | None, high: bytes | None, leaves: int, *, descending: bool = False
    ) -> Iterator[Block]:
        """Yield the entries with ``low <= key < high``, ``leaves`` pages per block.

        Blocks come in key order, or from the end with ``descending``; rows inside ascend.
        """
        for nodes in self.nodes_between(low, high, leaves, descending=descending):
            yield self.entries(nodes)

    def nodes_between(
        self, low: bytes | None, high: bytes | None, leaves: int, *, descending: bool = False
    ) -> Iterator[Positions]:
        """Yield the nodes of the entries that `blocks` yields, those of a block at once."""
        first = 0 if low is None else self._leaf_of(low)
        last = len(self._leaves) if high is None else self._leaf_of(high) + 1
        starts = range(first, min(last, len(self._leaves)), leaves)
        for start in reversed(starts) if descending else starts:
            stop = min(start + leaves, last)
            nodes = self._leaf_nodes(self._leaves[start:stop])
            begin = self._first_from(nodes, low) if low is not None and start == first else 0
            end = self._first_from(nodes, high) if high is not None and stop == last else len(nodes)
            if begin < end:
                yield nodes[begin:end]

    @property
    def leaf_count(self) -> int:
        """How many leaf pages there are."""
        return len(self._leaves)

    def sampled_blocks(
        self, low: bytes | None, high: bytes | None, step: int, leaves: int
    ) -> Iterator[Block]:
        """Yield the entries of every ``step``-th leaf page that `blocks` reads, and no other.

        Blocks are of ``leaves`` pages; those at the ends may have entries before and after.
        """
        first = 0 if low is None else self._leaf_of(low)
        last = len(self._leaves) if high is None else self._leaf_of(high) + 1
        chosen = self._leaves[first:last:step]
        for start in range(0, len(chosen), leaves):
            yield self.entries(self._leaf_nodes(chosen[start : start + leaves]))

    def _first_from(self, nodes: Positions, key: bytes) -> int:
        """Return the index of the first of some nodes whose key is not less than ``key``."""
        return bisect_left(nodes, key, key=lambda node: self._key(int(node)))

    def entries_between(self, low: bytes | None, high: bytes | None) -> int:
        """Return about how many entries there are with ``low <= key < high`` (None: unbounded).

        Those of whole leaf pages, if all pages had equally many.
        """
        if not len(self._leaves):
            return 0
        first = 0 if low is None else self._leaf_of(low)
        last = len(self._leaves) - 1 if high is None else self._leaf_of(high)
        entries: int = -(-self.entry_count * max(last - first + 1, 0) // len(self._leaves))
        return entries

    def find(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none. For few keys: LMDB is faster."""
        block = next(self.blocks(key, None, 1), None)
        if block is None or block.key(0) != key:
            return None
        start = int(block.value_starts[0])
        return self._buffer[start : start + int(block.value_lengths[0])].tobytes()

    def _find_leaves(self, root: int, depth: int) -> Positions:
        if root == NO_PAGE:
            return np.empty(0, np.int64)
        if root >= len(self._buffer) // self._page_size:
            raise ValueError("the root of the tree is beyond the end of the file")
        pages = np.array([root], np.int64)
        for _ in range(depth - 1):
            nodes = self._branches = self._nodes(pages, BRANCH_PAGE)
            # A branch node keeps its child's page number where a leaf node keeps sizes.
            pages = (load(self._buffer, nodes, "<u8") & 0xFFFFFFFFFFFF).astype(np.int64)
        return pages

    def _nodes(self, pages: Positions, kind: int) -> Positions:
        """Return the positions of all nodes of some pages."""
        starts, counts = self._headers(pages, kind)
        pointers = load(self._buffer, expand(starts + PAGE_HEADER, counts, 2), "<u2")
        nodes: Positions = np.repeat(starts, counts) + pointers
        return nodes

    def _headers(self, pages: Positions, kind: int) -> tuple[Positions, Positions]:
        """Return where some pages of a kind begin, and how many nodes each has."""
        starts = pages * self._page_size
        if len(starts) and int(starts.max()) + self._page_size > len(self._buffer):
            raise ValueError("a page number points beyond the end of the file")
        if len(starts):
            self._wait(int(starts.min()), int(starts.max()) + self._page_size)
        flags = load(self._buffer, starts + 10, "<u2").astype(np.int64)
        if ((flags & PAGE_KINDS) != kind).any():
            raise ValueError(f"a page of the tree is not of kind {kind:#x}")
        lower = load(self._buffer, starts + 12, "<u2").astype(np.int64)
        return starts, (lower - PAGE_HEADER) // 2

    # For a search of many keys at once (search.py): leaves by their index, nodes by position.

    @property
    def buffer(self) -> Buffer:
        """The bytes of the file."""
        return self._buffer

    @cached_property
    def first_keys(self) -> NDArray[np.bytes_]:
        """A lower bound of the keys of each leaf page, above those of the page before it.

        It comes from the branch pages, except for the first child of each: there are far fewer of
        them than leaves. That of the very first leaf is empty.
        """
        if self._branches is None:
            return np.full(len(self._leaves), b"", "S1")
        nodes = self._branches.copy()
        unnamed = np.flatnonzero(self.key_lengths(nodes) == 0)
        unnamed = unnamed[unnamed > 0]
        starts, _ = self.leaves(unnamed)
        nodes[unnamed] = self.nodes(starts, np.zeros_like(starts))
        keys = gather(self._buffer, self.key_starts(nodes), self.key_lengths(nodes))
        return padded(keys, int(lengths_of(keys).max()))

    def leaves(self, indices: Positions) -> tuple[Positions, Positions]:
        """Return where some leaf pages begin, and how many entries each has."""
        return self._headers(self._leaves[indices], LEAF_PAGE)

    def nodes(self, starts: Positions, slots: Positions) -> Positions:
        """Return the nodes of the entries in some slots of leaf pages that begin at ``starts``."""
        nodes: Positions = starts + load(self._buffer, starts + PAGE_HEADER + 2 * slots, "<u2")
        return nodes

    def key_starts(self, nodes: Positions) -> Positions:
        """Return where the keys of some nodes begin."""
        return nodes + NODE_HEADER

    def key_lengths(self, nodes: Positions) -> Positions:
        """Return the lengths of the keys of some nodes."""
        return load(self._buffer, nodes + 6, "<u2").astype(np.int64)

    def all_nodes(self, leaves: int) -> Iterator[Positions]:
        """Yield the nodes of all entries, in key order, those of ``leaves`` leaf pages at once."""
        for first in range(0, len(self._leaves), leaves):
            yield self._leaf_nodes(self._leaves[first : first + leaves])

    def _leaf_nodes(self, pages: Positions) -> Positions:
        """Return what `_nodes` does of leaf pages that have about equally many, in less time."""
        starts, counts = self._headers(pages, LEAF_PAGE)
        most = int(counts.max())
        if not 0 < most <= (self._page_size - PAGE_HEADER) // 2:
            raise ValueError("a page has no entries, or more than it has room for")
        # The pointers of a page are one after another: as many are copied as the fullest page has.
        pointers = load_matrix(self._buffer, starts + PAGE_HEADER, 2 * most).view("<u2")
        nodes: Positions = (pointers + starts[:, None])[np.arange(most) < counts[:, None]]
        return nodes

    def entries(self, nodes: Positions) -> Block:
        """Return the entries of some nodes of leaf pages, in that order."""
        header = load(self._buffer, nodes, "<u8").astype(np.uint64, copy=False)
        value_lengths = (header & np.uint64(0xFFFFFFFF)).astype(np.int64)
        key_lengths = (header >> np.uint64(48)).astype(np.int64)
        key_starts = nodes + NODE_HEADER
        value_starts = key_starts + key_lengths
        big = np.flatnonzero(header & np.uint64(BIG_DATA << 32))
        if len(big):
            overflow = load(self._buffer, value_starts[big], "<u8")
            if int(overflow.max()) >= len(self._buffer) // self._page_size:
                raise ValueError("a value begins beyond the end of the file")
            value_starts[big] = overflow.astype(np.int64) * self._page_size + PAGE_HEADER
            self._wait(int(value_starts[big].min()), int((value_starts + value_lengths)[big].max()))
        if len(nodes) and int((value_starts + value_lengths).max()) > len(self._buffer):
            raise ValueError("a value ends beyond the end of the file")
        return Block(
            self._buffer, key_starts, key_lengths, self._buffer, value_starts, value_lengths
        )

    def _leaf_of(self, key: bytes) -> int:
        """Return the index of the leaf page that holds ``key`` or would hold it."""
        return max(bisect_right(range(len(self._leaves)), key, key=self._least_key) - 1, 0)

    def _least_key(self, leaf: int) -> bytes:
        """Return what bounds the keys of a leaf page from below, and those before it from above.

        It is in the branch page above, except for the first leaf of one: there are few branch
        pages, and they arrive first.
        """
        if self._branches is not None:
            key = self._key(int(self._branches[leaf]))
            if key or not leaf:
                return key
        start = int(self._leaves[leaf]) * self._page_size
        self._wait(start, start + self._page_size)
        pointer = self._buffer.data[start + PAGE_HEADER : start + PAGE_HEADER + 2]
        return self._key(start + int.from_bytes(pointer, "little"))

    def _key(self, node: int) -> bytes:
        # Not with numpy: a search calls this for some nodes, one by one.
        view = self._buffer.data
        size = int.from_bytes(view[node + 6 : node + 8], "little")
        return bytes(view[node + NODE_HEADER : node + NODE_HEADER + size])


@dataclass(frozen=True, slots=True)
class Tree:
    """The root's page of a B-tree, `NO_PAGE` if it is empty, and the number of its levels.

    ``end``: where the pages of the file end.
    """

    page_size: int
    root: int
    depth: int
    entry_count: int
    end: int


def tree_of(buffer: Buffer) -> Tree:
    """Return the tree of a file that begins so, as its newer meta page says. Errors of `Pages`."""
    first = _read_meta(buffer, 0)
    meta = max(first, _read_meta(buffer, first[4]), key=lambda fields: fields[-1])
    return Tree(first[4], meta[19], meta[14], meta[18], (meta[20] + 1) * first[4])


def _read_meta(buffer: Buffer, page: int) -> tuple[int, ...]:
    """Return the fields of the meta page at a position. LayoutError if it is no such page."""
    start = page + PAGE_HEADER
    if start + META.size > len(buffer):
        raise ValueError(f"{len(buffer)} bytes are too few for an LMDB file")
    fields = META.unpack_from(buffer.data, start)
    if fields[0] != MAGIC or fields[1] != DATA_VERSION:
        raise LayoutError(f"magic {fields[0]:#x}, data format {fields[1]}: not LMDB 0.9")
    # LMDB keeps its page size in the pad of the free list's record.
    if fields[4] not in (4096, 8192, 16384, 32768, 65536):
        raise ValueError(f"a page size of {fields[4]}")
    if fields[13] & 0xFFFF:
        raise ValueError(f"database flags {fields[13]:#x}: not a plain key-value tree")
    return fields
