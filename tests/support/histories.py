"""Random histories: sequences of log entries that follow one another."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from relstate.storage.log.entry import Entry, Transaction
from relstate.storage.log.segment_record import SegmentRecord
from relstate.storage.log.state import StoreState, fold
from relstate.storage.log.table_definition import TableDefinition
from relstate.storage.log.view import ViewDefinition, ViewInput, ViewProgress
from relstate.vnode import VnodeMapping
from support.clock import START
from support.commits import SCHEMA, SETTINGS, record

FIRST = Entry(
    commit_id="c1",
    parent="",
    epoch=1,
    time=START,
    started=START,
    operation="create store",
    data_change=False,
    settings=SETTINGS,
)


def following(state: StoreState, **changes: object) -> Entry:
    """Return an entry that follows a state and makes these changes (fields of `Entry`)."""
    entry = Entry(
        commit_id=f"c{state.epoch + 1}",
        parent=state.commit_id,
        epoch=state.epoch + 1,
        time=state.time,
        started=state.time,
        operation="write",
    )
    return replace(entry, **changes)  # type: ignore[arg-type]


def definition(state: StoreState, name: str) -> TableDefinition:
    """Return the definition of a table that the entry after a state may create."""
    return TableDefinition(state.next_table_id, name, SCHEMA, state.epoch + 1)


def view_definition(view_id: int, *inputs: int, units: int = 1) -> ViewDefinition:
    """Return the definition of a view without state tables that reads some tables."""
    mapping = VnodeMapping.balanced(SETTINGS.vnode_count, units)
    read = tuple(ViewInput(table_id, (1,)) for table_id in inputs)
    return ViewDefinition(view_id, "SELECT 1", read, (), mapping, {"zone": "UTC"}, {"plan": [None]})


@st.composite
def histories(draw: st.DrawFn) -> list[Entry]:
    """Draw the entries of a store from its first on: tables, writes, maintenance, time passing."""
    entries = [FIRST]
    state = StoreState.first(FIRST)
    for _ in range(draw(st.integers(0, 12))):
        entry = draw(_entries(state))
        entries.append(entry)
        state = fold(state, (entry,))
    return entries


@st.composite
def _entries(draw: st.DrawFn, state: StoreState) -> Entry:
    live = sorted(state.table_ids.values())
    names = sorted(state.segments)
    dropped = draw(st.sampled_from([(), (), (), (), *((table_id,) for table_id in live)]))
    remaining = [table_id for table_id in live if table_id not in dropped]
    some = (
        st.lists(st.sampled_from(remaining), unique=True, max_size=2) if remaining else st.just([])
    )
    name = draw(st.sampled_from(["orders", "Orders2", "_x", "customers"]))
    creates = not remaining or (name.lower() not in state.table_ids and draw(st.booleans()))
    batches = [
        Transaction(draw(st.sampled_from("ab")), table_id, state.epoch) for table_id in draw(some)
    ]
    created = creates and name.lower() not in {*state.table_ids}
    views = sorted(state.views.keys() - {*dropped})
    return following(
        state,
        time=state.time + draw(st.integers(0, 10**9)),
        data_change=draw(st.booleans()),
        added=tuple(draw(_records(state, remaining))) if remaining else (),
        removed=tuple(draw(st.lists(st.sampled_from(names), unique=True, max_size=2)))
        if bool(names) and draw(st.booleans())
        else (),
        created_tables=(definition(state, name),) if created else (),
        created_views=(view_definition(state.next_table_id, *draw(some)),)
        if created and draw(st.booleans())
        else (),
        altered_views=tuple(
            replace(state.views[view_id].definition, mapping=VnodeMapping.balanced(256, 3))
            for view_id in views
            if draw(st.booleans())
        ),
        progress=tuple(draw(_progress(state, view_id)) for view_id in views if draw(st.booleans())),
        dropped_tables=dropped,
        based_tables=tuple(draw(some)),
        transactions=tuple(batches),
        oldest_epoch=draw(st.none() | st.integers(state.oldest_epoch, state.epoch)),
    )


@st.composite
def _progress(draw: st.DrawFn, state: StoreState, view_id: int) -> ViewProgress:
    epochs = st.integers(0, state.epoch)
    inputs = state.views[view_id].definition.inputs
    backfill = draw(st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))
    return ViewProgress(
        view_id, draw(epochs), tuple((table.table_id, draw(epochs)) for table in inputs), backfill
    )


@st.composite
def _records(draw: st.DrawFn, state: StoreState, tables: list[int]) -> list[SegmentRecord]:
    tables_by_segment = draw(
        st.lists(st.lists(st.sampled_from(tables), min_size=1, unique=True), max_size=3)
    )
    numbers = st.none() | st.tuples(st.integers(1, state.epoch), st.integers(0, 3))
    return [
        replace(record(f"s{state.epoch + 1}-{rank}", *table_ids), sequence_number=draw(numbers))
        for rank, table_ids in enumerate(tables_by_segment)
    ]
