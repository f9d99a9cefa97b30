"""The laws of the rows of Debezium's snapshots among the changes that are streamed.

The positions are those that Debezium's connectors send: `…SourceInfoStructMaker` of each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

import relstate
from relstate.connector.failure import unwrap_errors
from relstate.connector.sql import Database
from relstate.storage import Store
from relstate.storage.errors import OptionError, SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTORS: dict[str, dict[str, Any]] = {
    "postgresql": {},
    "mysql": {},
    "mariadb": {"sequence_by": "source.file"},
    "mongodb": {},
    "sqlserver": {"sequence_by": "source.commit_lsn"},
    "db2": {"sequence_by": "source.commit_lsn"},
    "informix": {"sequence_by": "source.commit_lsn"},
    "oracle": {"sequence_by": "source.rs_id"},
    "vitess": {"sequence_by": "transaction.transaction_rank"},
}
LSN = "{:08x}:00000758:0003"


def source_of(connector: str, position: int | None, *, snapshot: str = "true") -> dict[str, Any]:
    """Return the ``source`` of an event; ``position``: None where the connector has none."""
    base = {"connector": connector, "snapshot": snapshot, "ts_ms": 7}
    is_change = snapshot == "false"
    lsn = None if position is None else LSN.format(position)
    match connector:
        case "postgresql":
            return {**base, "lsn": position}
        case "mysql":
            return {**base, "file": "bin.000001", "pos": position or 0, "row": 0}
        case "mariadb":
            return {**base, "file": "bin.000001" if position else "", "pos": position or 0}
        case "mongodb":
            return {**base, "ord": -1 if position is None else position}
        case "oracle":
            scn = None if position is None else str(position)
            record = f" 0x{position:06x}.0000000f.0010 " if is_change else None
            return {**base, "scn": scn, "rs_id": record}
        case "vitess":
            return base
    change = {"change_lsn": LSN.format(1), "event_serial_no": 1} if is_change else {}
    return {**base, "commit_lsn": lsn, "change_lsn": None, "event_serial_no": None, **change}


def event(
    op: str,
    key: int,
    name: str,
    source: dict[str, Any],
    *,
    rank: int | None = None,
    ts_ms: int | None = 5_000,
) -> str:
    """Return an event of a row; ``rank``: of its transaction."""
    row = {"_id": key, "name": name}
    side: Any = json.dumps(row) if source.get("connector") == "mongodb" else row
    before, after = (side, None) if op == "d" else (None, side)
    transaction = None if rank is None else {"id": "t", "transaction_rank": rank}
    envelope = {"before": before, "after": after, "source": source, "op": op, "ts_ms": ts_ms}
    return json.dumps({**envelope, "transaction": transaction})


def change(op: str, key: int, name: str, connector: str, position: int) -> str:
    """Return an event that is streamed."""
    source = source_of(connector, position, snapshot="false")
    return event(op, key, name, source, rank=position, ts_ms=4_000)


def flat(key: int, name: str, **fields: Any) -> str:
    """Return an event that ExtractNewRecordState flattened."""
    return json.dumps({"_id": key, "name": name} | {f"__{k}": v for k, v in fields.items()})


def events_of(spark: SparkSession, events: Sequence[str]) -> DataFrame:
    """Return events as rows from Kafka."""
    return spark.createDataFrame([(text,) for text in events], "value STRING").coalesce(1)


def in_order(spark: SparkSession, events: Sequence[str], **arguments: Any) -> list[str]:
    """Return the names of the rows of events in the order of their sequences, which differ."""
    rows = relstate.debezium(events_of(spark, events), "_id INT, name STRING", **arguments)
    by_sequence = {row["_sequence"]: row["name"] for row in rows.collect()}
    assert len(by_sequence) == len(events)
    return [by_sequence[sequence] for sequence in sorted(by_sequence)]


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_row_of_a_snapshot_comes_before_all_changes(spark: SparkSession, connector: str) -> None:
    """Whatever its position; a later snapshot after an earlier one, an incremental one too.

    Of snapshots within one second the position decides, if there is one.
    """
    first, second = (source_of(connector, position) for position in (110, 200))
    incremental = source_of(connector, None, snapshot="incremental")
    snapshots = [
        event("r", 1, "first", first),
        event("r", 1, "second", second),
        event("r", 1, "third", incremental, ts_ms=90_000),
        event("r", 1, "fourth", second, ts_ms=100_000),
    ]
    if connector == "vitess":
        del snapshots[0]
    changes = [change("u", 1, "open", connector, 100), change("d", 1, "last", connector, 104)]

    names = in_order(spark, [*changes, *snapshots[::-1]], **CONNECTORS[connector])

    expected = ["first", "second", "third", "fourth", "open", "last"]
    assert names == expected[-len(names) :]


def test_changes_of_a_transaction_that_was_open_during_the_snapshot_are_applied(
    db: Database, store: Store
) -> None:
    """Its changes have lesser positions than the snapshot, which does not see them."""
    columns = "_id INT, name STRING, at BIGINT"
    store.create_table("users", columns, primary_key=["_id"], version_column="at")
    snapshot = [event("r", key, "old", source_of("postgresql", 110)) for key in (1, 2, 3)]
    incremental = source_of("postgresql", None, snapshot="incremental")
    batches = [
        [
            *snapshot,
            change("u", 1, "new", "postgresql", 100),
            change("d", 2, "old", "postgresql", 104),
        ],
        [event("r", key, "again", incremental, ts_ms=9_000) for key in (1, 3, 4)],
        [change("u", 4, "last", "postgresql", 120)],
        snapshot,
    ]
    for batch in batches:
        db.apply_changes(
            "users",
            db.debezium(events_of(db.spark, batch), "_id INT, name STRING"),
            ["_id"],
            "_sequence",
            apply_as_deletes="_op = 'delete'",
            column_list=["_id", "name"],
        )

    rows = store.table("users").to_arrow().to_pylist()
    assert {row["_id"]: row["name"] for row in rows} == {1: "new", 3: "again", 4: "last"}


def test_flattened_rows_of_snapshots_come_before_all_changes(spark: SparkSession) -> None:
    """With the operation and the position alone, with the time, or by ``snapshot`` alone."""
    own = [
        flat(1, "first", op="r", lsn=110),
        flat(1, "second", op="r", lsn=200),
        flat(1, "third", op="r", lsn=None),
        flat(1, "open", op="u", lsn=100),
    ]
    assert in_order(spark, own[::-1]) == ["first", "second", "third", "open"]

    timed = [
        flat(1, "first", op="r", lsn=110, ts_ms=1_000),
        flat(1, "second", op="r", lsn=None, source_ts_ms=2_000),
        flat(1, "third", op="r", lsn=90, ts_ms=3_000),
        flat(1, "open", op="u", lsn=100, ts_ms=2_500),
    ]
    assert in_order(spark, timed[::-1]) == ["first", "second", "third", "open"]

    unnamed = [
        flat(1, "first", deleted="false", snapshot="true", lsn=110),
        flat(1, "open", deleted="false", snapshot="false", lsn=100),
        flat(1, "last", deleted="true", snapshot="false", lsn=120),
    ]
    assert in_order(spark, unnamed[::-1]) == ["first", "open", "last"]


def test_epochs_of_relstate_s_own_feeds_are_exact(spark: SparkSession) -> None:
    """A stream begins with rows of a snapshot of a known epoch: later than the changes before."""
    source = {"connector": "relstate"}
    events = [
        event("u", 1, "before", {**source, "epoch": 4}),
        event("r", 1, "snapshot", {**source, "epoch": 5}),
        event("u", 1, "after", {**source, "epoch": 6}),
    ]
    assert in_order(spark, events[::-1]) == ["before", "snapshot", "after"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (event("u", 1, "a", {"connector": "postgresql", "lsn": None}), SchemaMismatchError, "NULL"),
        (flat(1, "a", op="u", lsn=None, ts_ms=5), SchemaMismatchError, "source.lsn' .* NULL"),
        (event("r", 1, "a", {"connector": "sqlserver"}), OptionError, "source.commit_lsn"),
        (event("r", 1, "a", {"connector": "oracle"}), OptionError, "source.rs_id"),
        (event("r", 1, "a", {"connector": "vitess"}), OptionError, "connector vitess"),
    ],
)
def test_a_position_that_is_missing_is_named(
    spark: SparkSession, text: str, error: type[Exception], message: str
) -> None:
    """A change without a position is not ordered by its time; a snapshot fails as changes will."""
    with pytest.raises(error, match=message), unwrap_errors():
        relstate.debezium(events_of(spark, [text]), "_id INT").collect()
