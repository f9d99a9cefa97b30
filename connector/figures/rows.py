"""Rows of a table for people: a row by its key, the first rows, and what changed in them.

Promises: a read is of one epoch; at most the rest of a batch is read beyond the limit.
Does not know: how rows are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from relstate.connector.key_words import parse_key
from relstate.storage import Predicate, Store, Table, TableSchema, arrow, no_key_error, types


@dataclass(frozen=True, slots=True)
class Rows:
    """Batches of rows, read lazily, and the names and types of their columns."""

    names: tuple[str, ...]
    types: tuple[types.DataType, ...]
    batches: Iterator[pa.RecordBatch]

    def limited(self, limit: int | None) -> Rows:
        """Return the first rows, ``limit`` at most; None for all."""
        if limit is None:
            return self
        return Rows(self.names, self.types, first(self.batches, limit))


def find_row(store: Store, name: str, words: Sequence[str], epoch: int | None) -> Rows:
    """Return the row with the key that the words are, or no row.

    TableNotFoundError, EpochNotFoundError, EpochExpiredError; the errors of `parse_key`,
    ValueRangeError for a value that does not fit the key's column, UsageError for a table without
    a primary key.
    """
    table = _table(store, name, epoch)
    if table.schema.row_id is not None:
        raise no_key_error(name, "no row can be looked up by key: use the command scan")
    key = parse_key(words, [column.field for column in table.schema.key_columns])
    return _rows(table, None, iter([table.get_rows([key])]))


def scan_rows(
    store: Store,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    epoch: int | None = None,
    ordered: bool = True,
) -> Rows:
    """Return the first rows for which an expression is true, in the order of the primary key.

    Without a limit, or an expression, all of them. Not ``ordered``: in no order, which costs no
    more than the rows that are returned. TableNotFoundError, EpochNotFoundError,
    EpochExpiredError; UnsupportedExpressionError and SchemaMismatchError for the expression,
    SchemaError for an unknown column.
    """
    table = _table(store, name, epoch)
    return _rows(table, columns, table.scan(columns, where=where, ordered=ordered)).limited(limit)


def changed_rows(
    store: Store,
    name: str,
    first_epoch: int,
    last_epoch: int | None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
) -> Rows:
    """Return what the commits of some epochs, both ends included, changed in a table's rows.

    Without ``last_epoch`` to the latest. The columns are those of `Store.changes`, and so are the
    errors. ``where``: an expression over all of these columns; errors as of `scan_rows`.
    """
    plan = store.jobs.feed_plan(name, first_epoch, last_epoch)
    own = {column.name: column.type for column in plan.definition.schema.columns}
    fields = tuple(
        # Arrow does not know all that a column's type says.
        types.Field(field.name, own.get(field.name, field.type), field.nullable)
        for field in arrow.fields_of(plan.arrow_schema())
    )
    batches = plan.read(environment=store.environment)
    # Only its columns matter: a feed has no key.
    schema = TableSchema.build(fields, [fields[-1].name])
    if where is not None:
        condition = Predicate.parse(where, schema)
        batches = (batch.filter(condition.mask(batch)) for batch in batches)
    if columns is not None:
        chosen = [schema.column(column).field for column in columns]
        names = [field.name for field in chosen]
        batches = (batch.select(names) for batch in batches)
        fields = tuple(chosen)
    rows = Rows(
        tuple(field.name for field in fields), tuple(field.type for field in fields), batches
    )
    return rows.limited(limit)


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
