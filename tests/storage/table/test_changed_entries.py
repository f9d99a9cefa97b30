"""The law of changed entries: written to a table, they give it the rows of another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from relstate.storage import ReadPlan, Store, changed_entries, sequence_segments
from relstate.storage.table.header import is_delete

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})


def rows_written(store: Store, name: str, rows: Mapping[int, str]) -> ReadPlan:
    """Write rows in two epochs, the second time as they are to be, and return how to read them.

    Only these rows are read: the plan is without older files.
    """
    before = store.epoch
    for values in ("?" for _ in rows), rows.values():
        columns = {"k": list(rows), "v": list(values)}
        store.write(name, pa.table(columns, SCHEMA))
    plan = store.read_plan(name)
    return replace(plan, segments=tuple(s for s in plan.segments if s.epoch > before))


def random_rows(random: Random) -> dict[int, str]:
    """Return values by key, of few keys."""
    keys = random.sample(range(12), random.randrange(12))
    return {key: random.choice(["", "a", "bc"]) for key in keys}


@pytest.mark.parametrize("seed", range(8))
def test_they_make_one_table_the_other(seed: int, any_store: Store) -> None:
    """Rows that both have with the same value are not among them."""
    random = Random(seed)
    any_store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    old, new = random_rows(random), random_rows(random)
    stored, wanted = (rows_written(any_store, "t", rows) for rows in (old, new))
    middle = any_store.settings.vnode_count // 2
    with any_store.jobs.segment_writer() as writer:
        changed, deleted = 0, 0
        for vnodes in (range(middle), range(middle, any_store.settings.vnode_count)):
            tables = stored.open(any_store.environment), wanted.open(any_store.environment)
            keys, values = changed_entries(*tables, vnodes)
            writer.add(keys, values)
            changed += len(keys)
            deleted += sum(map(is_delete, values.to_pylist()))
        written = writer.finish()
    assert deleted == len(old.keys() - new.keys())
    assert changed == deleted + len(new.items() - old.items())
    table_id = stored.definition.table_id
    after = stored.after(sequence_segments(written, any_store.epoch + 1, table_id))
    rows = [row for batch in after.read((range(stored.vnode_count),)) for row in batch.to_pylist()]
    assert {row["k"]: row["v"] for row in rows} == new
    any_store.jobs.discard(written)
