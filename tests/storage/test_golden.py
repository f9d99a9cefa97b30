"""Stores of earlier versions can always be read, written, compacted and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.variant_utils import VariantUtils

from relstate.storage import Store, ViewInput
from relstate.storage.errors import (
    CheckViolationError,
    UniqueViolationError,
    ViewNotPopulatedError,
)
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.segment.registry import registry
from relstate.vnode import VnodeMapping
from support import golden_stores as written
from support.golden import golden_stores, pack, unpack
from support.stores import contents


def of(name: str) -> pytest.MarkDecorator:
    """Run a test with the golden stores of a name, one of each version."""
    return pytest.mark.parametrize("golden", golden_stores(name), indirect=True)


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A copy of a golden store."""
    return Store.open(str(unpack(request.param, tmp_path)))


def test_there_is_a_store_of_each_kind() -> None:
    """The laws below hold for some."""
    assert [name for name in written.WRITERS if not golden_stores(name)] == []


def test_an_archive_depends_on_its_files_alone(tmp_path: Path) -> None:
    """Equal files give equal bytes, whenever they were written, but for the signal."""
    (store, *_) = golden_stores("rows")
    path = unpack(store, tmp_path)
    pack(path, tmp_path / "one.tar.xz")
    (path / "_log" / ".signal").write_bytes(b"12345678")
    pack(path, tmp_path / "other.tar.xz")

    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "other.tar.xz").read_bytes()


@of("rows")
def test_rows_are_read(golden: Store) -> None:
    """Every type, key and delete is what was written."""
    rows = golden.table("every_type").to_arrow().to_pylist()
    long_keys = golden.table("long_keys").to_arrow().to_pylist()

    assert rows == [written.FULL, written.LATER, written.EMPTY]
    expected = {key: value for value, key in enumerate(written.LONG_KEYS)}
    assert {row["k"]: row["v"] for row in long_keys} == expected
    assert [row["k"] for row in long_keys] == sorted(expected)


@of("rows")
def test_views_are_read(golden: Store) -> None:
    """The definition, state, rows and progress of a view; with NULLs in its keys."""
    view = golden.view("view")

    altered = golden.read_plan("altered").definition.table_id
    assert golden.views() == ("view",)
    assert golden.internal_tables("view") == ("__internal_view_1",)
    assert (view.definition.query, view.definition.plan) == (written.QUERY, written.PLAN)
    assert view.definition.inputs == (ViewInput(altered, (1,)),)
    assert view.definition.mapping == VnodeMapping.balanced(5, 2).rescale(3)
    assert view.definition.settings == {"spark.sql.session.timeZone": "UTC"}
    assert view.progress.backfill == written.BACKFILL
    assert view.progress.inputs == ((altered, view.progress.reflects),)
    rows = golden.read_plan("view").open(golden.environment)
    view_rows = [tuple(row.values()) for batch in rows.scan() for row in batch.to_pylist()]
    assert sorted(view_rows, key=str) == sorted(written.VIEW, key=str)
    assert rows.get((None, None)) == (None, 1)
    with pytest.raises(ViewNotPopulatedError):
        golden.table("view")
    assert golden.table("__internal_view_1").get("b") == ("b", 2)
    assert golden.check().ok


@of("rows")
def test_rows_are_merged_fitted_and_expired(golden: Store) -> None:
    """In tables that merge their rows, were altered, or have a TTL; compacted or not."""
    assert contents(golden, "merged") == written.MERGED
    assert golden.table("merged").get("a") == written.MERGED[0]
    assert contents(golden, "first_wins") == written.FIRST_WINS
    assert contents(golden, "altered") == written.ALTERED
    assert golden.table("altered").get(3) == written.ALTERED[2]
    assert contents(golden, "expiring") == [(2,), (3,)]
    assert any(segment.record.sequence_number for segment in golden.state.segments.values())
    before = golden.epoch - 1
    assert contents(golden, "merged", before) == [("a", 3, 1, 3)]


@of("rows")
def test_a_delete_stays_in_force(golden: Store) -> None:
    """A late row does not come back; a later one does."""
    late = pa.table({"k": ["b"], "version": [4], "x": [1], "y": [1]})
    golden.write("merged", late)
    assert contents(golden, "merged") == written.MERGED

    golden.write("merged", late.set_column(1, "version", pa.array([6])))
    assert contents(golden, "merged") == [*written.MERGED, ("b", 6, 1, 1)]


@of("rows")
def test_rows_are_looked_up(golden: Store) -> None:
    """Point lookups find the rows, by long keys too."""
    row = golden.table("every_type").get("full", 1)

    assert row is not None
    assert row.text == written.FULL["text"]
    assert golden.table("every_type").get("gone", 0) is None
    for value, key in enumerate(written.LONG_KEYS):
        assert golden.table("long_keys").get(key) == (key, value)


@of("rows")
def test_epochs_stay_and_the_store_is_whole(golden: Store) -> None:
    """Earlier epochs of a store whose log is folded are there, and it is whole."""
    names = [row["name"] for row in golden.at(3).table("every_type").to_arrow().to_pylist()]

    assert names == [written.GONE["name"], written.FULL["name"]]
    assert golden.check().problems == ()
    assert golden.environment.list("_archive")


@of("rows")
def test_rows_are_written_compacted_and_vacuumed(golden: Store) -> None:
    """A store takes commits of this version, and is whole after each."""
    state = golden.state_table("long_keys")
    state.insert(["new", 1])
    state.commit()
    names = ("every_type", "long_keys", "merged", "first_wins", "altered", "expiring")
    before = {name: contents(golden, name) for name in names}

    assert golden.table("long_keys").get("new") == ("new", 1)
    assert golden.check().problems == ()
    golden.compact()
    golden.vacuum(0)
    assert golden.check().problems == ()
    assert {name: contents(golden, name) for name in before} == before


@of("documents")
@pytest.mark.parametrize("name", ["packed", "unpacked"])
def test_documents_are_read_and_written(golden: Store, name: str) -> None:
    """Parts of every kind, before and after a compaction, by scans and lookups; and written to."""
    expected = written.DOCUMENTS
    with golden as store:
        for _ in range(2):
            table = store.table(name)
            rows = {row.pop("k"): row for row in table.to_arrow().to_pylist()}
            assert {key: _plain_document(row) for key, row in rows.items()} == expected
            for key, row in expected.items():
                found = table.get(key)
                assert found is not None
                assert _plain_document({**found.as_dict()}, drop="k") == row
            remaining = table.ttl(5, "note")
            assert remaining is not None
            assert 0 < remaining < 100 * 365 * 86400
            assert store.check().problems == ()
            store.compact(name)
        with store.document_writer(name) as writer:
            writer.remove(3, ("doc", "a", "b"))
        assert store.table(name).get(3) is None


@of("filtered")
def test_filters_are_read(golden: Store) -> None:
    """A file has the filter that was written with it, and lookups find every row by it."""
    keys = range(written.FILTERED_ROWS)
    segments = golden.read_plan("filtered").segments
    files = [registry.open(golden.environment, segment.record) for segment in segments]
    assert sorted(len(file.key_filters) for file in files) == [0, 1]
    table = golden.table("filtered")
    assert [table.get(key) for key in keys] == [(key, key > 2) for key in keys]
    assert table.get(len(keys)) is None
    assert golden.check().problems == ()


def _plain_document(row: dict[str, Any], drop: str = "") -> dict[str, Any]:
    """Return a row with its maps as dicts and its variants as values of JSON."""
    row.pop(drop, None)
    doc, props = row["doc"], row["props"]
    return {
        **row,
        "props": None if props is None else dict(props),
        "doc": doc and VariantUtils.to_python(doc["value"], doc["metadata"]),
    }


def _use_catalog(store: Store) -> None:
    """Read, write, compact and check what `fill_catalog` has made."""
    assert contents(store, "orders") == written.CATALOG
    assert sorted(contents(store, "events")) == written.KEYLESS
    definition = store.read_plan("orders").definition
    assert definition.comment == "of the shop"
    assert [index.name for index in definition.indexes] == ["by_customer", "by_mail"]
    table = store.state.table("orders")
    assert dict(table.violations) == written.VIOLATIONS
    assert store.table("orders").get_by("by_mail", "bob@b.at") == [written.CATALOG[2]]
    with pytest.raises(UniqueViolationError):
        store.write("orders", [{"id": 9, "mail": "ann@a.at"}])
    with pytest.raises(CheckViolationError):
        store.write("orders", [{"id": 9, "amount": -1}])

    store.write("orders", [{"id": 9, "mail": "c@c.at"}])
    store.write("events", [{"v": 1}])
    store.compact()

    assert store.table("orders").get(9) == (9, "nobody", None, "c@c.at", 18)
    assert sorted(contents(store, "events")) == sorted([*written.KEYLESS, (1,)])
    assert store.check().problems == ()


@of("catalog")
def test_all_that_a_definition_can_have_is_in_force(golden: Store) -> None:
    """Indexes, constraints, expectations, defaults, generated columns; a table without a key."""
    _use_catalog(golden)


@pytest.mark.parametrize("name", golden_stores("objects"))
def test_a_store_in_a_bucket_is_used(name: str, tmp_path: Path) -> None:
    """Its objects, some of them packed, are those of its version."""
    path = unpack(name, tmp_path)
    packed = [file for file in path.glob("segments/*") if file.read_bytes()[:8] == b"RELSTZST"]
    assert packed

    with Store.open(written.put_objects(path)) as store:
        assert store.table("texts").get(7) == (7, "7" * 200)
        _use_catalog(store)


@of("manifests")
def test_a_store_with_manifests_is_used(golden: Store) -> None:
    """By a process that divides as finely, and by one that writes whole checkpoints again."""
    assert any(name.endswith(".manifest.json") for name in golden.environment.list("_archive"))
    environment = LocalEnvironment(golden.path)
    for number, store in enumerate([written.opened_finely(environment), golden]):
        expected = sorted(written.MANIFEST_ROWS.items()) + [(200 + n, "new") for n in range(number)]
        assert contents(store, "t") == expected
        assert store.check().problems == ()
        store.write("t", [{"k": 200 + number, "v": "new"}])
        while store.epoch % 32:
            store.create_table("passing", "k INT", primary_key=["k"])
            store.drop_table("passing")
        store.compact("t")
        assert store.table("t").get(200 + number) == (200 + number, "new")
        assert store.check().problems == ()
