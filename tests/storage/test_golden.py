"""Stores of earlier formats can always be read."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.variant_utils import VariantUtils

from relstate.storage import Store, ViewInput
from relstate.storage.errors import ViewNotPopulatedError
from relstate.storage.segment.registry import registry
from relstate.vnode import VnodeMapping
from support.stores import contents

_FOLDER = Path(__file__).parent / "golden"


def _writer() -> ModuleType:
    """Return the script that wrote the golden store, which knows what is in it."""
    spec = importlib.util.spec_from_file_location("golden_write", _FOLDER / "write.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def golden(tmp_path: Path) -> Store:
    """A copy of the golden store of format 1."""
    shutil.copytree(_FOLDER / "v1", tmp_path / "v1")
    return Store.open(str(tmp_path / "v1"))


def test_format_1_is_read(golden: Store) -> None:
    """Every type, key and delete of a store of format 1 is what was written."""
    writer = _writer()

    rows = golden.table("every_type").to_arrow().to_pylist()
    long_keys = golden.table("long_keys").to_arrow().to_pylist()

    assert rows == [writer.FULL, writer.LATER, writer.EMPTY]
    expected = {key: value for value, key in enumerate(writer.LONG_KEYS)}
    assert {row["k"]: row["v"] for row in long_keys} == expected
    assert [row["k"] for row in long_keys] == sorted(expected)


def test_format_1_s_views_are_read(golden: Store) -> None:
    """The definition, state, rows and progress of a view; with NULLs in its keys."""
    writer = _writer()

    view = golden.view("view")

    altered = golden.read_plan("altered").definition.table_id
    assert golden.views() == ("view",)
    assert golden.internal_tables("view") == ("__internal_view_1",)
    assert (view.definition.query, view.definition.plan) == (writer.QUERY, writer.PLAN)
    assert view.definition.inputs == (ViewInput(altered, (1,)),)
    assert view.definition.mapping == VnodeMapping.balanced(5, 2).rescale(3)
    assert view.definition.settings == {"spark.sql.session.timeZone": "UTC"}
    assert view.progress.backfill == writer.BACKFILL
    assert view.progress.inputs == ((altered, view.progress.reflects),)
    rows = golden.read_plan("view").open(golden.environment)
    view_rows = [tuple(row.values()) for batch in rows.scan() for row in batch.to_pylist()]
    assert sorted(view_rows, key=str) == sorted(writer.VIEW, key=str)
    assert rows.get((None, None)) == (None, 1)
    with pytest.raises(ViewNotPopulatedError):
        golden.table("view")
    assert golden.table("__internal_view_1").get("b") == ("b", 2)
    assert golden.check().ok


def test_format_1_s_rows_are_merged_fitted_and_expired(golden: Store) -> None:
    """In tables that merge their rows, were altered, or have a TTL; compacted or not."""
    writer = _writer()

    assert contents(golden, "merged") == writer.MERGED
    assert golden.table("merged").get("a") == writer.MERGED[0]
    assert contents(golden, "first_wins") == writer.FIRST_WINS
    assert contents(golden, "altered") == writer.ALTERED
    assert golden.table("altered").get(3) == writer.ALTERED[2]
    assert contents(golden, "expiring") == [(2,), (3,)]
    assert any(segment.record.sequence_number for segment in golden.state.segments.values())
    before = golden.epoch - 1
    assert contents(golden, "merged", before) == [("a", 3, 1, 3)]


def test_a_delete_of_format_1_stays_in_force(golden: Store) -> None:
    """A late row does not come back; a later one does."""
    writer = _writer()
    late = pa.table({"k": ["b"], "version": [4], "x": [1], "y": [1]})
    golden.write("merged", late)
    assert contents(golden, "merged") == writer.MERGED

    golden.write("merged", late.set_column(1, "version", pa.array([6])))
    assert contents(golden, "merged") == [*writer.MERGED, ("b", 6, 1, 1)]


def test_format_1_is_looked_up(golden: Store) -> None:
    """Point lookups find the rows of a store of format 1, by long keys too."""
    writer = _writer()

    row = golden.table("every_type").get("full", 1)

    assert row is not None
    assert row.text == writer.FULL["text"]
    assert golden.table("every_type").get("gone", 0) is None
    for value, key in enumerate(writer.LONG_KEYS):
        assert golden.table("long_keys").get(key) == (key, value)


def test_format_1_keeps_its_epochs_and_is_whole(golden: Store) -> None:
    """Earlier epochs of a store of format 1, whose log is folded, are there, and it is whole."""
    writer = _writer()

    names = [row["name"] for row in golden.at(3).table("every_type").to_arrow().to_pylist()]

    assert names == [writer.GONE["name"], writer.FULL["name"]]
    assert golden.check().problems == ()
    assert (_FOLDER / "v1" / "_archive").exists()


def test_format_1_is_written_to(golden: Store) -> None:
    """A store of format 1 takes a commit, and is whole after it."""
    state = golden.state_table("long_keys")
    state.insert(["new", 1])
    state.commit()

    assert golden.table("long_keys").get("new") == ("new", 1)
    assert golden.check().problems == ()


@pytest.mark.parametrize("name", ["packed", "unpacked"])
def test_format_1_s_documents_are_read(tmp_path: Path, name: str) -> None:
    """Parts of every kind, before and after a compaction, by scans and lookups; and written to."""
    shutil.copytree(_FOLDER / "v1_documents", tmp_path / "documents")
    (tmp_path / "documents" / "_archive").mkdir(exist_ok=True)  # git keeps no empty folders
    expected = _writer().DOCUMENTS
    with Store.open(str(tmp_path / "documents")) as store:
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


def test_format_1_s_filters_are_read(tmp_path: Path) -> None:
    """A file has the filter that was written with it, and lookups find every row by it."""
    shutil.copytree(_FOLDER / "v1_filtered", tmp_path / "filtered")
    (tmp_path / "filtered" / "_archive").mkdir(exist_ok=True)
    keys = range(_writer().FILTERED_ROWS)
    with Store.open(str(tmp_path / "filtered")) as store:
        segments = store.read_plan("filtered").segments
        files = [registry.open(store.environment, segment.record) for segment in segments]
        assert sorted(len(file.key_filters) for file in files) == [0, 1]
        table = store.table("filtered")
        assert [table.get(key) for key in keys] == [(key, key > 2) for key in keys]
        assert table.get(len(keys)) is None
        assert store.check().problems == ()


def _plain_document(row: dict[str, Any], drop: str = "") -> dict[str, Any]:
    """Return a row with its maps as dicts and its variants as values of JSON."""
    row.pop(drop, None)
    doc, props = row["doc"], row["props"]
    return {
        **row,
        "props": None if props is None else dict(props),
        "doc": doc and VariantUtils.to_python(doc["value"], doc["metadata"]),
    }
