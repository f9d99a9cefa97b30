"""Stores with views that earlier versions wrote are refreshed, merged and checked by this one."""

from __future__ import annotations

from pathlib import Path

from relstate.connector.views.operators import EXECUTORS, executors_of
from relstate.connector.views.plan.node import walk
from relstate.connector.views.stored_plans import read_stored_plan
from relstate.storage import Store
from support.golden import golden_stores, unpack


def test_there_is_a_store_of_every_executor(tmp_path: Path) -> None:
    """The law below holds for each of them."""
    executors = set()
    for name in golden_stores("views"):
        with Store.open(str(unpack(name, tmp_path))) as store:
            for view in store.state.views.values():
                for node in walk(read_stored_plan(store.state, view).root):
                    executors.update(executors_of(node))

    assert executors == {executor for of_node in EXECUTORS.values() for executor in of_node}
