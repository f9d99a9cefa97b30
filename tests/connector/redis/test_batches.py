"""What a commit writes: all of it, in parts that take little memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from relstate.connector.redis import batches
from relstate.connector.redis.batches import DatabaseChanges, write_changes
from relstate.connector.redis.tables import create_table
from relstate.storage import Proposal, Store, TableWriter
from support.redis_servers import rows


def write(store: Store, changes: DatabaseChanges) -> tuple[int, list[int]]:
    """Write changes as one commit; return its segments, and the bytes that were encoded at once."""
    sizes: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "patch"):
            method = getattr(TableWriter, name)

            def noted(
                writer: TableWriter, batch: pa.RecordBatch, *others: Any, method: Any = method
            ) -> Any:
                sizes.append(batch.nbytes)
                return method(writer, batch, *others)

            patch.setattr(TableWriter, name, noted)
        started = store.environment.now()
        with store.jobs.write_target("redis_0").open(store.environment) as writer:
            write_changes(writer, changes)
            segments = writer.finish()
    store.jobs.commit(Proposal(operation="redis", started=started, segments=segments))
    return len(segments), sizes


def test_much_is_written_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, parts, expiries and deletes; each part has about the bytes that it may have."""
    create_table(store, 0)
    monkeypatch.setattr(batches, "_ENCODED_BYTES", 10_000)
    monkeypatch.setattr(batches, "_SEGMENT_BYTES", 50_000)
    fields = [(b"f%d" % number, b"x" * 100) for number in range(50)]
    entries = [(number, (b"x" * 1000, None)) for number in range(6)]
    values: list[tuple[bytes, str, int | None, Any]] = [
        *[(b"s%d" % number, "string", None, b"x" * 1000) for number in range(200)],
        *[(b"h%d" % number, "hash", 5000, fields) for number in range(20)],
        *[(b"t%d" % number, "timeseries", None, entries) for number in range(20)],
        (b"large", "string", None, b"x" * 100_000),
    ]
    deleted = [b"none%d" % number for number in range(1000)]
    first = DatabaseChanges(deleted=deleted, values=values)
    segments, sizes = write(store, first)
    assert segments > 5
    assert sum(size > 15_000 for size in sizes) == 1
    second = DatabaseChanges(
        deleted=[b"large"],
        expiries=[(b"s%d" % number, 9000 + number) for number in range(200)],
        parts={"hash": [(b"h%d" % number, [(b"f1", b"y"), (b"f2", None)]) for number in range(20)]},
    )
    write(store, second)

    stored = {row["key"]: row for row in rows(store)}
    assert len(stored) == 240
    assert all(len(stored[b"s%d" % number]["value"]) == 1000 for number in range(200))
    assert [stored[b"s%d" % number]["expiry"].timestamp() for number in (0, 199)] == [9.0, 9.199]
    expected = sorted({**dict(fields), b"f1": b"y"}.items())
    expected.remove((b"f2", b"x" * 100))
    assert all(stored[b"h%d" % number]["fields"] == expected for number in range(20))


def test_little_is_one_segment(store: Store) -> None:
    """As every commit of a few changes is."""
    create_table(store, 0)
    values = [(b"%d" % number, "string", None, b"x") for number in range(100)]
    assert write(store, DatabaseChanges(values=[*values]))[0] == 1
    assert write(store, DatabaseChanges()) == (0, [])
