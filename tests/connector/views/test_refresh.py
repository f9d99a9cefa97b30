"""A refresh: one commit for all views, none without changes, and failures stay with their view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from relstate.connector.sql import Database
from relstate.connector.views import runner, views
from relstate.connector.views.creation import new_view
from relstate.connector.views.failing_row import FailingRow
from relstate.connector.views.frame import report_frame
from relstate.connector.views.rebuild import find_differences
from relstate.connector.views.view_failure import view_failure
from relstate.storage import NewView, Store, errors, read_failure
from relstate.storage.paths import archive_path, entry_path
from support.faulty_environment import FaultyEnvironment
from support.local import IN_JOB, local_rows
from support.multisets import difference, rows_of_table
from support.spark import configured
from support.stores import unsynced

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from relstate.connector.views.job import ViewJob

# A diamond over a table: both is over sums and tops, which are over t.
DIAMOND = {
    "sums": "SELECT g, count(*) AS c, sum(v) AS s FROM t GROUP BY g",
    "tops": "SELECT g, k, v FROM (SELECT g, k, v, row_number() OVER (PARTITION BY g "
    "ORDER BY v, k) AS n FROM t) WHERE n <= 2",
    "both": "SELECT sums.g, sums.c, tops.k FROM sums JOIN tops ON sums.g = tops.g",
}


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    """A store with a table of 20 rows."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=8, shards=2, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, g STRING, v BIGINT", primary_key=["k"])
        put(store, *range(20))
        yield Database(spark, store)
        assert store.check().problems == ()


def put(store: Store, *keys: int, factor: int = 1) -> int:
    """Upsert rows whose values follow from their keys, in one epoch, and return it."""
    values = [key * factor for key in keys]
    return store.write("t", pa.table({"k": keys, "g": [f"g{v % 4}" for v in values], "v": values}))


def create(db: Database, views: Mapping[str, str]) -> None:
    """Create views."""
    for name, query in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def hold(db: Database, views: Mapping[str, str]) -> None:
    """Fail unless views equal their SELECTs over the latest rows, and their state is theirs."""
    for name, query in views.items():
        expected = db.sql(query).toArrow()
        rows = db.store.table(name).to_arrow().select(expected.column_names)
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], []), name
        assert find_differences(db._views.runner, db.store.state.view(name).view_id) == []


def test_a_refresh_touches_few_files(db: Database, spark: SparkSession) -> None:
    """In the driver, whatever the store's age: it reads new entries, and looks for the next one."""
    create(db, {"sums": DIAMOND["sums"]})
    while db.store.epoch < 15:
        put(db.store, 1, factor=db.store.epoch)
    db.refresh()
    environment = FaultyEnvironment(db.store.path)
    follower = Database(spark, Store.open(db.store.path, environment=environment))
    touches = environment.touches
    for number in range(2):
        last = follower.store.epoch
        put(db.store, 1, factor=100 + number)
        newest = db.store.epoch
        touches.clear()

        assert follower.refresh().epoch == newest + 1

        log = [touch for touch in touches if "segments" not in touch]
        # The new entries, the next one, which is missing, and the last one known, which proves
        # them; then the commit reads the entry that it follows.
        epochs = [*range(last + 1, newest + 2), last, newest]
        reads = [f"read {entry_path(epoch)}" for epoch in epochs]
        assert [touch for touch in log if touch.startswith("read")] == reads
        # The writer of an entry asks once whether its epoch is archived.
        archive = f"look at {archive_path(newest + 1)}"
        assert [touch for touch in log if "_archive" in touch] == [archive]
        assert not [touch for touch in log if touch.startswith("list")]
        assert len(log) <= 24

    newest = follower.store.epoch
    touches.clear()
    assert follower.refresh().views == ()
    looks = [f"look for {entry_path(epoch)}" for epoch in (newest + 1, newest)]
    version = "look at the version of _log"
    # A look within the last 10 ms is enough where nothing was announced since.
    assert touches in ([], looks, [version, *looks], [version])


def test_one_commit_moves_all_views(db: Database) -> None:
    """All views of a DAG are in one commit; without changes there is none."""
    create(db, DIAMOND)
    written = put(db.store, *range(15, 30), factor=3)

    done = db.refresh()

    assert (done.epoch, done.reflects) == (written + 1, written)
    assert done.views == ("both", "sums", "tops")
    hold(db, DIAMOND)
    assert db.refresh().views == ()
    assert db.store.epoch == done.epoch
    put(db.store, 1)  # the same row again
    db.refresh()
    again = db.store.epoch
    assert db.refresh().epoch == again
    hold(db, DIAMOND)


def test_a_named_view_moves_with_the_views_that_it_reads(db: Database) -> None:
    """Other views stay, and catch up later."""
    create(db, DIAMOND)
    independent = {"all": "SELECT count(*) AS c FROM t"}
    create(db, independent)
    put(db.store, 1, 2, factor=5)

    assert db.refresh("sums").views == ("sums",)
    put(db.store, 3, 4, factor=7)
    assert db.refresh("both").views == ("both", "sums", "tops")
    hold(db, DIAMOND)
    assert db.refresh(["all", "sums"]).views == ("all",)
    hold(db, independent)
    with pytest.raises(errors.ViewNotFoundError, match="nothing"):
        db.refresh("nothing")
    with pytest.raises(errors.ViewNotFoundError, match="t"):
        db.refresh("t")


# Views that fail for a row whose v is 500, with what their errors say.
FAILING = {
    "division": ("SELECT k, 100 DIV (v - 500) AS q FROM t", "DIVIDE_BY_ZERO"),
    "cast": ("SELECT CAST(IF(v = 500, 'x', '1') AS INT) AS q, sum(v) FROM t GROUP BY 1", "CAST"),
    "total": ("SELECT g, sum(IF(v = 500, 9223372036854775807, 9)) FROM t GROUP BY g", "overflow"),
}


def test_views_that_fail_do_not_stop_others(db: Database) -> None:
    """Their errors are raised after others are committed; they recover when the row is corrected.

    Views that read them wait for them, and are right afterwards.
    """
    failing = {name: query for name, (query, _) in FAILING.items()}
    failing["over"] = "SELECT count(*) AS c FROM division"
    create(db, {**DIAMOND, **failing})
    before = {name: rows_of_table(db.store.table(name).to_arrow()) for name in failing}
    db.store.write("t", pa.table({"k": [100, 101], "g": ["g0", "g1"], "v": [500, 1]}))

    for _ in range(2):
        with pytest.raises(errors.ViewFailedError, match=r"^view '\w+' could not be computed"):
            db.refresh()
        hold(db, DIAMOND)
        shown = db.sql("SHOW MATERIALIZED VIEWS").collect()
        assert {row.viewName for row in shown if row.is_behind} == set(failing)
        assert {n: rows_of_table(db.store.table(n).to_arrow()) for n in failing} == before
        put(db.store, 7, factor=9)
    for name, (_, problem) in FAILING.items():
        message = f"^view '{name}' could not be computed(?s:.*)(?i:{problem})"
        with pytest.raises(errors.ViewFailedError, match=message):
            db.refresh(name)
    db.store.write("t", pa.table({"k": [100], "g": ["g0"], "v": [501]}))

    assert set(db.refresh().views) == {*DIAMOND, *failing}
    hold(db, {**DIAMOND, **failing})


def test_a_failure_names_the_view_and_its_cause() -> None:
    """A failure of a row advises about it; what may be of the machines blames no row."""
    own = errors.ValueRangeError("too large")
    assert str(view_failure("v", own)) == "view 'v' could not be computed: too large"
    row = FailingRow("t", (("k", 7), ("g", "x")))
    assert "for the row with k = 7, g = 'x' of table 't': too" in str(
        view_failure("v", own, "", row)
    )

    failure = view_failure("v", OSError("no space left"))

    assert isinstance(failure, errors.JobFailedError)
    assert str(failure).startswith("the job of view 'v' failed")
    assert str(failure).endswith("OSError: no space left")
    assert "correct the row" not in str(failure)
    assert failure.__cause__ is None
    assert view_failure("over", failure) is failure

    raised = PySparkException("[CAST_INVALID_INPUT] The value 'x' … SQLSTATE: 22018")
    failed = view_failure("v", raised, "SELECT 1", row)
    assert isinstance(failed, errors.ViewFailedError)
    assert "fails for the row with k = 7, g = 'x' of table 't': correct the row" in str(failed)


@pytest.mark.parametrize("is_local", [True, False])
def test_a_failure_names_the_expression_and_the_row(
    db: Database, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    """As the user wrote it, and by its key, of thousands of changes; not if no row fails alone."""
    if not is_local:
        monkeypatch.setattr(runner, "is_small", lambda job: False)
    create(
        db,
        {
            "division": "SELECT k, 100 div (t.v-500) AS q FROM t WHERE k >= 0",
            "total": "SELECT sum(v) AS s FROM t",
        },
    )
    keys = list(range(100, 2100))
    values = [500 if key == 1234 else 7 for key in keys]
    db.store.write("t", pa.table({"k": keys, "g": ["g0"] * 2000, "v": values}))
    with pytest.raises(errors.ViewFailedError) as failure:
        db.refresh("division")
    assert "'100 div (t.v-500)' fails for the row with k = 1234 of table 't'" in str(failure.value)
    db.store.write("t", pa.table({"k": [1, 2], "g": ["", ""], "v": [2**62, 2**62]}))
    with pytest.raises(errors.ViewFailedError, match=r"^view 'total' could not be computed: sum"):
        db.refresh("total")
    db.sql("DELETE FROM t WHERE k IN (2, 1234)")
    db.refresh()
    db.sql("UPDATE t SET v = 501 WHERE k = 2000")
    db.refresh("division")
    db.store.write("t", pa.table({"k": [2000], "g": ["g1"], "v": [500]}))
    with pytest.raises(errors.ViewFailedError, match=r"with k = 2000 of table 't'"):
        db.refresh("division")


@pytest.mark.parametrize(
    "error",
    [
        errors.ConflictError("again"),
        errors.CorruptionError("a file"),
        errors.SessionError("pandas"),
        errors.TableNotFoundError("dropped"),
    ],
)
def test_errors_that_no_view_causes_keep_their_class(error: errors.RelstateError) -> None:
    """A conflict, a damaged file or a missing package is raised as it is."""
    assert view_failure("v", error) is error


def test_a_failure_is_short_and_names_the_view(db: Database) -> None:
    """For a sum that overflows, and for an error of Spark, whose stack is left out."""
    create(
        db,
        {
            "sums": "SELECT sum(v) AS s FROM t",
            "parsed": "SELECT k, variant_get(parse_json(g), '$.a', 'int') AS a FROM t WHERE k > 99",
        },
    )
    db.store.write("t", pa.table({"k": [1, 2], "g": ["", ""], "v": [2**62, 2**62]}))
    with pytest.raises(errors.ViewFailedError, match=r"^view 'sums' .*: sum\(v\) overflows BIG"):
        db.refresh("sums")
    failure = read_failure(db.store.environment, db.store.view("sums").view_id)
    assert failure is not None
    assert failure.epoch == db.store.epoch
    assert "sum(v) overflows BIG" in failure.message
    put(db.store, 1, 2)
    db.store.write("t", pa.table({"k": [100], "g": ["bad"], "v": [1]}))

    with pytest.raises(
        errors.ViewFailedError, match=r"^view 'parsed' .*MALFORMED_RECORD"
    ) as raised:
        db.refresh()

    assert len(str(raised.value)) < 600
    with pytest.raises(errors.ViewFailedError, match=r"^view 'more' .*MALFORMED_RECORD"):
        create(db, {"more": "SELECT k, parse_json(g) IS NULL AS a FROM t"})


def test_a_view_whose_changes_cannot_be_read_does_not_stop_others(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails before a view's job begins is a failure of that view, too."""
    create(db, {"sums": DIAMOND["sums"]})
    db.store.create_table("u", "k BIGINT", primary_key=["k"])
    create(db, {"ones": "SELECT k FROM u"})
    put(db.store, 1, factor=3)
    db.store.write("u", pa.table({"k": [1]}))
    feed_plan = db.store.jobs.feed_plan

    def failing(table: str, *args: Any, **kwargs: Any) -> Any:
        if table == "u":
            raise errors.OptionError("rows that expire")
        return feed_plan(table, *args, **kwargs)

    monkeypatch.setattr(db.store.jobs, "feed_plan", failing)
    with pytest.raises(errors.ViewFailedError, match=r"^view 'ones' .*: rows that expire"):
        db.refresh()

    hold(db, {"sums": DIAMOND["sums"]})


def test_the_session_of_the_user_stays_the_active_one(db: Database) -> None:
    """Views are computed in sessions of their own; the user's session remains the active one."""
    create(db, {"few": "SELECT k, v FROM t WHERE k IN (1, 2)"})
    jvm: Any = db.spark._jvm
    sessions = jvm.SparkSession
    active = sessions.getActiveSession().get()
    put(db.store, 1, factor=3)

    for act in (db.refresh, db.check_views):
        act()
        assert sessions.getActiveSession().get().equals(active), act
        python_session = db.spark.getActiveSession()
        assert python_session is not None
        assert python_session._jsparkSession.equals(active)


def test_a_job_begins_in_the_session_of_its_view(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads some settings, as of TIME in ``agg()``, from the session that is active."""
    jvm: Any = db.spark._jvm
    are_active: list[bool] = []

    def observed(job: ViewJob, session: SparkSession) -> DataFrame:
        active = jvm.SparkSession.getActiveSession().get()
        are_active.append(active.equals(session._jsparkSession))
        return report_frame(job, session)

    monkeypatch.setattr(runner, "report_frame", observed)
    with local_rows(IN_JOB):
        create(db, {"middle": "SELECT g, median(v) AS m FROM t GROUP BY g"})

    assert are_active == [True]


def test_a_view_keeps_to_the_settings_it_was_created_under(db: Database) -> None:
    """The time zone and ANSI mode of the session that refreshes or checks it do not matter."""
    own = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    hours = "date_format(timestamp_seconds(v * 3600), 'H')"
    with configured(db.spark, own):
        create(db, {"hours": f"SELECT v, {hours} AS hour, CAST(g AS INT) AS none FROM t"})
    put(db.store, *range(20, 30))

    db.refresh()

    rows = db.store.table("hours").to_arrow().select(["v", "hour", "none"])
    expected = [(v, str((v + 9) % 24), None) for v in range(30)]
    assert sorted(rows_of_table(rows)) == expected
    (report,) = db.check_views("hours")
    assert report.ok, report


def test_vacuum_leaves_what_a_view_still_has_to_read(db: Database) -> None:
    """A view that nobody refreshes for many epochs, vacuums and compactions catches up."""
    create(db, DIAMOND)
    for number in range(7):
        put(db.store, *range(number, number + 6), factor=number + 2)
        if number % 3 == 0:
            db.refresh("sums")
        if number % 4 == 1:
            db.maintain()
        db.store.vacuum(retention=0)
    db.store.delete("t", pa.table({"k": [1, 2]}))
    db.maintain()
    db.store.vacuum(retention=0)

    db.refresh()
    hold(db, DIAMOND)
    db.maintain()
    db.refresh()
    hold(db, DIAMOND)
    assert [report for report in db.check_views("both") if not report.ok] == []


def test_an_input_that_is_replaced(db: Database) -> None:
    """When a table is overwritten or truncated, its former rows leave the views."""
    create(db, DIAMOND)
    rows = pa.table({"k": [1, 50, 51], "g": ["g1", "g1", None], "v": [1, 2, 3]})
    db.store.write("t", rows, overwrite=True)
    db.refresh()
    hold(db, DIAMOND)

    put(db.store, 60, 61)
    db.sql("TRUNCATE TABLE t")
    put(db.store, 1, 62)
    db.refresh()
    hold(db, DIAMOND)
    db.sql("TRUNCATE TABLE t")
    db.refresh()
    hold(db, DIAMOND)
    assert db.store.table("both").to_arrow().num_rows == 0


def test_an_input_whose_columns_change(db: Database) -> None:
    """New columns do not concern a view; columns that it reads cannot be dropped."""
    create(db, DIAMOND)
    db.sql("ALTER TABLE t ADD COLUMN note STRING")
    db.sql("INSERT INTO t VALUES (70, 'g1', 7, 'new'), (1, 'g2', 3, 'changed')")
    create(db, {"notes": "SELECT note, count(*) AS c FROM t GROUP BY note"})
    db.refresh()
    hold(db, {**DIAMOND, "notes": "SELECT note, count(*) AS c FROM t GROUP BY note"})
    with pytest.raises(errors.DependentViewsError, match="notes"):
        db.sql("ALTER TABLE t DROP COLUMN note")
    with pytest.raises(errors.DependentViewsError, match=r"sums|tops"):
        db.sql("ALTER TABLE t DROP COLUMN v")


def test_a_table_that_is_altered_while_a_view_is_planned(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CREATE fails: the view was planned over another schema."""

    def altered_then(*args: Any, **options: Any) -> NewView:
        planned = new_view(*args, **options)
        db.store.widen_column("t", "v", "DECIMAL(30, 0)")
        return planned

    monkeypatch.setattr(views, "new_view", altered_then)
    with pytest.raises(errors.ConflictError, match="t"):
        create(db, {"sums": DIAMOND["sums"]})

    assert db.store.state.view_names() == ()


def test_a_table_that_a_view_reads_is_not_dropped(db: Database) -> None:
    """DROP names the views that read a table or view; CASCADE drops them and their state."""
    create(db, DIAMOND)
    tables = len(db.store.state.tables)

    with pytest.raises(errors.DependentViewsError, match="sums"):
        db.sql("DROP TABLE t")
    with pytest.raises(errors.DependentViewsError, match="both"):
        db.sql("DROP MATERIALIZED VIEW sums")
    assert len(db.store.state.tables) == tables
    db.sql("DROP MATERIALIZED VIEW tops CASCADE")

    assert db.store.state.view_names() == ("sums",)
    put(db.store, 1, 2, factor=3)
    assert db.refresh().views == ("sums",)
    db.sql("DROP MATERIALIZED VIEW sums")
    assert list(db.store.state.tables) == [db.store.read_plan("t").definition.table_id]
    db.sql("DROP TABLE t")
    assert db.refresh().views == ()


def test_rescaling_moves_the_fewest_vnodes_and_no_state(db: Database) -> None:
    """The commit has no segments, the fewest vnodes move, and the next epochs are right."""
    create(db, DIAMOND)
    for units in (3, 1, 8, 2):
        before = db.store.state
        mapping = before.view("sums").definition.mapping
        db.sql(f"ALTER MATERIALIZED VIEW sums SET PARALLELISM {units}")
        after = db.store.state
        moved = after.view("sums").definition.mapping
        surplus = sum(
            max(mapping.owners.count(u) - moved.owners.count(u), 0) for u in range(max(8, units))
        )
        changed = sum(a != b for a, b in zip(mapping.owners, moved.owners, strict=True))
        assert moved.units == units
        assert changed == surplus
        assert max(map(moved.owners.count, range(units))) <= -(-8 // units)
        for table_id in (*after.view("sums").definition.internal, after.view("sums").view_id):
            assert after.segments_of(table_id) == before.segments_of(table_id)
        put(db.store, *range(units, units + 9), factor=units)
        db.refresh()
        hold(db, {"sums": DIAMOND["sums"]})
    hold(db, DIAMOND)
    epoch = db.store.epoch
    db.sql("ALTER MATERIALIZED VIEW sums SET PARALLELISM 2")
    assert db.store.epoch == epoch
    for units in (0, 9):
        with pytest.raises(errors.OptionError, match="1 to 8"):
            db.sql(f"ALTER MATERIALIZED VIEW sums SET PARALLELISM {units}")
