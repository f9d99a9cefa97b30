"""The rows of a document table, computed one entry at a time: a nested dict with clocks.

A node is what is at one path. An entry replaces the node at its path and all nodes below it; a node
that has expired is not there. The paths of entries are written as Python values: the name of a
column, then the name of a field, the key of a map or the index of an element for each level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from relstate.storage import types as t
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.codec.path import number_component, place_components
from relstate.storage.codec.ragged import constant
from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.schema.schema import KeyColumn, TableSchema
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import Kind
from relstate.storage.table.document.containers import shape_of
from relstate.storage.table.document.entries import encode_parts
from relstate.storage.table.document.part import Parts
from relstate.storage.table.document.shape import Shape
from relstate.storage.table.header import NEVER, encode_headers
from relstate.storage.table.rowencoding import RowEncoding

FOREVER = int(NEVER)
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Written:
    """An entry: what a commit wrote at a path of a row. An empty path is the row itself.

    ``value``: of a PUT; of a row a dict of its columns.
    """

    key: int
    path: Path
    kind: Kind
    value: Any = None
    expiry: int = FOREVER


@dataclass
class Node:
    """What is at a path: a value without parts, or nodes below.

    ``expiry``: until when it is there by itself; None if only nodes below it make it so.
    """

    value: Any = None
    expiry: int | None = None
    below: dict[Any, Node] = field(default_factory=dict)

    def is_there(self, time: int) -> bool:
        """Return whether anything of it is there: with nodes below, whether one of them is."""
        if self.below:
            return any(node.is_there(time) for node in self.below.values())
        return self.is_alive(time)

    def is_alive(self, time: int) -> bool:
        """Return whether it was written by itself, and has not expired."""
        return self.expiry is not None and self.expiry > time

    def seen(self, data_type: t.DataType, time: int) -> Any:
        """Return the value at a time, as Arrow's ``as_py`` does."""
        if not self.is_there(time):
            return None
        alive = {name: node for name, node in self.below.items() if node.is_there(time)}
        if isinstance(data_type, t.Variant) and alive:
            fields = alive.items()
            return {name: node.seen(data_type, time) for name, node in fields if name != LIVE}
        if not is_divisible(data_type):
            return None if self.value is NULL else self.value
        if self.value is NULL and not alive:
            return None
        match data_type:
            case t.Struct(parts):
                return {
                    part.name: alive.get(part.name, Node()).seen(part.type, time) for part in parts
                }
            case t.Map(_, item, _):
                return [(key, alive[key].seen(item, time)) for key in sorted(alive)]
            case t.Array(element, _):
                return [alive[place].seen(element, time) for place in sorted(alive)]
        raise AssertionError(data_type)


LIVE = ("live",)
"""The name of the node that only says that the one above it, in a variant, is an object."""


class _Null:
    """A NULL that was written, as the value of a map may be."""


NULL = _Null()


def is_divisible(data_type: t.DataType) -> bool:
    """Return whether the values of a type have parts."""
    match data_type:
        case t.Struct(fields):
            return bool(fields) and all(part.nullable for part in fields)
        case t.Map() | t.Array():
            return True
    return False


def node_of(data_type: t.DataType, value: Any, expiry: int) -> Node:
    """Return the node of a value, written whole."""
    if value is None:
        return Node(NULL, expiry)
    if isinstance(data_type, t.Variant) and isinstance(value, dict) and value:
        fields = {name: node_of(data_type, inner, expiry) for name, inner in value.items()}
        return Node(None, expiry, fields)
    if not is_divisible(data_type):
        return Node(value, expiry)
    below: dict[Any, Node] = {}
    match data_type:
        case t.Struct(parts):
            below = {
                part.name: node_of(part.type, value[part.name], expiry)
                for part in parts
                if value.get(part.name) is not None
            }
        case t.Map(_, item, _):
            below = {key: node_of(item, inner, expiry) for key, inner in value}
        case t.Array(element, _):
            below = {place: node_of(element, inner, expiry) for place, inner in enumerate(value)}
    return Node(None, expiry, below)


@dataclass
class Documents:
    """The rows of a table with the key column ``k INT``."""

    schema: TableSchema
    rows: dict[int, Node] = field(default_factory=dict)

    def apply(self, entries: Iterable[Written]) -> None:
        """Apply entries in their order; a row before its parts where one commit writes both."""
        for entry in entries:
            self._apply(entry)

    def _apply(self, entry: Written) -> None:
        if not entry.path:
            self.rows[entry.key] = self._row(entry)
            return
        *above, last = entry.path
        node = self.rows.setdefault(entry.key, Node())
        for name in above:
            node.below.pop(LIVE, None)
            node = node.below.setdefault(name, Node())
        node.below.pop(LIVE, None)
        if entry.kind is Kind.LIVENESS:
            node, last = node.below.setdefault(last, Node()), LIVE
        node.below[last] = self._node(entry)

    def _row(self, entry: Written) -> Node:
        if entry.kind is Kind.DELETE:
            return Node()
        columns = entry.value or {}
        below = {
            column.name: node_of(column.type, columns[column.name], entry.expiry)
            for column in self.schema.value_columns
            if columns.get(column.name) is not None
        }
        return Node(None, entry.expiry, below)

    def _node(self, entry: Written) -> Node:
        match entry.kind:
            case Kind.DELETE:
                return Node()
            case Kind.OBJECT | Kind.LIVENESS:
                return Node(None, entry.expiry)
        return node_of(type_at(self.schema, entry.path), entry.value, entry.expiry)

    def seen(self, time: int) -> dict[int, dict[str, Any]]:
        """Return the rows at a time, by their keys, without the key."""
        return {
            key: {
                column.name: node.below.get(column.name, Node()).seen(column.type, time)
                for column in self.schema.value_columns
            }
            for key, node in sorted(self.rows.items())
            if node.is_alive(time) or node.is_there(time)
        }


def in_order(data_type: t.DataType, value: Any) -> Any:
    """Return a value whose maps, dicts or pairs, are pairs in order."""
    if value is None:
        return None
    match data_type:
        case t.Map(_, item, _):
            pairs = value.items() if isinstance(value, dict) else value
            return sorted((name, in_order(item, inner)) for name, inner in pairs)
        case t.Struct(fields):
            return {part.name: in_order(part.type, value[part.name]) for part in fields}
        case t.Array(element, _):
            return [in_order(element, inner) for inner in value]
    return value


# Entries in their stored form


def type_at(schema: TableSchema, path: Path) -> t.DataType:
    """Return the type of the values at a path, which is not empty."""
    data_type = schema.column(path[0]).type
    for name in path[1:]:
        match data_type:
            case t.Struct(fields):
                data_type = next(part.type for part in fields if part.name == name)
            case t.Map(_, item, _):
                data_type = item
            case t.Array(element, _):
                data_type = element
    return data_type


def path_bytes(schema: TableSchema, path: Path) -> bytes:
    """Return the bytes of a path; a step into an array is a place, or a text of a set of texts."""
    column = schema.column(path[0])
    encoded = number_component(column.id)
    data_type = column.type
    for name in path[1:]:
        match data_type:
            case t.Struct(fields):
                names = [part.name for part in fields]
                encoded += number_component(names.index(name) + 1)
                data_type = fields[names.index(name)].type
            case t.Map(key, item, _):
                encoded += KeyCodec([key], [KeyColumn(1)]).encode_key([name])
                data_type = item
            case t.Array(element, _) if isinstance(name, str):
                encoded += KeyCodec([element], [KeyColumn(1)]).encode_key([name])
            case t.Array(element, _):
                encoded += place_components(np.array([name], np.int64))[0].as_py()
                data_type = element
    return encoded


def stored(definition: TableDefinition, entries: Sequence[Written]) -> Block:
    """Return the entries of one commit as its segment holds them, in key order."""
    pairs = [pair for entry in entries for pair in _stored(definition, entry)]
    return Block.of_pairs(sorted(pairs))


def _stored(definition: TableDefinition, entry: Written) -> list[tuple[bytes, bytes]]:
    schema = definition.schema
    encoding = RowEncoding(definition, 1)
    expiries = np.array([entry.expiry], np.int64)
    if not entry.path:
        fields = {"k": entry.key} | {
            column.name: (entry.value or {}).get(column.name) for column in schema.value_columns
        }
        row = pa.RecordBatch.from_pylist([fields], schema.arrow_schema)
        if entry.kind is Kind.OBJECT:
            value = encode_headers(Kind.OBJECT, schema.version, 1, expiries)[0].as_py()
            return [(encoding.encode_key([entry.key]), value)]
        kinds = np.array([entry.kind], np.uint8)
        keys, values = encoding.encode(row, kinds, expiries)
        return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    shape = shape_of(type_at(schema, entry.path), len(entry.path))
    key = pa.array([encoding.encode_key([entry.key])], pa.large_binary())
    keys, values = encode_parts(key, part_of(shape, schema, entry), schema.version, expiries)
    return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))


def part_of(shape: Shape, schema: TableSchema, entry: Written) -> Parts:
    """Return an entry that is not a row as a part of owner 0."""
    paths = constant(path_bytes(schema, entry.path), 1)
    body = constant(b"", 1)
    if entry.kind is Kind.PUT:
        body = shape.encode(pa.array([entry.value], shape.arrow_type))
    return Parts(
        np.zeros(1, np.int64),
        paths,
        np.array([len(entry.path)], np.uint8),
        np.array([entry.kind], np.uint8),
        body,
    )


def patch_entries(schema: TableSchema, key: int, patch: dict[str, Any]) -> list[Written]:
    """Return what a patch of a row writes: a merge patch, of plain values of the columns."""
    return [
        entry
        for name, value in patch.items()
        for entry in _patched(key, (name,), schema.column(name).type, value)
    ]


def _patched(key: int, path: Path, data_type: t.DataType, value: Any) -> list[Written]:
    if value is None:
        return [Written(key, path, Kind.DELETE)]
    match data_type:
        case t.Struct(fields) if is_divisible(data_type):
            inner = [
                (part.name, part.type, value[part.name]) for part in fields if part.name in value
            ]
        case t.Map(_, item, _):
            inner = [(name, item, entry) for name, entry in value]
        case _:
            return [Written(key, path, Kind.PUT, value)]
    return [
        entry
        for name, inner_type, inner_value in inner
        for entry in _patched(key, (*path, name), inner_type, inner_value)
    ]
