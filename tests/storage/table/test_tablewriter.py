"""What one task writes, segment by segment."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from relstate.storage import Proposal, SegmentRecord, Store, TableWriter
from support.stores import contents


@pytest.mark.parametrize("finish", [TableWriter.finish, TableWriter.finish_unsynced])
def test_a_writer_that_cuts_loses_nothing(
    store: Store, finish: Callable[[TableWriter], tuple[SegmentRecord, ...]]
) -> None:
    """Each part is a segment; of two rows of one key the later wins, whichever segment it is in."""
    store.create_table("t", "k INT, v STRING", primary_key=["k"])
    started = store.environment.now()
    with store.jobs.write_target("t").open(store.environment) as writer:
        writer.cut()
        for value in "abc":
            rows = {"k": [1, ord(value)], "v": [value, value]}
            schema = pa.schema({"k": pa.int32(), "v": pa.string()})
            writer.write(pa.RecordBatch.from_pydict(rows, schema=schema))
            if value < "c":
                writer.cut()
                writer.cut()
        segments = finish(writer)
    assert len(segments) == 3
    store.jobs.commit(
        Proposal(operation="write", started=started, segments=segments, syncs_segments=True)
    )
    assert contents(store, "t") == [(1, "c"), (97, "a"), (98, "b"), (99, "c")]
