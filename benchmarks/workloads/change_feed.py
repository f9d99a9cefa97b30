"""The change feed of one epoch that updated few rows of a large table, beside the table's scan."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from relstate.storage import Store

from .. import rows
from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, new_table, write

# One row in so many is updated: 10,000 of 5 million.
_SHARE = 500


def change_feed(bench: Workbench) -> Iterator[Figure]:
    """Measure `Store.changes` of updates of random rows, old and new rows decoded.

    The target is for a table as maintenance leaves it. Before that, an old row is searched in half
    of all segments on average.
    """
    with bench.store() as store:
        table = new_table(store, "t")
        write(store, "t", rows.batches(range(bench.size.rows)))
        yield _feed(bench, store, "as one task wrote them", None)
        store.compact("t")
        yield _feed(bench, store, "compacted", 1 / 20)
        assert table.count() == bench.size.rows


def _updated(bench: Workbench, store: Store) -> int:
    """Update random rows as one epoch and return it."""
    count = _changes(bench)
    picked = np.random.default_rng(store.epoch).choice(bench.size.rows, count, replace=False)
    batch = rows.batch(np.sort(picked).astype(np.int64))
    index = batch.schema.get_field_index("a")
    changed = batch.set_column(index, batch.schema.field(index), pc.add(batch["a"], store.epoch))
    epoch = store.epoch + 1
    write(store, "t", iter([changed]))
    return epoch


def _changes(bench: Workbench) -> int:
    return max(bench.size.rows // _SHARE, 1)


def _feed(bench: Workbench, store: Store, layout: str, asked: float | None) -> Figure:
    table, segments = store.table("t"), len(store.read_plan("t").segments)
    epoch = _updated(bench, store)

    def feed() -> None:
        rows = sum(batch.num_rows for batch in store.changes("t", epoch))
        assert rows == 2 * _changes(bench)

    def scan() -> int:
        return sum(batch.num_rows for batch in table.scan())

    samples = in_turns(seconds(feed), seconds(scan), bench.size.turns)
    updates = f"{_changes(bench):,} updates of {bench.size.rows:,} rows"
    return Figure(
        workload="change-feed",
        case=f"{updates} {layout}, {segments} segments",
        unit="ms",
        samples=samples.scaled(1e3),
        comparison=Comparison.TIME,
        against="Table.scan of all rows and columns in the same process",
        asked=asked,
    )
