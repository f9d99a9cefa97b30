"""Keyed recompute in a refresh: the order of the rows that Spark gets, and the shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from relstate.connector.sql import Database
from relstate.connector.views import backfill, runner
from relstate.connector.views.creation import ViewOptions, new_view
from relstate.connector.views.frame import report_frame
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.scans import SourceRead
from relstate.connector.views.sessions import Sessions
from relstate.storage import Store, errors
from support.stores import unsynced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

LISTS = """SELECT g, collect_list(v) AS l, array_agg(DISTINCT v) AS d, first(k) AS f,
    last(v) FILTER (WHERE v > 3) AS a, count(DISTINCT v) AS c, mode(v) AS m FROM t GROUP BY g"""
# All windows of a partition are recomputed where one of them, as `ntile`, has to be.
TIES = """SELECT k, row_number() OVER w AS n, ntile(2) OVER w AS h FROM t
    WINDOW w AS (PARTITION BY g ORDER BY v)"""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    """A store with an empty table."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=2, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g INT, v INT", primary_key=["k"])
        yield Database(spark, store)


Rows = dict[int, tuple[int, int]]


def put(store: Store, rows: Mapping[int, tuple[int, int]], random: Random) -> None:
    """Upsert rows, by their keys, in some order."""
    keys = random.sample(list(rows), len(rows))
    groups, values = ([rows[key][place] for key in keys] for place in (0, 1))
    schema = pa.schema({"k": pa.int64(), "g": pa.int32(), "v": pa.int32()})
    store.write("t", pa.table({"k": keys, "g": groups, "v": values}, schema))


def lists_of(rows: Rows) -> dict[int, dict[str, Any]]:
    """Return what `LISTS` is if Spark gets the rows of a group in the order of their keys."""
    groups: dict[int, list[int]] = {}
    for key in sorted(rows):
        groups.setdefault(rows[key][0], []).append(key)
    outputs = {}
    for group, keys in groups.items():
        values = [rows[key][1] for key in keys]
        distinct = list(dict.fromkeys(values))
        last = [value for value in values if value > 3][-1:]
        outputs[group] = {
            "g": group, "l": values, "d": distinct, "f": keys[0], "a": last[0] if last else None,
            "c": len(distinct),
        }  # fmt: skip
    return outputs


def ties_of(rows: Rows) -> dict[int, int]:
    """Return the numbers of `TIES` if rows that tie are taken in the order of their keys."""
    numbers: dict[int, int] = {}
    counts: dict[int, int] = {}
    for key in sorted(rows, key=lambda key: (rows[key][1], key)):
        group = rows[key][0]
        numbers[key] = counts[group] = counts.get(group, 0) + 1
    return numbers


@pytest.mark.parametrize("units", [1, 3])
def test_spark_gets_the_rows_of_a_key_in_the_order_of_the_input_key(
    units: int, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a call whose value depends on the order of rows has one value, however rows came.

    There are more groups than Spark aggregates by hashing before it sorts, and rows come in parts.
    """
    random, rows = Random(5), dict[int, tuple[int, int]]()
    for module in (runner, backfill):
        monkeypatch.setattr(module, "PART_ROWS", 400)

    def change(count: int) -> None:
        changed = {
            random.randrange(900): (random.randrange(200), random.randrange(7))
            for _ in range(count)
        }
        rows.update(changed)
        put(db.store, changed, random)

    def check() -> None:
        lists = {row["g"]: row for row in db.store.table("lists").to_arrow().to_pylist()}
        modes = {group: row.pop("m") for group, row in lists.items()}
        assert lists == lists_of(rows)
        for group, row in lists.items():
            assert row["l"].count(modes[group]) == max(map(row["l"].count, row["l"]))
        ties = db.store.table("ties").to_arrow().to_pylist()
        assert {row["k"]: row["n"] for row in ties} == ties_of(rows)

    change(1000)
    for name, query in {"lists": LISTS, "ties": TIES}.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('parallelism' = '{units}') AS {query}"
        )
    check()

    for name in ("lists", "ties"):
        db.sql(f"ALTER MATERIALIZED VIEW {name} SET PARALLELISM {9 - units}")
    change(30)
    db.sql("DELETE FROM t WHERE k % 7 = 3")
    rows = {key: row for key, row in rows.items() if key % 7 != 3}
    db.refresh()
    check()
    assert [report.problems for report in db.check_views()] == [(), ()]


@pytest.mark.parametrize("query", [LISTS, TIES])
def test_a_recompute_adds_a_shuffle_for_several_units_only(
    query: str, db: Database, spark: SparkSession
) -> None:
    """Spark evaluates the calls where the rows are: it adds no shuffle itself."""
    for units, shuffles in ((1, 1), (3, 2)):
        name = f"v{units}"
        state = db.store.state
        view = new_view(spark, state, name, query, ViewOptions(units))
        view_id = db.store.view_catalog.create(view, [state.table("t").definition]).view_id
        jobs = JobRunner(spark, db.store)
        (scan,) = jobs.plan_of(db.store.state, view_id).scans
        job = jobs.job(db.store.state, view_id, [SourceRead(scan, None, range(8))])

        frame = report_frame(job, Sessions(spark).of(view.settings))

        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("Exchange") == shuffles, plan


def test_a_call_that_fails_for_a_row_fails_the_refresh_and_not_for_control_rows(
    db: Database,
) -> None:
    """Arguments are computed for rows only."""
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, max_by(k, 10 DIV v) AS m FROM t GROUP BY g")
    put(db.store, {1: (1, 5), 2: (1, 2)}, Random(1))
    db.refresh()
    assert db.store.table("v").to_arrow().to_pylist() == [{"g": 1, "m": 2}]

    put(db.store, {3: (1, 0)}, Random(1))
    with pytest.raises(errors.ViewFailedError, match="DIVIDE_BY_ZERO"):
        db.refresh()
    db.sql("DELETE FROM t WHERE g = 1")
    db.refresh()
    assert db.store.table("v").to_arrow().num_rows == 0


def test_a_forged_call_is_refused(db: Database, spark: SparkSession) -> None:
    """A stored call is one call over fields, of the type that the plan says, as CREATE makes it."""
    changes: dict[str, Callable[[Any], None]] = {
        "is not an aggregate call": lambda call: call.update(text="concat(v, 'x')"),
        "java_method": lambda call: call.update(text="collect_list(java_method('a', 'b'))"),
        "over fields": lambda call: call.update(text="collect_list(v + 1)"),
        "is BIGINT, and not ARRAY<INT>": lambda call: call.update(text="count(v)"),
        "no_such_function": lambda call: call.update(text="no_such_function(v)"),
        "not one of its fields": lambda call: call.update(text="COLLECT_LIST(nothing)"),
        "not a BOOLEAN": lambda call: call.update(filter="v"),
    }
    for number, (problem, change) in enumerate(changes.items()):
        state = db.store.state
        view = new_view(
            spark, state, f"forged{number}", "SELECT g, collect_list(v) FROM t GROUP BY g"
        )
        change(view.plan["child"]["calls"][0])
        db.store.view_catalog.create(replace(view), [state.table("t").definition])
        with pytest.raises(errors.RelstateError, match=problem):
            JobRunner(spark, db.store).plan_of(db.store.state, max(db.store.state.views))
