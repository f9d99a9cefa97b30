"""The steps of one table: which commits changed it, and with which segments."""

from __future__ import annotations

from relstate.storage import Store
from relstate.storage.feed.source import FeedStep, steps_of
from support.stores import committed, upsert, written


def steps(store: Store, table: str) -> list[FeedStep]:
    """Return all steps of a table."""
    table_id = store.state.table(table).definition.table_id
    return list(steps_of(reversed(list(store.history())), table_id))


def test_a_step_has_the_segments_of_its_commit(store: Store) -> None:
    """The newest first; segments of other tables are not among them."""
    store.create_table("t", "k INT", primary_key=["k"])
    store.create_table("u", "k INT", primary_key=["k"])
    first, foreign, second = written(store, "t", [(1,)]), written(store, "u", [(1,)]), None
    second = written(store, "t", [(2,)])
    epoch = committed(store, [*first, *foreign, *second])
    time = store.state.time

    (step,) = steps(store, "t")
    assert (step.epoch, step.time, step.is_based) == (epoch, time, False)
    names = [(segment.name, segment.epoch, segment.rank) for segment in step.segments]
    assert names == [(second[0].name, epoch, 2), (first[0].name, epoch, 0)]
    assert len(steps(store, "u")) == 1


def test_upkeep_is_no_step(store: Store) -> None:
    """Neither is a change of the catalog; a truncate is a step."""
    store.create_table("t", "k INT", primary_key=["k"])
    upsert(store, "t", [(1,)])
    upsert(store, "t", [(2,)])
    store.compact()
    store.add_columns("t", "n INT")
    epoch = store.truncate("t")

    feed_steps = steps(store, "t")
    assert [(step.epoch, step.is_based) for step in feed_steps] == [
        (3, False),
        (4, False),
        (epoch, True),
    ]
    assert feed_steps[-1].segments == ()
