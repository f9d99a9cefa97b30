"""A long compaction beside a writer whose commits merge the young files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.maintenance import compaction, policy
from relstate.storage.maintenance.rewrite import Rewrite
from support.stores import contents


def rows(start: int, count: int) -> pa.Table:
    """Return rows of a table."""
    keys = np.arange(start, start + count)
    return pa.table({"k": keys, "v": [f"{key:040d}" for key in keys]})


def test_a_long_compaction_lands_beside_a_busy_writer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the writer's own merges replace the young files while it runs."""
    budget = 64 << 10
    monkeypatch.setattr(policy, "BUDGET", budget)
    monkeypatch.setattr(compaction.auto_compact, "__defaults__", (budget,))
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    for start in (0, 1000, 2000):
        store.write("t", rows(start, 3000))
    large = set(store.state.segments)
    busy = iter(range(1000))
    for _ in range(5):
        store.write("t", rows(next(busy), 1))
    run: Callable[..., Any] = Rewrite.run

    def run_beside_a_writer(self: Rewrite, *given: Any) -> Any:
        written = run(self, *given)
        if large & {segment.name for segments in self.segments for segment in segments}:
            for _ in range(10):
                store.write("t", rows(next(busy), 1))
        return written

    monkeypatch.setattr(Rewrite, "run", run_beside_a_writer)
    report = store.compact("t")

    assert report.files_read >= 3
    assert not large & store.state.segments.keys()
    assert any(entry.operation == "compact" for entry in store.history())
    stored = contents(store, "t")
    assert [key for key, _ in stored] == list(range(5000))
    assert all(value == f"{key:040d}" for key, value in stored)
