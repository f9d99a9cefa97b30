"""Rows of a table, fetched for showing: one by its key, many, or those that changed.

Promises: a read is of one epoch; no more than the rows asked for are read, but for what is left of
a batch.
Does not know: how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from relstate.storage import Store, Table, arrow, types

from .key import parse_key


@dataclass(frozen=True, slots=True)
class Rows:
    """Batches of rows, read as they are asked for, and the names and types of their columns."""

    names: tuple[str, ...]
    types: tuple[types.DataType, ...]
    batches: Iterator[pa.RecordBatch]


def find_row(store: Store, name: str, words: Sequence[str], epoch: int | None) -> Rows:
    """Return the row whose key the words are, or no row.

    TableNotFoundError, EpochNotFoundError, EpochExpiredError; the errors of `parse_key`, and
    ValueRangeError for a value that does not fit the key's column.
    """
    table = _table(store, name, epoch)
    key = parse_key(words, [column.field for column in table.schema.key_columns])
    return _rows(table, None, iter([table.get_rows([key])]))


def scan_rows(
    store: Store,
    name: str,
    *,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    epoch: int | None,
) -> Rows:
    """Return the first rows of a table that an expression wants, in the order of the primary key.

    Without a limit, or an expression, all of them. TableNotFoundError, EpochNotFoundError,
    EpochExpiredError; UnsupportedExpressionError and SchemaMismatchError for the expression,
    SchemaError for an unknown column.
    """
    table = _table(store, name, epoch)
    found = _rows(table, columns, table.scan(columns, where=where, ordered=True))
    return found if limit is None else Rows(found.names, found.types, first(found.batches, limit))


def changed_rows(store: Store, name: str, first_epoch: int, last_epoch: int | None) -> Rows:
    """Return what the commits of some epochs, both ends included, changed in a table's rows.

    Without ``last_epoch`` to the latest. The columns are those of `Store.changes`, and so are the
    errors.
    """
    plan = store.feed_plan(name, first_epoch, last_epoch)
    own = {column.name: column.type for column in plan.definition.schema.columns}
    fields = arrow.fields_of(plan.arrow_schema())
    return Rows(
        tuple(field.name for field in fields),
        # Arrow does not know all that a column's type says.
        tuple(own.get(field.name, field.type) for field in fields),
        plan.read(environment=store.environment),
    )


def first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of some batches, ``limit`` at most."""
    left = limit
    if not left:
        return
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _table(store: Store, name: str, epoch: int | None) -> Table:
    return store.at(store.epoch if epoch is None else epoch).table(name)


def _rows(table: Table, names: Sequence[str] | None, batches: Iterator[pa.RecordBatch]) -> Rows:
    schema = table.schema
    columns = schema.visible_columns if names is None else [schema.column(name) for name in names]
    return Rows(
        tuple(column.name for column in columns), tuple(column.type for column in columns), batches
    )
