"""The laws of how stores and tables are shown in notebooks."""

from __future__ import annotations

import pyarrow as pa

from relstate.storage import Store
from support.views import new_view


def test_a_store_shows_its_tables(store: Store) -> None:
    """Name, rows and bytes of each, none that is internal; it follows the latest epoch."""
    store.create_table("t", "k BIGINT, n BIGINT", primary_key=["k"])
    store.create_index("t", "i", ["n"])
    store.write("t", pa.table({"k": list(range(1000)), "n": [1] * 1000}))

    shown = store._repr_html_()

    assert "<td>t</td>" in shown
    assert ">1,000</td>" in shown
    assert "__internal" not in shown
    assert f"epoch {store.epoch}" in shown
    assert repr(store) == f"Store({store.path!r})"


def test_a_table_shows_its_columns(store: Store) -> None:
    """Their names, as text, and their types."""
    store.create_table("t", "k BIGINT, `<script>` STRING", primary_key=["k desc"])
    table = store.table("t")

    shown = table._repr_html_()

    assert "<td>&lt;script&gt;</td><td>STRING</td>" in shown
    assert "DESC" in shown
    assert repr(table) == "Table('t')"
    assert repr(store.at(2)) == f"Snapshot({store.path!r}, epoch 2)"
    assert f"{store.path}, epoch 2" in store.at(2)._repr_html_()


def test_views_and_plans_show_what_matters(store: Store) -> None:
    """A view its query, a plan what it reads: not all that they hold."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    store.view_catalog.create(new_view(store, "v", "t"))
    view, plan = store.view("v"), store.read_plan("t", columns=["v"])

    assert view.definition.query in view._repr_html_()
    assert repr(view).startswith(f"CatalogView(view {view.view_id}, reflects epoch ")
    assert "<td>v</td>" in plan._repr_html_()
    assert repr(plan) == f"ReadPlan('t' of {store.path!r} at epoch {store.epoch}: v, 0 files)"
