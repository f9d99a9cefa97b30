"""The history of a store as rows: what every commit did, the newest first.

Names and meaning of the columns are those of Delta Lake's DESCRIBE HISTORY where it has them.
Does not know: Spark.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from relstate.connector.commits import commits
from relstate.storage import Store, moment_of

SCHEMA = (
    "version BIGINT NOT NULL, timestamp TIMESTAMP NOT NULL, operation STRING NOT NULL, "
    "data_change BOOLEAN NOT NULL, tables ARRAY<STRING> NOT NULL, segments_added INT NOT NULL, "
    "segments_removed INT NOT NULL, rows BIGINT NOT NULL, deletes BIGINT NOT NULL"
)


def history_rows(
    store: Store, table: str | None = None, limit: int | None = None
) -> list[tuple[Any, ...]]:
    """Return what commits did, of those that touched a table or of all, at most ``limit``."""
    wanted = (
        commit
        for commit in commits(store)
        if table is None or table.lower() in map(str.lower, commit.tables)
    )
    return [
        (
            commit.epoch,
            moment_of(commit.time),
            commit.operation,
            commit.data_change,
            list(commit.tables),
            commit.segments_added,
            commit.segments_removed,
            commit.rows,
            commit.deletes,
        )
        for commit in islice(wanted, limit)
    ]
