"""Tables that change at random, kept twice: in a store, and as plain rows beside it.

`Moving.step` commits a few random changes: rows new, changed, gone, moved to another key, put back
as they were, come and gone again before anyone looked. What the store holds is thereby known
without asking it. Values are few, so that groups meet, joins find partners and NULL, NaN, -0.0 and
empty strings are everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from relstate.storage import Kind, Store
from support.stores import batch_of, committed, rows_of, upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Made:
    """A table: its columns in DDL, how many of the first are its key, and how a row is made."""

    ddl: str
    key: tuple[str, ...]
    row: Callable[[Random], Row]


_EPOCH = datetime(2024, 2, 28, 22, tzinfo=UTC)
_WORDS = (None, "", "a", "b", "A", "ä", "a ", "é\u0000z")


def _double(random: Random) -> float | None:
    if random.random() < 0.12:
        return random.choice([None, nan, inf, -inf, -0.0, 0.0])
    return random.choice([0.0, 1.5, -2.25, 1e5 / 3, random.uniform(-100, 100)])


def _decimal(random: Random) -> Decimal | None:
    cents = random.choice([None, 0, 150, -225, 99999, random.randrange(-5000, 5000)])
    return None if cents is None else Decimal(cents).scaleb(-2)


def _row_of_t(random: Random) -> Row:
    return (
        random.randrange(24),
        random.choice(_WORDS),
        random.choice([None, 0, 1, 2, 3, -1]),
        random.choice([None, random.randrange(-50, 50), random.randrange(10)]),
        _decimal(random),
        _double(random),
        random.choice([None, date(2024, 2, 28) + timedelta(days=random.randrange(4))]),
        random.choice([None, _EPOCH + timedelta(minutes=random.randrange(0, 400, 20))]),
    )


def _row_of_u(random: Random) -> Row:
    return (
        random.randrange(5),
        random.choice(["", "a", "b", "c"]),
        random.choice(_WORDS),
        random.choice([None, 0, 1, 2, 3]),
        _double(random),
        _decimal(random),
    )


def _row_of_w(random: Random) -> Row:
    return (
        random.choice(["", "a", "b", "A", "ä", "z"]),
        random.choice([None, "one", "two", "ä"]),
        random.choice([None, True, False]),
        random.choice([None, Decimal("1.5"), Decimal("2.5"), Decimal(random.randrange(9))]),
        random.choice([None, date(2024, 2, 28) + timedelta(days=random.randrange(4))]),
    )


TABLES: Mapping[str, Made] = {
    "t": Made(
        "k BIGINT, g STRING, n INT, v BIGINT, m DECIMAL(10,2), x DOUBLE, d DATE, ts TIMESTAMP",
        ("k",),
        _row_of_t,
    ),
    "u": Made(
        "i INT, s STRING, g STRING, n BIGINT, x DOUBLE, m DECIMAL(12,3)", ("i", "s"), _row_of_u
    ),
    "w": Made("g STRING, name STRING, ok BOOLEAN, r DECIMAL(6,1), d DATE", ("g",), _row_of_w),
}


class Moving:
    """The tables `TABLES` of a store. Made empty."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self.rows: dict[str, dict[Row, Row]] = {name: {} for name in TABLES}
        for name, made in TABLES.items():
            self._create(name, made)

    def step(self, most: int = 12) -> None:
        """Commit up to three batches of changes, of up to ``most`` rows each."""
        for _ in range(self._random.randint(1, 3)):
            name = self._random.choice(list(TABLES))
            if self._random.random() < 0.2:
                self._waver(name)
            self._batch(name, self._random.randint(1, most))

    def show(self, spark: SparkSession) -> None:
        """Give a session the rows as temporary views under the tables' names."""
        for name, rows in self.rows.items():
            batch = batch_of(self._store, name, list(rows.values()))
            spark.createDataFrame(pa.Table.from_batches([batch])).createOrReplaceTempView(name)

    def _create(self, name: str, made: Made) -> None:
        self._store.create_table(name, made.ddl, primary_key=list(made.key))

    def _batch(self, name: str, size: int) -> None:
        random, held = self._random, self.rows[name]
        width = len(TABLES[name].key)
        puts: dict[Row, Row] = {}
        gone: dict[Row, Row] = {}
        for _ in range(size):
            new = TABLES[name].row(random)
            chance = random.random()
            if chance < 0.25 and held:  # a row goes
                key = random.choice(list(held))
                gone[key] = held[key]
            elif chance < 0.4 and held:  # a row moves to another key
                key = random.choice(list(held))
                gone[key] = held[key]
                puts[new[:width]] = (*new[:width], *held[key][width:])
            elif chance < 0.5 and held:  # one value of a row changes
                row = list(held[random.choice(list(held))])
                index = random.randrange(width, len(row))
                row[index] = new[index]
                puts[tuple(row[:width])] = tuple(row)
            else:
                puts[new[:width]] = new
        gone = {key: row for key, row in gone.items() if key not in puts}
        self._commit(name, puts, gone)

    def _waver(self, name: str) -> None:
        """Bring rows that go again, and take rows that come back, each in a commit of its own."""
        before = dict(self.rows[name])
        self._batch(name, 4)
        after = self.rows[name]
        gone = {key: row for key, row in after.items() if key not in before}
        back = {key: row for key, row in before.items() if after.get(key) is not row}
        self._commit(name, back, gone)

    def _commit(self, name: str, puts: Mapping[Row, Row], gone: Mapping[Row, Row]) -> None:
        held = self.rows[name]
        for key in gone:
            held.pop(key, None)
        held.update(puts)
        if puts or gone:
            upsert(self._store, name, list(puts.values()), list(gone.values()))


class MovingBags(Moving):
    """The same tables without a primary key: a row is there once, twice or three times.

    All copies of a row change together, so that no order of rows depends on which is taken; they
    come and go one by one.
    """

    def show(self, spark: SparkSession) -> None:
        """Give a session the rows as temporary views under the tables' names."""
        for name, rows in self.rows.items():
            ids = self._row_ids(name)
            copies = [row for key, row in rows.items() for _ in ids[key]]
            batch = _visible_batch(self._store, name, copies)
            spark.createDataFrame(pa.Table.from_batches([batch])).createOrReplaceTempView(name)

    def _create(self, name: str, made: Made) -> None:
        self._store.create_table(name, made.ddl)

    def _commit(self, name: str, puts: Mapping[Row, Row], gone: Mapping[Row, Row]) -> None:
        held, ids = self.rows[name], self._row_ids(name)
        deleted: list[bytes] = []
        for key in gone:
            if key in held:
                keeps_first = len(ids[key]) > 1 and self._random.random() < 0.5
                deleted += ids[key][keeps_first:]
                if not keeps_first:
                    del held[key]
        rows: list[tuple[bytes | None, Row]] = []
        for key, row in puts.items():
            known, count = ids.get(key, []) if key in held else [], self._random.randint(1, 3)
            deleted += known[count:]
            rows += [(row_id, row) for row_id in known[:count]]
            rows += [(None, row)] * (count - len(known))
            held[key] = row
        if rows or deleted:
            self._write(name, rows, deleted)

    def _write(self, name: str, rows: list[tuple[bytes | None, Row]], deleted: list[bytes]) -> None:
        filler = next(iter(self.rows[name].values()), None) or TABLES[name].row(self._random)
        batch = _visible_batch(
            self._store, name, [*(row for _, row in rows), *[filler] * len(deleted)]
        )
        row_ids = pa.array([*(row_id for row_id, _ in rows), *deleted], pa.binary())
        kinds = [Kind.PUT] * len(rows) + [Kind.DELETE] * len(deleted)
        writer = self._store.jobs.write_target(name).open(self._store.environment)
        writer.write(batch.append_column("_row_id", row_ids), np.array(kinds, np.uint8))
        committed(self._store, writer.finish())

    def _row_ids(self, name: str) -> dict[Row, list[bytes]]:
        """Return the ids of the rows of a table, by what is its key in `TABLES`."""
        ids: dict[Row, list[bytes]] = defaultdict(list)
        for *key, row_id in rows_of(self._store.table(name).scan([*TABLES[name].key, "_row_id"])):
            ids[tuple(key)].append(row_id)
        assert ids.keys() == self.rows[name].keys()
        return ids


def _visible_batch(store: Store, name: str, rows: list[Row]) -> pa.RecordBatch:
    columns = store.table(name).schema.visible_columns
    schema = pa.schema([store.table(name).schema.arrow_schema.field(c.name) for c in columns])
    arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
