"""Random changes of the rows of tables: new, changed, gone, moved to other keys, put back."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from support.random_tables import VALUES, Commit, Row, Rows, TableSpec


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

    def _ttl(self, table: TableSpec) -> int | None:
        """Return the TTL of rows of their own, which only a table with one has."""
        if table.ttl is None or self._random.random() < 0.6:
            return None
        return self._random.choice([5, 2400, 9600, 10**9])

    def _commit(self, table: TableSpec, most: int) -> Commit:
        random, rows = self._random, self.rows[table.name]
        chance = random.random()
        if table.is_append_only:
            new = self._new_rows(table, random.randint(1, most))
            puts = tuple((key, row) for key, row in new.items() if key not in rows)
            return Commit(table.name, puts, ttl=self._ttl(table))
        if chance < 0.03:
            return Commit(table.name, (), truncates=True)
        if chance < 0.06:
            return Commit(table.name, (), tuple(rows.items()))
        if chance < 0.22 and rows:
            return Commit(table.name, (), tuple(self._group(table, rows)))
        if chance < 0.3 and rows:  # all rows of a group get another value
            index = random.randrange(len(table.columns))
            value = self._value(table, index)
            moved = [(key, _with(row, index, value)) for key, row in self._group(table, rows)]
            return self._replaced(table, moved)
        changed: dict[Any, Row] = {}
        deletes: dict[Any, Row] = {}
        for _ in range(random.randint(1, most)):
            self._change(table, rows, changed, deletes)
        deletes = {key: row for key, row in deletes.items() if key not in changed}
        puts, ttl = tuple(changed.items()), self._ttl(table)
        return Commit(table.name, puts, tuple(deletes.items()), ttl)

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
        return VALUES[kind](self._random)


def _with(row: Row, index: int, value: Any) -> Row:
    return (*row[:index], value, *row[index + 1 :])
