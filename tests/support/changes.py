"""Tables as dicts of rows, the net changes between two of them, and mirrors of chunks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from relstate.connector.views.executor.changes import insert_mask
from relstate.connector.views.plan.stateless import Scan, ScanColumn
from relstate.storage import OP_COLUMN, Op, arrow, types

Row = dict[str, Any]
Rows = Mapping[Any, Row]
Change = tuple[Op, Row]


def scan(fields: Sequence[types.Field], key: Sequence[str], *, grows_only: bool = False) -> Scan:
    """Return the scan of a table whose columns are fields of the same names."""
    columns = tuple(ScanColumn(field.name, field) for field in fields)
    return Scan(1, "t", columns, tuple(key), grows_only)


def net_changes(old: Rows, new: Rows) -> list[Change]:
    """Return the changes from one content of a table to another; -0.0 is not 0.0 in a row."""
    stays = {key for key in old.keys() & new.keys() if shown(old[key]) == shown(new[key])}
    deletes = [(Op.DELETE, row) for key, row in old.items() if key not in stays]
    inserts = [(Op.INSERT, row) for key, row in new.items() if key not in stays]
    return [*deletes, *inserts]


def chunk_of(fields: Sequence[types.Field], changes: Sequence[Change]) -> pa.RecordBatch:
    """Return changes as a chunk."""
    ops = pa.field(OP_COLUMN, pa.int8(), nullable=False)
    schema = pa.schema([ops, *arrow.arrow_schema(fields)])
    rows = [{OP_COLUMN: int(op), **row} for op, row in changes]
    return pa.RecordBatch.from_pylist(rows, schema)


class Mirror:
    """What somebody holds who applies every chunk; each must be net, and fit what is there."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = key
        self.rows: dict[Any, Row] = {}

    def apply(self, chunk: pa.RecordBatch) -> None:
        """Apply a chunk: its deletes, then its inserts."""
        rows = chunk.drop_columns([OP_COLUMN]).to_pylist()
        ops = insert_mask(chunk)
        for row in (row for row, inserted in zip(rows, ops, strict=True) if not inserted):
            assert shown(self.rows.pop(self._key_of(row))) == shown(row)
        for row in (row for row, inserted in zip(rows, ops, strict=True) if inserted):
            assert self._key_of(row) not in self.rows, row
            self.rows[self._key_of(row)] = row

    def content(self) -> list[str]:
        """Return the rows in some order, as text, so that NaN equals itself."""
        return sorted(shown(row) for row in self.rows.values())

    def _key_of(self, row: Row) -> str:
        return shown({name: row[name] for name in self._key})


def shown(row: Row) -> str:
    """Return a row as text."""
    return repr(sorted(row.items()))


def shuffled(chance: random.Random, changes: Sequence[Change]) -> list[Change]:
    """Return the changes in another order."""
    return chance.sample(list(changes), len(changes))


def next_content(chance: random.Random, rows: Rows, keys: Sequence[Any], row_of: Any) -> Rows:
    """Return a table's next content: some rows go, some change, some come."""
    new = dict(rows)
    for key in chance.sample(list(keys), chance.randint(0, len(keys))):
        if key in new and chance.random() < 0.5:
            del new[key]
        else:
            new[key] = row_of(chance, key)
    return new


def epochs(
    chance: random.Random, count: int, keys: Sequence[Any], row_of: Any
) -> Iterator[tuple[Rows, list[Change]]]:
    """Yield a table's content after each of some epochs, and in any order what made it so."""
    rows: Rows = {}
    for _ in range(count):
        old, rows = rows, next_content(chance, rows, keys, row_of)
        yield rows, shuffled(chance, net_changes(old, rows))
