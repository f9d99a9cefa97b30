"""The rows before and after each step, for entries made by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from relstate.storage import Kind
from relstate.storage.feed.key_history import ABSENT, Changes, KeyHistory
from relstate.storage.segment.block import Block
from relstate.storage.table.header import encode_headers

Entry = tuple[str, str | None]


def block_of(*entries: Entry) -> Block:
    """Return the block of some keys and the rows under them; None deletes."""
    pairs = []
    for key, row in entries:
        kind = Kind.DELETE if row is None else Kind.PUT
        header: bytes = encode_headers(kind, 1, 1)[0].as_py()
        pairs.append((key.encode(), header + (row or "").encode()))
    return Block.of_pairs(pairs)


def same(left: Block, right: Block) -> np.ndarray:
    """Return the indices at which two blocks hold the same row."""
    pairs = zip(left.value_bytes().to_pylist(), right.value_bytes().to_pylist(), strict=True)
    return np.array([left == right for left, right in pairs], bool)


def shown(changes: Changes) -> list[tuple[str, str | None, str | None, int, int]]:
    """Return changes as (key, row before, row after, first step, last step)."""
    keys = changes.entries.key_bytes().to_pylist()
    values = changes.entries.value_bytes().to_pylist()

    def row(position: int) -> str | None:
        return None if position == ABSENT else values[position].decode()

    return [
        (keys[max(before, after)].decode(), row(before), row(after), int(first), int(last))
        for before, after, first, last in zip(
            changes.before, changes.after, changes.first, changes.last, strict=True
        )
    ]


def test_neighbours_of_a_key_are_compared() -> None:
    """In the order of the steps; the row before all of them comes first."""
    history = KeyHistory.of(
        block_of(("a", "1"), ("b", "1"), ("c", None)),
        [
            (0, block_of(("b", "2"), ("d", "1"))),
            (2, block_of(("a", "1"), ("b", None), ("c", None))),
            (5, block_of(("b", "3"), ("d", "1"))),
        ],
    )

    assert shown(history.changes(same)) == [
        ("b", "1", "2", 0, 0),
        ("b", "2", None, 2, 2),
        ("b", None, "3", 5, 5),
        ("d", None, "1", 0, 0),
    ]
    assert shown(history.net_changes(same)) == [("b", "1", "3", 0, 5), ("d", None, "1", 0, 0)]


def test_what_comes_back_is_no_net_change() -> None:
    """A row that changed and changed back, came and went, or went and came back."""
    history = KeyHistory.of(
        block_of(("a", "1"), ("c", "1")),
        [
            (0, block_of(("a", "2"), ("b", "1"), ("c", None))),
            (1, block_of(("a", "1"), ("b", None), ("c", "1"))),
        ],
    )

    assert len(history.changes(same).before) == 6
    assert shown(history.net_changes(same)) == []


def test_nothing_has_no_changes() -> None:
    """There are no entries, or only entries from before the steps."""
    for history in (
        KeyHistory.of(block_of(), []),
        KeyHistory.of(block_of(), [(0, block_of())]),
        KeyHistory.of(block_of(("a", "1")), [(0, block_of())]),
    ):
        assert shown(history.changes(same)) == []
        assert shown(history.net_changes(same)) == []
    assert pa.types.is_large_binary(KeyHistory.of(block_of(), []).entries.key_bytes().type)
