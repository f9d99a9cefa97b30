"""No statement gives a table or a view the name of a quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relstate.storage.errors import TableNameError

if TYPE_CHECKING:
    from relstate.connector.sql import Database

STATEMENTS = [
    "CREATE TABLE t__quarantine (k INT PRIMARY KEY)",
    "CREATE OR REPLACE TABLE T__QUARANTINE AS SELECT * FROM t",
    "CREATE TABLE t__quarantine LIKE t",
    "ALTER TABLE t RENAME TO u__quarantine",
    "CREATE MATERIALIZED VIEW v__quarantine AS SELECT k FROM t",
    "ALTER MATERIALIZED VIEW v RENAME TO t__quarantine",
]


def test_names_of_quarantines_are_refused(db: Database) -> None:
    """CREATE and RENAME say that the name is reserved, and change nothing."""
    db.sql("CREATE TABLE t (k INT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    epoch = db.store.epoch

    for statement in STATEMENTS:
        with pytest.raises(TableNameError, match="is reserved"):
            db.sql(statement)

    assert db.store.epoch == epoch
