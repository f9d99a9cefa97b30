"""Random entries of a document table, and the rows that the product makes of entries."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.properties import TableProperties
from relstate.storage.schema.schema import TableSchema
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.encoding import encoding_of
from relstate.storage.table.resolve import keep_visible

from .documents import FOREVER, Path, Written, is_divisible, type_at

COLUMNS = """k INT, a INT, s STRING, m MAP<STRING, INT>, l ARRAY<INT>,
    d MAP<STRING, STRUCT<x: INT, y: MAP<INT, STRING>, z: ARRAY<STRING>>>"""


def definition_of(columns: str, *, packed: bool = True) -> TableDefinition:
    """Return a document table whose key is ``k``."""
    schema = TableSchema.build(parse_columns(columns), ["k"])
    return TableDefinition(1, "t", schema, 2, TableProperties(encoding="document", packed=packed))


TABLE = definition_of(COLUMNS)


def rows_of(
    definition: TableDefinition, commits: Sequence[Block], time: int
) -> dict[int, dict[str, Any]]:
    """Return the visible rows after some commits, the oldest first, by their keys."""
    blocks = [block for block in reversed(commits) if len(block)]
    if not blocks:
        return {}
    encoding = encoding_of(definition, 1)
    window = encoding.resolver(keep_visible(lambda: time), lambda: time).window(blocks)
    batches = [encoding.decode(block, encoding.schema.columns) for block in window.blocks]
    rows = pa.Table.from_batches(batches)
    if window.order is not None:
        rows = rows.take(pa.array(window.order))
    visible = rows.to_pylist()
    assert [row["k"] for row in visible] == sorted({row["k"] for row in visible})
    return {row.pop("k"): row for row in visible}


# Random entries


class End(Enum):
    """The end of an array to which an element is added."""

    FRONT = "front"
    BACK = "back"


FRONT, BACK = End.FRONT, End.BACK
# Beyond the elements of arrays that are written whole.
FAR = 1 << 40
NAMES = st.sampled_from(["", "x", "xy", "y\0", "z"])
EXPIRIES = st.sampled_from([FOREVER, FOREVER, 10, 20])


def values_of(data_type: t.DataType) -> st.SearchStrategy[Any]:
    """Few values of the types above; the entries of maps are in order."""
    match data_type:
        case t.Int():
            return st.integers(0, 3)
        case t.String():
            return NAMES
        case t.Map(key, item, _):
            pairs = st.dictionaries(values_of(key), st.none() | values_of(item), max_size=2)
            return pairs.map(lambda entries: sorted(entries.items(), key=lambda pair: pair[0]))
        case t.Array(element, _):
            return st.lists(st.none() | values_of(element), max_size=2)
        case t.Struct(fields):
            return st.fixed_dictionaries(
                {part.name: st.none() | values_of(part.type) for part in fields}
            )
    raise AssertionError(data_type)


@st.composite
def paths(draw: st.DrawFn) -> tuple[Path, bool]:
    """Return a path of the table above, and whether NULL can be written there."""
    column = draw(st.sampled_from(TABLE.schema.value_columns))
    path: Path = (column.name,)
    data_type, takes_null = column.type, False
    while is_divisible(data_type) and draw(st.booleans()):
        match data_type:
            case t.Struct(fields):
                part = draw(st.sampled_from(fields))
                path, data_type, takes_null = (*path, part.name), part.type, False
            case t.Map(key, item, _):
                path, data_type, takes_null = (*path, draw(values_of(key))), item, True
            case t.Array(element, _):
                path, data_type = (*path, draw(st.sampled_from([FRONT, BACK]))), element
                takes_null = True
    return path, takes_null


@st.composite
def entries(draw: st.DrawFn) -> Written:
    """Return any entry."""
    key, expiry = draw(st.integers(0, 2)), draw(EXPIRIES)
    if draw(st.integers(0, 3)) == 0:
        if draw(st.booleans()):
            return Written(key, (), Kind.DELETE)
        columns = TABLE.schema.value_columns
        row = {column.name: draw(st.none() | values_of(column.type)) for column in columns}
        return Written(key, (), Kind.PUT, row, expiry)
    path, takes_null = draw(paths())
    data_type = type_at(TABLE.schema, path)
    kinds = [Kind.PUT, Kind.PUT, Kind.DELETE]
    kind = draw(st.sampled_from([*kinds, Kind.OBJECT] if is_divisible(data_type) else kinds))
    if kind is Kind.DELETE:
        return Written(key, path, kind)
    if kind is Kind.OBJECT:
        return Written(key, path, kind, None, expiry)
    values = values_of(data_type)
    return Written(key, path, kind, draw(st.none() | values if takes_null else values), expiry)


def committed(written: list[Written]) -> list[Written]:
    """Return the entries of one commit: the last at each path, those above others first."""
    newest = {(entry.key, entry.path): entry for entry in written}
    return sorted(newest.values(), key=lambda entry: len(entry.path))


def with_own_places(commits: list[list[Written]]) -> list[list[Written]]:
    """Return entries in which each element that is written alone is at a place of its own.

    As those that are added to the ends of arrays are: no later one is at the place of another.
    """
    numbers = itertools.count(1)
    return [
        committed([replace(entry, path=_placed(entry.path, next(numbers))) for entry in commit])
        for commit in commits
    ]


def _placed(path: Path, number: int) -> Path:
    """Return a path with a place, as far out as a number says, for each end of an array."""
    far = {FRONT: -FAR - number, BACK: FAR + number}
    return tuple(far.get(step, step) if isinstance(step, End) else step for step in path)


COMMITS = st.lists(st.lists(entries(), max_size=8), min_size=1, max_size=5).map(with_own_places)
