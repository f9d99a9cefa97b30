"""Laws of scans: all rows, in batches of bounded size, of one vnode in the order of the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import TableSchema
from relstate.storage.codec.ragged import Bytes
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import HEADER, Kind
from relstate.storage.table.header import FIXED
from relstate.storage.table.resolve import Resolver, Window, keep_visible
from relstate.storage.table.scan import (
    Bounds,
    Limits,
    Piece,
    Scan,
    joined_blocks,
    joined_ranges,
    matching_rows,
    pieces,
    pieces_in_order,
)
from support.segments import Pair, full_key, pairs_of

_VNODES = 5
PLAIN = Resolver(keep_visible(lambda: 0))
_BOUNDS = [(full_key(b"", vnode=vnode), full_key(b"", vnode=vnode + 1)) for vnode in range(_VNODES)]
_PREFIX = len(full_key(b""))

# Of every source, the newest first, what it says of some keys.
_SOURCES = st.lists(st.dictionaries(st.integers(0, 200), st.booleans(), max_size=60), max_size=4)


def source_of(entries: dict[int, bool]) -> Block:
    """Return a sorted run of entries: the vnode is the key modulo the number of vnodes."""
    return Block.of_pairs(
        sorted(
            (
                full_key(b"%06d" % key, vnode=key % _VNODES),
                FIXED.pack(HEADER | (Kind.PUT if put else Kind.DELETE), 1),
            )
            for key, put in entries.items()
        )
    )


def read(block: Block) -> object:
    """Return a source that reads a run in blocks of one row per leaf of the limit."""

    def blocks(bounds: Bounds, leaves: int, descending: bool) -> Iterator[Block]:
        inside = block.between(*bounds)
        parts = [inside.slice(at, at + leaves) for at in range(0, len(inside), leaves)]
        return iter(parts[::-1] if descending else parts)

    return blocks


def keys_of(batch: pa.RecordBatch) -> Bytes:
    """Return the primary keys of a batch."""
    return batch.column("key")


def decode(piece: Piece) -> pa.RecordBatch:
    """Return a piece's primary keys as a batch."""
    keys = np.array(
        [key[_PREFIX:] for block in piece.blocks for key in block.key_bytes().to_pylist()]
    )
    ordered = keys if piece.order is None else keys[piece.order]
    return pa.record_batch({"key": pa.array(ordered.tolist(), pa.large_binary())})


def scan_of(sources: list[dict[int, bool]]) -> Scan:
    """Return the scan of some sources."""
    return Scan([read(source_of(entries)) for entries in sources], decode, keys_of, PLAIN)  # type: ignore[misc]


def visible(sources: list[dict[int, bool]]) -> list[bytes]:
    """Return the primary keys that a scan should find, sorted."""
    newest: dict[int, bool] = {}
    for entries in reversed(sources):
        newest |= entries
    return [b"%06d" % key for key, put in sorted(newest.items()) if put]


def keys_in(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    """Return the keys in batches, in their order."""
    return [key for batch in batches for key in batch.column("key").to_pylist()]


@given(_SOURCES)
def test_a_scan_finds_every_visible_row(sources: list[dict[int, bool]]) -> None:
    """Once, range by range."""
    scan = scan_of(sources)

    assert sorted(keys_in(scan.batches(_BOUNDS))) == visible(sources)
    assert sorted(keys_in(scan.batches([(_BOUNDS[0][0], None)]))) == visible(sources)
    assert keys_in(scan.batches([])) == []


@given(_SOURCES, st.booleans())
def test_batches_are_sorted_in_memory(sources: list[dict[int, bool]], descending: bool) -> None:
    """By the primary key, whatever their vnodes; batches without rows are left out."""
    scan = scan_of(sources)
    results = list(scan.in_order(list(scan.batches(_BOUNDS)), descending=descending))

    assert keys_in(iter(results)) == visible(sources)[:: -1 if descending else 1]
    assert all(batch.num_rows for batch in results)


@given(_SOURCES, st.booleans(), st.integers(0, _VNODES - 1))
def test_one_vnode_is_sorted_as_it_is(
    sources: list[dict[int, bool]], descending: bool, vnode: int
) -> None:
    """Its rows are stored in the order of the primary key already."""
    expected = [key for key in visible(sources) if int(key) % _VNODES == vnode]

    results = scan_of(sources).sorted_range(_BOUNDS[vnode], descending=descending)

    assert keys_in(results) == expected[:: -1 if descending else 1]


def test_batches_are_bounded() -> None:
    """At most 65,536 rows each, sorted or not."""
    keys = dict.fromkeys(range(140_000), True)
    scan = scan_of([keys])

    for results in (
        scan.batches(_BOUNDS),
        scan.in_order(list(scan.batches(_BOUNDS)), descending=True),
    ):
        sizes = [batch.num_rows for batch in results]
        assert sum(sizes) == len(keys)
        assert max(sizes) <= 65_536


# Many small ranges, read as one run

ENTRIES = Block.over(
    pa.array([b"%03d" % number for number in range(100)], pa.large_binary()),
    pa.array([b"v%d" % number for number in range(100)], pa.large_binary()),
)


def single_entries(bounds: Bounds, _leaves: int, _descending: bool) -> Iterator[Block]:
    """Yield the entries within bounds, one per block."""
    inside = ENTRIES.between(*bounds)
    return (inside.slice(index, index + 1) for index in range(len(inside)))


def test_ranges_are_read_in_few_blocks_in_order() -> None:
    """Blocks over one buffer become one, without a copy."""
    ranges: list[Bounds] = [(b"003", b"006"), (b"010", b"010"), (b"050", b"052"), (b"098", None)]

    (block,) = joined_ranges(single_entries, ranges)((b"", None), 4, False)
    assert block.key_bytes().to_pylist() == [
        b"003", b"004", b"005", b"050", b"051", b"098", b"099",
    ]  # fmt: skip
    assert block.value_bytes().to_pylist()[-1] == b"v99"
    assert block.keys is ENTRIES.keys


def test_blocks_of_different_buffers_are_not_joined() -> None:
    """Nothing is copied to bring them together."""
    pairs = [Block.of_pairs([(b"a", b"1")]), Block.of_pairs([(b"b", b"2")])]

    assert [block.key(0) for block in joined_blocks(pairs)] == [b"a", b"b"]
    assert list(joined_blocks([])) == []


# Rows that match a predicate

SCHEMA = TableSchema.build(parse_columns("k INT, v INT"), ["k"])


def batches(rows: int, size: int) -> list[pa.RecordBatch]:
    """Return batches of ``size`` rows each."""
    whole = pa.record_batch({"k": pa.array(range(rows), pa.int32()), "v": [1] * rows})
    return [whole.slice(start, size) for start in range(0, rows, size)]


def test_small_batches_are_joined() -> None:
    """In their order, with the requested columns only."""
    where = Predicate.parse("k >= 100", SCHEMA)

    (results,) = matching_rows(batches(300, 7), where, ["v", "k"])
    assert results.schema.names == ["v", "k"]
    assert results["k"].to_pylist() == list(range(100, 300))


def test_a_batch_without_matches_is_left_out() -> None:
    """Not even an empty one."""
    assert list(matching_rows(batches(300, 7), Predicate.parse("k < 0", SCHEMA), ["k"])) == []
    assert list(matching_rows([], Predicate.parse("k < 0", SCHEMA), ["k"])) == []


def test_large_batches_are_not_held_back() -> None:
    """Memory does not grow with the number of matches."""
    results = list(matching_rows(batches(50_000, 10_000), Predicate.parse("TRUE", SCHEMA), ["k"]))

    assert [batch.num_rows for batch in results] == [10_000] * 5


def test_few_large_matches_are_not_held_back() -> None:
    """Joined batches of large values stay far below what Arrow's 32-bit offsets can hold."""
    whole = pa.record_batch({"k": pa.array(range(40), pa.int32()), "text": ["a" * (1 << 20)] * 40})
    where = Predicate.parse("k <> 7", SCHEMA)

    results = list(matching_rows([whole.slice(row, 1) for row in range(40)], where, ["k", "text"]))
    assert max(batch.nbytes for batch in results) <= 16 << 20
    assert [key for batch in results for key in batch["k"].to_pylist()] == [
        *range(7),
        *range(8, 40),
    ]
    assert len(results) < 10


_LIMITS = st.builds(Limits, rows=st.integers(1, 6), size=st.integers(1, 40))


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, list[Pair]]:
    """Draw a window of a few blocks and its rows in key order."""
    sizes = draw(st.dictionaries(st.integers(0, 99), st.integers(0, 20), max_size=25))
    pairs = [(b"%02d" % key, bytes(size)) for key, size in sorted(sizes.items())]
    count = draw(st.integers(1, 4))
    owner = st.integers(0, count - 1)
    drawn = draw(st.lists(owner, min_size=len(pairs), max_size=len(pairs)))
    owners = np.array(drawn, np.int64)
    blocks = [
        Block.of_pairs([pair for pair, owner in zip(pairs, owners, strict=True) if owner == block])
        for block in range(count)
    ]
    if count == 1:
        return Window(tuple(blocks), None), pairs
    # A row's place among all blocks, one after another.
    ranks = np.argsort(np.argsort(owners, kind="stable"))
    return Window(tuple(blocks), ranks), pairs


def rows_of(piece: Piece) -> list[Pair]:
    """Return a piece's rows in its order."""
    rows = [pair for block in pairs_of(piece.blocks) for pair in block]
    return rows if piece.order is None else [rows[index] for index in piece.order.tolist()]


def assert_within(results: Iterable[list[Pair]], limits: Limits) -> None:
    """Assert that pieces keep to their limits, but for rows that are larger by themselves."""
    for rows in results:
        assert 0 < len(rows) <= limits.rows
        assert sum(len(key) + len(value) for key, value in rows) <= limits.size or len(rows) == 1


@given(windows(), _LIMITS)
def test_pieces_hold_each_row_once(drawn: tuple[Window, list[Pair]], limits: Limits) -> None:
    """Block by block, within the limits."""
    window, pairs = drawn

    results = [rows_of(piece) for piece in pieces(window, limits)]

    assert sorted(pair for rows in results for pair in rows) == pairs
    assert_within(results, limits)


@given(windows(), _LIMITS, st.booleans())
def test_pieces_in_order_are_in_order(
    drawn: tuple[Window, list[Pair]], limits: Limits, descending: bool
) -> None:
    """Ascending or descending, over all blocks of the window, within the limits."""
    window, pairs = drawn

    results = [rows_of(piece) for piece in pieces_in_order(window, limits, descending=descending)]

    assert [pair for rows in results for pair in rows] == (pairs[::-1] if descending else pairs)
    assert_within(results, limits)
