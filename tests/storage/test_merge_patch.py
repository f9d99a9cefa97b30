"""Patches of variants: JSON merge patches (RFC 7396), without reading what they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from relstate.storage import Store
from relstate.storage.codec.variant_value import variant_of
from relstate.storage.errors import ValueRangeError
from relstate.storage.schema.arrow import arrow_type
from relstate.storage.schema.types import Variant
from support.clock import ManualClock
from support.commits import quick_environment
from support.document_tables import LAYOUTS, timed_store
from support.examples import examples
from support.stores import stored_row

# (original, patch, result): appendix A of RFC 7396, in its order.
APPENDIX_A: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
OBJECTS: list[tuple[Any, Any, Any]] = [
    ({"z": 1}, {"new": {}}, {"z": 1, "new": {}}),
    ({"a": "c"}, {"a": {}}, {"a": {}}),
    ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
    ({"a": [1]}, {"a": {"b": {}}}, {"a": {"b": {}}}),
    ({"a": {"b": 1}}, {"a": {"b": None}}, {"a": {}}),
    ("c", {}, {}),
    ({"a": 1}, {}, {"a": 1}),
    ({"a": {"\2": 1}}, {"a": {"\2": None}}, {"a": {}}),
]


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: FilePath, clock: ManualClock) -> Iterator[Store]:
    """A store whose time is the clock's, with a table of variants."""
    with timed_store(tmp_path, clock) as store:
        new_table(store)
        yield store


def new_table(store: Store, packed: bool = True) -> None:
    """Create the table ``t`` of variants."""
    columns = "id INT, doc VARIANT, docs MAP<STRING, VARIANT>"
    store.create_table("t", columns, primary_key=["id"], encoding="document", packed=packed)


def docs_of(store: Store) -> dict[int, Any]:
    """Return the documents of all rows, by a scan and by lookups, which agree."""
    table = store.table("t")
    scanned = {row["id"]: json_of(row["doc"]) for row in table.to_arrow().to_pylist()}
    assert {key: json_of(stored_row(table, key).doc) for key in scanned} == scanned
    return scanned


def entries_of(store: Store) -> int:
    """Return how many entries all files have."""
    segments = store.state.segments.values()
    return sum(table.rows for segment in segments for table in segment.record.tables)


def json_of(value: Any) -> Any:
    """Return what a variant holds, by Spark's own reader."""
    return value and VariantUtils.to_python(value["value"], value["metadata"])


def batch_of(documents: list[Any]) -> pa.RecordBatch:
    """Return rows with documents, which are None or values of JSON; the keys count from 0."""
    values = [None if value is None else variant_of(value) for value in documents]
    ids = pa.array(range(len(documents)), pa.int32())
    return pa.record_batch({"id": ids, "doc": pa.array(values, arrow_type(Variant()))})


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["", "compacted"])
def test_every_example_of_the_standard(
    tmp_path: FilePath, clock: ManualClock, packed: bool, is_compacted: bool
) -> None:
    """And empty objects: of many rows, of single ones, on rows, on parts, compacted or not."""
    cases = [*APPENDIX_A, *OBJECTS]
    expected = {number: result for number, (_, _, result) in enumerate(cases)}
    with timed_store(tmp_path, clock) as store:
        new_table(store, packed)
        for is_batch in (True, False):
            for is_part in (True, False):
                if is_part:
                    with store.document_writer("t") as writer:
                        for number, (original, _, _) in enumerate(cases):
                            writer.set(number, {"doc": original})
                else:
                    originals = batch_of([original for original, _, _ in cases])
                    store.write("t", originals)
                if is_compacted:
                    store.compact("t")
                if is_batch:
                    store.patch("t", batch_of([patch for _, patch, _ in cases]))
                else:
                    with store.document_writer("t") as writer:
                        for number, (_, patch, _) in enumerate(cases):
                            writer.patch(number, {"doc": patch})
                seen = docs_of(store)
                store.compact("t")
                assert seen == docs_of(store)
                assert {key: seen.get(key) for key in expected} == expected


def test_an_empty_object_makes_a_row(store: Store) -> None:
    """At the top and below, alone and as the value of a map; removing it removes the row."""
    with store.document_writer("t") as writer:
        writer.patch(3, {"doc": {"a": {}}})
        writer.patch(4, {"doc": {}})
        writer.patch(5, {"docs": {"x": {"n": {"gone": None}}}})
    assert docs_of(store) == {3: {"a": {}}, 4: {}, 5: None}
    assert json_of(dict(stored_row(store.table("t"), 5).docs)["x"]) == {"n": {}}
    with store.document_writer("t") as writer:
        writer.remove(3, ("doc", "a"))
        writer.remove(4, "doc")
        writer.remove(5, ("docs", "x"))
    assert docs_of(store) == {}


@pytest.mark.parametrize("is_compacted", [False, True], ids=["", "compacted"])
def test_what_is_newer_in_an_object_decides(
    store: Store, clock: ManualClock, is_compacted: bool
) -> None:
    """An object that a patch left empty goes with a later part; what was there before does not."""

    def step(doc: Any) -> None:
        if is_compacted:
            store.compact("t")
        assert docs_of(store) == ({} if doc is None else {1: doc})

    with store.document_writer("t") as writer:
        writer.set(1, {("doc", "a", "old"): 1}, ttl=10)
        writer.patch(1, {"doc": {"a": {}}})
    step({"a": {"old": 1}})
    clock.advance(10)
    step({"a": {}})
    with store.document_writer("t") as writer:
        writer.set(1, {("doc", "a", "new"): 1}, ttl=10)
    step({"a": {"new": 1}})
    clock.advance(10)
    step(None)
    with store.document_writer("t") as writer:
        writer.patch(1, {"doc": {"a": {}}}, ttl=10)
        writer.remove(1, ("doc", "a", "x"))
    step(None)
    with store.document_writer("t") as writer:
        writer.patch(1, {"doc": {"a": {"b": {}}}}, ttl=10)
    step({"a": {"b": {}}})
    assert store.table("t").ttl(1, ("doc", "a")) == 10
    clock.advance(10)
    step(None)


def test_an_object_costs_one_entry(store: Store) -> None:
    """Only where a patch gives it no value, and none after a compaction."""
    with store.document_writer("t") as writer:
        writer.patch(1, {"doc": {"a": {"b": 1, "c": {}}, "d": {"e": None}}})
    assert entries_of(store) == 4
    store.compact("t")
    assert entries_of(store) == 1
    assert docs_of(store) == {1: {"a": {"b": 1, "c": {}}, "d": {}}}


def test_a_path_that_is_too_long_is_refused_where_it_is_given(store: Store) -> None:
    """Also if it is too long by what an empty object takes."""
    with store.document_writer("t") as writer:
        key = "k" * (0xFFFF - 5)
        writer.set(1, {("doc", key): 1})
        with pytest.raises(ValueRangeError, match="a path of 65536 bytes"):
            writer.patch(1, {"doc": {key: {}}})
    assert docs_of(store) == {1: {key: 1}}


# Random histories of one variant

NAMES = st.sampled_from(["a", "b"])
VALUES = st.recursive(
    st.integers(0, 1), lambda inner: st.dictionaries(NAMES, inner, max_size=2), max_leaves=3
)
PATCHES = st.recursive(
    st.none() | st.integers(0, 1),
    lambda inner: st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
STEPS = st.lists(st.tuples(st.sampled_from(["write", "patch"]), VALUES, PATCHES, st.booleans()))


@LAYOUTS
@settings(max_examples=examples(50))
@given(STEPS)
def test_patches_are_those_of_the_standard(
    tmp_path_factory: pytest.TempPathFactory, packed: bool, steps: list[tuple[str, Any, Any, bool]]
) -> None:
    """After any writes and patches, with compactions between, the document is that of RFC 7396."""
    path = str(tmp_path_factory.mktemp("patches") / "store")
    environment = quick_environment(path, ManualClock())
    with Store.create(path, vnode_count=2, environment=environment) as store:
        new_table(store, packed)
        document: Any = None
        for method, value, patch, is_compacted in steps:
            if method == "write":
                store.write("t", batch_of([value]))
                document = value
            else:
                store.patch("t", batch_of([patch]))
                document = merged(document, patch)
            if is_compacted:
                store.compact("t")
            assert docs_of(store).get(0) == document


def merged(target: Any, patch: Any) -> Any:
    """Return a document with a patch: `MergePatch` of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    fields = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = merged(fields.get(name), value)
    return fields
