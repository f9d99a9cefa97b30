"""The bytes of an LMDB data file with given entries, made page by page with numpy.

LMDB takes one entry per call, as objects of Python. A segment is written once and in key order, so
its tree is known before the first byte: this module packs the entries into leaf pages, puts the
branch pages after them, and makes many pages at once.

    meta pages 0 and 1 | leaf pages, each run of them followed by its overflow pages | branch pages

Promises: LMDB 0.9 reads the file, as a transaction of its own would have left it, and may change
it. Leaf pages have as many entries as LMDB puts into them when it appends. Equal entries give equal
bytes on every machine. Memory is bounded by a few times `_PAGES_AT_ONCE` pages and the
largest value, and some 50 bytes per entry.
Does not know: files, rows or versions. The layout is that of `page`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.ragged import (
    EMPTY,
    Buffer,
    Bytes,
    Positions,
    ascends,
    concat,
    content_of,
    from_parts,
    lengths_of,
    offsets_of,
    store,
)
from ..errors import ValueRangeError
from .page import (
    BIG_DATA,
    BRANCH_PAGE,
    DATA_VERSION,
    LEAF_PAGE,
    MAGIC,
    META,
    NO_PAGE,
    NODE_HEADER,
    PAGE_HEADER,
)

PAGE_BYTES = 4096
_OVERFLOW_PAGE, _META_PAGE = 0x04, 0x08
_HEADER, _WORD = struct.Struct("<QHHI"), struct.Struct("<Q")
_POINTER_BYTES = 2
_PAGE_NUMBER_BYTES = 8
_ROOM = PAGE_BYTES - PAGE_HEADER
# LMDB puts at least two nodes on a page; the value of a larger one is in overflow pages.
_MOST_NODE_BYTES = (_ROOM // 2 & -2) - _POINTER_BYTES
_FIRST_PAGE = 2
_MAX_KEY_BYTES, _MAX_VALUE_BYTES = 511, 0xFFFFFFFF
# How much of a key an error shows.
_SHOWN_BYTES = 32
_PAGES_AT_ONCE = 512
# The flags of LMDB's list of free pages: its keys are integers (0x08), and the path of the file is
# not that of a folder (0x4000).
_FREE_LIST_FLAGS = 0x4008


def data_file(keys: Bytes, values: Bytes, order: Positions) -> Iterator[Buffer]:
    """Yield the content of a file with the entries at the rows ``order``, part by part.

    AssertionError unless their keys ascend and have 1 to 511 bytes, and neither array has nulls;
    ValueRangeError for a value of 4 GiB or more.
    """
    if keys.null_count or values.null_count:
        raise AssertionError("the keys or the values of a segment have nulls")
    if not len(order):
        yield _meta_pages(_Tree(NO_PAGE, 0, 0), 0, 0, 0, _FIRST_PAGE - 1)
        return
    if order[0] == 0 and len(order) == len(keys) and (np.diff(order) == 1).all():
        leaves = _Leaves(keys, values, None)
    else:
        leaves = _Leaves(keys, values, order)
    branches, tree = _branch_pages(leaves)
    leaf_pages, overflow_pages = len(leaves.numbers), leaves.overflow_pages
    last_page = leaves.stop + tree.branch_pages - 1
    yield _meta_pages(tree, leaf_pages, overflow_pages, len(order), last_page)
    size = _FIRST_PAGE * PAGE_BYTES + len(branches)
    for part in leaves.parts():
        size += len(part)
        yield part
    if size != (last_page + 1) * PAGE_BYTES:
        raise AssertionError(f"a segment of {last_page + 1} pages has {size} bytes")
    if branches:
        yield np.frombuffer(branches, np.uint8)


@dataclass(frozen=True, slots=True)
class _Tree:
    """The root's page, the number of levels and of branch pages."""

    root: int
    depth: int
    branch_pages: int


def _meta_pages(
    tree: _Tree, leaf_pages: int, overflow_pages: int, entries: int, last_page: int
) -> Buffer:
    """Return the two meta pages: of an empty file, and of the transaction that filled it."""
    pages = np.zeros(_FIRST_PAGE * PAGE_BYTES, np.uint8)
    free_list = (PAGE_BYTES, _FREE_LIST_FLAGS, 0, 0, 0, 0, 0, NO_PAGE)
    empty = (0, 0, 0, 0, 0, 0, 0, NO_PAGE)
    filled = (0, 0, tree.depth, tree.branch_pages, leaf_pages, overflow_pages, entries, tree.root)
    size = (last_page + 1) * PAGE_BYTES
    for number, (database, last) in enumerate(((empty, _FIRST_PAGE - 1), (filled, last_page))):
        start = number * PAGE_BYTES
        _HEADER.pack_into(pages.data, start, number, 0, _META_PAGE, 0)
        fields = (MAGIC, DATA_VERSION, 0, size, *free_list, *database, last, number)
        META.pack_into(pages.data, start + PAGE_HEADER, *fields)
    return pages


class _Leaves:
    """The leaf pages of some entries and the overflow pages of their large values.

    ``numbers``: the leaves' page numbers; ``overflow_pages``: how many pages all values have beside
    their leaves; ``stop``: the number after the last of all these pages.
    """

    def __init__(self, keys: Bytes, values: Bytes, order: Positions | None) -> None:
        """``order``: the rows of the entries, None for all as they are."""
        self._keys, self._values, self._order = keys, values, order
        key_lengths, value_lengths = lengths_of(keys), lengths_of(values)
        if order is not None:
            key_lengths, value_lengths = key_lengths[order], value_lengths[order]
        self._check_lengths(key_lengths, value_lengths)
        self._headers = value_lengths | key_lengths << 48
        sizes = NODE_HEADER + key_lengths + value_lengths
        self._big: _BigValues | None = None
        if int(sizes.max()) > _MOST_NODE_BYTES:
            is_big = sizes > _MOST_NODE_BYTES
            self._big = _BigValues(is_big, value_lengths)
            sizes[is_big] = NODE_HEADER + _PAGE_NUMBER_BYTES + key_lengths[is_big]
        self._sizes = sizes
        self._starts = _first_nodes(sizes)
        self._ends = np.append(self._starts[1:], len(sizes))
        self._groups = self._page_groups()
        self.numbers, self.stop = self._number_pages()
        self.overflow_pages = 0 if self._big is None else int(self._big.pages.sum())

    def _check_lengths(self, key_lengths: Positions, value_lengths: Positions) -> None:
        shortest, longest = int(key_lengths.min()), int(key_lengths.max())
        if not 1 <= shortest <= longest <= _MAX_KEY_BYTES:
            raise AssertionError(f"a segment has keys of {shortest} to {longest} bytes")
        if int(value_lengths.max()) > _MAX_VALUE_BYTES:
            entry = int(value_lengths.argmax())
            key = self._keys[entry if self._order is None else int(self._order[entry])].as_py()
            raise ValueRangeError(
                f"the row with the full key {key[:_SHOWN_BYTES].hex(' ')} (hexadecimal, its first "
                f"{_SHOWN_BYTES} bytes, the table first) takes {value_lengths[entry]} bytes, and "
                f"{_MAX_VALUE_BYTES} can be stored: divide its values among several rows"
            )

    def first_keys(self) -> Bytes:
        """Return the first key of each leaf."""
        rows = self._starts if self._order is None else self._order[self._starts]
        return self._keys.take(pa.array(rows))

    def _page_groups(self) -> Sequence[tuple[int, int]]:
        """Return (first leaf, end) of the runs of leaves that are made at once."""
        count = len(self._starts)
        pages = np.arange(count)
        if self._big is not None:
            pages += offsets_of(self._big.pages)[self._starts]
        if pages[-1] < _PAGES_AT_ONCE:
            return [(0, count)]
        firsts = np.flatnonzero(np.diff(pages // _PAGES_AT_ONCE, prepend=-1)).tolist()
        return list(zip(firsts, [*firsts[1:], count], strict=True))

    def _number_pages(self) -> tuple[Positions, int]:
        """Return the numbers of the leaves, and the number after all pages.

        The overflow pages of a run of leaves are after it.
        """
        if self._big is None:
            stop = _FIRST_PAGE + len(self._starts)
            return np.arange(_FIRST_PAGE, stop), stop
        numbers = np.empty(len(self._starts), np.int64)
        number = _FIRST_PAGE
        for first, stop in self._groups:
            numbers[first:stop] = number + np.arange(stop - first)
            number = self._big.number(self._rows(first, stop), number + stop - first)
        return numbers, number

    def _rows(self, first: int, stop: int) -> slice:
        """Return the entries of some leaves."""
        return slice(int(self._starts[first]), int(self._ends[stop - 1]))

    def parts(self) -> Iterator[Buffer]:
        """Yield the pages, in their order."""
        last_key: bytes | None = None
        for first, stop in self._groups:
            rows = self._rows(first, stop)
            keys = self._entries(self._keys, rows)
            is_after_last = last_key is None or last_key < keys[0].as_py()
            if not is_after_last or not ascends(keys):
                raise AssertionError("the entries of a segment do not ascend")
            last_key = keys[-1].as_py()
            yield from self._group(first, stop, rows, keys)

    def _entries(self, column: Bytes, rows: slice) -> Bytes:
        """Return the keys or the values of some entries."""
        if self._order is None:
            return column.slice(rows.start, rows.stop - rows.start)
        return column.take(pa.array(self._order[rows]))

    def _group(self, first: int, stop: int, rows: slice, keys: Bytes) -> Iterator[Buffer]:
        """Yield the pages of some leaves and of their large values. ``keys``: those of ``rows``."""
        numbers, headers = self.numbers[first:stop], self._headers[rows]
        starts, sizes = self._starts[first:stop] - rows.start, self._sizes[rows]
        if self._big is None:
            values = self._entries(self._values, rows)
            yield _leaf_pages(numbers, starts, sizes, headers, [keys, values])
            return
        is_big = self._big.is_big[rows]
        headers = headers | np.where(is_big, BIG_DATA << 32, 0)
        first_overflow_pages = self._big.numbers[rows][is_big]
        parts = [
            keys,
            self._leaf_values(rows, is_big),
            _page_numbers(is_big, first_overflow_pages),
        ]
        yield _leaf_pages(numbers, starts, sizes, headers, parts)
        page_counts = self._big.pages[rows][is_big]
        big_rows = self._rows_in_arrays(rows)[is_big]
        for part in _slices(page_counts):
            values = self._values.take(pa.array(big_rows[part]))
            yield _overflow_pages(first_overflow_pages[part], page_counts[part], values)

    def _leaf_values(self, rows: slice, is_big: NDArray[np.bool_]) -> Bytes:
        """Return the values of some entries, nothing of the big ones: they may be too many."""
        indices = pa.array(self._rows_in_arrays(rows), mask=is_big)
        return self._values.take(indices).fill_null(EMPTY)

    def _rows_in_arrays(self, rows: slice) -> Positions:
        return np.arange(rows.start, rows.stop) if self._order is None else self._order[rows]


def _slices(page_counts: Positions) -> Iterator[slice]:
    """Yield slices of some values that have at most twice `_PAGES_AT_ONCE` pages, or one value.

    Twice: the pages of most runs are but a few more than `_PAGES_AT_ONCE`.
    """
    offsets = offsets_of(page_counts)
    start = 0
    while start < len(page_counts):
        end = np.searchsorted(offsets, offsets[start] + 2 * _PAGES_AT_ONCE, side="right")
        stop = max(int(end) - 1, start + 1)
        yield slice(start, stop)
        start = stop


class _BigValues:
    """Which values are in overflow pages.

    ``is_big``: a flag per entry; ``pages``: how many pages its value has, 0 if it is on the leaf;
    ``numbers``: that of the first of them.
    """

    def __init__(self, is_big: NDArray[np.bool_], value_lengths: Positions) -> None:
        self.is_big = is_big
        self.pages = np.where(is_big, -(-(value_lengths + PAGE_HEADER) // PAGE_BYTES), 0)
        self.numbers = np.zeros(len(is_big), np.int64)

    def number(self, rows: slice, first: int) -> int:
        """Give the values of some entries the pages from ``first`` on; return the next."""
        offsets = offsets_of(self.pages[rows])
        self.numbers[rows] = first + offsets[:-1]
        return first + int(offsets[-1])


def _first_nodes(sizes: Positions) -> Positions:
    """Return the index of the first node of each page, if each takes as many as it has room for.

    ``sizes``: what the nodes take without their pointers; at least one.
    """
    slots = sizes + (sizes & 1) + _POINTER_BYTES
    smallest_slot, largest_slot = int(slots.min()), int(slots.max())
    if smallest_slot == largest_slot:
        return np.arange(0, len(slots), _ROOM // largest_slot)
    offsets = offsets_of(slots).data
    del slots
    min_nodes, max_nodes = _ROOM // largest_slot, _ROOM // smallest_slot
    firsts, first = [], 0
    while first < len(sizes):
        firsts.append(first)
        high = min(first + max_nodes + 1, len(offsets))
        low = min(first + min_nodes, high)
        first = bisect_right(offsets, offsets[first] + _ROOM, low, high) - 1
    return np.array(firsts, np.int64)


def _branch_pages(leaves: _Leaves) -> tuple[bytes, _Tree]:
    """Return the branch pages above some leaves, and the tree's root, depth and page count.

    The pages come level by level. There is one of them for some dozens of leaves: a loop is faster
    than numpy for a small file.
    """
    numbers = leaves.numbers.tolist()
    if len(numbers) == 1:
        return b"", _Tree(numbers[0], 1, 0)
    keys = leaves.first_keys().to_pylist()
    pages: list[bytes] = []
    depth = 1
    while len(numbers) > 1:
        starts = _first_children(keys)
        level = range(leaves.stop + len(pages), leaves.stop + len(pages) + len(starts))
        pages += map(
            _branch_page,
            level,
            [numbers[first:stop] for first, stop in pairwise([*starts, len(numbers)])],
            [keys[first:stop] for first, stop in pairwise([*starts, len(numbers)])],
        )
        keys, numbers = [keys[first] for first in starts], [*level]
        depth += 1
    return b"".join(pages), _Tree(numbers[0], depth, len(pages))


def _first_children(keys: Sequence[bytes]) -> list[int]:
    """Return the first child of each branch page above some pages with these first keys."""
    # The first child of a page has all keys below the second's: its key is not stored.
    starts: list[int] = []
    room = 0
    for child, key in enumerate(keys):
        room -= NODE_HEADER + len(key) + (len(key) & 1) + _POINTER_BYTES
        if room < 0:
            starts.append(child)
            room = _ROOM - NODE_HEADER - _POINTER_BYTES
    if len(starts) > 1 and starts[-1] == len(keys) - 1:
        # LMDB takes a branch page with one child for damage.
        starts[-1] -= 1
    return starts


def _branch_page(number: int, children: Sequence[int], keys: Sequence[bytes]) -> bytes:
    """Return the branch page above some pages, at least two, with these first keys."""
    nodes = [
        _WORD.pack(child | len(key) << 48) + key + bytes(len(key) & 1)
        for child, key in zip(children, [b"", *keys[1:]], strict=True)
    ]
    upper = PAGE_BYTES - sum(map(len, nodes))
    pointers = accumulate(map(len, nodes[:-1]), initial=upper)
    lower = PAGE_HEADER + _POINTER_BYTES * len(nodes)
    head = _HEADER.pack(number, 0, BRANCH_PAGE, lower | upper << 16)
    pointer_bytes = struct.pack(f"<{len(nodes)}H", *pointers)
    return b"".join([head, pointer_bytes, bytes(upper - lower), *nodes])


def _leaf_pages(
    numbers: Positions,
    starts: Positions,
    sizes: Positions,
    headers: Positions,
    parts: Sequence[Bytes],
) -> Buffer:
    """Return some leaf pages, one after another.

    ``starts``: the first node of each; ``sizes``: what the nodes take, before they are made even;
    ``headers``: the eight bytes that each node begins with; ``parts``: what follows them, in turn.
    Nodes ascend within a page, and so do the bytes that a scan reads.
    """
    odd = sizes & 1
    offsets = offsets_of(sizes + odd)
    bounds = np.append(starts, len(sizes))
    counts = bounds[1:] - starts
    firsts = offsets[starts]
    # What is before a node: its header, and before the first of a page all that begins it.
    upper = PAGE_BYTES - (offsets[bounds[1:]] - firsts)
    head_sizes = np.full(len(sizes), NODE_HEADER)
    head_sizes[starts] += upper
    heads_at = offsets_of(head_sizes)
    preambles = np.zeros(int(heads_at[-1]), np.uint8)
    pages = heads_at[starts]
    _write_headers(
        preambles, pages, numbers, LEAF_PAGE, PAGE_HEADER + _POINTER_BYTES * counts, upper
    )
    pointers = offsets[:-1] + np.repeat(upper - firsts, counts)
    pointers_at = np.repeat(pages + PAGE_HEADER - _POINTER_BYTES * starts, counts)
    pointers_at += np.arange(0, _POINTER_BYTES * len(sizes), _POINTER_BYTES)
    store(preambles, pointers_at, pointers, "<u2")
    store(preambles, heads_at[1:] - NODE_HEADER, headers, "<u8")
    columns = [from_parts(preambles, heads_at), *parts]
    if odd.any():
        columns.append(from_parts(np.zeros(len(sizes), np.uint8), offsets_of(odd)))
    return _join_columns(columns, len(starts))


def _page_numbers(is_big: NDArray[np.bool_], numbers: Positions) -> Bytes:
    """Return the numbers of overflow pages where a value is in them, nothing where it is not."""
    return from_parts(numbers.astype("<u8").view(np.uint8), offsets_of(is_big * _PAGE_NUMBER_BYTES))


def _overflow_pages(numbers: Positions, pages: Positions, values: Bytes) -> Buffer:
    """Return the overflow pages of some values, of which each has a number of pages."""
    starts = np.arange(len(values)) * PAGE_HEADER
    page_headers = np.zeros(len(values) * PAGE_HEADER, np.uint8)
    # How many pages there are is where other pages keep `lower` and `upper`.
    _write_headers(page_headers, starts, numbers, _OVERFLOW_PAGE, pages & 0xFFFF, pages >> 16)
    spare = offsets_of(pages * PAGE_BYTES - PAGE_HEADER - lengths_of(values))
    tails = from_parts(np.zeros(int(spare[-1]), np.uint8), spare)
    columns = [from_parts(page_headers, np.append(starts, len(page_headers))), values, tails]
    return _join_columns(columns, int(pages.sum()))


def _join_columns(columns: Sequence[Bytes], pages: int) -> Buffer:
    """Return what columns hold, row by row. AssertionError if it does not fill so many pages."""
    content = content_of(concat(columns))
    if len(content) != pages * PAGE_BYTES:
        raise AssertionError(f"{pages} pages of a segment have {len(content)} bytes")
    return content


def _write_headers(
    buffer: Buffer,
    starts: Positions,
    numbers: Positions,
    kind: int,
    lower: Positions,
    upper: Positions,
) -> None:
    """Write the headers of pages that begin at ``starts``."""
    store(buffer, starts, numbers, "<u8")
    store(buffer, starts + 8, kind << 16 | lower << 32 | upper << 48, "<u8")
