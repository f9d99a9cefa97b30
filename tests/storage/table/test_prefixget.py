"""The quick lookup through an index returns what the general one does, and raises its errors."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.errors import (
    IndexNotFoundError,
    RelstateError,
    SchemaError,
    SchemaMismatchError,
    ValueRangeError,
)
from relstate.storage.table import conditional
from relstate.storage.table.columnnames import visible_names
from relstate.storage.table.storagetable import StorageTable
from support.examples import examples
from support.stores import unsynced

_LONG = "x" * 507
_VALUES: dict[str, list[Any]] = {
    "INT": [-(2**31), -1, 0, 7],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    "STRING": ["", "a", "a\0b", "ä", _LONG, _LONG + "yz"],
    "DATE": [date(1970, 1, 1), date(2024, 2, 29)],
}
_TYPES = st.sampled_from(sorted(_VALUES))
_ODD: st.SearchStrategy[Any] = st.sampled_from([None, True, 1.5, b"a", 2**70, "nope", 3])


@dataclass(frozen=True)
class Case:
    """A table with an index: its key and columns by name, and how both are made."""

    key: dict[str, str]
    columns: dict[str, str]
    orders: tuple[str, ...]
    indexed: tuple[str, ...]
    included: tuple[str, ...]
    unique: bool
    options: dict[str, Any]

    def create(self, path: str) -> Store:
        """Return a store with the empty table."""
        store = Store.create(path, environment=unsynced(path))
        ddl = [f"{name} {kind} NOT NULL" for name, kind in self.key.items()]
        ddl += [f"{name} {kind}" for name, kind in self.columns.items()]
        key = [f"{name}{order}" for name, order in zip(self.key, self.orders, strict=False)]
        store.create_table("t", ", ".join(ddl), primary_key=key, **self.options)
        store.create_index(
            "t", "by_it", list(self.indexed), include=self.included, unique=self.unique
        )
        return store

    def values_of(self, name: str) -> list[Any]:
        """Return the values that a column may have."""
        kind = self.key.get(name)
        return _VALUES[kind] if kind else [None, *_VALUES[self.columns[name]]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a case: most keys are whole numbers and texts."""
    key = {f"k{n}": draw(_TYPES) for n in range(draw(st.integers(1, 2)))}
    columns = {f"c{n}": draw(_TYPES) for n in range(3)}
    orders = tuple(draw(st.sampled_from(["", "", "", " DESC"])) for _ in key)
    names = draw(st.permutations(["c0", "c1", "k0"]))[: draw(st.integers(1, 2))]
    indexed = tuple(name + draw(st.sampled_from(["", "", "", " DESC"])) for name in names)
    included = tuple(draw(st.lists(st.sampled_from(["c1", "c2"]), unique=True)))
    options: dict[str, Any] = draw(
        st.sampled_from([{}, {}, {}, {"merge": "partial"}, {"ttl": 3600}])
    )
    return Case(key, columns, orders, indexed, included, draw(st.booleans()), options)


def filled(data: st.DataObject, case: Case, store: Store) -> None:
    """Write rows and deletes in some commits, some of which a unique index may refuse."""
    names = [*case.key, *case.columns]
    for number in range(data.draw(st.integers(1, 4))):
        rows = data.draw(
            st.lists(
                st.tuples(*(st.sampled_from(case.values_of(name)) for name in names)), max_size=6
            )
        )
        whole = store.table("t").schema.arrow_schema
        schema = pa.schema([whole.field(name) for name in names])
        batch = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
        try:
            store.write("t", batch)
        except RelstateError:
            assert case.unique
        if bool(rows) and data.draw(st.booleans()):
            store.delete("t", batch.select(list(case.key)).slice(0, 1))
        if number == 1 and data.draw(st.booleans()):
            store.add_columns("t", "late STRING")


def outcome(read: Callable[[], list[Any]]) -> Any:
    """Return the rows of a read with their columns, or its error."""
    try:
        return [(tuple(row), row.columns) for row in read()]
    except RelstateError as error:
        return type(error), str(error)


def general(
    table: StorageTable, index: str, values: Sequence[Any], columns: Sequence[str] | None
) -> list[Any]:
    """Return the rows by the general way."""
    names = None if columns is None else visible_names(table.encoding, columns)
    return list(conditional.get_by(table, index, values, names))


@settings(max_examples=examples(40))
@given(data=st.data(), case=cases())
def test_rows_and_errors_are_those_of_the_general_way(data: st.DataObject, case: Case) -> None:
    """In several files, with NULLs, deletes, long keys, expiry and merges; of wrong values too."""
    with TemporaryDirectory() as folder, case.create(folder) as store:
        filled(data, case, store)
        table = store.table("t")
        reader = store.read_plan("t").open(store.environment)
        indexed = [name.removesuffix(" DESC") for name in case.indexed]
        choices = [None, list(case.key), ["c2"], [*indexed, *case.included], ["nope"], [], "c0"]
        for _ in range(6):
            values = data.draw(st.tuples(*(st.sampled_from(case.values_of(n)) for n in indexed)))
            if data.draw(st.integers(0, 3)) == 0:
                values = tuple(data.draw(st.lists(_ODD, max_size=3)))
            columns = data.draw(st.sampled_from(choices))
            expected = outcome(partial(general, reader, "by_it", values, columns))
            for _ in range(2):
                assert outcome(partial(table.get_by, "by_it", *values, columns=columns)) == expected
                assert outcome(partial(reader.get_by, "by_it", values, columns)) == expected


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a table in several files, one row of which was deleted, and three indexes."""
    store = Store.create(str(tmp_path), environment=unsynced(str(tmp_path)))
    store.create_table("t", "k BIGINT, name STRING, n INT, x DOUBLE", primary_key=["k"])
    store.create_index("t", "by_name", ["name"], include=["n"])
    store.create_index("t", "by_both", ["n", "name"])
    store.create_index("t", "only", ["x"], unique=True)
    ints = pa.int32()
    names = ["a", "b", "a", "c"]
    numbers = pa.array([1, 2, 1, None], ints)
    older = {"k": [1, 2, 3, 4], "name": names, "n": numbers, "x": [0.5, 1.5, 2.5, None]}
    newer = {"k": [2, 5], "name": ["a", "a"], "n": pa.array([1, 2], ints), "x": [1.0, 3.0]}
    for rows in (older, newer):
        store.write("t", pa.table(rows))
    store.delete("t", pa.table({"k": [3]}))
    return store


def test_usual_lookups_take_the_quick_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first one: of whole rows and of columns that the index holds, hits and misses."""
    table = store.table("t")

    def read() -> list[Any]:
        return [
            table.get_by("by_name", "a"),
            table.get_by("by_name", "b"),
            table.get_by("by_both", 1, "a"),
            table.get_by("BY_name", "a", columns=["n", "K"]),
            table.get_by("by_name", "a", columns=["x"]),
        ]

    first = read()
    assert first == [
        [(1, "a", 1, 0.5), (2, "a", 1, 1.0), (5, "a", 2, 3.0)],
        [],
        [(1, "a", 1, 0.5), (2, "a", 1, 1.0)],
        [(1, 1), (1, 2), (2, 5)],
        [(0.5,), (1.0,), (3.0,)],
    ]

    def general_way(*_: Any) -> None:
        raise AssertionError("the general way")

    monkeypatch.setattr(conditional, "get_by", general_way)
    assert read() == first
    with pytest.raises(AssertionError):
        table.get_by("by_both", 1)


@pytest.mark.parametrize(
    ("values", "columns", "error"),
    [
        (("a", "b"), None, SchemaMismatchError),
        ((), None, SchemaMismatchError),
        ((7,), None, SchemaMismatchError),
        (("a",), ["nope"], SchemaMismatchError),
        (("a",), "n", SchemaError),
    ],
)
def test_wrong_lookups_have_their_errors(
    store: Store, values: tuple[Any, ...], columns: Any, error: type[Exception]
) -> None:
    """Those of the general way, not as the consequence of another, after a right lookup too."""
    table = store.table("t")
    assert len(table.get_by("by_name", "a")) == 3
    with pytest.raises(error) as raised:
        table.get_by("by_name", *values, columns=columns)
    shown = "".join(traceback.format_exception(raised.value))
    assert "During handling" not in shown
    with pytest.raises(IndexNotFoundError):
        table.get_by("by_nothing", "a")
    with pytest.raises(ValueRangeError):
        table.get_by("by_both", 2**31, "a")


def test_a_table_with_indexes_is_released_with_its_last_reference(store: Store) -> None:
    """Its files are open while it lives: no cycle of references holds it."""
    table = store.read_plan("t").open(store.environment)
    assert len(table.get_by("by_name", ("a",))) == len(table.get_by("by_name", ("a",))) == 3
    files = weakref.ref(table._files)
    gc.disable()
    try:
        del table
        assert files() is None
    finally:
        gc.enable()
