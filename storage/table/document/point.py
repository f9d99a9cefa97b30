"""One row of a document table, made of its few entries as Python values, without Arrow.

Entries are applied in the order of their versions, each replacing what is at its path and below it.
What is rare is left to the reader of many rows: elements of arrays, keys of maps other than
integers, text and binary, rows of many entries, and parts written before a column was widened.

Promises: the row that rowfold.py makes of the same entries, as Python values; nothing is decoded
but the row and its parts.
Does not know: files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...codec.path import NUMBER_BYTES, read_number
from ...codec.point_key import ColumnReader, column_reader, read_tagged
from ...codec.point_variant import check_variant
from ...codec.row import RowCodec
from ...log.table_definition import TableDefinition
from ...schema import types as t
from ...schema.schema import TableSchema
from ...segment.key import Kind
from ..header import BY_COLUMNS, read_header
from ..value import ValueEncoding
from .containers import shape_of

Pairs: TypeAlias = Sequence[tuple[bytes, bytes]]
"""The entries of a row in one file: (full key, value), in key order."""

# With more entries than this Arrow is faster.
_MOST_ENTRIES = 64


class ManyPartsError(Exception):
    """The row has parts that are not applied one by one here."""


class PointFold:
    """Makes single rows of the entries of one document table. Immutable; safe between threads."""

    def __init__(self, definition: TableDefinition, values: ValueEncoding) -> None:
        schema = definition.schema
        self._values = values
        self._width = len(schema.value_columns)
        self._columns = {
            column.id: (index, _point_of(column.type))
            for index, column in enumerate(schema.value_columns)
        }
        self._versions = {
            schema.version,
            *(older.version for older in definition.older_schemas if _has_types(older, schema)),
        }

    def row(self, files: Sequence[Pairs], time: Callable[[], int]) -> list[Any] | None:
        """Return the values of the columns not in the key; None if there is no row.

        ``files``: the entries of the row, the newest file first; ``time`` is called if one expires.
        ManyPartsError if the entries have to be resolved as those of many rows are; ValueError,
        IndexError or struct.error if the bytes are not such entries.
        """
        if sum(map(len, files)) > _MOST_ENTRIES:
            raise ManyPartsError
        row = _Row([None] * self._width, {}, is_inserted=False)
        for pairs in reversed(files):
            for key, value in pairs:
                self._apply(row, key, value, time)
        for index, point in row.changed.items():
            column = point.finished(row.values[index])
            row.values[index] = None if column is ABSENT else column
        is_there = row.is_inserted or any(value is not None for value in row.values)
        return row.values if is_there else None

    def _apply(self, row: _Row, key: bytes, value: bytes, time: Callable[[], int]) -> None:
        """Apply an entry that is newer than those before it, or of their version and below them."""
        header = read_header(value)
        kind = header.kind
        if header.expiry is not None and header.expiry <= time():
            kind = Kind.DELETE
        if header.path_length:
            path = key[-header.path_length :]
            self._apply_part(row, path, _Body(kind, value, header.body_start), header.version)
            return
        row.changed = {}
        row.values = [None] * self._width
        row.is_inserted = kind != Kind.DELETE and not header.flags & BY_COLUMNS
        if kind not in (Kind.DELETE, Kind.OBJECT):
            row.values = list(self._values.decode_row(value) or ())

    def _apply_part(self, row: _Row, path: bytes, body: _Body, version: int) -> None:
        if version not in self._versions:
            raise ManyPartsError
        column = self._columns.get(read_number(path, 0))
        if column is not None:
            index, point = column
            row.changed[index] = point
            row.values[index] = point.changed(row.values[index], path, NUMBER_BYTES, body)


@dataclass(slots=True)
class _Row:
    """A row while its entries are applied; ``changed``: the columns of which parts were applied."""

    values: list[Any]
    changed: dict[int, _Point]
    is_inserted: bool


@dataclass(frozen=True, slots=True)
class _Body:
    """What an entry says of a path; the value of a PUT is in ``data`` from ``start`` on."""

    kind: int
    data: bytes
    start: int


# Values, and what is known of them while parts are applied


class _Absent:
    """What is at a path where nothing is. NULL may be something: the value in a map."""


ABSENT = _Absent()


@dataclass(slots=True)
class _Node:
    """A map or a struct some of whose items were written alone, or that was written empty.

    ``is_written``: whether it is there without items.
    """

    items: dict[Any, Any]
    is_written: bool


class _Point:
    """Values of one type without parts."""

    def __init__(self, data_type: t.DataType) -> None:
        self._codec = RowCodec([data_type])

    def changed(self, current: Any, path: bytes, position: int, body: _Body) -> Any:
        """Return what becomes of a value, or of ABSENT, by an entry at or below its path.

        What is below the value begins at ``position`` of the path.
        """
        if position < len(path):
            return self._changed_below(current, path, position, body)
        if body.kind == Kind.DELETE:
            return ABSENT
        if body.kind == Kind.OBJECT:
            return self._empty()
        return self._codec.decode_row(body.data, body.start)[0]

    def finished(self, value: Any) -> Any:
        """Return a value without nodes, the entries of its maps in order; ABSENT for nothing."""
        return value

    def _empty(self) -> Any:
        """Return a value of no items."""
        raise ManyPartsError

    def _changed_below(self, current: Any, path: bytes, position: int, body: _Body) -> Any:
        """Return what becomes of a value by an entry below its path."""
        raise ManyPartsError


class _Variant(_Point):
    """Variants: no part of them is applied."""

    def changed(self, current: Any, path: bytes, position: int, body: _Body) -> Any:
        """Return what becomes of a value: ValueError if the bytes of the entry are no variant."""
        value = super().changed(current, path, position, body)
        if isinstance(value, dict):
            check_variant(value["value"], value["metadata"])
        return value


class _Array(_Point):
    """Arrays: no part of them is applied."""

    def __init__(self, data_type: t.Array) -> None:
        super().__init__(data_type)
        self._element = _point_of(data_type.element)

    def finished(self, value: Any) -> Any:
        """Return the array with its elements finished."""
        if not isinstance(value, list):
            return value
        return [self._element.finished(element) for element in value]


class _Unread(_Point):
    """Maps whose keys are not read from paths here, and have to be put in order."""

    def finished(self, value: Any) -> Any:
        """Return NULL or ABSENT; ManyPartsError for a map."""
        if isinstance(value, dict):
            raise ManyPartsError
        return value


class _Map(_Point):
    """Maps whose keys are read from paths."""

    def __init__(self, data_type: t.Map, read_key: ColumnReader) -> None:
        super().__init__(data_type)
        self._read_key = read_key
        self._item = _point_of(data_type.value)

    def finished(self, value: Any) -> Any:
        """Return the map, its entries in the order of their keys."""
        items = value.items if isinstance(value, _Node) else value
        if not isinstance(items, dict):
            return value
        values = [(key, self._item.finished(item)) for key, item in sorted(items.items())]
        entries = {key: item for key, item in values if item is not ABSENT}
        is_there = entries or not isinstance(value, _Node) or value.is_written
        return entries if is_there else ABSENT

    def _empty(self) -> Any:
        return _Node({}, is_written=True)

    def _changed_below(self, current: Any, path: bytes, position: int, body: _Body) -> Any:
        key, end = read_tagged(self._read_key, path, position)
        if isinstance(current, dict):
            current = _Node(dict(current), is_written=False)
        return _with_item(current, key, self._item, (path, end, body))


class _Struct(_Point):
    """Structs all of whose fields are nullable, as dicts."""

    def __init__(self, data_type: t.Struct) -> None:
        super().__init__(data_type)
        self._names = [field.name for field in data_type.fields]
        self._fields = [_point_of(field.type) for field in data_type.fields]

    def finished(self, value: Any) -> Any:
        """Return the struct; a field that is not there is NULL."""
        items = value.items if isinstance(value, _Node) else value
        if not isinstance(items, dict):
            return value
        fields = {
            name: field.finished(items.get(name, ABSENT))
            for name, field in zip(self._names, self._fields, strict=True)
        }
        is_empty = all(field is ABSENT for field in fields.values())
        if isinstance(value, _Node) and is_empty and not value.is_written:
            return ABSENT
        return {name: None if field is ABSENT else field for name, field in fields.items()}

    def _empty(self) -> Any:
        return _Node({}, is_written=True)

    def _changed_below(self, current: Any, path: bytes, position: int, body: _Body) -> Any:
        index = read_number(path, position) - 1
        if index < 0:
            raise ValueError("a path names the field 0; fields are counted from 1")
        if isinstance(current, dict):
            present = {name: field for name, field in current.items() if field is not None}
            current = _Node(present, is_written=False)
        name, field = self._names[index], self._fields[index]
        return _with_item(current, name, field, (path, position + NUMBER_BYTES, body))


def _with_item(current: Any, key: Any, item: _Point, entry: tuple[bytes, int, _Body]) -> _Node:
    """Return a node of what is there, with one item changed by an entry."""
    node = current if isinstance(current, _Node) else _Node({}, is_written=False)
    node.is_written = False
    value = item.changed(node.items.get(key, ABSENT), *entry)
    if value is ABSENT:
        node.items.pop(key, None)
    else:
        node.items[key] = value
    return node


def _point_of(data_type: t.DataType) -> _Point:
    """Return how single values of a type change by parts."""
    has_parts = shape_of(data_type, 1).has_parts
    match data_type:
        case t.Array():
            return _Array(data_type)
        case t.Variant():
            return _Variant(data_type)
        case t.Struct() if has_parts:
            return _Struct(data_type)
        case t.Map(key, _, _) if has_parts:
            reader = column_reader(key)
            return _Unread(data_type) if reader is None else _Map(data_type, reader)
    return _Point(data_type)


def _has_types(older: TableSchema, schema: TableSchema) -> bool:
    """Return whether the columns of an older schema that there still are have the same types."""
    types = {column.id: column.type for column in older.value_columns}
    return all(types.get(column.id, column.type) == column.type for column in schema.value_columns)
