"""A table of a store, as its users read it without Spark.

Promises: every read is of one epoch. A table of a store reads the latest epoch and checks for a
newer one at each call; a table of a snapshot stays at its epoch.
Does not know: how epochs are found; it asks for a reader each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from ..errors import SchemaMismatchError, UsageError
from ..notebook import html_table
from ..schema.arrow import arrow_schema
from ..schema.schema import TableSchema
from .record import Row
from .rowid import no_key_error
from .storagetable import StorageTable

if TYPE_CHECKING:
    from ..predicate.predicate import Predicate

_T = TypeVar("_T")


class Reader(Protocol):
    """Returns a table at the epoch to be read now."""

    def __call__(self) -> StorageTable:
        """Return the table."""

    def begin(self, read: Callable[[StorageTable, bool], _T]) -> _T:
        """Return what a read of the table returns.

        ``read`` may be called twice, first with an older table, during the look for a newer
        one; its second argument says whether to read the first rows at once.
        """


class Table:
    """One table, which threads may share."""

    def __init__(self, name: str, reader: Reader) -> None:
        """Create a table; ``reader`` returns it at the epoch to be read now."""
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
        """Return the row with this primary key, or None if there is none.

        The values are in the order of the key; ``get(1, "a")`` and ``get((1, "a"))`` are the same.
        ``columns``: names of the columns to decode, by default all. SchemaMismatchError for a key
        of another length or with values of other types, or for an unknown column, ValueRangeError
        for a value that does not fit its type, NullKeyError for None in a NOT NULL column,
        UsageError for a table without a primary key.
        """
        reader = self._reader()
        if len(key) != reader.key_length:
            key = self._whole_key(reader, key)
        return reader.point_get(key) if columns is None else reader.get_columns(key, columns)

    def ttl(self, key: Any, path: str | Sequence[Any] = ()) -> float | None:
        """Return the seconds until a row, or the part of it at a path, expires.

        None if it does not expire or does not exist. A struct, a map or an array expires with its
        last part, a row with its last column. ``key``: as in `get`, several values in a tuple.
        ``path``: the name of a column, or a tuple of it and names of fields, keys of maps and
        elements of sets. The errors of `get`; SchemaMismatchError for a path that the type of the
        column does not have, OptionError for a path in a table of rows.
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

        ``values``: for all columns of the index, or the first ones; None finds NULL. For all
        columns of a unique index, at most one row is returned, unless a value is None.
        ``columns``: of the rows, by default all; if the index has them, only the index is read.
        IndexNotFoundError, SchemaMismatchError for too many values, no value, a value of another
        type or an unknown column, ValueRangeError for a value that does not fit its type.
        """
        return self._reader().get_by(index, values, columns)

    def get_rows(
        self, keys: pa.RecordBatch | Sequence[Any], columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Return the rows with these primary keys, in the order of the keys, without missing ones.

        ``keys``: a batch with the key's columns, which is faster, or a sequence of tuples, or of
        values for a key of one column. The errors of `get`, SchemaMismatchError for an unknown
        column, and UsageError for arguments that are not keys.
        """
        reader = self._keyed_reader()
        if isinstance(keys, pa.RecordBatch):
            return reader.get_rows(keys, columns)[1]
        names, encode = reader.encoding.key_names, reader.encoding.encode_key
        if isinstance(keys, str | bytes | Mapping | pa.Table) or not isinstance(keys, Iterable):
            raise UsageError(
                f"keys are a list of values of ({', '.join(names)}), or a pyarrow.RecordBatch with "
                f"these columns, not {type(keys).__name__}"
            )
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

        The reader can be iterated, and passed to polars, DuckDB and other libraries as Arrow data.
        It reads the epoch of this call, batch by batch when they are requested.
        ``where``: a SQL expression in Spark's dialect over the columns, by default all rows;
        conditions on the key become lookups and ranges. ``time_zone``: the zone of local times in
        it. UnsupportedExpressionError for an expression that cannot be evaluated
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
        """Return all rows as a stream of Arrow's C interface, for other libraries."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def to_arrow(
        self, columns: Sequence[str] | None = None, *, where: str | None = None
    ) -> pa.Table:
        """Return rows as one Arrow table, ordered by the primary key; ``where``: as in `scan`.

        Without a primary key they are approximately in the order in which they were written.
        """
        return self.scan(columns, where=where, ordered=True).read_all()

    def to_pandas(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> Any:
        """Return the rows of `to_arrow` as a pandas DataFrame; pandas must be installed."""
        return self.to_arrow(columns, where=where).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, *, where: str | None = None) -> Any:
        """Return the rows of `to_arrow` as a polars DataFrame; polars must be installed."""
        return import_module("polars").from_arrow(self.to_arrow(columns, where=where))

    def to_dicts(
        self, columns: Sequence[str] | None = None, *, where: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of `to_arrow` as dicts from column names to values."""
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
    if where is None:
        return None
    from ..predicate.predicate import Predicate

    return Predicate.parse(where, reader.encoding.schema, time_zone)


def _key_tuple(key: Any, names: Sequence[str]) -> Sequence[Any]:
    if isinstance(key, list | tuple):
        return key
    if len(names) == 1:
        return (key,)
    raise SchemaMismatchError(
        f"each key is a tuple of the values of ({', '.join(names)}), not {key!r}"
    )
