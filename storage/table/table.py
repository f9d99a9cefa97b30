"""A table of a store, as its users read and write it without Spark.

Promises: every read is of one epoch; a table of a store follows the latest one and looks for a
newer one at each call, a table of a snapshot stays at its epoch. Every write is one epoch.
Does not know: how epochs are found; it asks for a reader each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..notebook import html_table
from ..predicate.predicate import Predicate
from ..schema.arrow import arrow_schema
from ..schema.schema import TableSchema
from .record import Row
from .rowid import no_key_error
from .storagetable import StorageTable

_T = TypeVar("_T")


class Reader(Protocol):
    """What returns a table at the epoch to be read now."""

    def __call__(self) -> StorageTable:
        """Return the table."""

    def begin(self, read: Callable[[StorageTable, bool], _T]) -> _T:
        """Return what a read of the table returns.

        ``read``: may be called twice, first with an older table; it takes whether to do at once
        what it would do later, while a look for a newer one is under way.
        """


class Table:
    """One table. Safe between threads."""

    def __init__(self, name: str, reader: Reader) -> None:
        """``reader`` returns the table at the epoch to be read now."""
        self.name = name
        self._reader = reader

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def _repr_html_(self) -> str:
        """Return the columns as notebooks show them."""
        schema = self.schema
        keys = {key.column_id: key.order for key in schema.primary_key}
        rows = [
            (
                column.name,
                column.type,
                "" if column.nullable else "NOT NULL",
                keys.get(column.id, ""),
            )
            for column in schema.visible_columns
        ]
        return html_table(self.name, ("column", "type", "", "primary key"), rows)

    @property
    def schema(self) -> TableSchema:
        """The table's columns and keys."""
        return self._reader().encoding.schema

    def get(self, *key: Any, columns: Sequence[str] | None = None) -> Row | None:
        """Return the row with this primary key, its values in the key's order; None if none.

        ``get(1, "a")`` and ``get((1, "a"))`` are the same. ``columns``: of the row, by default all;
        only these are decoded. SchemaMismatchError for a key of another length or with values of
        other types, or for an unknown column, ValueRangeError for a value that does not
        fit its type, NullKeyError for None where the column is NOT NULL, UsageError for a table
        without a primary key.
        """
        reader = self._reader()
        if len(key) != reader.key_length:
            key = self._whole_key(reader, key)
        return reader.point_get(key) if columns is None else reader.get_columns(key, columns)

    def ttl(self, key: Any, path: str | Sequence[Any] = ()) -> float | None:
        """Return after how many seconds a row, or what is at a path in it, is gone.

        None if it does not expire, or is not there. Of a struct, a map or an array that is after
        the last of its parts, of a row after the last of its columns. ``key``: as `get` takes it,
        several values in a tuple. ``path``: a column's name, or a tuple of it and the steps below:
        names of fields, keys of maps, elements of sets. The errors of `get`; SchemaMismatchError
        for a path that the column's type does not have, OptionError for one in a table of rows.
        """
        reader = self._keyed_reader()
        is_whole = len(reader.encoding.key_names) > 1 and isinstance(key, list | tuple)
        if not isinstance(path, Sequence):
            raise SchemaMismatchError(
                f"a path is a column's name, or a tuple of it and the steps below, not {path!r}"
            )
        steps = (path,) if isinstance(path, str) else path
        return reader.seconds_left(key if is_whole else (key,), steps)

    def get_by(self, index: str, *values: Any, columns: Sequence[str] | None = None) -> list[Row]:
        """Return the rows with these values in the columns of an index, in the order of the index.

        ``values``: of all its columns, or of the first ones; None finds NULL. Of a unique index and
        all its values there is at most one row, unless one is None. ``columns``: of the rows, by
        default all; if the index holds them, it alone is read. IndexNotFoundError,
        SchemaMismatchError for too many values, none, or one of another type, or for an unknown
        column, ValueRangeError for a value that does not fit its type.
        """
        return self._reader().get_by(index, values, columns)

    def get_rows(
        self, keys: pa.RecordBatch | Sequence[Any], columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Return the rows with these primary keys, in their order; keys without a row are left out.

        ``keys``: a batch with the key's columns, which is quicker, or the keys as tuples; of a key
        of one column also its values. The errors of `get`, and SchemaMismatchError for an unknown
        column.
        """
        reader = self._keyed_reader()
        if isinstance(keys, pa.RecordBatch):
            return reader.get_rows(keys, columns)[1]
        names, encode = reader.encoding.key_names, reader.encoding.encode_key
        full_keys = [encode(_key_tuple(key, names)) for key in keys]
        return reader.find(pa.array(full_keys, pa.large_binary()), columns)[1]

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        time_zone: str = "UTC",
        ordered: bool = False,
    ) -> pa.RecordBatchReader:
        """Return rows as a reader of batches of at most 65,536 rows; ``ordered`` by primary key.

        The reader can be iterated, and is what polars, DuckDB and others take as Arrow data. It is
        of the epoch now, and reads as it is asked for batches.
        ``where``: a SQL expression in Spark's dialect over the columns, all rows by default; what
        it says about the key is looked up, not scanned for. ``time_zone``: where timestamps in it
        are local times. UnsupportedExpressionError for an expression that cannot be evaluated
        exactly, SchemaMismatchError for an unknown column.
        """

        def begin(
            reader: StorageTable, at_once: bool
        ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
            predicate = _predicate(reader, where, time_zone)
            scan = reader.scan_in_order if ordered else reader.scan
            schema = arrow_schema(column.field for column in reader.columns(columns))
            batches = iter(scan(columns, where=predicate))
            return schema, chain([*islice(batches, 1 if at_once else 0)], batches)

        return pa.RecordBatchReader.from_batches(*self._reader.begin(begin))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return all rows as a stream of Arrow's C interface, which other libraries read."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, where: str | None = None
    ) -> pa.Table:
        """Return rows as one Arrow table, ordered by the primary key; ``where``: as in `scan`.

        Without a primary key they are ordered about as they were written.
        """
        return self.scan(columns, where=where, ordered=True).read_all()

    def to_pandas(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> Any:
        """Return what `to_arrow` does as a DataFrame of pandas, which must be installed."""
        return self.to_arrow(columns, where=where).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> Any:
        """Return what `to_arrow` does as a DataFrame of polars, which must be installed."""
        return import_module("polars").from_arrow(self.to_arrow(columns, where=where))

    def to_dicts(
        self, columns: Sequence[str] | None = None, *, where: str | None = None
    ) -> list[dict[str, Any]]:
        """Return what `to_arrow` does as dicts from the names of columns to values."""
        rows: list[dict[str, Any]] = self.to_arrow(columns, where=where).to_pylist()
        return rows

    def count(self, *, where: str | None = None, time_zone: str = "UTC") -> int:
        """Return the number of rows, or of those that match a SQL expression, as in `scan`."""
        reader = self._reader()
        return reader.count(where=_predicate(reader, where, time_zone))

    def _keyed_reader(self) -> StorageTable:
        reader = self._reader()
        self._check_keyed(reader)
        return reader

    def _check_keyed(self, reader: StorageTable) -> None:
        if reader.encoding.schema.row_id is not None:
            raise no_key_error(self.name, "no row can be looked up by key: use scan(where=…)")

    def _whole_key(self, reader: StorageTable, key: Sequence[Any]) -> tuple[Any, ...]:
        """Return a key given as one tuple. SchemaMismatchError if its length is wrong."""
        self._check_keyed(reader)
        names = reader.encoding.key_names
        if len(key) == 1 and isinstance(key[0], list | tuple) and len(key[0]) == len(names):
            return tuple(key[0])
        raise SchemaMismatchError(
            f"the primary key is ({', '.join(names)}), {len(names)} values; {len(key)} were given"
        )


def _predicate(reader: StorageTable, where: str | None, time_zone: str) -> Predicate | None:
    return None if where is None else Predicate.parse(where, reader.encoding.schema, time_zone)


def _key_tuple(key: Any, names: Sequence[str]) -> Sequence[Any]:
    if isinstance(key, list | tuple):
        return key
    if len(names) == 1:
        return (key,)
    raise SchemaMismatchError(
        f"each key is a tuple of the values of ({', '.join(names)}), not {key!r}"
    )
