"""Which files may be merged, and which older ones remain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.log.state import StoreState, fold
from relstate.storage.maintenance.components import (
    Cell,
    File,
    SequenceNumber,
    bottom_cells,
    components,
    is_internal,
    is_sound,
    output_sequence_number,
)
from support.commits import record
from support.histories import FIRST, definition, following
from support.stores import upsert

_CELLS = st.sampled_from([(table, shard) for table in (1, 2) for shard in (0, 1)])


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[File], list[File]]:
    """Draw files, some with one sequence number, and at least one of them to merge."""
    numbers = st.tuples(st.integers(1, 4), st.integers(0, 1))
    drawn = draw(st.lists(st.tuples(numbers, st.frozensets(_CELLS, min_size=1)), min_size=1))
    files = [File(f"f{at}", number, 1, cells) for at, (number, cells) in enumerate(drawn)]
    inputs = [file for file in files if draw(st.booleans())] or files[:1]
    return files, inputs


def wins(number: SequenceNumber, rival: SequenceNumber) -> bool | None:
    """Return whether a version with one number hides that with another; None if neither does."""
    return None if number == rival else number > rival


def keeps_order(files: Sequence[File], inputs: Sequence[File]) -> bool:
    """Return whether a key that only two files hold is always read from the same one of them."""
    target = output_sequence_number(inputs)
    return all(
        wins(file.sequence_number, stays.sequence_number)
        in (None, wins(target, stays.sequence_number))
        for file in inputs
        for stays in files
        if stays not in inputs and file.cells & stays.cells
    )


@given(layouts())
def test_a_merge_is_sound_if_no_version_passes_another(
    layout: tuple[list[File], list[File]],
) -> None:
    """In exactly these cases every key reads as before, whichever two files have it."""
    files, inputs = layout

    assert is_sound(files, inputs) == keeps_order(files, inputs)


@given(layouts())
def test_the_bottom_is_where_nothing_is_hidden(layout: tuple[list[File], list[File]]) -> None:
    """Where a merged file may hide a row of a remaining file, deletes must stay."""
    files, inputs = layout
    if not is_sound(files, inputs):
        return
    with_older = {
        cell
        for file in inputs
        for stays in files
        if stays not in inputs and stays.sequence_number <= file.sequence_number
        for cell in file.cells & stays.cells
    }

    covered: set[Cell] = {cell for file in inputs for cell in file.cells}
    assert covered - bottom_cells(files, inputs) == with_older


def test_all_files_together_are_always_sound() -> None:
    """No older file remains."""
    cells = frozenset({(1, 0), (1, 1)})
    files = [File(f"f{epoch}", (epoch, 0), 1, cells) for epoch in range(5)]

    assert is_sound(files, files)
    assert bottom_cells(files, files) == cells


def test_the_order_in_one_table_counts_for_the_place_of_both() -> None:
    """Its output has one sequence number: neighbours in each table need not be a sound merge."""
    first = File("first", (5, 0), 1, frozenset({(1, 0)}))
    between = File("between", (7, 0), 1, frozenset({(1, 0)}))
    last = File("last", (10, 0), 1, frozenset({(2, 0)}))

    assert not is_sound([first, between, last], [first, last])
    assert is_sound([first, replace(between, cells=last.cells), last], [first, between])


def test_a_torn_merge_is_not_put_on_its_sibling() -> None:
    """Files with one sequence number share no key; older rows must not join one of them."""
    cells = frozenset({(1, 0)})
    older = File("older", (5, 0), 1, cells)
    siblings = [File(name, (10, 0), 1, cells) for name in ("one", "other")]

    assert not is_sound([older, *siblings], [older, siblings[0]])
    assert is_sound([older, *siblings], siblings)
    assert bottom_cells([older, *siblings], siblings) == frozenset()


def a_state(tables: Sequence[str], *held: tuple[int, ...]) -> StoreState:
    """Return a state with tables, ids from 1, and one segment each for some sets of their ids."""
    state = StoreState.first(FIRST)
    for name in tables:
        state = fold(state, [following(state, created_tables=(definition(state, name),))])
    for at, ids in enumerate(held):
        state = fold(state, [following(state, added=(record(f"s{at}", *ids),))])
    return state


def test_tables_that_share_files_are_one_component() -> None:
    """Directly or through other tables; a table without rows is in no component."""
    state = a_state("abcde", (1, 2), (3,), (2, 4))

    table_files = [
        (component.table_ids, [file.name for file in component.files])
        for component in components(state)
    ]

    assert table_files == [((1, 2, 4), ["s0", "s2"]), ((3,), ["s1"])]
    assert [component.table_ids for component in components(state, [4, 5])] == [(1, 2, 4)]


def test_a_file_shows_only_the_cells_that_are_visible() -> None:
    """Rows of a truncated table in a file that stays for other tables do not count."""
    state = a_state("ab", (1, 2), (1,))
    state = fold(state, [following(state, based_tables=(1,))])

    (component,) = components(state)

    assert component.table_ids == (2,)
    assert [(file.name, file.cells) for file in component.files] == [("s0", frozenset({(2, 1)}))]


def test_relstates_own_tables_are_known_by_their_names() -> None:
    """Whatever their case."""
    state = a_state(["orders", "__Internal_x"])

    assert [is_internal(state.tables[number].definition) for number in (1, 2)] == [False, True]


def test_cells_are_those_of_the_rows(store: Store) -> None:
    """A file with one row has rows in one shard, one with many rows in all."""
    store.create_table("t", "k BIGINT", primary_key=["k"])
    upsert(store, "t", [(1,)])
    upsert(store, "t", [(key,) for key in range(100)])

    (component,) = components(store.state)

    assert [file.is_wide for file in component.files] == [False, True]
    assert component.files[1].shards == {0, 1, 2}
