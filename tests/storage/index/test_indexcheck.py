"""The check finds an index that is not its table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relstate.storage import Proposal, Store
from relstate.storage.index.index_maintenance import IndexMaintenance
from relstate.storage.log.proposal import NO_ADDITIONS
from support.stores import StoreMaker, upsert


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda store: upsert(store, "t", [(3, "c", 1)]), "it lacks the entry of a row"),
        (lambda store: upsert(store, "t", [(1, "z", 1)]), "it lacks the entry of a row"),
        (lambda store: upsert(store, "t", [(1, "a", 2)]), "it lacks the entry of a row"),
        (
            lambda store: upsert(store, "t", [], deleted=[(1, None, None)]),
            "it has 2 entries for 1 rows",
        ),
    ],
)
def test_a_difference_is_found(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, change: Callable[[Store], int], problem: str
) -> None:
    """A missing entry, one of other values, and one without a row."""
    store = Store.create(f"{tmp_path}/store", vnode_count=7)
    store.create_table("t", "k INT, v STRING, w INT", primary_key=["k"])
    store.create_index("t", "i", ["v"], include=["w"])
    upsert(store, "t", [(1, "a", 1), (2, "b", 1)])
    assert store.check().ok
    monkeypatch.setattr(IndexMaintenance, "__call__", lambda self, state: NO_ADDITIONS)
    change(store)

    (found,) = store.check().problems
    assert found.startswith(f"index i of table t: {problem}")


def test_an_index_without_its_table_is_found(make_store: StoreMaker) -> None:
    """The entries cannot be dropped alone, so only a forged log has such an index."""
    store = make_store(vnode_count=2)
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    store.create_index("t", "i", ["v"])
    index = store.state.table("t").definition.index("i")
    with pytest.raises(Exception, match="holds an index of table 't'"):
        store.jobs.commit(
            Proposal(
                operation="forged",
                started=store.environment.now(),
                dropped_tables=(index.table_id,),
            )
        )
