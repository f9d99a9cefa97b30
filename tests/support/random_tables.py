"""Tables of random columns, and random changes of their rows, as plain data that can be reduced.

Values are few, so that groups and joins meet; NULL, NaN, -0.0 and empty strings are frequent.
Doubles are multiples of 0.25, so that their sums are exact in any order. Columns of one name have
one kind in all tables: ``i`` integers, ``s`` strings, ``m`` decimals, ``x`` doubles, ``d`` dates,
``t`` timestamps, ``b`` booleans, ``a`` arrays of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from relstate.storage import Kind, Store
from support.stores import committed, upsert

Row = tuple[Any, ...]
# A row by its key; by a number where the table has no key.
Rows = dict[Any, Row]

_KINDS = {
    "k": "i", "n": "i", "v": "i", "g": "s", "h": "s", "m": "m",
    "x": "x", "d": "d", "ts": "t", "ok": "b", "list": "a",
}  # fmt: skip
_TYPES: Mapping[str, Sequence[str]] = {
    "i": ("INT", "BIGINT", "INT", "BIGINT", "SMALLINT"),
    "s": ("STRING",),
    "m": ("DECIMAL(10,2)", "DECIMAL(6,1)", "DECIMAL(12,3)"),
    "x": ("DOUBLE",),
    "d": ("DATE",),
    "t": ("TIMESTAMP",),
    "b": ("BOOLEAN",),
    "a": ("ARRAY<INT>", "ARRAY<BIGINT>"),
}
_DAY = date(2024, 2, 28)
_HOUR = datetime(2024, 2, 28, 22, tzinfo=UTC)
_VALUES: Mapping[str, Callable[[Random], Any]] = {
    "i": lambda random: random.choice([0, 1, 1, 2, 2, 3, -1, random.randrange(-20, 20)]),
    "s": lambda random: random.choice(["", "a", "a", "b", "b", "A", "ä", "a ", "c"]),
    "m": lambda random: Decimal(random.choice([0, 15, -25, 100, random.randrange(-90, 90)])) / 10,
    "x": lambda random: random.choice(
        [0.0, 1.5, 1.5, -2.25, 3.0, -0.0, nan, inf, -inf, random.randrange(-40, 40) / 4]
    ),
    "d": lambda random: _DAY + timedelta(days=random.randrange(4)),
    "t": lambda random: _HOUR + timedelta(minutes=random.randrange(0, 400, 40)),
    "b": lambda random: random.random() < 0.5,
    "a": lambda random: [
        random.choice([None, 0, 1, 2, 2]) for _ in range(random.choice([0, 1, 1, 2, 3]))
    ],
}


@dataclass(frozen=True)
class TableSpec:
    """A table: each column with its SQL type; ``key`` is empty for a table without one."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    is_append_only: bool = False

    @property
    def ddl(self) -> str:
        """The columns in SQL."""
        return ", ".join(
            f"{name} {sql_type}" + (" NOT NULL" if name in self.not_null else "")
            for name, sql_type in self.columns
        )

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """The name and the kind of each column."""
        return [(name, _KINDS[name]) for name, _ in self.columns]

    def key_of(self, row: Row) -> Row:
        """Return the key of a row of a table that has one."""
        names = [name for name, _ in self.columns]
        return tuple(row[names.index(name)] for name in self.key)

    def create(self, store: Store) -> None:
        """Create the table."""
        store.create_table(
            self.name, self.ddl, primary_key=self.key or None, append_only=self.is_append_only
        )

    def arrow(self, store: Store, rows: Sequence[Row]) -> pa.RecordBatch:
        """Return rows in the types of the table's visible columns."""
        schema = store.table(self.name).schema
        fields = [schema.arrow_schema.field(column.name) for column in schema.visible_columns]
        arrays = [
            pa.array([row[index] for row in rows], field.type) for index, field in enumerate(fields)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclass(frozen=True)
class Commit:
    """One commit to one table: rows that are inserted or replaced, and rows that are deleted.

    Each row comes with its key, or its number in a table without a key.
    """

    table: str
    puts: tuple[tuple[Any, Row], ...]
    deletes: tuple[tuple[Any, Row], ...] = ()

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.puts) + len(self.deletes)

    def part(self, first: int, last: int) -> Commit:
        """Return the commit without the rows from ``first`` to before ``last``."""
        count = len(self.puts)
        rows = [*self.puts, *self.deletes]
        is_left = [not first <= number < last for number in range(len(rows))]
        puts = (row for row, left in zip(rows[:count], is_left[:count], strict=True) if left)
        deletes = (row for row, left in zip(rows[count:], is_left[count:], strict=True) if left)
        return Commit(self.table, tuple(puts), tuple(deletes))

    def apply(self, rows: Rows) -> None:
        """Apply the commit to the rows of its table."""
        for key, _ in self.deletes:
            rows.pop(key, None)
        rows.update(self.puts)

    def write(self, store: Store, table: TableSpec) -> None:
        """Commit it to a store."""
        puts, deletes = [row for _, row in self.puts], [row for _, row in self.deletes]
        if table.key:
            upsert(store, self.table, puts, deletes)
            return
        ids = [_row_id(number) for number, _ in (*self.puts, *self.deletes)]
        batch = table.arrow(store, [*puts, *deletes])
        batch = batch.append_column("_row_id", pa.array(ids, pa.binary()))
        kinds = [Kind.PUT] * len(puts) + [Kind.DELETE] * len(deletes)
        writer = store.jobs.write_target(self.table).open(store.environment)
        writer.write(batch, np.array(kinds, np.uint8))
        committed(store, writer.finish())


def _row_id(number: int) -> bytes:
    return b"\x01" * 13 + bytes(
        [1 + number // 255 // 255, 1 + number // 255 % 255, 1 + number % 255]
    )


def random_tables(random: Random, count: int) -> tuple[TableSpec, ...]:
    """Return tables t0, t1 and so on."""
    return tuple(_random_table(random, f"t{number}") for number in range(count))


def _random_table(random: Random, name: str) -> TableSpec:
    names = ["n", "g", *random.sample([n for n in _KINDS if n not in "kng"], random.randint(2, 4))]
    key: tuple[str, ...] = ()
    chance = random.random()
    if chance < 0.55:
        key = ("k",)
        names = ["k", *names]
    elif chance < 0.75:
        key = ("n", "g") if random.random() < 0.5 else ("g", "n")
        names = [*key, *names[2:]]
    columns = tuple((column, random.choice(_TYPES[_KINDS[column]])) for column in names)
    not_null = tuple(column for column in names if column in key or random.random() < 0.15)
    return TableSpec(name, columns, key, not_null, random.random() < 0.12)


class ChangeMaker:
    """Makes random commits to tables whose rows it knows."""

    def __init__(self, random: Random, tables: Sequence[TableSpec]) -> None:
        self._random = random
        self._tables = {table.name: table for table in tables}
        self.rows: dict[str, Rows] = {table.name: {} for table in tables}
        self._number = 0

    def step(self, most: int = 10) -> tuple[Commit, ...]:
        """Return the commits of one step, one to four."""
        commits: list[Commit] = []
        for _ in range(self._random.randint(1, 4)):
            table = self._random.choice(list(self._tables.values()))
            commit = self._commit(table, most)
            if commit.size:
                commits.append(commit)
                commit.apply(self.rows[table.name])
                if self._random.random() < 0.1 and not table.is_append_only:
                    undo = self._undo(table, commit)
                    undo.apply(self.rows[table.name])
                    commits.append(undo)
        return tuple(commits)

    def _undo(self, table: TableSpec, commit: Commit) -> Commit:
        """Return a commit that takes new rows out, and brings back those that were deleted."""
        gone = {key for key, _ in commit.deletes}
        puts = [(self._key(table, row), row) for _, row in commit.deletes]
        return Commit(
            table.name, tuple(puts), tuple(put for put in commit.puts if put[0] not in gone)
        )

    def _commit(self, table: TableSpec, most: int) -> Commit:
        random, rows = self._random, self.rows[table.name]
        chance = random.random()
        if table.is_append_only:
            new = self._new_rows(table, random.randint(1, most))
            return Commit(table.name, tuple((k, row) for k, row in new.items() if k not in rows))
        if chance < 0.06:
            return Commit(table.name, (), tuple(rows.items()))
        if chance < 0.22 and rows:
            return Commit(table.name, (), tuple(self._group(table, rows)))
        if chance < 0.3 and rows:  # all rows of a group get another value
            index = random.randrange(len(table.columns))
            value = self._value(table, index)
            changed = [(key, _with(row, index, value)) for key, row in self._group(table, rows)]
            return self._replaced(table, changed)
        puts: dict[Any, Row] = {}
        deletes: dict[Any, Row] = {}
        for _ in range(random.randint(1, most)):
            self._change(table, rows, puts, deletes)
        deletes = {key: row for key, row in deletes.items() if key not in puts}
        return Commit(table.name, tuple(puts.items()), tuple(deletes.items()))

    def _change(
        self, table: TableSpec, rows: Rows, puts: dict[Any, Row], deletes: dict[Any, Row]
    ) -> None:
        random, chance = self._random, self._random.random()
        if not rows or chance < 0.5:
            new = self._new_rows(table, 1)
            if not table.key and rows and random.random() < 0.4:  # another copy of a row
                new = {key: random.choice(list(rows.values())) for key in new}
            puts.update(new)
            return
        key, row = random.choice(list(rows.items()))
        if chance < 0.7:
            deletes[key] = row
            return
        index = random.randrange(len(row))
        changed = _with(row, index, self._value(table, index))
        if table.key and table.key_of(changed) != key:
            deletes[key] = row
        puts[self._key(table, changed) if table.key else key] = changed

    def _replaced(self, table: TableSpec, changed: Sequence[tuple[Any, Row]]) -> Commit:
        if not table.key:
            return Commit(table.name, tuple(changed))
        puts = {table.key_of(row): row for _, row in changed}
        rows = self.rows[table.name]
        deletes = tuple((key, rows[key]) for key, _ in changed if key not in puts)
        return Commit(table.name, tuple(puts.items()), deletes)

    def _group(self, table: TableSpec, rows: Rows) -> list[tuple[Any, Row]]:
        """Return all rows that have the same value in a column as one of them."""
        index = self._random.randrange(len(table.columns))
        value = self._random.choice(list(rows.values()))[index]
        return [(key, row) for key, row in rows.items() if row[index] == value]

    def _new_rows(self, table: TableSpec, count: int) -> Rows:
        rows = [
            tuple(self._value(table, index) for index in range(len(table.columns)))
            for _ in range(count)
        ]
        return {self._key(table, row): row for row in rows}

    def _key(self, table: TableSpec, row: Row) -> Any:
        if table.key:
            return table.key_of(row)
        self._number += 1
        return self._number

    def _value(self, table: TableSpec, index: int) -> Any:
        name, kind = table.kinds[index]
        if name not in table.not_null and self._random.random() < 0.18:
            return None
        if name == "k":
            return self._random.randrange(16)
        return _VALUES[kind](self._random)


def _with(row: Row, index: int, value: Any) -> Row:
    return (*row[:index], value, *row[index + 1 :])
