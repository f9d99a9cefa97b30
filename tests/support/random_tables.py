"""Tables of random columns, and commits to them, as plain data that can be reduced.

Values are few, so that groups and joins meet; NULL, NaN, -0.0 and empty strings are frequent.
Doubles are multiples of 0.25, so that their sums are exact in any order. Columns of one name have
one kind in all tables: ``i`` integers, ``s`` strings, ``m`` decimals, ``x`` doubles, ``d`` dates,
``t`` timestamps, ``z`` timestamps without a time zone, ``c`` times of day, ``y`` intervals,
``b`` booleans, ``o`` bytes, ``a`` arrays of integers, ``r`` structs of an integer and a string,
``p`` maps of strings to integers, ``j`` variants, ``w`` strings in which the case does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from relstate.storage import Kind, Store, types
from relstate.storage.codec.variant_value import variant_of
from relstate.storage.schema.properties import Merge
from support.stores import committed

Row = tuple[Any, ...]
# A row by its key; by a number where the table has no key.
Rows = dict[Any, Row]

_KINDS = {
    "k": "i", "n": "i", "v": "i", "g": "s", "h": "s", "m": "m",
    "x": "x", "d": "d", "ts": "t", "ok": "b", "list": "a", "ntz": "z",
    "clock": "c", "span": "y", "raw": "o", "rec": "r", "tags": "p", "doc": "j",
    "mark": "w",
}  # fmt: skip
_INDEXED = frozenset({"n", "g", "h", "v", "m", "d", "ts", "ntz", "clock", "span", "raw", "rec"})
_VERSIONS = frozenset({"n", "v", "m", "d", "ts", "ntz", "span"})
_MERGES: Sequence[Merge] = ("overwrite", "overwrite", "ignore", "partial")
_TYPES: Mapping[str, Sequence[str]] = {
    "i": ("INT", "BIGINT", "INT", "BIGINT", "SMALLINT", "TINYINT"),
    "s": ("STRING",),
    "m": ("DECIMAL(10,2)", "DECIMAL(6,1)", "DECIMAL(12,3)", "DECIMAL(38,6)"),
    "x": ("DOUBLE", "DOUBLE", "FLOAT"),
    "d": ("DATE",),
    "t": ("TIMESTAMP",),
    "b": ("BOOLEAN",),
    "a": ("ARRAY<INT>", "ARRAY<BIGINT>"),
    "z": ("TIMESTAMP_NTZ",),
    "c": ("TIME",),
    "y": ("INTERVAL DAY TO SECOND",),
    "o": ("BINARY",),
    "r": ("STRUCT<u: INT, w: STRING>",),
    "p": ("MAP<STRING, INT>",),
    "j": ("VARIANT",),
    "w": ("STRING COLLATE UTF8_LCASE",),
}
_DAY = date(2024, 2, 28)
_DOCUMENTS: Sequence[Any] = (
    {"n": 1, "g": "a", "list": [1, None, 2]}, {"n": 2, "g": "b", "list": []},
    {"n": None, "g": "a"}, {"g": "", "n": 1, "sub": {"n": 3}}, {}, [1, 2], [], None,
)  # fmt: skip
FIRST_TIME = datetime(2024, 2, 28, 22, tzinfo=UTC)
"""The first of the times in rows, which are 40 minutes apart."""


def _minutes(random: Random, turn: int) -> int:
    """Return minutes after the first time, sometimes near those after which clocks are turned."""
    if random.random() < 0.85:
        return random.randrange(0, 400, 40)
    return turn + random.randrange(0, 160, 20)


VALUES: Mapping[str, Callable[[Random], Any]] = {
    "i": lambda random: random.choice([0, 1, 1, 2, 2, 3, -1, random.randrange(-20, 20)]),
    "s": lambda random: random.choice(["", "a", "a", "b", "b", "A", "ä", "a ", "c"]),
    "m": lambda random: Decimal(random.choice([0, 15, -25, 100, random.randrange(-90, 90)])) / 10,
    "x": lambda random: random.choice(
        [0.0, 1.5, 1.5, -2.25, 3.0, -0.0, nan, inf, -inf, random.randrange(-40, 40) / 4]
    ),
    "d": lambda random: _DAY + timedelta(days=random.randrange(4)),
    "t": lambda random: FIRST_TIME + timedelta(minutes=_minutes(random, 1160)),
    "b": lambda random: random.random() < 0.5,
    "a": lambda random: [
        random.choice([None, 0, 1, 2, 2]) for _ in range(random.choice([0, 1, 1, 2, 3]))
    ],
    "z": lambda random: datetime(2024, 2, 28, 22) + timedelta(minutes=_minutes(random, 1460)),
    "c": lambda random: time(random.choice([0, 9, 9, 23]), random.choice([0, 59])),
    "y": lambda random: timedelta(minutes=random.choice([-40, 0, 40, 40, 80, 1500])),
    "o": lambda random: random.choice([b"", b"\x00", b"a", b"a", b"a\x00", b"\xff", b"b"]),
    "r": lambda random: {
        "u": random.choice([None, 1, 1, 2]),
        "w": random.choice([None, "", "a", "b"]),
    },
    "p": lambda random: [
        (key, random.choice([None, 1, 1, 2]))
        for key in random.sample("abc", random.choice([0, 1, 2, 2]))
    ],
    "j": lambda random: variant_of(random.choice(_DOCUMENTS)),
    "w": lambda random: random.choice(["", "a", "A", "b", "B", "ä", "Ä", "a "]),
}
"""Makes a value, by its kind."""


@dataclass(frozen=True)
class TableSpec:
    """A table: each column with its SQL type; ``key`` is empty for a table without one.

    A key column that is not among ``not_null`` may be NULL. ``ttl``: after how many seconds rows
    expire, None for never. ``index``: the columns of a secondary index; none without one.
    ``version``: the version columns. ``merge``: how a row is put over another one of its key.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    is_append_only: bool = False
    ttl: int | None = None
    index: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    merge: Merge = "overwrite"

    @property
    def is_merged(self) -> bool:
        """Whether a row that is put may not become the row of its key."""
        return bool(self.version) or self.merge != "overwrite"

    @property
    def ddl(self) -> str:
        """The columns in SQL."""
        return ", ".join(
            f"{types.quoted(name)} {sql_type}" + (" NOT NULL" if name in self.not_null else "")
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
        """Create the table, and its index."""
        store.create_table(
            self.name,
            self.ddl,
            primary_key=self.key or None,
            append_only=self.is_append_only,
            ttl=self.ttl,
            nullable_key=not set(self.key) <= set(self.not_null),
            version_column=self.version or None,
            merge=self.merge,
        )
        if self.index:
            store.create_index(self.name, f"{self.name}_index", self.index)

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

    Each row comes with its key, or its number in a table without a key. ``ttl``: after how many
    seconds the rows expire, None for the table's own. ``truncates``: an epoch before it removes all
    rows of the table.
    """

    table: str
    puts: tuple[tuple[Any, Row], ...]
    deletes: tuple[tuple[Any, Row], ...] = ()
    ttl: int | None = None
    truncates: bool = False

    @property
    def size(self) -> int:
        """The number of rows, and one for a truncation."""
        return len(self.puts) + len(self.deletes) + self.truncates

    def part(self, first: int, last: int) -> Commit:
        """Return the commit without the rows from ``first`` to before ``last``."""
        count = len(self.puts)
        rows = [*self.puts, *self.deletes]
        is_left = [not first <= number < last for number in range(len(rows))]
        puts = (row for row, left in zip(rows[:count], is_left[:count], strict=True) if left)
        deletes = (row for row, left in zip(rows[count:], is_left[count:], strict=True) if left)
        return replace(self, puts=tuple(puts), deletes=tuple(deletes))

    def apply(self, rows: Rows) -> None:
        """Apply the commit to the rows of its table, none of which has expired."""
        if self.truncates:
            rows.clear()
        for key, _ in self.deletes:
            rows.pop(key, None)
        rows.update(self.puts)

    def write(self, store: Store, table: TableSpec) -> None:
        """Commit it to a store."""
        if self.truncates:
            store.truncate(self.table)
        rows = [*self.puts, *self.deletes]
        if not rows:
            return
        batch = table.arrow(store, [row for _, row in rows])
        if not table.key:
            ids = [_row_id(number) for number, _ in rows]
            batch = batch.append_column("_row_id", pa.array(ids, pa.binary()))
        kinds = [Kind.PUT] * len(self.puts) + [Kind.DELETE] * len(self.deletes)
        ttls = None if self.ttl is None else pa.array([self.ttl] * len(rows), pa.int64())
        writer = store.jobs.write_target(self.table).open(store.environment)
        writer.write(batch, np.array(kinds, np.uint8), ttls)
        committed(store, writer.finish())


class LiveRows:
    """The rows of a table, of which some expire."""

    def __init__(self, table: TableSpec) -> None:
        self._table = table
        self._rows: Rows = {}
        self._expiries: dict[Any, int] = {}

    def take(self, commit: Commit, now: int) -> None:
        """Apply a commit that is made at a time, in microseconds since 1970."""
        commit.apply(self._rows)
        ttl = self._table.ttl if commit.ttl is None else commit.ttl
        for key, _ in commit.puts:
            self._expiries.pop(key, None)
            if ttl is not None:
                self._expiries[key] = now + ttl * 1_000_000

    def at(self, now: int) -> list[Row]:
        """Return the rows that have not expired at a time."""
        expiries = self._expiries
        return [row for key, row in self._rows.items() if expiries.get(key, now + 1) > now]


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
    may_be_null = set(random.sample(key, 1) if key and random.random() < 0.2 else ())
    not_null = tuple(
        column
        for column in names
        if (column in key and column not in may_be_null) or random.random() < 0.15
    )
    is_append_only = random.random() < 0.12
    ttl = random.choice([20, 2400, 7200, 100_000]) if random.random() < 0.15 else None
    indexed = [column for column in names if column in _INDEXED]
    index = random.sample(indexed, random.randint(1, 2)) if random.random() < 0.25 else []
    versions: list[str] = []
    if key and not is_append_only and ttl is None and random.random() < 0.25:
        candidates = [column for column in names if column in _VERSIONS and column not in key]
        versions = random.sample(candidates, min(len(candidates), random.randint(1, 2)))
    merge: Merge = "overwrite"
    if key and not is_append_only and ttl is None and random.random() < 0.3:
        merge = random.choice(["overwrite", "partial"] if versions else _MERGES)
    return TableSpec(
        name, columns, key, not_null, is_append_only, ttl, tuple(index), tuple(versions), merge
    )
