"""Flights out of New York, and three materialized views that follow them.

    python examples/flights.py [--store DIR] [--since DATE] [--days N] [--reset]

Every flight that left New York in 2013 appears with its schedule, is updated when it departs and
again when it lands, and is deleted if it was cancelled. What happened before ``--since`` is loaded
at once, and three views are created over it: delays by carrier and hour, a board of the flights to
come, and the worst routes of each airport. Then a day passes every two seconds, as one micro-batch,
and the views follow within a second. Meanwhile they are queried, and midway the parallelism of one
view changes. In the end tables and views hold what plain Spark computes from the source.

Run again, it goes on from where it was: after Ctrl-C, after kill -9, with more ``--days``. A replay
that is complete is not repeated unless ``--reset`` starts over. The exit code is 0 only if all
tables and views hold exactly what they must.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flights_changes
import flights_truth
import pyarrow.parquet as pq
from flights_changes import KEY
from flights_folder import Folder
from flights_progress import latencies, watch
from flights_session import SETTINGS, Setting, session
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import relstate
from relstate import Database, Store

DEFAULT_STORE = Path(__file__).parents[1] / "stores" / "flights"
SINCE = "2013-11-01"
DAYS = 20
A_DAY_PASSES_IN = "2 seconds"
YEAR = 365 * 24 * 3600
DIMENSIONS = ("airlines", "airports")

TABLES = (
    f"""flights ({flights_changes.COLUMNS}, PRIMARY KEY ({", ".join(KEY)}))
       TBLPROPERTIES ('version_column' = 'updated_at')""",
    "airlines (carrier STRING, name STRING, PRIMARY KEY (carrier))",
    """airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING,
       tzone STRING, PRIMARY KEY (faa))""",
)

# What is kept, in Spark's SQL. A name in braces is a table, from wherever it comes: the views are
# created over the store's, and in the end the same text runs over plain Spark's.
VIEWS = {
    "carrier_hours": """
        SELECT carrier, sched_dep_time DIV 100 AS hour, count(*) AS landings,
               avg(arr_delay) AS mean_delay, max(arr_delay) AS worst_delay,
               count(*) FILTER (WHERE arr_delay > 60) AS over_an_hour
        FROM {flights} WHERE status = 'landed'
        GROUP BY carrier, sched_dep_time DIV 100""",
    "board": """
        SELECT f.carrier, f.flight, f.origin, f.time_hour, f.status, f.dep_delay,
               a.name AS airline, p.name AS destination
        FROM {flights} f
        JOIN {airlines} a ON a.carrier = f.carrier
        LEFT JOIN {airports} p ON p.faa = f.dest
        WHERE f.status IN ('scheduled', 'departed')""",
    "worst_routes": """
        SELECT * FROM (
            SELECT *, row_number() OVER (
                PARTITION BY origin ORDER BY mean_delay DESC, dest) AS place
            FROM (SELECT origin, dest, count(*) AS landings, avg(arr_delay) AS mean_delay
                  FROM {flights} WHERE status = 'landed'
                  GROUP BY origin, dest HAVING count(*) >= 100))
        WHERE place <= 3""",
}
NAMES = {name: name for name in ("flights", *DIMENSIONS)}
WORST = """
    SELECT r.origin, r.place, p.name AS destination, r.landings, round(r.mean_delay, 1) AS delay
    FROM worst_routes {when} r JOIN airports p ON p.faa = r.dest ORDER BY r.origin, r.place"""


def main() -> int:
    """Run the demo; return the exit code."""
    options = arguments()
    began = time.monotonic()
    try:
        equal = replay(Folder(options.store), options.since, options.days, reset=options.reset)
    except KeyboardInterrupt:
        print("\nInterrupted. Run it again, and it goes on from here.")
        return 130
    except relstate.RelstateError as error:
        print(f"\n{type(error).__name__}: {error}\n--reset starts over.", file=sys.stderr)
        return 2
    print(f"\n{'All equal' if equal else 'NOT EQUAL'}, after {time.monotonic() - began:.0f} s.")
    return 0 if equal else 1


def replay(
    folder: Folder,
    since: datetime,
    days: int,
    *,
    reset: bool,
    settings: Mapping[str, Setting] = SETTINGS,
) -> bool:
    """Run every part of the demo; return whether tables and views hold what they must.

    ``settings``: of the session of Spark.
    """
    folder.prepare(reset=reset)
    relstate.create(folder.address, retention=YEAR, exist_ok=True).close()
    title(f"The source: flights out of New York in 2013, from {since:%Y-%m-%d} on as a stream")
    folder.write_source()
    flights = pq.read_table(folder.source_file("flights"))
    until = flights_changes.write(flights, folder.history(since), folder.changes, since, days)
    with session(folder.log, settings) as spark:
        db = relstate.connect(spark, folder.address)
        load_tables(db, folder, since)
        create_views(db)
        follow(db, folder)
        set_aside(db)
        go_back(db)
        return compare(db, folder, until)


def load_tables(db: Database, folder: Folder, since: datetime) -> None:
    """Create the tables and write their first rows, one epoch per table, if they are not there."""
    began = time.monotonic()
    for table in TABLES:
        db.sql(f"CREATE TABLE IF NOT EXISTS {table}")
    for name in DIMENSIONS:
        write_once(db, name, folder.source_file(name))
    # In any order: the table's version column says which of two changes is newer.
    write_once(db, "flights", folder.history(since), opColumn="op")
    count = db.store.table("flights").count()
    print(f"  {count:,} flights are in the table, after {time.monotonic() - began:.1f} s")


def write_once(db: Database, table: str, file: Path, **options: str) -> None:
    """Write a file into a table. A write with a known transaction number is skipped."""
    rows = db.spark.read.parquet(str(file))
    writer = rows.write.format("relstate").mode("append").options(table=table, **options)
    writer.options(txnAppId="flights demo", txnVersion="1").save(db.store.path)


def create_views(db: Database) -> None:
    """Create the views, which are filled from what is there."""
    title("Three materialized views over what is there")
    for name, query in VIEWS.items():
        began = time.monotonic()
        db.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {query.format(**NAMES)}")
        rows = db.store.table(name).count()
        print(f"  {name:14} {rows:6,} rows, after {time.monotonic() - began:.1f} s")


def follow(db: Database, folder: Folder) -> None:
    """Replay the days into the table of flights, while the views follow it."""
    files = sorted(folder.changes.glob("*.parquet"))
    title(f"{len(files)} days pass, one in {A_DAY_PASSES_IN}, and the views follow")
    begin = db.store.epoch + 1
    views = db.stream()
    is_rescaled = False
    for day in watch(keep_flights(db, folder), files, lambda: told_live(db.store)):
        if day >= len(files) // 2 and not is_rescaled:
            ask_and_rescale(db)
            is_rescaled = True
    views.processAllAvailable()
    views.stop()
    print(f"  {latencies(db.store, views, begin)}")


def keep_flights(db: Database, folder: Folder) -> StreamingQuery:
    """Start the query that applies every change, a micro-batch at one epoch, exactly once."""
    reader = db.spark.readStream.schema(flights_changes.CHANGE_COLUMNS)
    changes = reader.option("maxFilesPerTrigger", 1).parquet(str(folder.changes))
    writer = changes.writeStream.format("relstate").queryName("flights")
    writer = writer.options(table="flights", opColumn="op", badRows="quarantine")
    writer = writer.option("checkpointLocation", str(folder.checkpoint))
    return writer.trigger(processingTime=A_DAY_PASSES_IN).start(db.store.path)


def told_live(store: Store) -> str:
    """Look up a row of a view, without Spark, while it is being refreshed."""
    morning = store.table("carrier_hours").get("UA", 8)
    if morning is None:
        return ""
    return f"  United at 8h: {morning.landings:,} landings, {morning.mean_delay:+.2f} min"


def ask_and_rescale(db: Database) -> None:
    """Ask a view in SQL, and keep another in more units from now on, while both are refreshed."""
    print(f"\n  Midway: the worst routes in SQL, at epoch {db.store.epoch}")
    db.sql(WORST.format(when="")).show(truncate=False)
    epoch = db.sql("ALTER MATERIALIZED VIEW carrier_hours SET PARALLELISM 3").first()
    plan = db.sql("EXPLAIN MATERIALIZED VIEW carrier_hours").first()
    assert epoch is not None
    assert plan is not None
    print(f"  carrier_hours is kept in 3 parallel units from epoch {epoch[0]} on:")
    print("    " + plan[0].split("== Vnode mapping ==\n")[1].replace("\n", "\n    ") + "\n")


def set_aside(db: Database) -> None:
    """Write a flight without a carrier, which is part of the key, and show where it is."""
    title("A flight without a carrier breaks a rule of the table: it is set aside, with the reason")
    rows = db.table("flights").limit(1).withColumn("carrier", f.lit(None).cast("string"))
    writer = rows.write.format("relstate").mode("append")
    writer.options(
        table="flights", badRows="quarantine", txnAppId="flights demo, a bad row", txnVersion="1"
    ).save(db.store.path)
    for bad in db.store.table("flights__quarantine").to_dicts():
        print(f"  {bad['reason']}\n    {bad['row_json']}")
    print("  Mend it there, and ALTER TABLE flights RECOVER QUARANTINE writes it to the table.")


def go_back(db: Database) -> None:
    """Show a view as it was, and what has changed in it since."""
    then = earlier_epoch(db)
    title(f"The worst routes as of epoch {then}, and the changes of that view since")
    db.sql(WORST.format(when=f"VERSION AS OF {then}")).show(truncate=False)
    feed = db.spark.read.format("relstate").options(table="worst_routes", readChangeFeed="true")
    feed = feed.options(startingVersion=then + 1, deduplicationMode="netChanges")
    changes = feed.load(db.store.path).where("_change_type <> 'update_preimage'")
    changes.select("origin", "place", "dest", "_change_type").orderBy("origin", "place").show()


def earlier_epoch(db: Database) -> int:
    """Return an epoch in the midst of the replay."""
    return db.store.epoch * 2 // 3


def compare(db: Database, folder: Folder, until: datetime) -> bool:
    """Compare tables and views with plain Spark over the source; return whether all are equal."""
    title(f"Compared with plain Spark over the source, as of {until:%Y-%m-%d}")
    files = {name: str(folder.source_file(name)) for name in NAMES}
    source = {name: db.spark.read.parquet(file) for name, file in files.items()}
    tables: dict[str, Any] = source | {
        "flights": flights_truth.flights(source["flights"], until).cache()
    }
    views = {name: db.spark.sql(query, **tables) for name, query in VIEWS.items()}
    results = [
        report(name, db.sql(f"SELECT * FROM {name}"), rows)
        for name, rows in (tables | views).items()
    ]
    then = earlier_epoch(db)
    earlier = db.table("flights", version=then)
    rows = flights_truth.flights(source["flights"], moment_of(earlier))
    results.append(report(f"flights at epoch {then}", earlier, rows))
    return all([*results, *check(db)])


def check(db: Database) -> list[bool]:
    """Compare views with their SELECTs, and their state with their inputs; return what is well."""
    title("check_views: every view against its SELECT, its state against its inputs")
    reports = db.check_views()
    for checked in reports:
        verdict = "equal" if checked.ok else f"DIFFERENT: {'; '.join(checked.problems)}"
        print(f"  {checked.view:22} reflects epoch {checked.reflects}: {verdict}")
    return [checked.ok for checked in reports]


def moment_of(flights: DataFrame) -> datetime:
    """Return the moment that a table of flights reflects: that of its newest change."""
    newest = flights.agg(f.max("updated_at")).toArrow().to_pydict()
    (moment,) = newest.popitem()[1]
    return flights_changes.START if moment is None else flights_changes.batch_end(moment)


def report(name: str, rows: DataFrame, expected: DataFrame) -> bool:
    """Tell how ``rows`` compare with what is expected; return whether they are equal."""
    comparison = flights_truth.compare(rows, expected)
    verdict = "equal" if comparison.equal else f"DIFFERENT in {comparison.differences:,} rows"
    print(
        f"  {name:22} {comparison.rows:8,} rows, {comparison.expected_rows:8,} expected: {verdict}"
    )
    return comparison.equal


def title(text: str) -> None:
    """Begin a part of the demo."""
    print(f"\n== {text}", flush=True)


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description="Replay flights into a store with views.")
    parser.add_argument("--store", type=Path, default=DEFAULT_STORE, help="folder of the store")
    parser.add_argument("--since", type=_day, default=SINCE, help="the first day that is streamed")
    parser.add_argument("--days", type=int, default=DAYS, help="stream so many days")
    parser.add_argument("--reset", action="store_true", help="start over")
    options = parser.parse_args()
    if options.days < 1:
        parser.error("--days must be 1 or more")
    options.store = options.store.absolute()
    return options


def _day(text: str) -> datetime:
    day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    last = flights_changes.START + flights_changes.STREAM_DAYS * flights_changes.DAY
    if not flights_changes.START <= day < last:
        raise argparse.ArgumentTypeError(f"{text} is no day of the flights' year")
    return day


if __name__ == "__main__":
    sys.exit(main())
