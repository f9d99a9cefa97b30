"""A whole store under faults: at every step of a change it has the old rows or the new ones.

Each call to the outside world fails in turn: those for segments, for the log, for its folding.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.errors import RelstateError, StorageError, UnknownOutcomeError
from relstate.storage.segment.registry import registry
from support.faulty_environment import FaultyEnvironment, trials
from support.stores import Rows, batch_of, contents, unsynced, upsert
from support.views import new_view, progressed, refresh, view_rows

Change = Callable[[Store], object]
_OLD: Rows = [(1, "one"), (2, "two"), (3, "three")]


def _upsert_and_delete(store: Store) -> None:
    state = store.state_table("t")
    state.insert([2, "new"])
    state.insert([4, "four"])
    state.delete([1, "one"])
    state.commit()


def _truncate(store: Store) -> None:
    store.truncate("t")


def _create(store: Store) -> None:
    store.create_table("another", "k INT", primary_key=["k"])


def _refresh(store: Store) -> None:
    segments = (*view_rows(store, "v", 1, 2), *view_rows(store, "__internal_v_2", None))
    refresh(store, progressed(store, "v"), segments=segments)


def _drop_view(store: Store) -> None:
    store.drop_view("v")


def _create_index(store: Store) -> None:
    store.create_index("t", "by_v", ["v"], unique=True)


def _drop_index(store: Store) -> None:
    store.drop_index("indexed", "by_v")


def _write_indexed(store: Store) -> None:
    store.write("indexed", batch_of(store, "indexed", [(1, "two"), (2, "one")]))


_TABLES = ("indexed: 1 one, 2 two", "t", "v of 0, 0")
_UPSERTED: Rows = [(2, "new"), (3, "three"), (4, "four")]
_CHANGES: dict[str, tuple[Change, Rows, tuple[str, ...]]] = {
    "upsert": (_upsert_and_delete, _UPSERTED, _TABLES),
    "truncate": (_truncate, [], _TABLES),
    "create table": (_create, _OLD, ("another", *_TABLES)),
    "refresh": (_refresh, _OLD, (*_TABLES[:2], "v of 2, 1")),
    "drop view": (_drop_view, _OLD, _TABLES[:2]),
    "create index": (_create_index, _OLD, (_TABLES[0], "t: 1 one, 3 three, 2 two", _TABLES[2])),
    "drop index": (_drop_index, _OLD, ("indexed", *_TABLES[1:])),
    "write indexed": (_write_indexed, _OLD, ("indexed: 2 one, 1 two", *_TABLES[1:])),
}
_EPOCHS = {"plain": 12, "folding": 94}
# A fold comes after the commit, whatever that was: with and without segments of views will do.
_CASES = [*(("plain", name) for name in _CHANGES), ("folding", "upsert"), ("folding", "refresh")]
changes = pytest.mark.parametrize(
    ("prepared", "change", "after", "tables"),
    [(_EPOCHS[store], *_CHANGES[name]) for store, name in _CASES],
    ids=["-".join(case) for case in _CASES],
    indirect=["prepared"],
)


@pytest.fixture(scope="module", params=[*_EPOCHS.values()], ids=[*_EPOCHS])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a few rows, whose next commit is a plain one, or one that folds the log."""
    path = tmp_path_factory.mktemp("prepared") / "store"
    with Store.create(str(path), vnode_count=5, shards=2, environment=unsynced(str(path))) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        upsert(store, "t", [(1, "old"), (2, "two"), (9, "gone")])
        upsert(store, "t", [(1, "one"), (3, "three")], deleted=[(9, None)])
        store.view_catalog.create(new_view(store, "v", "t"))
        refresh(store, progressed(store, "v"))
        store.create_table("indexed", "k BIGINT, v STRING", primary_key=["k"])
        store.create_index("indexed", "by_v", ["v"], unique=True)
        upsert(store, "indexed", [(1, "one"), (2, "two")])
        while store.epoch < request.param:
            # Epochs without segments: what they cost to check would be paid at every step.
            store.create_table("passing", "k INT", primary_key=["k"])
            store.drop_table("passing")
        assert store.epoch in (request.param, request.param + 1)
    return path


def _found(environment: FaultyEnvironment) -> tuple[int, Rows, tuple[str, ...]]:
    """Return the (epoch, rows, tables) that a new process finds, in a store that is whole.

    For a view, a text beside the tables says how many rows its own tables hold.
    For a table with an index, the entries of the index are in the text with its name; the check
    compares them with the table.
    """
    registry.close(environment.root)
    with Store.open(environment.root) as store:
        assert store.check().problems == ()
        views = (
            f"{view} of {len(contents(store, view))}, {len(contents(store, state))}"
            for view in store.views()
            for _, state in [store.internal_tables(view)]
        )
        tables = (name + _entries(store, name) for name in store.tables())
        return store.epoch, contents(store, "t"), (*tables, *views)


def _entries(store: Store, table: str) -> str:
    """Return the entries of a table's index as text; nothing if there is none."""
    names = [index.internal_table for index in store.indexes(table)]
    rows = sorted(contents(store, names[0])) if names else []
    return ": " * bool(names) + ", ".join(f"{key} {value}" for value, key in rows)


@changes
@pytest.mark.parametrize("cut", ["killed", "power cut", "torn"])
def test_a_crash_at_any_step_leaves_the_old_or_the_new(
    prepared: Path, tmp_path: Path, change: Change, after: Rows, tables: tuple[str, ...], cut: str
) -> None:
    """Whatever was synced when the process died, its change is there whole or not at all."""
    with Store.open(str(prepared)) as store:
        old = (store.epoch, _OLD, _TABLES)
    new = (old[0] + 1, after, tables)
    seen = set()
    for environment in trials(prepared, tmp_path, "crash_at"):
        returned = False
        with environment.crashing():
            change(Store.open(environment.root, environment=environment))
            returned = True
        if cut != "killed":
            environment.power_cut(seed=None if cut == "power cut" else len(environment.touches))

        present = _found(environment)

        assert present in (old, new)
        assert present == new or not returned
        seen.add(present[0])
    assert seen == {old[0], new[0]}


@changes
@pytest.mark.parametrize(
    ("fault", "number"),
    # The answer ENOSPC is never given for what was done.
    [("error_at", errno.ENOSPC), ("error_at", errno.EIO), ("lost_at", errno.EIO)],
    ids=["ENOSPC", "EIO", "lost answer"],
)
def test_an_error_at_any_step_is_raised_and_loses_nothing(
    prepared: Path,
    tmp_path: Path,
    change: Change,
    after: Rows,
    tables: tuple[str, ...],
    fault: str,
    number: int,
) -> None:
    """An error, or a lost answer, is raised as an error of relstate, or a retry overcomes it.

    A change that returned is there; one that raised anything but UnknownOutcomeError is not.
    """
    with Store.open(str(prepared)) as store:
        old = (store.epoch, _OLD, _TABLES)
    new = (old[0] + 1, after, tables)
    for environment in trials(prepared, tmp_path, fault, errno=number):
        raised: RelstateError | None = None
        try:
            change(Store.open(environment.root, environment=environment))
        except RelstateError as error:
            raised = error

        present = _found(environment)

        assert present in (old, new)
        if raised is None:
            assert present == new
        elif not isinstance(raised, UnknownOutcomeError):
            assert present == old
            assert isinstance(raised, StorageError), repr(raised)


def test_after_an_error_the_same_store_goes_on(prepared: Path, tmp_path: Path) -> None:
    """A handle that met an error is not broken by it: the change can be made again."""
    for environment in trials(prepared, tmp_path, "error_at", errno=errno.ENOSPC):
        try:
            store = Store.open(environment.root, environment=environment)
        except RelstateError:
            continue
        try:
            _upsert_and_delete(store)
        except RelstateError:
            _upsert_and_delete(store)

        assert _found(environment)[1] == _UPSERTED
