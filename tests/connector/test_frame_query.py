"""Views made of DataFrames: the view has the rows of the frame, or the frame is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from relstate.connector.sql import Database
from relstate.connector.sql.frame_operators import QueryWriter
from relstate.connector.sql.frame_query import FrameQueries
from relstate.connector.sql.frame_text import FrameText
from relstate.connector.views.sessions import keep_active_session
from relstate.storage import Store, errors
from support.frames import FRAMES, REFUSED, MakeFrame, by_customer
from support.multisets import difference, rows_of_table
from support.spark import properties_of
from support.stores import unsynced, upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A store with orders and customers."""
    path = str(tmp_path_factory.mktemp("frames") / "store")
    with Store.create(path, vnode_count=8, shards=1, environment=unsynced(path)) as store:
        store.create_table(
            "o",
            "id BIGINT, customer INT, amount DECIMAL(12,2), note STRING, score DOUBLE, "
            "at TIMESTAMP, tags ARRAY<INT>",
            primary_key=["id"],
        )
        store.create_table("c", "id INT, country STRING", primary_key=["id"])
        upsert(store, "c", [(1, "AT"), (2, "AT"), (3, "IT"), (4, None)])
        put(store, *range(12))
        yield Database(spark, store)


def put(store: Store, *ids: int, factor: int = 1) -> None:
    """Upsert orders that follow from their ids."""
    notes = ["a", "ab", None, "c"]
    scores = [1.5, float("nan"), None]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (
            i,
            x % 5,
            Decimal(x % 7),
            notes[x % 4],
            scores[x % 3],
            start + timedelta(minutes=17 * x) if x % 6 else None,
            [x % 3, 2, x % 4 or None],
        )
        for i, x in ((i, i * factor) for i in ids)
    ]
    upsert(store, "o", rows)


def frame_of(db: Database, make: MakeFrame) -> DataFrame:
    """Return a frame over the latest rows."""
    return make(db.table("o"), db.table("c"))


@pytest.mark.parametrize("family", FRAMES)
def test_a_view_has_the_rows_of_its_frame(family: str, db: Database) -> None:
    """Those of its columns, too, before and after changes; its SELECT is text like any other."""
    frames = FRAMES[family]
    for name, make in frames.items():
        db.create_view(name, frame_of(db, make), parallelism=1)
    assert_views_are(db, frames)

    put(db.store, 3, 4, 20, 21, factor=3 + len(family))
    db.sql("DELETE FROM o WHERE id IN (1, 8)")
    db.sql("UPDATE c SET country = 'DE' WHERE id = 2")
    db.refresh()
    assert_views_are(db, frames)
    assert all(report.ok for report in db.check_views(list(frames)[-2:]))
    put(db.store, 1, 8)


def assert_views_are(db: Database, frames: dict[str, MakeFrame]) -> None:
    """The views have the rows of their frames."""
    for name, make in frames.items():
        expected = frame_of(db, make).toArrow()
        rows = db.table(name).toArrow()
        assert rows.column_names == expected.column_names, name
        assert difference(rows_of_table(rows), rows_of_table(expected)) == ([], []), name


def test_drop_duplicates_takes_the_first_row(db: Database) -> None:
    """Of rows that agree in some columns a view has the first in the order of the key."""
    db.create_view("first_rows", db.table("o").dropDuplicates(["note"]), parallelism=1)
    put(db.store, 0, 1, factor=5)
    db.refresh("first_rows")
    rows = db.sql("SELECT * FROM first_rows").toArrow()
    first = db.sql("SELECT * FROM o WHERE id IN (SELECT min(id) FROM o GROUP BY note)").toArrow()
    assert difference(rows_of_table(rows), rows_of_table(first)) == ([], [])
    db.sql("DROP MATERIALIZED VIEW first_rows")


def test_a_query_is_a_frame_of_a_view(db: Database) -> None:
    """The view of a frame of `db.sql` has its text, that of a frame made of some has theirs."""
    query = "SELECT id, note FROM o WHERE id > :least -- those"
    frame = db.sql(query, {"least": 3})
    db.create_view("queried", frame, parallelism=1)
    assert db.store.view("queried").definition.query == "SELECT id, note FROM o WHERE id > 3"
    countries = db.sql("SELECT id AS n, country FROM c")
    both = frame.join(countries, frame.id == countries.n).where("n < 9").select("note", "country")
    expected = rows_of_table(both.toArrow())
    db.create_view("joined_queries", both, parallelism=1)
    rows = rows_of_table(db.sql("SELECT note, country FROM joined_queries").toArrow())
    assert difference(rows, expected) == ([], [])

    consistent = db.sql(query, {"least": 3}, consistent=True)
    with pytest.raises(errors.UnsupportedStatementError, match=r"Use db\.table"):
        FrameQueries(db.spark, db.store.path).query_of(consistent)


@pytest.mark.parametrize("reason", REFUSED)
def test_a_frame_that_is_no_select_is_refused(reason: str, db: Database) -> None:
    """The error says what it is in the frame; what Spark does not write rightly is found out."""
    frame = frame_of(db, REFUSED[reason])
    with pytest.raises(errors.UnsupportedStatementError, match=reason):
        FrameQueries(db.spark, db.store.path).query_of(frame)


def test_a_view_follows_its_tables(db: Database, spark: SparkSession) -> None:
    """So a table at a fixed epoch, with an option or of another store is refused; views are not."""
    db.create_view("source", db.table("o").select("id"), comment="ids")
    db.create_view("reader", db.table("source").where("id > 3"))
    assert properties_of(db, "source")["comment"] == "ids"
    assert db.store.view("reader").definition.reads(db.store.view("source").view_id)
    db.create_view("source", db.table("o").where("id > 1").select("id"), or_replace=True)
    assert "id >" in db.store.view("source").definition.query
    with pytest.raises(errors.TableExistsError):
        db.create_view("source", db.table("o"))

    def load(**options: object) -> DataFrame:
        reader = spark.read.format("relstate").options(table="o", **options)  # type: ignore[arg-type]
        return reader.load(db.store.path)

    for frame, reason in (
        (db.table("o", version=db.store.epoch), "fixed epoch"),
        (load(versionAsOf=db.store.epoch), "fixed epoch"),
        (load(where="id > 3"), "option where"),
    ):
        with pytest.raises(errors.UnsupportedStatementError, match=reason):
            db.create_view("refused", frame)
    with pytest.raises(errors.UnsupportedStatementError, match="of the store at"):
        FrameQueries(db.spark, "/elsewhere").query_of(db.table("o"))
    with pytest.raises(errors.UsageError, match="str"):
        db.create_view("refused", "SELECT 1")  # type: ignore[arg-type]
    db.create_view("latest", load())


def test_a_frame_under_other_settings_is_refused(db: Database) -> None:
    """A view keeps those of the Database: under others the text would mean something else."""
    with keep_active_session(db.spark):
        session = db.spark.newSession()
        session.conf.set("spark.sql.session.timeZone", "America/New_York")
        elsewhere = Database(session, db.store)
        with pytest.raises(errors.UnsupportedStatementError, match="timeZone = America/New_York"):
            db.create_view("refused", elsewhere.table("o").where("hour(at) > 3"))

        hours = elsewhere.sql("SELECT id, hour(at) AS h FROM o")
        session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        for frame in (hours, hours.where("h > 3")):
            with pytest.raises(errors.UnsupportedStatementError, match=r"Call db\.sql again"):
                elsewhere.create_view("refused", frame)


def _doubled(o: DataFrame) -> DataFrame:
    return o.select(o.customer.alias("a"), (o.customer * 2).alias("b"))


def _numbered(o: DataFrame) -> DataFrame:
    number = f.row_number().over(by_customer()).alias("n")
    return o.select("id", "amount").join(o.select("id", "customer", number), "id")


# By what is wrong in the text: a frame, a pattern in its text, and what is written instead.
_WRONG: dict[str, tuple[MakeFrame, str, str]] = {
    "comparison": (lambda o, c: o.where("customer >= 2"), ">=", ">"),
    "operands": (
        lambda o, c: _doubled(o).select((f.col("a") - f.col("b")).alias("d")),
        r"\(a - b\)",
        "(b - a)",
    ),
    "column": (lambda o, c: _doubled(o).where("a > 2"), r"\(a > 2\)", "(b > 2)"),
    "distinct": (lambda o, c: o.agg(f.countDistinct("customer").alias("n")), "DISTINCT ", ""),
    "join": (
        lambda o, c: o.join(c.select("country", c.id.alias("i")), f.col("customer") == f.col("i")),
        " JOIN ",
        " LEFT JOIN ",
    ),
    "order of results": (
        lambda o, c: o.groupBy("customer").agg(f.min("id").alias("a"), f.max("id").alias("b")),
        r"min\((.*?)\) AS a, max\((.*?)\) AS b",
        r"max(\1) AS a, min(\2) AS b",
    ),
    "aggregate": (
        lambda o, c: o.join(o.groupBy("customer").agg(f.max("id").alias("m")), "customer"),
        r"max\(",
        "min(",
    ),
    "renamed columns": (
        lambda o, c: _numbered(o),
        r"(\w+)\.id AS id_2",
        r"\1.customer AS id_2",
    ),
    "window": (lambda o, c: _numbered(o), r"(\w+)\.id ASC", r"\1.customer ASC"),
    "branch": (lambda o, c: o.where("id > 3 OR note = 'a'"), r" OR \([^()]*\)", ""),
}


@pytest.mark.parametrize("mistake", _WRONG)
def test_a_text_that_does_not_mean_the_frame_is_found_out(
    mistake: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the writer gets wrong, there is no view of other rows than the frame's."""
    make, pattern, replacement = _WRONG[mistake]
    frame, write = frame_of(db, make), QueryWriter.frame_text

    def write_wrongly(writer: QueryWriter) -> FrameText:
        text = write(writer)
        marked, count = re.subn(pattern, replacement, text.marked)
        assert count == 1, text.marked
        return replace(text, marked=marked)

    queries = FrameQueries(db.spark, db.store.path)
    assert queries.query_of(frame)
    monkeypatch.setattr(QueryWriter, "frame_text", write_wrongly)
    with pytest.raises(errors.UnsupportedStatementError, match="means something else"):
        queries.query_of(frame)
