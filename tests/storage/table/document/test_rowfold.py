"""Rows made of entries: those of a nested dict with clocks, and those of the sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.schema import TableSchema
from relstate.storage.segment.key import Kind
from relstate.storage.table.encoding import encoding_of
from relstate.storage.table.resolve import keep_visible
from support.documents import Documents, Written, stored
from support.examples import examples
from support.random_documents import COMMITS, TABLE, definition_of, rows_of


@settings(max_examples=examples(300))
@given(COMMITS, st.sampled_from([0, 10, 15, 25]))
def test_rows_are_those_of_a_nested_dict_with_clocks(
    commits: list[list[Written]], time: int
) -> None:
    """For any entries of any commits, at any time."""
    model = Documents(TABLE.schema)
    for commit in commits:
        model.apply(commit)

    assert rows_of(TABLE, [stored(TABLE, commit) for commit in commits], time) == model.seen(time)


# The examples of the sources

MSGS = definition_of("k INT, msg STRING, msg_props MAP<STRING, STRING>")


def inserted(key: int, msg: str, props: dict[str, str]) -> list[Written]:
    """Return the entries of a row that is written in parts: each column, each entry of a map."""
    return [
        Written(key, (), Kind.OBJECT),
        Written(key, ("msg",), Kind.PUT, msg),
        Written(key, ("msg_props",), Kind.OBJECT),
        *(Written(key, ("msg_props", name), Kind.PUT, text) for name, text in props.items()),
    ]


FIRST = {"from": "a@b.com", "subject": "hello"}
SECOND = {"from": "c@d.com", "subject": "bar"}
T1 = inserted(10, "msg1", FIRST)
T2 = [Written(10, ("msg_props", "read_status"), Kind.PUT, "true")]
T3 = inserted(20, "msg2", SECOND)
T4 = [Written(10, ("msg_props",), Kind.DELETE)]
T5 = [Written(10, (), Kind.DELETE)]
ROW_10 = {"msg": "msg1", "msg_props": sorted(FIRST.items())}
ROW_20 = {"msg": "msg2", "msg_props": sorted(SECOND.items())}
READ = {"msg": "msg1", "msg_props": sorted({**FIRST, "read_status": "true"}.items())}
WITHOUT = {"msg": "msg1", "msg_props": None}
STATES: list[dict[int, Any]] = [
    {10: ROW_10},
    {10: READ},
    {10: READ, 20: ROW_20},
    {10: WITHOUT, 20: ROW_20},
    {20: ROW_20},
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("state", range(5))
def test_the_five_states_of_msgs(packed: bool, state: int) -> None:
    """T1 to T5 of the sources, whether rows are written whole or in parts."""
    commits = [T1, T2, T3, T4, T5]
    if packed:
        commits[0] = [Written(10, (), Kind.PUT, ROW_10)]
        commits[2] = [Written(20, (), Kind.PUT, ROW_20)]
    blocks = [stored(MSGS, commit) for commit in commits[: state + 1]]

    assert rows_of(MSGS, blocks, 0) == STATES[state]


PAGE_VIEWS = definition_of("k INT, views INT, category STRING")
SECOND_OF_TIME = 1_000_000
DAY, HOUR = 86_400 * SECOND_OF_TIME, 3600 * SECOND_OF_TIME
VIEWED = [Written(1, (), Kind.PUT, {"views": 10}, DAY)]
NEWS = [Written(1, ("category",), Kind.PUT, "news", HOUR)]


@pytest.mark.parametrize(
    ("time", "row"),
    [
        (0, {"views": 10, "category": "news"}),
        (HOUR - 1, {"views": 10, "category": "news"}),
        (HOUR, {"views": 10, "category": None}),
        (DAY - 1, {"views": 10, "category": None}),
        (DAY, None),
    ],
)
def test_the_lives_of_a_row_and_of_one_of_its_columns(
    time: int, row: dict[str, Any] | None
) -> None:
    """Both examples of page_views: the row lives a day, the category an hour."""
    blocks = [stored(PAGE_VIEWS, VIEWED), stored(PAGE_VIEWS, NEWS)]

    assert rows_of(PAGE_VIEWS, blocks, time) == ({} if row is None else {1: row})


def test_an_update_without_a_life_stays_when_its_row_expires() -> None:
    """The row outlives its INSERT with the columns that were updated."""
    blocks = [
        stored(PAGE_VIEWS, VIEWED),
        stored(PAGE_VIEWS, [Written(1, ("category",), Kind.PUT, "news")]),
    ]

    assert rows_of(PAGE_VIEWS, blocks, DAY) == {1: {"views": None, "category": "news"}}


def test_a_row_that_was_only_updated_vanishes_with_its_last_column() -> None:
    """Unlike an inserted row, which stays with NULLs in all columns."""
    updated = stored(PAGE_VIEWS, [Written(1, ("views",), Kind.PUT, 1)])
    inserted_row = stored(PAGE_VIEWS, [Written(1, (), Kind.PUT, {"views": 1})])
    removed = stored(PAGE_VIEWS, [Written(1, ("views",), Kind.DELETE)])

    assert rows_of(PAGE_VIEWS, [updated], 0) == {1: {"views": 1, "category": None}}
    assert rows_of(PAGE_VIEWS, [updated, removed], 0) == {}
    assert rows_of(PAGE_VIEWS, [inserted_row, removed], 0) == {1: {"views": None, "category": None}}


def test_what_expired_does_not_show_what_it_replaced() -> None:
    """Neither a column, nor a collection, nor what was removed from one."""
    commits = [
        [Written(10, (), Kind.PUT, ROW_10)],
        [
            Written(10, ("msg",), Kind.PUT, "short", 5),
            Written(10, ("msg_props",), Kind.PUT, [("new", "1")], 5),
        ],
        [Written(10, ("msg_props", "later"), Kind.PUT, "2")],
    ]
    blocks = [stored(MSGS, commit) for commit in commits]

    assert rows_of(MSGS, blocks, 4) == {
        10: {"msg": "short", "msg_props": [("later", "2"), ("new", "1")]}
    }
    assert rows_of(MSGS, blocks, 5) == {10: {"msg": None, "msg_props": [("later", "2")]}}


def test_rows_without_parts_keep_their_bytes() -> None:
    """Only what has parts is decoded: the other entries are those of the files."""
    blocks = [
        stored(MSGS, [Written(10, ("msg",), Kind.PUT, "new")]),
        stored(MSGS, [Written(key, (), Kind.PUT, ROW_20) for key in (10, 20, 30)]),
    ]
    encoding = encoding_of(MSGS, 1)
    window = encoding.resolver(keep_visible(lambda: 0), lambda: 0).window(blocks)

    assert [len(block) for block in window.blocks] == [2, 1]
    assert window.order is not None
    assert np.array_equal(window.order, [2, 0, 1])
    assert window.blocks[0].values is blocks[1].values


def test_a_widened_column_is_read_from_parts_of_the_earlier_type() -> None:
    """As it is from rows of an earlier schema."""
    before = definition_of("k INT, a INT, b STRING")
    wider = TableSchema.build(parse_columns("k INT, a BIGINT, b STRING"), ["k"])
    wider = TableSchema(2, wider.columns, wider.primary_key, wider.distribution_key, 4)
    after = TableDefinition(1, "t", wider, 2, before.properties, (before.schema,))
    blocks = [
        stored(before, [Written(1, (), Kind.PUT, {"a": 1, "b": "x"})]),
        stored(before, [Written(key, ("a",), Kind.PUT, key) for key in (1, 2)]),
        stored(after, [Written(2, ("a",), Kind.PUT, 1 << 40)]),
    ]

    assert rows_of(after, blocks, 0) == {1: {"a": 1, "b": "x"}, 2: {"a": 1 << 40, "b": None}}
