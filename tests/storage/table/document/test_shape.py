"""The laws of shapes: parts collect to the values that they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.codec.path import number_component
from relstate.storage.codec.ragged import constant, equal_neighbours, sort_order
from relstate.storage.schema.ddl import parse_type
from relstate.storage.schema.schema import KeyColumn
from relstate.storage.segment.key import Kind
from relstate.storage.table.document.containers import shape_of
from relstate.storage.table.document.part import Parts
from relstate.storage.table.document.shape import Shape, put_whole
from support.datatypes import array_of, value_types, values_of
from support.examples import examples

COLUMN = number_component(7)


def in_order(parts: Parts) -> Parts:
    """Return parts in the order of their owners and paths."""
    owners = [owner.to_bytes(8, "big") for owner in parts.owners.tolist()]
    keys = [owner + path for owner, path in zip(owners, parts.paths.to_pylist(), strict=True)]
    return parts.take(sort_order(pa.array(keys, pa.large_binary())))


def exploded(shape: Shape, values: pa.Array) -> Parts:
    """Return the parts of values of a column."""
    return shape.explode(values, constant(COLUMN, len(values)))


def collected(shape: Shape, count: int, parts: Parts) -> pa.Array:
    """Return the values of parts."""
    ordered = in_order(parts)
    return shape.collect(count, ordered, np.full(len(ordered), len(COLUMN)))


@settings(max_examples=examples(100))
@given(
    value_types()
    .filter(lambda kind: kind != t.Void())
    .flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind), max_size=5)))
)
def test_parts_collect_to_their_values(case: tuple[t.DataType, list[Any]]) -> None:
    """Of any type, however nested, NULLs and empty values included."""
    data_type, values = case
    shape = shape_of(data_type, 1)
    array = distinct_keys(data_type, array_of(data_type, values))
    again = collected(shape, len(array), exploded(shape, array))

    again.validate(full=True)
    # The second time the entries of maps are in order, and keys have one form.
    assert again.type == array.type
    assert shape.encode(collected(shape, len(array), exploded(shape, again))).equals(
        shape.encode(again)
    )
    values_again = [counts_of(value) for value in again.to_pylist()]
    assert values_again == [counts_of(value) for value in array.to_pylist()]


def distinct_keys(data_type: t.DataType, array: pa.Array) -> pa.Array:
    """Return the values without those that hold a map in which a key is twice."""
    is_distinct = [not repeats_key(data_type, value) for value in array.to_pylist()]
    return array.filter(pa.array(is_distinct, pa.bool_()))


def repeats_key(data_type: t.DataType, value: Any) -> bool:
    """Return whether a map in a value has two keys of the same bytes."""
    if value is None:
        return False
    match data_type:
        case t.Map(key, item, _):
            names = [name for name, _ in value]
            repeats = shape_of(data_type, 1).has_parts and has_repeats(key, names)
            return repeats or any(repeats_key(item, inner) for _, inner in value)
        case t.Array(element, _):
            return any(repeats_key(element, inner) for inner in value)
        case t.Struct(fields):
            return any(repeats_key(part.type, value[part.name]) for part in fields)
    return False


def has_repeats(key: t.DataType, names: list[Any]) -> bool:
    """Return whether two keys of a map have the same bytes."""
    encoded = KeyCodec([key], [KeyColumn(1)]).encode([array_of(key, names)]).to_pylist()
    return len(set(encoded)) < len(encoded)


def counts_of(value: Any) -> Any:
    """Return what of a value does not depend on the order of maps or the form of numbers.

    A map is a list of tuples, an array is a list of anything else.
    """
    if isinstance(value, list):
        inner_counts = [counts_of(inner) for inner in value]
        is_map = any(isinstance(inner, tuple) for inner in value)
        return sorted(inner_counts, key=repr) if is_map else inner_counts
    if isinstance(value, tuple):
        return tuple(map(counts_of, value))
    if isinstance(value, dict):
        return {name: counts_of(inner) for name, inner in value.items()}
    if isinstance(value, float):
        return repr(value + 0.0)
    return value


TYPE = "MAP<STRING, STRUCT<a: INT, b: ARRAY<STRING>>>"
VALUES: list[Any] = [
    [("x", {"a": 1, "b": ["p", None]}), ("y", None)],
    None,
    [],
    [("z", {"a": None, "b": None})],
]


def test_a_value_comes_before_its_parts_and_no_path_twice() -> None:
    """The bytes of a path are a prefix of the bytes of all paths below it."""
    data_type = parse_type(TYPE)
    shape = shape_of(data_type, 1)
    parts = in_order(exploded(shape, array_of(data_type, VALUES)))

    described = [
        (owner, depth, Kind(kind))
        for owner, depth, kind in zip(parts.owners, parts.depths, parts.kinds, strict=True)
    ]
    assert described == [
        (0, 1, Kind.OBJECT),
        (0, 2, Kind.OBJECT),
        (0, 3, Kind.PUT),
        (0, 3, Kind.OBJECT),
        (0, 4, Kind.PUT),
        (0, 4, Kind.PUT),
        (0, 2, Kind.PUT),
        (1, 1, Kind.PUT),
        (2, 1, Kind.OBJECT),
        (3, 1, Kind.OBJECT),
        (3, 2, Kind.OBJECT),
    ]
    assert not equal_neighbours(parts.paths.slice(0, 7)).any()
    assert collected(shape, 4, parts).to_pylist() == VALUES


def test_a_patch_removes_nulls_merges_objects_and_replaces_the_rest() -> None:
    """As RFC 7396 says of JSON; a collection that is replaced is one part."""
    data_type = parse_type("MAP<STRING, STRUCT<a: INT, b: ARRAY<STRING>>>")
    shape = shape_of(data_type, 1)
    values = array_of(data_type, [*VALUES])
    parts = in_order(shape.patch(values, constant(COLUMN, 4), put_whole))

    described = [
        (owner, depth, Kind(kind))
        for owner, depth, kind in zip(parts.owners, parts.depths, parts.kinds, strict=True)
    ]
    assert described == [
        (0, 3, Kind.PUT),
        (0, 3, Kind.PUT),
        (0, 2, Kind.DELETE),
        (1, 1, Kind.DELETE),
        (3, 3, Kind.DELETE),
        (3, 3, Kind.DELETE),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "STRUCT<a: INT NOT NULL>",
        "STRUCT<>",
        "STRING",
        "MAP<STRING COLLATE UTF8_LCASE, INT>",
    ],
)
def test_values_without_parts(name: str) -> None:
    """A field that cannot be missing, a key without an order: such a value is one part."""
    assert not shape_of(parse_type(name), 1).has_parts


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("INT", COLUMN + b"\x80\x01"),
        ("STRUCT<a: INT>", COLUMN + b"\x80\x00"),
        ("STRUCT<a: INT>", COLUMN + b"\x80\x02"),
        ("STRUCT<a: INT>", COLUMN + b"\x80"),
        ("STRUCT<a: INT>", COLUMN + b"\x01\x02"),
        ("ARRAY<INT>", COLUMN + b"\x80\x01"),
        ("ARRAY<INT>", COLUMN + b"\x80" + bytes(16)),
        ("MAP<INT, INT>", COLUMN + b"\x00"),
        ("MAP<INT, INT>", COLUMN + b"\x01\x80"),
        ("MAP<STRING, INT>", COLUMN + b"\x01ab"),
    ],
)
def test_paths_that_a_type_does_not_have(name: str, path: bytes) -> None:
    """They are damage, and an error of the kind that readers expect of it."""
    shape = shape_of(parse_type(name), 1)
    leaf = shape_of(t.Int(), 2)
    part = leaf.whole(pa.array([1], pa.int32()), constant(path, 1))

    with pytest.raises((ValueError, IndexError)):
        collected(shape, 1, part)
