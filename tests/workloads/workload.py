"""Workloads: tables, the rows they start with, changes of these rows, and queries for views.

Promises: the same rows and changes whenever they are made again; no row is changed twice by a
stream of changes, so a stream needs no look at the tables.
Does not know: Spark, and how views are tested or measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from relstate.storage import Kind, Proposal, SegmentRecord, Store, TableSchema
from relstate.storage.schema.ddl import parse_columns
from relstate.vnode import cached_property

FOLDER = Path(__file__).parent

_TABLE = re.compile(r"CREATE TABLE (\w+) \(\s*(.*?),\s*PRIMARY KEY \((.*?)\)\s*\);", re.DOTALL)

Rows = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Table:
    """A table: its columns in DDL, and the names of its key."""

    name: str
    columns: str
    key: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns in the types of the store."""
        return TableSchema.build(parse_columns(self.columns), list(self.key)).arrow_schema


@dataclass(frozen=True)
class Change:
    """Rows of a table that are inserted or replaced, and rows that are deleted."""

    table: str
    puts: pa.Table
    deletes: pa.Table


@dataclass(frozen=True)
class Workload:
    """Tables, queries by name, and where their rows come from.

    ``generate`` takes a scale. ``changes`` takes the rows of the start and the share of them that
    a step changes, and yields step after step. ``refused``: the queries that cannot be views, each
    with a part of the reason. ``reduced``: numbers in the queries that are too large for few rows,
    and what tests put in their place.
    """

    name: str
    tables: tuple[Table, ...]
    queries: Mapping[str, str]
    generate: Callable[[float], Rows]
    changes: Callable[[Rows, float], Iterator[Sequence[Change]]]
    refused: Mapping[str, str] = field(default_factory=dict)
    reduced: Mapping[str, str] = field(default_factory=dict)

    def kept(self) -> dict[str, str]:
        """Return the queries that can be views."""
        return {name: text for name, text in self.queries.items() if name not in self.refused}

    def kept_over_few_rows(self) -> dict[str, str]:
        """Return the queries that can be views, with numbers that few rows reach."""
        queries = self.kept()
        for large, small in self.reduced.items():
            queries = {name: text.replace(large, small) for name, text in queries.items()}
        return queries


def read_tables(folder: str) -> tuple[Table, ...]:
    """Return the tables that the file ``tables.sql`` of a folder creates."""
    text = (FOLDER / folder / "tables.sql").read_text("utf-8")
    return tuple(
        Table(name, " ".join(columns.split()), tuple(key.split(", ")))
        for name, columns, key in _TABLE.findall(text)
    )


def read_queries(folder: Path) -> dict[str, str]:
    """Return the texts of the files of queries in a folder, in the order of their numbers."""
    files = sorted(folder.glob("q*.sql"), key=lambda file: query_order(file.stem))
    return {file.stem: file.read_text("utf-8").strip().rstrip(";") for file in files}


def query_order(name: str) -> tuple[int, str]:
    """Return what sorts the name of a query: q2 before q10, and q14a before q14b."""
    digits = "".join(character for character in name if character.isdigit())
    return int(digits), name


def create_tables(store: Store, workload: Workload) -> None:
    """Create the tables of a workload, empty."""
    for table in workload.tables:
        store.create_table(table.name, table.columns, primary_key=list(table.key))


def fill_tables(store: Store, rows: Rows) -> None:
    """Write the rows of the start, one epoch per table."""
    for name, table in rows.items():
        store.write(name, table)


def write_changes(store: Store, changes: Sequence[Change]) -> int:
    """Commit changes of several tables as one epoch and return it."""
    started = store.environment.now()
    segments: list[SegmentRecord] = []
    for change in changes:
        writer = store.jobs.write_target(change.table).open(store.environment)
        for rows, kind in ((change.puts, Kind.PUT), (change.deletes, Kind.DELETE)):
            for batch in rows.to_batches():
                writer.write(batch, np.full(len(batch), kind, np.uint8))
        segments += writer.finish()
    proposal = Proposal(operation="write", started=started, segments=tuple(segments))
    return store.jobs.commit(proposal).epoch


class Picks:
    """Positions of rows of a table in a random order, none of them twice."""

    def __init__(self, count: int, seed: int) -> None:
        """``count``: of the rows."""
        self._order = np.random.default_rng(seed).permutation(count)
        self._next = 0

    def take(self, count: int) -> NDArray[np.int64]:
        """Return the next positions; fewer, if all rows have been picked."""
        start, self._next = self._next, min(self._next + count, len(self._order))
        return self._order[start : self._next]


def exchange_columns(
    rows: pa.Table, columns: Sequence[str], donors: pa.Table, random: np.random.Generator
) -> pa.Table:
    """Return rows in which each of some columns has the value of a random donor."""
    for name in columns:
        values = donors[name].take(pa.array(random.integers(donors.num_rows, size=rows.num_rows)))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.field(name), values)
    return rows
