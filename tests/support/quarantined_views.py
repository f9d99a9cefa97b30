"""Ten views over a stream of changes in which some rows are bad, and a program that refreshes them.

Run as a program with the path of a store, it refreshes the views until it is killed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import relstate
from relstate.storage import Store
from support.unlucky_views import session

if TYPE_CHECKING:
    from relstate.connector.sql import Database

Row: TypeAlias = Mapping[str, Any]

TABLE = "k BIGINT, g INT, n INT, code STRING, name STRING"
_SCHEMA = pa.schema(
    {"k": pa.int64(), "g": pa.int32(), "n": pa.int32(), "code": pa.string(), "name": pa.string()}
)


@dataclass(frozen=True)
class BadView:
    """A view, and for which rows of t it cannot be computed; None if that depends on others.

    ``table``: the input whose rows fail.
    """

    query: str
    is_bad: Callable[[Row], bool] | None
    table: str = "t"


def _is_zero(row: Row) -> bool:
    return bool(row["n"] == 0)


VIEWS = {
    "shares": BadView("SELECT k, 100 / n AS share FROM t", _is_zero),
    "numbers": BadView("SELECT k, CAST(code AS INT) AS c FROM t", lambda row: row["code"] == "x"),
    "bytes": BadView("SELECT k, CAST(n AS TINYINT) AS b FROM t", lambda row: row["n"] > 127),
    "maps": BadView("SELECT k, map(name, n) AS m FROM t", lambda row: row["name"] is None),
    "raised": BadView(
        "SELECT k, IF(n < 0, raise_error('negative'), n) AS n FROM t", lambda row: row["n"] < 0
    ),
    "sums": BadView("SELECT g, sum(100 / n) AS s, count(*) AS c FROM t GROUP BY g", _is_zero),
    "filtered": BadView(
        "SELECT k, c + 1 AS c FROM (SELECT k, n, CAST(code AS INT) AS c FROM t) WHERE n > 5",
        lambda row: row["n"] > 5 and row["code"] == "x",
    ),
    "tops": BadView(
        "SELECT k, g, s FROM (SELECT k, g, 100 / n AS s FROM t) "
        "QUALIFY row_number() OVER (PARTITION BY g ORDER BY s, k) <= 2",
        _is_zero,
    ),
    "pairs": BadView(
        "SELECT a.k, b.k AS other, a.n / (b.n - 7) AS x FROM t a JOIN t b ON a.k + 1 = b.k", None
    ),
    "over": BadView(
        "SELECT k, 1 / (share - 1) AS x FROM shares", lambda row: row["n"] == 100, "shares"
    ),
}


def create_views(db: Database) -> None:
    """Create the views, each with a quarantine."""
    for name, view in VIEWS.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('on_error' = 'quarantine', "
            f"'parallelism' = '2') AS {view.query}"
        )


def random_row(random: Random, key: int, bad_rows: float) -> Row:
    """Return a row that is bad for some view with a probability."""
    row: dict[str, Any] = {
        "k": key,
        "g": random.randrange(4),
        "n": random.randint(1, 6),
        "code": "7",
        "name": "a",
    }
    if random.random() < bad_rows:
        bad: list[dict[str, Any]] = [
            {"n": 0},
            {"code": "x"},
            {"n": 300},
            {"name": None},
            {"n": -1},
            {"n": 100},
        ]
        row |= random.choice([*bad, {"n": 7}, {"n": 9, "code": "x"}])
    return row


def write_rows(store: Store, rows: list[Row]) -> None:
    """Upsert rows of t in one epoch."""
    store.write("t", pa.Table.from_pylist([dict(row) for row in rows], _SCHEMA))


def check_quarantines(store: Store, rows: Mapping[int, Row]) -> None:
    """Fail unless the views leave out the rows that they cannot be computed for, and no others."""
    for name, view in VIEWS.items():
        listed = store.table(f"{name}__quarantine").to_arrow().to_pylist()
        assert len(listed) == store.state.view(name).progress.quarantined, name
        if view.is_bad is not None:
            bad = sorted(f'{{"k": {key}}}' for key, row in rows.items() if view.is_bad(row))
            assert sorted(row["key"] for row in listed) == bad, name
            assert {row["table"] for row in listed} <= {view.table}


def _main(path: str) -> None:
    db = relstate.connect(session(), path)
    sys.stdout.write("alive\n")
    sys.stdout.flush()
    while True:
        db.refresh()


if __name__ == "__main__":
    _main(sys.argv[1])
