"""The law of replaced rows: a table has them afterwards, and what it had is not written again."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pyarrow as pa
import pytest

from relstate.storage import ReadPlan, StateTable, Store, errors, sequence_segments
from relstate.storage.table import changed_entries

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


def batch_of(rows: Mapping[int, str]) -> pa.RecordBatch:
    """Return rows by key as a batch."""
    return pa.RecordBatch.from_pydict({"k": list(rows), "v": list(rows.values())}, SCHEMA)


def rows_written(store: Store, rows: Mapping[int, str]) -> ReadPlan:
    """Write rows in two epochs, the second time as they are to be, and return how to read them."""
    for values in (dict.fromkeys(rows, "?"), rows):
        if rows:
            store.write("t", batch_of(values))
    return store.read_plan("t")


def random_rows(random: Random) -> dict[int, str]:
    """Return values by key, of few keys."""
    keys = random.sample(range(12), random.randrange(12))
    return {key: random.choice(["", "a", "bc"]) for key in keys}


@pytest.mark.parametrize("seed", range(8))
def test_a_table_has_the_rows_that_replace_its_own(
    seed: int, any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the vnodes that it owns, whatever is compared at once; equal rows are not written."""
    random = Random(seed)
    if seed % 2:
        monkeypatch.setattr(changed_entries, "_COMPARED_BYTES", 1)
    any_store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    old, new = random_rows(random), random_rows(random)
    plan = rows_written(any_store, old)
    table, count = plan.open(any_store.environment), plan.vnode_count
    vnodes = table.encoding.vnodes(batch_of(new)).tolist()
    middle = count // 2
    with any_store.jobs.segment_writer() as writer:
        for owned in filter(len, (range(middle), range(middle, count))):
            state = StateTable.streaming(table, writer, vnodes=[owned])
            own = {key: v for (key, v), n in zip(new.items(), vnodes, strict=True) if n in owned}
            state.replace_rows(batch_of(own))
        written = writer.finish()
    entries = sum(segment.rows(plan.definition.table_id) for segment in written)
    assert entries == len(old.keys() - new.keys()) + len(new.items() - old.items())
    segments = sequence_segments(written, any_store.epoch + 1, plan.definition.table_id)
    after = plan.after(segments)
    rows = [row for batch in after.read((range(count),)) for row in batch.to_pylist()]
    assert {row["k"]: row["v"] for row in rows} == new
    any_store.jobs.discard(written)


def test_only_a_streaming_table_replaces_its_rows(any_store: Store) -> None:
    """A buffered one has changes that nobody has compared."""
    any_store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    with pytest.raises(errors.UsageError, match="only a streaming table"):
        any_store.state_table("t").replace_rows(batch_of({1: "a"}))
