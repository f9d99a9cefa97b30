"""Laws of the merge: of many sorted runs, the newest row of each key, in bounded windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import CorruptionError
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import HEADER, Kind
from relstate.storage.table.header import FIXED, delete_value
from relstate.storage.table.merge import merge
from relstate.storage.table.resolve import Resolver, Window, keep_visible
from support.segments import Pair, full_key
from support.segments import pairs_of as entries_of

# Entries of one source: a number as its key, and a value, None for a delete.
Entries = dict[int, bytes | None]
PLAIN = Resolver(keep_visible(lambda: 0))
_ENTRIES = st.dictionaries(st.integers(0, 60), st.none() | st.binary(max_size=2), max_size=40)
# Of each source, its entries and the sizes of its blocks.
_SOURCES = st.lists(st.tuples(_ENTRIES, st.lists(st.integers(1, 9), min_size=1)), max_size=5)


def pairs_of(entries: Entries) -> list[Pair]:
    """Return a source's entries as they are stored: keys may be of unequal lengths."""
    return [
        (
            full_key(b"%02d" % number + b"." * (number % 3) + b"\0"),
            delete_value(1) if value is None else FIXED.pack(HEADER | Kind.PUT, 1) + value,
        )
        for number, value in sorted(entries.items())
    ]


def source(pairs: Sequence[Pair], sizes: Sequence[int], descending: bool) -> Iterator[Block]:
    """Yield blocks of these sizes, again and again, from one end or the other."""
    blocks: list[Block] = []
    start = 0
    while start < len(pairs):
        size = sizes[len(blocks) % len(sizes)]
        blocks.append(Block.of_pairs(pairs[start : start + size]))
        start += size
    return iter(blocks[::-1] if descending else blocks)


def rows_of(window: Window) -> list[Pair]:
    """Return a window's rows in its order."""
    rows = [pair for block in entries_of(window.blocks) for pair in block]
    return rows if window.order is None else [rows[index] for index in window.order.tolist()]


@given(_SOURCES, st.booleans())
def test_the_newest_put_of_every_key_is_seen(
    sources: list[tuple[Entries, list[int]]], descending: bool
) -> None:
    """However the sources are cut into blocks; a delete hides what is older, and itself."""
    newest: Entries = {}
    for entries, _ in reversed(sources):
        newest |= entries
    visible = {number: value for number, value in newest.items() if value is not None}

    windows = list(
        merge(
            [source(pairs_of(entries), sizes, descending) for entries, sizes in sources],
            PLAIN,
            descending=descending,
        )
    )

    parts = [rows_of(window) for window in windows]
    in_order = [pair for rows in (parts[::-1] if descending else parts) for pair in rows]
    assert in_order == pairs_of({**visible})


@given(_SOURCES, st.booleans())
def test_a_window_holds_a_bounded_part_of_every_source(
    sources: list[tuple[Entries, list[int]]], descending: bool
) -> None:
    """At most two blocks of each, so that memory does not grow with the table."""
    read = [source(pairs_of(entries), sizes, descending) for entries, sizes in sources]
    for window in merge(read, PLAIN, descending=descending):
        assert all(len(block) <= 18 for block in window.blocks)
        assert len(window.blocks) <= len(sources)


def test_one_source_alone_is_passed_through() -> None:
    """Its blocks are the windows, uncopied and in order."""
    block = Block.of_pairs(pairs_of({1: b"a", 2: b"b"}))

    (window,) = merge([iter([block])], PLAIN)

    assert window.order is None
    assert window.blocks[0].keys is block.keys
    assert rows_of(window) == pairs_of({1: b"a", 2: b"b"})


def test_no_sources_make_no_windows() -> None:
    """A table without segments is empty."""
    assert list(merge([], PLAIN)) == []
    assert list(merge([iter(())], PLAIN, descending=True)) == []


@pytest.mark.parametrize("descending", [False, True])
def test_keys_out_of_order_end_the_merge(descending: bool) -> None:
    """The merge neither goes on for ever nor loses rows without an error."""
    pairs = pairs_of(dict.fromkeys(range(7), b""))
    # The bound is the first or last key here, and bisection for it goes astray.
    disordered = [*pairs[4:], *pairs[:4]] if descending else [*pairs[3:], *pairs[:3]]

    with pytest.raises(CorruptionError, match="not in order"):
        list(merge([iter([Block.of_pairs(disordered)])] * 2, PLAIN, descending=descending))
