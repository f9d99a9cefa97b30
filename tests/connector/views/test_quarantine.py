"""Views with a quarantine: rows for which they cannot be computed are left out, and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relstate.connector.views import quarantine
from relstate.connector.views.general_reason import Reason
from relstate.connector.views.local_expressions import LocalEvaluator
from relstate.connector.views.runner import JobRunner
from relstate.storage import errors
from support.local import IN_DRIVER, IN_JOB, local_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relstate.connector.sql import Database
    from relstate.connector.views.job import JobOutput, ViewJob

QUARANTINE = "TBLPROPERTIES ('on_error' = 'quarantine')"

# Each fails for some rows of orders, or of customers.
VIEWS = {
    "shares": "SELECT id, 100 / amount AS share FROM orders",
    "numbers": "SELECT id, CAST(code AS INT) AS number FROM orders WHERE amount IS NOT NULL",
    "sums": "SELECT customer, sum(100 / amount) AS s, count(*) AS n FROM orders GROUP BY customer",
    "ratios": "SELECT customer, 100 / sum(amount) AS ratio FROM orders GROUP BY customer",
    "pairs": """
        SELECT o.id, c.name, o.amount / c.factor AS part
        FROM orders o LEFT JOIN customers c ON o.customer = c.id
    """,
    "same": "SELECT a.id, b.id AS other, 1 / (b.amount - 5) AS x "
    "FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id",
    "words": "SELECT id, n FROM orders LATERAL VIEW explode(array(id, 100 / amount)) w AS n",
    "totals": "SELECT customer, sum(CAST(big AS BIGINT)) AS s FROM orders GROUP BY customer",
    "joined": "SELECT o.id, CAST(concat(o.code, IF(c.factor > 5, 'x', '')) AS INT) AS n "
    "FROM orders o JOIN customers c ON o.customer = c.id",
    "made": "SELECT id, n + 1 AS m "
    "FROM orders LATERAL VIEW explode(array(id, 100 / amount)) w AS n WHERE n > 1",
}


@pytest.fixture(params=[IN_DRIVER, IN_JOB], ids=["driver", "job"])
def run(request: pytest.FixtureRequest) -> Iterator[None]:
    """Refreshes run in the driver's process, or as jobs of Spark."""
    with local_rows(request.param):
        yield


@pytest.fixture
def db(db: Database) -> Database:
    """Two tables."""
    db.sql("CREATE TABLE customers (id INT, name STRING, factor INT, PRIMARY KEY (id))")
    db.sql(
        "CREATE TABLE orders (id BIGINT, customer INT, amount INT, code STRING, big BIGINT, "
        "PRIMARY KEY (id))"
    )
    db.sql("INSERT INTO customers VALUES (1, 'a', 1), (2, 'b', 2)")
    db.sql("INSERT INTO orders VALUES (1, 1, 10, '1', 1), (2, 1, 20, '2', 2), (3, 2, 30, '3', 3)")
    return db


def create(db: Database, *views: str) -> None:
    """Create views with a quarantine."""
    for name in views:
        db.sql(f"CREATE MATERIALIZED VIEW {name} {QUARANTINE} AS {VIEWS[name]}")


def quarantined(db: Database, view: str) -> list[tuple[str, str]]:
    """Return the tables and keys of the rows in a view's quarantine, and check their number."""
    rows = db.sql(f"SELECT `table`, key FROM {view}__quarantine ORDER BY `table`, key").collect()
    assert db.store.state.view(view).progress.quarantined == len(rows)
    return [tuple(row) for row in rows]


def hold(db: Database) -> None:
    """Fail unless all views are their SELECTs without the rows in quarantine."""
    assert [report.problems for report in db.check_views() if not report.ok] == []


def test_a_row_that_fails_is_left_out_until_it_changes(db: Database, run: None) -> None:
    """It is listed with its reason; mended, it is in the view; deleted, it is gone."""
    create(db, "shares", "numbers", "sums")
    db.sql("INSERT INTO orders VALUES (4, 1, 0, '4', 4), (5, 2, 50, 'five', 5)")
    db.refresh()
    assert quarantined(db, "shares") == quarantined(db, "sums") == [("orders", '{"id": 4}')]
    assert quarantined(db, "numbers") == [("orders", '{"id": 5}')]
    row = db.sql("SELECT error, epoch FROM shares__quarantine").first()
    assert row is not None
    assert row.error.startswith("'100 / amount' fails for this row")
    assert row.epoch == db.store.state.view("shares").progress.reflects
    hold(db)

    db.sql("UPDATE orders SET amount = 5, code = '5' WHERE id IN (4, 5)")
    db.sql("UPDATE orders SET amount = 0 WHERE id = 1")
    db.refresh()
    assert quarantined(db, "shares") == quarantined(db, "sums") == [("orders", '{"id": 1}')]
    assert quarantined(db, "numbers") == []
    db.sql("DELETE FROM orders WHERE id = 1")
    db.refresh()
    assert quarantined(db, "shares") == quarantined(db, "sums") == []
    hold(db)


REASONS = {
    "100 / amount": ": ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`",
    "CAST(code AS INT)": ": NumberFormatException: [CAST_INVALID_INPUT] The value … of the type "
    '"STRING" cannot be cast to "INT"',
    "amount + 2147483600": ": ArithmeticException: [ARITHMETIC_OVERFLOW] ",
    "amount + raise_error(code)": "; the first such row: SparkRuntimeException: "
    "[USER_RAISED_EXCEPTION]",
}


def test_an_error_has_the_reason_of_spark(
    db: Database, run: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found out once for an expression; it has no values, so it holds for all of its rows."""
    db.sql("DELETE FROM orders")
    for number, expression in enumerate(REASONS):
        select = f"SELECT id, {expression} AS x FROM orders"
        db.sql(f"CREATE MATERIALIZED VIEW v{number} {QUARANTINE} AS {select}")
    evaluated, reason = [], LocalEvaluator._reason

    def counted(evaluator: LocalEvaluator, *arguments: Any) -> Reason:
        evaluated.append(arguments)
        return reason(evaluator, *arguments)

    monkeypatch.setattr(LocalEvaluator, "_reason", counted)
    for start in (0, 10):
        amounts = {key: 0 if key % 2 else 2**31 - 1 for key in range(start, start + 10)}
        rows = (f"({key}, 1, {amount}, 'secret{key}', 1)" for key, amount in amounts.items())
        db.sql(f"INSERT INTO orders VALUES {', '.join(rows)}")
        db.refresh()
    for number, (expression, text) in enumerate(REASONS.items()):
        ((error, count),) = db.sql(
            f"SELECT error, count(*) AS n FROM v{number}__quarantine GROUP BY error"
        ).collect()
        assert count in (10, 20)
        assert error.startswith(f"'{expression}' fails for this row{text}")
        assert "secret" not in error
    assert len(evaluated) == len(REASONS)


def test_what_was_written_last_is_not_read_again(
    db: Database, run: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys that a refresh leaves are those that are stored."""
    create(db, "shares", "words")
    db.sql("INSERT INTO orders VALUES (4, 1, 0, '4', 4), (5, 1, 0, '4', 4)")
    db.refresh()
    reads, read = [], quarantine._read_keys

    def counted(*arguments: Any) -> quarantine.Keys:
        reads.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(quarantine, "_read_keys", counted)
    db.sql("UPDATE orders SET amount = 1 WHERE id = 4")
    db.sql("INSERT INTO orders VALUES (6, 1, 0, '4', 4)")
    db.refresh()
    db.sql("UPDATE orders SET customer = 2 WHERE id IN (5, 6)")
    db.refresh()
    assert reads == []
    assert quarantined(db, "words") == [("orders", '{"id": 5}'), ("orders", '{"id": 6}')]
    hold(db)
    state, runner = db.store.state, db._views.runner
    for name in ("shares", "words"):
        known = runner.quarantine_of(state, state.view(name).view_id)
        stored = JobRunner(db.spark, db.store).quarantine_of(state, state.view(name).view_id)
        assert known is not None
        assert stored is not None
        ((table_id, keys),) = known.keys.items()
        assert sorted(keys.to_pylist()) == sorted(stored.keys[table_id].to_pylist())
        assert len(keys) == 2


def test_a_row_fails_with_rows_of_other_tables(db: Database, run: None) -> None:
    """The row that has changed is left out, whichever table it is in."""
    create(db, "pairs", "same", "words")
    db.sql("UPDATE customers SET factor = 0 WHERE id = 1")
    db.sql("INSERT INTO orders VALUES (4, 1, 5, '4', 4), (5, 2, 0, NULL, 5)")
    db.refresh()
    assert quarantined(db, "pairs") == [("customers", '{"id": 1}')]
    assert quarantined(db, "same") == [("orders", '{"id": 4}')]
    assert quarantined(db, "words") == [("orders", '{"id": 5}')]
    hold(db)

    db.sql("DELETE FROM customers WHERE id = 1")
    db.sql("DELETE FROM orders WHERE id = 4")
    db.refresh()
    assert quarantined(db, "pairs") == quarantined(db, "same") == []
    hold(db)


def test_a_search_survives_a_failure_of_the_machines(
    db: Database, run: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a worker which Spark gives to a job while it ends with the job before."""
    create(db, "pairs")
    runs, run_job = [], JobRunner._run_once

    def fails_every_third_time(runner: JobRunner, job: ViewJob) -> JobOutput:
        runs.append(job)
        if len(runs) % 3 == 2:
            raise RuntimeError("the worker exited")
        return run_job(runner, job)

    monkeypatch.setattr(JobRunner, "_run_once", fails_every_third_time)
    db.sql("UPDATE customers SET factor = 0 WHERE id = 1")
    db.refresh()
    assert len(runs) > 2
    assert quarantined(db, "pairs") == [("customers", '{"id": 1}')]
    hold(db)


def test_rows_that_fail_together(db: Database, run: None) -> None:
    """Of rows that overflow a sum together, as many are left out as are needed."""
    create(db, "totals")
    db.sql(
        f"INSERT INTO orders VALUES (4, 1, 1, '4', {2**62}), (5, 1, 1, '5', {2**62}), "
        f"(6, 2, 1, '6', {2**62})"
    )
    db.refresh()
    hold(db)
    ((table, _),) = quarantined(db, "totals")
    assert table == "orders"
    ((error,),) = db.sql("SELECT error FROM totals__quarantine").collect()
    assert "together with others" in error
    assert "overflows BIGINT; correct" in error


def test_an_error_has_no_values_of_other_rows(db: Database, run: None) -> None:
    """A row that fails with those it is joined with is listed with Spark's reason, without them."""
    db.sql("UPDATE orders SET code = '4711'")
    create(db, "joined")
    db.sql("UPDATE customers SET factor = 9 WHERE id = 1")
    db.refresh()
    assert quarantined(db, "joined") == [("customers", '{"id": 1}')]
    ((error,),) = db.sql("SELECT error FROM joined__quarantine").collect()
    assert "[CAST_INVALID_INPUT]" in error
    assert "4711" not in error
    hold(db)


def test_good_rows_are_evaluated_once(
    db: Database, run: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the search for bad rows has evaluated is what the refresh computes with."""
    create(db, "shares", "numbers", "sums")
    db.sql("INSERT INTO orders VALUES (4, 1, 0, 'four', 4)")
    db.refresh()
    calls, evaluate = [], LocalEvaluator.evaluate

    def counted(evaluator: LocalEvaluator, chunk: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(chunk.num_rows)
        return evaluate(evaluator, chunk, *arguments, **options)

    monkeypatch.setattr(LocalEvaluator, "evaluate", counted)
    db.sql(
        "INSERT INTO orders VALUES (4, 1, 4, '4', 4), (5, 2, 0, 'five', 5), (1, 1, 11, '1', 1), "
        "(6, 2, 7, '6', 6)"
    )
    db.refresh()
    # Of row 1 the old version too; not that of row 4, which was in quarantine. One view filters.
    assert calls == [5] * 4
    for name in ("shares", "sums", "numbers"):
        assert quarantined(db, name) == [("orders", '{"id": 5}')]
    hold(db)


def test_all_quarantines_of_a_refresh_add_one_file_at_most(db: Database, run: None) -> None:
    """A run in the driver's process writes them to the view's own, jobs to one of the commit."""
    names = ("shares", "numbers", "sums")
    create(db, *names)
    db.sql("INSERT INTO orders VALUES (4, 1, 0, 'four', 4), (5, 2, 50, '5', 5)")
    db.refresh()
    quarantines = {db.store.state.table_ids[f"{name}__quarantine"] for name in names}
    refresh = next(entry for entry in db.store.history() if entry.operation == "refresh")
    tables = [{table.table_id for table in segment.tables} for segment in refresh.added]
    assert quarantines <= set().union(*tables)
    assert sum(ids <= quarantines for ids in tables) <= 1
    assert db.store.check().problems == ()


def test_rows_of_functions_that_make_rows(db: Database, run: None) -> None:
    """A row is left out that fails below or above a function that makes rows of it."""
    create(db, "made")
    db.sql("INSERT INTO orders VALUES (4, 1, 0, '4', 4), (5, 1, 5, '5', 5)")
    db.refresh()
    assert quarantined(db, "made") == [("orders", '{"id": 4}')]
    hold(db)


def test_a_view_is_created_over_rows_that_fail(db: Database, run: None) -> None:
    """The backfill leaves them out; without a quarantine there is no view."""
    db.sql("INSERT INTO orders VALUES (4, 1, 0, '4', 4), (5, 2, 5, 'five', 5)")
    create(db, "shares", "same")
    hold(db)
    assert quarantined(db, "shares") == [("orders", '{"id": 4}')]
    assert len(quarantined(db, "same")) == 1
    with pytest.raises(errors.ViewFailedError):
        db.sql(f"CREATE MATERIALIZED VIEW other AS {VIEWS['shares']}")
