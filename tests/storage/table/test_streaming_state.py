"""Laws of a streaming state table: it reads committed rows and writes to segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor.state import State
from relstate.storage import SegmentWriter, StateTable, Store
from relstate.storage.errors import ConsistencyError, NullValueError, UsageError
from support.stores import StoreMaker, committed, contents, rows_of


@pytest.fixture
def states(make_store: StoreMaker) -> Store:
    """A store with two empty state tables."""
    store = make_store(vnode_count=5)
    store.create_table("groups", "g INT, total BIGINT NOT NULL", primary_key=["g"])
    store.create_table(
        "members", "g INT, n INT, v STRING", primary_key=["g", "n desc"], distribution_key=["g"]
    )
    return store


def opened(store: Store, name: str, writer: SegmentWriter) -> State:
    """Return a streaming state table over the latest epoch."""
    return StateTable.streaming(store.read_plan(name).open(store.environment), writer)


def groups(*rows: tuple[int, int | None]) -> pa.RecordBatch:
    """Return rows of the first table."""
    return pa.record_batch(
        {
            "g": pa.array([g for g, _ in rows], pa.int32()),
            "total": pa.array([total for _, total in rows], pa.int64()),
        }
    )


def members(*rows: tuple[int, int]) -> pa.RecordBatch:
    """Return rows of the second table, their columns in an order of their own."""
    return pa.record_batch(
        {
            "v": [f"{g}-{n}" for g, n in rows],
            "g": pa.array([g for g, _ in rows], pa.int32()),
            "n": pa.array([n for _, n in rows], pa.int32()),
        }
    )


def keys(*values: int) -> pa.RecordBatch:
    """Return keys of the first table, which are prefixes of the second one's."""
    return pa.record_batch({"g": pa.array(values, pa.int32())})


def flags(*values: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return flags as numpy has them."""
    return np.array(values, np.bool_)


def read(
    result: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.RecordBatch],
) -> Sequence[object]:
    """Return (index, row) of each row of a lookup."""
    return list(zip(result[0].tolist(), rows_of(result[1]), strict=True))


def test_states_of_a_task_share_its_files(states: Store) -> None:
    """What several states write goes to one file, and is read after its commit, not before."""
    writer = states.jobs.segment_writer()
    first, second = (opened(states, name, writer) for name in ("groups", "members"))
    assert first.is_empty
    assert second.is_empty
    first.write(groups((1, 10), (2, 20)))
    second.write(members((1, 1), (1, 2), (2, 1)))
    assert read(first.get_rows(keys(1, 2))) == read(second.prefix_scan(keys(1))) == []
    segments = writer.finish()
    assert len(segments) == 1
    committed(states, segments)

    first, second = (opened(states, name, writer) for name in ("groups", "members"))
    assert not first.is_empty
    assert not second.is_empty
    assert read(first.get_rows(keys(3, 2, 1), ["total"])) == [(1, (20,)), (2, (10,))]
    assert read(second.prefix_scan(keys(2, 3, 1), ["n", "v"])) == [
        (0, (1, "2-1")),
        (2, (2, "1-2")),
        (2, (1, "1-1")),
    ]
    assert read(second.first_per_prefix(keys(2, 3, 1), np.array([0, 1, 1]), ["n"])) == [(2, (2,))]
    assert read(second.last_per_prefix(keys(2, 3, 1), np.array([0, 1, 1]), ["n"])) == [(2, (1,))]


def test_the_later_of_two_changes_stays(states: Store) -> None:
    """Of puts and deletes of one key in one call, or in two, the last one counts."""
    writer = states.jobs.segment_writer()
    state = opened(states, "groups", writer)
    state.write(groups((1, 1), (2, 2), (3, 3), (4, 4)))
    state.write(groups((1, None), (1, 5), (2, 6), (2, None)), flags(True, False, False, True))
    state.write(keys(3), flags(True))
    committed(states, writer.finish())
    assert contents(states, "groups") == [(1, 5), (4, 4)]


def test_rows_must_fit_and_deletes_need_only_a_key(states: Store) -> None:
    """Of a deleted row only the key is used; other rows must fit the table."""
    state = opened(states, "groups", states.jobs.segment_writer())
    state.write(groups((1, None)), flags(True))
    with pytest.raises(NullValueError, match="total"):
        state.write(groups((1, None)), flags(False))
    with pytest.raises(NullValueError, match="total"):
        state.write(groups((1, None)))


def test_a_row_of_another_units_vnode_is_refused(states: Store) -> None:
    """Rows that were shuffled by another mapping are refused."""
    writer = states.jobs.segment_writer()
    table = states.read_plan("groups").open()
    row = groups((1, 10))
    vnode = int(table.encoding.prefix.vnodes_in(table.encoding.encode_keys(row))[0])
    foreign = [range(vnode), range(vnode + 1, 5)]
    with pytest.raises(ConsistencyError, match=rf"row g=1: vnode {vnode} is not among those"):
        StateTable.streaming(table, writer, vnodes=foreign).write(row)
    assert not writer.finish()

    StateTable.streaming(table, writer, vnodes=[range(vnode, vnode + 1)]).write(row)
    assert len(writer.finish()) == 1


def test_single_rows_are_written_too(states: Store) -> None:
    """As a batch is; reads return the rows committed before."""
    writer = states.jobs.segment_writer()
    state = StateTable.streaming(states.read_plan("groups").open(), writer)
    state.insert([1, 10])
    state.insert([2, 20])
    state.delete([1, 10])
    assert state.get_row(2) is None
    assert state.is_empty
    committed(states, writer.finish())
    assert contents(states, "groups") == [(2, 20)]


def test_a_streaming_table_has_no_epoch_of_its_own(states: Store) -> None:
    """Its changes are committed with the writer that it was opened with."""
    state = StateTable.streaming(states.read_plan("groups").open(), states.jobs.segment_writer())
    for end in (state.flush, state.commit, state.clear):
        with pytest.raises(UsageError, match=r"table groups: .* finish and commit the writer"):
            end()


def test_reads_of_prefixes_are_of_committed_rows(states: Store) -> None:
    """A buffered table refuses them while it has changes, which they would leave out."""
    state = states.state_table("members")
    state.insert([1, 1, "a"])
    reads: list[Callable[[], object]] = [
        lambda: state.prefix_scan(keys(1)),
        lambda: state.first_per_prefix(keys(1), np.array([1])),
        lambda: state.last_per_prefix(keys(1), np.array([1])),
    ]
    for read_prefixes in reads:
        with pytest.raises(UsageError, match="commit first"):
            read_prefixes()
    state.commit()
    assert read(state.prefix_scan(keys(1), ["v"])) == [(0, ("a",))]
