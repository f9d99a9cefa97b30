"""Tables whose keys begin with more bytes than those of most."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import NewTable, Proposal, Store, TableSchema
from relstate.storage.schema.ddl import parse_columns
from support.stores import unsynced


@pytest.mark.parametrize("vnode_count", [256, 300])
def test_tables_with_ids_of_two_bytes_and_vnodes_of_two(tmp_path: Path, vnode_count: int) -> None:
    """They are scanned, looked up, indexed, changed and compacted as others, beside others."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=vnode_count, environment=unsynced(path)) as store:
        schema = TableSchema.build(parse_columns("k INT, v STRING"), ["k"])
        names = [f"t{number}" for number in range(126, 130)]
        fillers = [f"unused{number}" for number in range(125)]
        store.jobs.commit(
            Proposal(
                operation="x",
                started=store.environment.now(),
                created_tables=tuple(NewTable(name, schema) for name in (*fillers, *names)),
            )
        )
        ids = [store.state.table(name).definition.table_id for name in names]
        assert ids == [126, 127, 128, 129]
        for name in names:
            store.create_index(name, "by_v", ["v"])
        for version in ("old", "new"):
            for name, table_id in zip(names, ids, strict=True):
                rows = {"k": pa.array(range(500), pa.int32()), "v": [f"{version}{table_id}"] * 500}
                store.write(name, pa.table(rows))
        store.delete(names[-1], pa.table({"k": pa.array([7], pa.int32())}))

        for _ in range(2):
            for name, table_id in zip(names, ids, strict=True):
                count = 499 if name == names[-1] else 500
                table, text = store.table(name), f"new{table_id}"
                assert table.count() == count
                assert table.get(8) == (8, text)
                assert table.get(7) == (None if count == 499 else (7, text))
                assert len(table.get_by("by_v", text)) == count
                assert table.get_by("by_v", "old") == []
                keys = table.to_arrow(where="k >= 100 AND k < 103").column("k")
                assert keys.to_pylist() == [100, 101, 102]
            assert store.check().problems == ()
            store.compact()
