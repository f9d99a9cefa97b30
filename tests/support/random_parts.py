"""Random changes of parts of rows, made by a writer and in a nested dict with clocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from relstate.storage import Store
from relstate.storage import types as t
from relstate.storage.codec.variant_value import variant_of
from relstate.storage.schema.ddl import parse_columns
from relstate.storage.schema.schema import TableSchema
from relstate.storage.segment.key import Kind

from .clock import ManualClock
from .documents import FOREVER, Documents, Path, Written, type_at

COLUMNS = """k INT, a INT, m MAP<STRING, INT>, l ARRAY<INT>, g ARRAY<STRING>,
    d STRUCT<x: INT, y: MAP<STRING, INT>>, o MAP<INT, STRUCT<n: INT, z: ARRAY<INT>>>,
    v VARIANT, w MAP<STRING, VARIANT>"""
SET = "g"
# In the dict a set is a map of its elements to nothing.
MODEL_SCHEMA = TableSchema.build(
    parse_columns(COLUMNS.replace("g ARRAY<STRING>", "g MAP<STRING, INT>")), ["k"]
)
FAR = 1 << 40

NUMBERS, NAMES, KEYS = st.integers(0, 3), st.sampled_from(["", "p", "q\0"]), st.integers(0, 2)
TTLS = st.sampled_from([None, None, 10, 20])
JSON = st.recursive(
    NUMBERS | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
JSON_PATCHES = st.recursive(
    st.none() | NUMBERS, lambda inner: st.dictionaries(NAMES, inner, max_size=2), max_leaves=4
)


@dataclass(frozen=True)
class Step:
    """One call: a method of the writer, or ``write``, ``delete``, ``compact``, ``pass_time``."""

    method: str
    key: int = 0
    path: Path = ()
    value: Any = None
    ttl: int | None = None


def values_of(data_type: t.DataType, *, is_patch: bool = False) -> st.SearchStrategy[Any]:
    """Few values of a type, as Python has them; in a patch parts may be left out, or None."""
    match data_type:
        case t.Int():
            return NUMBERS
        case t.String():
            return NAMES
        case t.Array(element, _):
            return st.lists(values_of(element), max_size=2)
        case t.Map(key, item, _):
            items = st.none() | values_of(item, is_patch=is_patch)
            return st.dictionaries(values_of(key), items, max_size=2)
        case t.Struct(fields):
            parts = {
                part.name: st.none() | values_of(part.type, is_patch=is_patch) for part in fields
            }
            if is_patch:
                return st.fixed_dictionaries({}, optional=parts)
            return st.fixed_dictionaries(parts)
        case t.Variant():
            return JSON_PATCHES if is_patch else JSON
    raise AssertionError(data_type)


@st.composite
def paths(draw: st.DrawFn) -> Path:
    """Return the path of a part that can be set or removed."""
    column = draw(st.sampled_from(MODEL_SCHEMA.value_columns))
    path: Path = (column.name,)
    data_type = column.type
    while column.name != SET and draw(st.booleans()):
        match data_type:
            case t.Struct(fields):
                part = draw(st.sampled_from(fields))
                path, data_type = (*path, part.name), part.type
            case t.Map(key, item, _):
                path, data_type = (*path, draw(values_of(key))), item
            case t.Variant():
                path = (*path, draw(NAMES))
            case _:
                break
    return path


def type_of(path: Path) -> t.DataType:
    """Return the type of what is at a path; that of a set is an ARRAY."""
    return t.Array(t.String(), True) if path == (SET,) else type_at(MODEL_SCHEMA, path)


@st.composite
def changes(draw: st.DrawFn) -> Step:
    """Return a call of the writer."""
    key, path, ttl = draw(KEYS), draw(paths()), draw(TTLS)
    data_type = type_of(path)
    methods = ["set", "set", "remove", "patch"]
    if isinstance(data_type, t.Map | t.Array):
        methods += ["add", "add"]
    if isinstance(data_type, t.Array) and path != (SET,):
        methods += ["prepend"]
    method = draw(st.sampled_from(methods))
    match method:
        case "remove":
            if path == (SET,) and draw(st.booleans()):
                path = (*path, draw(NAMES))
            return Step(method, key, path)
        case "patch":
            column_type = type_of(path[:1])
            value = draw(st.none() | values_of(column_type, is_patch=True))
            return Step(method, key, path[:1], value, ttl)
        case "set":
            return Step(method, key, path, draw(st.none() | values_of(data_type)), ttl)
    return Step(method, key, path, draw(values_of(data_type)), ttl)


@st.composite
def rows(draw: st.DrawFn) -> Step:
    """Return a write of a whole row."""
    row = {
        column.name: draw(st.none() | values_of(type_of((column.name,))))
        for column in MODEL_SCHEMA.value_columns
    }
    return Step("write", draw(KEYS), (), row, draw(TTLS))


OTHERS = st.sampled_from([Step("compact"), Step("pass_time", value=5), Step("delete", 1)])
STEPS = st.lists(st.lists(changes(), min_size=1, max_size=4) | rows() | OTHERS, max_size=8)
"""Lists of commits: some calls of one writer, or another step."""


@dataclass
class Pair:
    """A store with the table ``t``, and the same rows in a nested dict."""

    store: Store
    clock: ManualClock
    model: Documents = field(default_factory=lambda: Documents(MODEL_SCHEMA))
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(FAR))

    def take(self, step: Step | list[Step]) -> None:
        """Do a step in both."""
        match step:
            case list():
                with self.store.document_writer("t") as writer:
                    for change in step:
                        call(writer, change)
                        self.model.apply(self._written(change))
            case Step("compact"):
                self.store.compact("t")
            case Step("pass_time"):
                self.clock.advance(step.value)
            case Step("delete"):
                self.store.delete("t", pa.record_batch({"k": pa.array([step.key], pa.int32())}))
                self.model.apply([Written(step.key, (), Kind.DELETE)])
            case Step("write"):
                self._write(step)

    def check(self) -> None:
        """Assert that both have the same rows now."""
        table = self.store.table("t")
        found = {row.pop("k"): row for row in table.to_arrow().to_pylist()}
        for row in found.values():
            row["v"] = json_of(row["v"])
            row["w"] = row["w"] and [(name, json_of(value)) for name, value in row["w"]]
        expected = self.model.seen(self.clock.now())
        for row in expected.values():
            row[SET] = row[SET] and [name for name, _ in row[SET]]
        types = {column.name: column.type for column in table.schema.value_columns}
        assert {key: ordered(types, row) for key, row in found.items()} == {
            key: ordered(types, row) for key, row in expected.items()
        }

    def _write(self, step: Step) -> None:
        schema = self.store.table("t").schema.arrow_schema
        values = {name: pairs_of(type_of((name,)), value) for name, value in step.value.items()}
        row = {"k": step.key, **values, "v": stored(values["v"])}
        row["w"] = values["w"] and [(name, stored(value)) for name, value in values["w"]]
        batch = pa.RecordBatch.from_pylist([row], schema=schema)
        ttls = None if step.ttl is None else pa.array([step.ttl], pa.int64())
        self.store.write("t", batch, ttls=ttls)
        if values[SET] is not None:
            values[SET] = [(name, None) for name in sorted(set(values[SET]))]
        self.model.apply([Written(step.key, (), Kind.PUT, values, self._expiry(step))])

    def _expiry(self, step: Step) -> int:
        return FOREVER if step.ttl is None else self.clock.now() + step.ttl * 1_000_000

    def _written(self, step: Step) -> list[Written]:
        """Return what a call of the writer writes."""
        expiry = self._expiry(step)
        entries = list(self._entries(step))
        return [
            entry if entry.kind is Kind.DELETE else replace(entry, expiry=expiry)
            for entry in entries
        ]

    def _entries(self, step: Step) -> Iterator[Written]:
        key, path, value = step.key, step.path, step.value
        match step.method:
            case "remove":
                yield Written(key, path, Kind.DELETE)
            case "set":
                yield self._put(key, path, value)
            case "patch":
                yield from self._patched(key, path, value)
            case "add" if isinstance(value, dict):
                for name, inner in value.items():
                    yield self._put(key, (*path, name), inner)
            case "add" if path == (SET,):
                for name in value:
                    yield Written(key, (*path, name), Kind.PUT)
            case "add":
                for inner in value:
                    yield Written(key, (*path, next(self.numbers)), Kind.PUT, inner)
            case "prepend":
                for inner in reversed(value):
                    yield Written(key, (*path, -next(self.numbers)), Kind.PUT, inner)

    def _put(self, key: int, path: Path, value: Any) -> Written:
        if path == (SET,) and value is not None:
            return Written(key, path, Kind.PUT, [(name, None) for name in sorted(set(value))])
        above = type_of(path[:-1]) if len(path) > 1 else None
        if value is None and not isinstance(above, t.Map):
            return Written(key, path, Kind.DELETE)
        return Written(key, path, Kind.PUT, pairs_of(type_of(path), value))

    def _patched(self, key: int, path: Path, value: Any) -> Iterator[Written]:
        if value is None:
            yield Written(key, path, Kind.DELETE)
        elif isinstance(value, dict):
            for name, inner in value.items():
                yield from self._patched(key, (*path, name), inner)
            is_bare = all(inner is None for inner in value.values())
            if is_bare and isinstance(type_of(path), t.Variant):
                yield Written(key, path, Kind.LIVENESS)
        else:
            yield self._put(key, path, value)


def call(writer: Any, step: Step) -> None:
    """Make a call of a writer."""
    match step.method:
        case "remove":
            writer.remove(step.key, step.path)
        case "set":
            writer.set(step.key, {step.path: step.value}, ttl=step.ttl)
        case "patch":
            writer.patch(step.key, {step.path[0]: step.value}, ttl=step.ttl)
        case method:
            getattr(writer, method)(step.key, step.path, step.value, ttl=step.ttl)


def stored(value: Any) -> dict[str, bytes] | None:
    """Return a value as a variant in its stored form; None for None."""
    return None if value is None else variant_of(value)


def json_of(value: Any) -> Any:
    """Return what a variant in its stored form holds, by Spark's own reader."""
    return value and VariantUtils.to_python(value["value"], value["metadata"])


def pairs_of(data_type: t.DataType, value: Any) -> Any:
    """Return a value whose maps are pairs in order, as Arrow takes them."""
    if value is None:
        return None
    match data_type:
        case t.Map(_, item, _):
            return sorted((name, pairs_of(item, inner)) for name, inner in dict(value).items())
        case t.Struct(fields):
            return {part.name: pairs_of(part.type, value[part.name]) for part in fields}
    return value


def ordered(types: dict[str, t.DataType], row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose maps are pairs in order."""
    return {name: pairs_of(types[name], value) for name, value in row.items()}
