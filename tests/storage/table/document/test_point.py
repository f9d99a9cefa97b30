"""Single rows made of their entries without Arrow: those that are made many at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.document.point import ManyPartsError
from relstate.storage.table.encoding import encoding_of
from support.documents import Documents, Written, in_order, stored
from support.examples import examples
from support.random_documents import COMMITS, TABLE, definition_of


def pairs_of(block: Block, row_key: bytes) -> list[tuple[bytes, bytes]]:
    """Return the entries of one row in a block."""
    pairs = zip(block.key_bytes().to_pylist(), block.value_bytes().to_pylist(), strict=True)
    return [pair for pair in pairs if pair[0].startswith(row_key)]


def row_alone(
    definition: TableDefinition, commits: list[list[Written]], key: int, time: int
) -> dict[str, Any] | None:
    """Return a row after some commits, without its key; maps are pairs in their order.

    ManyPartsError if it is not made alone.
    """
    encoding = encoding_of(definition, 1)
    blocks = [stored(definition, commit) for commit in reversed(commits)]
    files = [pairs_of(block, encoding.encode_key([key])) for block in blocks]
    row = encoding.decode_entries([key], [pairs for pairs in files if pairs], lambda: time)
    if row is None:
        return None
    columns = definition.schema.value_columns
    assert all(is_sorted(row[column.name]) for column in columns)
    return {column.name: in_order(column.type, row[column.name]) for column in columns}


def is_sorted(value: Any) -> bool:
    """Return whether the entries of all maps in a value are in the order of their keys."""
    if isinstance(value, dict):
        is_map = not {"x", "y", "z"} <= value.keys()
        return (not is_map or [*value] == sorted(value)) and all(map(is_sorted, value.values()))
    return not isinstance(value, list) or all(map(is_sorted, value))


@settings(max_examples=examples(400))
@given(COMMITS, st.sampled_from([0, 10, 15, 25]))
def test_a_row_alone_is_the_row_among_many(commits: list[list[Written]], time: int) -> None:
    """For any entries, unless a part of an array was written."""
    model = Documents(TABLE.schema)
    for commit in commits:
        model.apply(commit)
    rows = model.seen(time)
    for key in range(3):
        entries = [entry for commit in commits for entry in commit if entry.key == key]
        try:
            row = row_alone(TABLE, commits, key, time)
        except ManyPartsError:
            assert any("l" in entry.path or "z" in entry.path for entry in entries)
        else:
            assert row == rows.get(key)


def test_what_is_made_alone() -> None:
    """Columns, fields, entries of maps at any depth, rows of no columns, and their removal."""
    commits = [
        [Written(0, (), Kind.PUT, {"a": 1, "m": [("y", 2)], "d": [("p", {"x": 1})]})],
        [Written(0, ("m", "x"), Kind.PUT, 1), Written(0, ("d", "p", "y", 7), Kind.PUT, "seven")],
        [Written(0, ("a",), Kind.DELETE), Written(0, ("d", "q", "x"), Kind.PUT, 2)],
        [Written(0, ("m", "y"), Kind.DELETE), Written(0, ("l",), Kind.PUT, [1, 2])],
    ]
    row = row_alone(TABLE, commits, 0, 0)

    assert row == {
        "a": None,
        "s": None,
        "m": [("x", 1)],
        "l": [1, 2],
        "d": [
            ("p", {"x": 1, "y": [(7, "seven")], "z": None}),
            ("q", {"x": 2, "y": None, "z": None}),
        ],
    }


def test_maps_of_other_keys_and_long_rows_are_left_to_many() -> None:
    """Keys that are not compared as Python does, and rows of many entries."""
    table = definition_of("k INT, f MAP<DOUBLE, INT>, m MAP<STRING, INT>")
    texts = [Written(0, ("m", f"{number}"), Kind.PUT, number) for number in range(65)]
    for commit in ([Written(0, ("f", 0.5), Kind.PUT, 1)], texts):
        with pytest.raises(ManyPartsError):
            row_alone(table, [commit], 0, 0)


@pytest.mark.parametrize("path", [b"\x01\x02", b"\x80\x02\x00", b"\x80\x02\x01ab"])
def test_damaged_paths_are_errors(path: bytes) -> None:
    """Of the kinds that a lookup reports as damage."""
    table = definition_of("k INT, m MAP<STRING, INT>")
    encoding = encoding_of(table, 1)
    ((key, value),) = stored_pairs(table, Written(0, ("m", "x"), Kind.PUT, 1))
    row_key = encoding.encode_key([0])
    length = len(path).to_bytes(2, "little")
    damaged = value[:3] + length + value[5:]

    assert key.startswith(row_key)
    with pytest.raises((ValueError, IndexError)):
        encoding.decode_entries([0], [[(row_key + path, damaged)]], lambda: 0)


def stored_pairs(definition: TableDefinition, entry: Written) -> list[tuple[bytes, bytes]]:
    """Return an entry in its stored form."""
    block = stored(definition, [entry])
    keys: pa.Array = block.key_bytes()
    return list(zip(keys.to_pylist(), block.value_bytes().to_pylist(), strict=True))
