"""Laws of views in the catalog: a refresh alone writes their tables; inputs stay as planned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store, ViewProgress
from relstate.storage.errors import (
    ConflictError,
    DependentViewsError,
    InternalTableError,
    OptionError,
    RelstateError,
    SchemaError,
    TableExistsError,
    TableNameError,
    TableNotFoundError,
    ViewNotFoundError,
    ViewNotPopulatedError,
)
from relstate.storage.log.proposal import AlteredTable, AlteredView, NewProgress
from relstate.vnode import VnodeMapping
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.races import Before
from support.stores import StoreMaker, contents, unsynced, upsert
from support.views import new_view, progressed, refresh, view_rows


@pytest.fixture
def store(make_store: StoreMaker) -> Store:
    """A store with the tables t and u, and the view v of t's columns k and a."""
    store = make_store(vnode_count=8)
    for name in ("t", "u"):
        store.create_table(name, "k BIGINT, a INT, b INT", primary_key=["k"])
    store.view_catalog.create(new_view(store, "v", "t", columns=(1, 2)))
    return store


def id_of(store: Store, name: str) -> int:
    """Return the id of a table."""
    return store.read_plan(name).definition.table_id


def proposed(store: Store, **parts: Any) -> int:
    """Commit a proposal that was made without a look at the store."""
    return store.jobs.commit(
        Proposal(operation="x", started=store.environment.now(), **parts)
    ).epoch


# What there is


def test_a_view_is_what_it_was_created_as(store: Store) -> None:
    """Its definition names the tables that the commit made for it; it has not begun to read."""
    view, asked = store.view("V"), new_view(store, "v", "t", columns=(1, 2))

    assert view.definition.view_id == id_of(store, "v")
    assert store.internal_tables("v") == ("__internal_v_1", "__internal_v_2")
    assert view.definition.internal == tuple(
        map(store.state.table_ids.get, store.internal_tables("v"))
    )
    assert (view.definition.query, view.definition.inputs) == (asked.query, asked.inputs)
    assert (view.definition.mapping, view.definition.settings) == (asked.mapping, asked.settings)
    assert view.progress == ViewProgress(view.view_id, 0, ((id_of(store, "t"), 0),), None)


def test_the_json_of_a_view_is_the_same_now_and_read_later(store: Store) -> None:
    """Its plan and the position of its backfill are JSON values, whatever types they had."""
    store.view_catalog.create(replace(new_view(store, "w", "u"), plan={"fields": (1, None)}))
    refresh(store, progressed(store, "w", backfill=(1, 2)))

    made, read = store.view("w"), Store.open(store.path, environment=unsynced(store.path)).view("w")
    assert made.definition.plan == read.definition.plan == {"fields": [1, None]}
    assert made.progress.backfill == read.progress.backfill == [1, 2]


def test_tables_views_and_state_are_listed_separately(store: Store) -> None:
    """Each is in its own list and can be read, a view once it is populated."""
    assert (store.tables(), store.views()) == (("t", "u"), ("v",))
    for name in ("t", "__internal_v_1"):
        assert contents(store, name) == []
    with pytest.raises(ViewNotPopulatedError, match="'v' is still being filled at epoch 4"):
        store.table("v")
    with pytest.raises(ViewNotFoundError, match="no view 't' at epoch 4; it is a table"):
        store.view("t")
    with pytest.raises(ViewNotFoundError, match="no view 'w' at epoch 4; there are: v"):
        store.internal_tables("w")
    with pytest.raises(TableNotFoundError, match=r"there are: t, u, v$"):
        store.read_plan("w")


def test_the_catalog_of_views_survives_checkpoints(store: Store) -> None:
    """A store opened again, and older epochs after the log was folded, have the same views."""
    upsert(store, "t", [(1, 1, 1)])
    refresh(store, progressed(store, "v", backfill={"at": (1, None)}))
    epoch, before = store.epoch, store.view("v")
    while store.epoch < 100:
        store.truncate("u")
    store.drop_view("v")

    opened = Store.open(store.path, environment=unsynced(store.path))
    assert opened.views() == ()
    assert opened.at(epoch).state.view("v") == before
    assert before.progress.backfill == {"at": [1, None]}
    assert opened.check().ok


def test_the_names_of_views_and_tables_are_one_namespace(store: Store) -> None:
    """The second of two is refused; state tables have names that no user can take."""
    with pytest.raises(TableExistsError, match="a table or view 'V' already"):
        store.create_table("V", "k INT", primary_key=["k"])
    for name in ("v", "U"):
        with pytest.raises(TableExistsError, match="table or view"):
            store.view_catalog.create(new_view(store, name, "t"))
    with pytest.raises(TableNameError, match="relstate's own"):
        store.view_catalog.create(new_view(store, "__internal_x", "t"))
    view = new_view(store, "w", "t")
    with pytest.raises(TableNameError, match="begin it with __internal_"):
        store.view_catalog.create(replace(view, internal=(replace(view.table, name="plain"),)))
    assert store.views() == ("v",)


def test_impossible_views_are_refused(store: Store) -> None:
    """Inputs that expire, columns and tables that are not there, a mapping of other vnodes."""
    store.create_table("e", "k BIGINT", primary_key=["k"], ttl=5)
    with pytest.raises(SchemaError, match="'w' cannot read table 'e', whose rows expire"):
        store.view_catalog.create(new_view(store, "w", "u", "e"))
    with pytest.raises(SchemaError, match="reads columns of table 'u' that do not exist"):
        store.view_catalog.create(new_view(store, "w", "u", columns=(1, 9)))
    with pytest.raises(OptionError, match="the mapping has 5 vnodes, but the store has 8"):
        store.view_catalog.create(
            replace(new_view(store, "w", "u"), mapping=VnodeMapping.balanced(5, 1))
        )
    view = new_view(store, "w", "u")
    store.drop_table("u")
    with pytest.raises(TableNotFoundError):
        proposed(store, new_views=(view,))
    assert store.views() == ("v",)


def test_what_a_view_reads_gets_no_rows_that_expire(store: Store) -> None:
    """Also if the view was created, or the TTL removed, after the write was planned."""
    store.create_table("w", "k BIGINT", primary_key=["k"], ttl=60)
    writer = store.jobs.write_target("w").open(store.environment)
    writer.write(pa.record_batch({"k": [1]}))
    segments = writer.finish()
    store.set_ttl("w", None)
    store.view_catalog.create(new_view(store, "late", "w"))

    with pytest.raises(DependentViewsError, match="'w' cannot be written with rows that expire"):
        proposed(store, segments=segments)
    assert store.write("w", pa.table({"k": [1]})) == store.epoch


def test_a_view_is_not_created_over_what_was_altered_meanwhile(store: Store) -> None:
    """It was planned with the earlier columns."""
    view, planned = new_view(store, "w", "u"), store.read_plan("u").definition
    store.rename_column("u", "b", "c")

    with pytest.raises(ConflictError, match="table 'u' was altered meanwhile"):
        store.view_catalog.create(view, [planned])
    store.view_catalog.create(view, [store.read_plan("u").definition])


# What a view keeps


_DOORS: dict[str, Callable[[Store, str], object]] = {
    "write": lambda store, name: store.write(name, pa.table({"k": [1]})),
    "overwrite": lambda store, name: store.write(name, pa.table({"k": [1]}), overwrite=True),
    "delete": lambda store, name: store.delete(name, pa.table({"k": [1]})),
    "truncate": lambda store, name: store.truncate(name),
    "write_target": lambda store, name: store.jobs.write_target(name),
    "state_table": lambda store, name: store.state_table(name),
    "strict state_table": lambda store, name: store.state_table(name, strict=True),
    "set_ttl": lambda store, name: store.set_ttl(name, 5),
    "add_columns": lambda store, name: store.add_columns(name, "x INT"),
    "drop_columns": lambda store, name: store.drop_columns(name, "n"),
    "rename_column": lambda store, name: store.rename_column(name, "n", "m"),
    "widen_column": lambda store, name: store.widen_column(name, "n", "DECIMAL(38,0)"),
    "drop_table": lambda store, name: store.drop_table(name),
    "drop_table cascade": lambda store, name: store.drop_table(name, cascade=True),
    "bare base": lambda store, name: proposed(store, based_tables=(id_of(store, name),)),
    "bare drop": lambda store, name: proposed(store, dropped_tables=(id_of(store, name),)),
    "bare rows": lambda store, name: proposed(store, segments=view_rows(store, name, 1)),
}


@pytest.mark.parametrize("name", ["v", "__internal_v_2"])
@pytest.mark.parametrize("door", _DOORS)
def test_the_tables_of_a_view_are_written_by_its_refresh_alone(
    store: Store, name: str, door: str
) -> None:
    """Every other way is refused, in words that name the view, and changes nothing."""
    epoch = store.epoch

    with pytest.raises(
        InternalTableError, match=f"'{name}' cannot be .* belongs to the view 'v'.*DROP MAT"
    ):
        _DOORS[door](store, name)

    assert store.epoch == epoch


def test_a_refresh_writes_rows_state_and_progress_at_once(store: Store) -> None:
    """All of it is visible at the epoch, and nothing before; NULL is a key."""
    upsert(store, "t", [(1, 1, 1)])
    segments = (*view_rows(store, "v", 1, None), *view_rows(store, "__internal_v_1", None))
    epoch = refresh(store, progressed(store, "v"), segments=segments)

    assert sorted(contents(store, "v"), key=str) == [(1, None), (None, None)]
    assert store.table("__internal_v_1").get(None) == (None, None)
    assert store.view("v").progress.reflects == epoch - 1
    with pytest.raises(ViewNotPopulatedError):
        store.at(epoch - 1).table("v")
    rebuilt = refresh(store, progressed(store, "v"), based_tables=(id_of(store, "v"),))
    assert (contents(store, "v"), rebuilt) == ([], epoch + 1)


def test_maintenance_of_internal_tables_is_allowed(store: Store) -> None:
    """Merging files changes no rows."""
    for _ in range(3):
        segments = view_rows(store, "v", *range(20))
        refresh(store, progressed(store, "v"), segments=segments)

    assert store.compact("v").files_read == 3
    assert contents(store, "v") == [(key, None) for key in range(20)]


# Refreshes that race


def test_two_refreshes_of_one_view_conflict(store: Store) -> None:
    """The later one has read changes that the view has already taken in."""
    first, second = progressed(store, "v"), progressed(store, "v")
    refresh(store, first)

    with pytest.raises(ConflictError, match="view 'v' was refreshed or altered meanwhile"):
        refresh(store, second, segments=view_rows(store, "v", 1))


def test_a_refresh_conflicts_with_a_new_mapping(store: Store) -> None:
    """Other units own the vnodes now; a new attempt runs with these."""
    progress = progressed(store, "v")
    mapping = store.view("v").definition.mapping.rescale(3)
    store.view_catalog.set_properties("v", 3, {})

    with pytest.raises(ConflictError, match="refreshed or altered"):
        refresh(store, progress)
    assert store.view("v").definition == replace(progress.before.definition, mapping=mapping)
    refresh(store, progressed(store, "v"))


def test_a_table_has_no_properties_of_views(store: Store) -> None:
    """Only a view has parallel units."""
    with pytest.raises(ViewNotFoundError):
        store.view_catalog.set_properties("t", 2, {})


def test_a_refresh_conflicts_with_what_it_requires(store: Store) -> None:
    """Its inputs' columns, and views that it reads and does not refresh itself."""
    store.view_catalog.create(new_view(store, "w", "v", "u"))
    disturbances: list[Callable[[], object]] = [
        lambda: store.add_columns("u", "c INT"),
        lambda: refresh(store, progressed(store, "v")),
    ]
    for disturb in disturbances:
        requires = (store.read_plan("u").definition, store.view("v"))
        progress = progressed(store, "w")
        disturb()
        with pytest.raises(ConflictError, match="meanwhile"):
            refresh(store, progress, requires=requires)
    refresh(store, progressed(store, "w"), requires=(store.view("v"),))


def test_a_refresh_conflicts_with_nothing_else(store: Store) -> None:
    """Writes to its inputs and to others, other views' refreshes, tables made and dropped."""
    store.view_catalog.create(new_view(store, "w", "t", "u"))
    progress = progressed(store, "v")
    requires = (store.read_plan("t").definition,)
    upsert(store, "t", [(1, 1, 1)])
    store.truncate("t")
    store.compact()
    refresh(store, progressed(store, "w"))
    store.add_columns("u", "c INT")
    store.create_table("x", "k INT", primary_key=["k"])
    store.drop_view("w")
    store.drop_table("u")

    refresh(store, progress, requires=requires)


def test_a_dropped_view_is_not_refreshed(store: Store) -> None:
    """Neither is a view of the same name that was created since."""
    progress = progressed(store, "v")
    store.drop_view("v")
    store.view_catalog.create(new_view(store, "v", "t"))

    with pytest.raises(TableNotFoundError, match=r"dropped meanwhile|never was"):
        refresh(store, progress)


def test_views_over_views_move_in_one_commit(store: Store) -> None:
    """What one has taken in of the other is the epoch of the commit itself, whichever that is."""
    store.view_catalog.create(new_view(store, "w", "v"))
    read = store.epoch
    upper = NewProgress(store.view("w"), read, ((id_of(store, "v"), None),))
    lower = progressed(store, "v", read)
    upsert(store, "t", [(1, 1, 1)])
    epoch = refresh(store, lower, upper)

    assert store.view("w").progress == ViewProgress(
        id_of(store, "w"), read, ((id_of(store, "v"), epoch),)
    )
    assert store.view("v").progress.epoch_of(id_of(store, "t")) == read == epoch - 2


# What a view reads


def test_what_a_view_reads_stays_as_it_reads_it(store: Store) -> None:
    """Its columns are neither dropped, renamed nor widened, and its rows do not expire."""
    for alter in (
        lambda: store.drop_columns("t", "b", "a"),
        lambda: store.rename_column("t", "A", "c"),
        lambda: store.rename_column("t", "k", "c"),
        lambda: store.widen_column("t", "a", "BIGINT"),
        lambda: store.set_ttl("t", 60),
        lambda: store.write("t", pa.table({"k": [1]}), ttls=pa.array([5])),
        lambda: store.jobs.write_target("t", expiring=True),
    ):
        with pytest.raises(
            DependentViewsError, match=r"'t' cannot be .*: it is read by the views v"
        ):
            alter()
    store.add_columns("t", "c INT")
    store.comment_column("t", "a", "a comment changes no row")
    store.rename_column("t", "b", "d")
    store.widen_column("t", "d", "BIGINT")
    store.drop_columns("t", "d")
    store.set_ttl("t", None)
    store.drop_view("v")
    store.drop_columns("t", "a")


def test_what_views_read_is_dropped_with_them_only(store: Store) -> None:
    """The refusal names them; CASCADE drops all in one commit, those of other tables stay."""
    store.view_catalog.create(new_view(store, "w", "v", "u"))
    store.view_catalog.create(new_view(store, "x", "u"))
    with pytest.raises(
        DependentViewsError, match="'t' cannot be dropped: it is read by the views v"
    ):
        store.drop_table("t")
    with pytest.raises(DependentViewsError, match=r"'u' .* by the views w, x; .*CASCADE"):
        store.drop_table("u", if_exists=True)
    with pytest.raises(DependentViewsError, match=r"'v' .* by the views w"):
        store.drop_view("v")
    epoch = store.epoch

    store.drop_table("t", cascade=True)

    assert (store.tables(), store.views(), store.epoch) == (("u",), ("x",), epoch + 1)
    assert set(store.state.table_ids) == {"u", "x", "__internal_x_1", "__internal_x_2"}
    assert store.at(epoch).state.view_names() == ("v", "w", "x")


def test_a_view_is_dropped_with_all_its_tables(store: Store) -> None:
    """Its name is free then; with if_exists a missing view is not an error."""
    refresh(store, progressed(store, "v"), segments=view_rows(store, "__internal_v_1", 1))
    store.drop_view("V")

    assert (store.views(), set(store.state.table_ids)) == ((), {"t", "u"})
    store.drop_view("v", if_exists=True)
    for name in ("v", "t"):
        with pytest.raises(ViewNotFoundError):
            store.drop_view(name)
    store.create_table("v", "k INT", primary_key=["k"])
    store.drop_table("t")


def test_views_of_views_are_dropped_together(store: Store) -> None:
    """The named view, and all that read it."""
    store.view_catalog.create(new_view(store, "w", "v"))
    store.view_catalog.create(new_view(store, "x", "w", "u"))
    store.drop_view("w", cascade=True)

    assert store.views() == ("v",)


def test_what_was_planned_before_the_view_is_refused_at_its_commit(store: Store) -> None:
    """A drop, an alteration, a TTL: they are checked against the catalog that they follow."""
    before = store.read_plan("u").definition
    expiring = replace(before, properties=replace(before.properties, ttl=5))
    store.view_catalog.create(new_view(store, "w", "u"))
    store.rename_column("t", "b", "c")

    with pytest.raises(DependentViewsError, match="dropped"):
        proposed(store, dropped_tables=(before.table_id,))
    with pytest.raises(DependentViewsError, match="TTL"):
        proposed(store, altered_tables=(AlteredTable(before, expiring),))
    view = new_view(store, "x", "u")
    store.drop_table("u", cascade=True)
    with pytest.raises(TableNotFoundError, match=r"dropped meanwhile|never was"):
        proposed(store, new_views=(view,))


def late(store: Store, act: Callable[[], object]) -> Store:
    """Return another handle of a store; others act right before its first commit."""
    environment = FaultyEnvironment(store.path, before=Before("link _log/*", act))
    return Store.open(store.path, environment=environment)


@in_folder
def test_a_drop_finds_a_view_created_meanwhile(store: Store) -> None:
    """It is refused then; with CASCADE that view is dropped, too."""
    first, second = (new_view(store, name, "u") for name in ("w", "x"))
    with pytest.raises(DependentViewsError, match="read by the views w"):
        late(store, lambda: store.view_catalog.create(first)).drop_table("u")
    assert store.views() == ("v", "w")

    late(store, lambda: store.view_catalog.create(second)).drop_table("u", cascade=True)
    assert (store.tables(), store.views()) == (("t",), ("v",))


@in_folder
def test_of_two_numbers_of_units_at_once_the_later_stays(store: Store) -> None:
    """The writer that lost the race sets its number again, over the mapping of the other."""
    before = store.view("v").definition.mapping
    handle = late(store, lambda: store.view_catalog.set_properties("v", 3, {}))

    epoch = handle.view_catalog.set_properties("v", 5, {})

    assert store.view("v").definition.mapping == before.rescale(3).rescale(5)
    assert store.at(epoch - 1).state.view("v").definition.mapping == before.rescale(3)


def test_an_alteration_of_another_definition_conflicts(store: Store) -> None:
    """The new definition was made from one that has been replaced."""
    before = store.view("v").definition
    altered = AlteredView(before, replace(before, mapping=VnodeMapping.balanced(8, 5)))
    store.view_catalog.set_properties("v", 3, {})

    with pytest.raises(ConflictError, match="view 'v' was altered meanwhile"):
        proposed(store, altered_views=(altered,))


def test_a_catalog_that_all_change_at_once_stays_whole(make_store: StoreMaker) -> None:
    """Four handles create and drop views and their tables: no view is without its input."""
    store = make_store(vnode_count=4)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        handle = Store.open(store.path, environment=unsynced(store.path))
        steps: list[Callable[[], object]] = [
            lambda: handle.create_table("t", "k BIGINT, a INT", primary_key=["k"]),
            lambda: handle.view_catalog.create(new_view(handle, f"v{number}", "t", columns=(1, 2))),
            lambda: handle.view_catalog.create(new_view(handle, f"w{number}", f"v{number}")),
            lambda: refresh(handle, progressed(handle, f"v{number}")),
            lambda: handle.drop_columns("t", "a"),
            lambda: handle.drop_table("t", cascade=number % 2 == 0),
            lambda: handle.drop_view(f"v{number}", cascade=True),
        ]
        for turn in range(35):
            try:
                steps[(turn * (number + 1)) % len(steps)]()
            except RelstateError:
                continue
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    for epoch in range(1, store.epoch + 1):
        state = store.state_at(epoch)
        for view in state.views.values():
            inputs = {read.table_id for read in view.definition.inputs}
            assert inputs | {*view.definition.table_ids} <= state.tables.keys()
