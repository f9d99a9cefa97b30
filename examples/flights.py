"""A year of flights, replayed through Spark into relstate.

    python examples/flights.py [--store DIR] [--days N] [--reset]

Every flight that left New York in 2013 appears with its schedule, is updated when it departs and
again when it lands, and is deleted if it was cancelled: a million changes. One streaming query
keeps the table of flights, another the delays of every airline; both can be looked up meanwhile.
Then all tables are asked at one epoch, and at an earlier one, and compared with what plain Spark
computes from the source.

Run again, it goes on from where it was: after Ctrl-C, after kill -9, with more ``--days``. A replay
that is complete is not repeated unless ``--reset`` starts over. The exit code is 0 only if the
tables hold exactly what they must.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import flights_changes
import flights_source
import flights_truth
import pyarrow as pa
import pyarrow.parquet as pq
from flights_changes import KEY, STREAM_DAYS
from flights_folder import Folder
from flights_progress import watch
from flights_session import session
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import relstate
from relstate import Database, Row, Store

DEFAULT_STORE = Path(__file__).parents[1] / "stores" / "flights"
YEAR = 365 * 24 * 3600
DIMENSIONS = ("airlines", "airports", "planes", "weather")

TABLES = (
    f"""flights ({flights_changes.COLUMNS}, PRIMARY KEY ({", ".join(KEY)}))
       TBLPROPERTIES ('version_column' = 'updated_at')""",
    """carrier_delays (carrier STRING, landings BIGINT, total_delay BIGINT, over_an_hour BIGINT,
       worst_delay INT, PRIMARY KEY (carrier))""",
    "airlines (carrier STRING, name STRING, PRIMARY KEY (carrier))",
    """airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING,
       tzone STRING, PRIMARY KEY (faa))""",
    """planes (tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING,
       engines INT, seats INT, speed INT, engine STRING, PRIMARY KEY (tailnum))""",
    """weather (origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE,
       humid DOUBLE, wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE,
       pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP, PRIMARY KEY (origin, time_hour))""",
)

# Two questions in Spark's SQL. A name in braces is a table, from wherever it comes.
STANDING = """
    SELECT a.name AS airline, d.landings, round(d.total_delay / d.landings, 1) AS mean_delay,
           d.over_an_hour, d.worst_delay
    FROM {carrier_delays} d JOIN {airlines} a ON a.carrier = d.carrier
    ORDER BY mean_delay DESC, airline LIMIT 5"""
FOG = """
    SELECT a.name AS airline, round(d.total_delay / d.landings, 1) AS mean_delay,
           round(avg(f.arr_delay) FILTER (WHERE w.visib < 3), 1) AS in_fog,
           count_if(w.visib < 3) AS flights_in_fog,
           count_if(p.year < 1990) AS on_old_planes,
           max(struct(f.distance, t.name)).name AS farthest_airport
    FROM {flights} f
    JOIN {airlines} a ON a.carrier = f.carrier
    JOIN {carrier_delays} d ON d.carrier = f.carrier
    LEFT JOIN {airports} t ON t.faa = f.dest
    LEFT JOIN {planes} p ON p.tailnum = f.tailnum
    LEFT JOIN {weather} w ON w.origin = f.origin AND w.time_hour = f.time_hour
    WHERE f.status = 'landed'
    GROUP BY a.name, d.total_delay, d.landings
    ORDER BY in_fog DESC NULLS LAST, airline"""
NAMES = {name: name for name in ("flights", "carrier_delays", *DIMENSIONS)}


def main() -> int:
    """Run the demo; return the exit code."""
    given = _arguments()
    began = time.monotonic()
    try:
        equal = replay_and_ask(Folder(given.store), days=given.days, reset=given.reset)
    except KeyboardInterrupt:
        print("\nInterrupted. Run it again, and it goes on from here.")
        return 130
    except relstate.RelstateError as error:
        print(f"\n{type(error).__name__}: {error}\n--reset starts over.", file=sys.stderr)
        return 2
    print(f"\n{'All equal' if equal else 'NOT EQUAL'}, after {time.monotonic() - began:.0f} s.")
    return 0 if equal else 1


def replay_and_ask(folder: Folder, *, days: int, reset: bool) -> bool:
    """Run every part of the demo; return whether the tables hold what they must."""
    folder.prepare(reset=reset)
    relstate.create(str(folder.store), retention=YEAR, exist_ok=True).close()
    title("The source: 336,776 flights out of New York in 2013, replayed as changes")
    folder.write_source()
    until = flights_changes.write(
        pq.read_table(folder.source_file("flights")), folder.changes, days
    )
    with session(folder.log) as spark:
        db = relstate.connect(spark, str(folder.store))
        create_tables(db)
        load_dimensions(db, folder)
        stream(db, folder)
        answer = ask(db)
        go_back(db)
        follow(db)
        look_up(db)
        return compare(db, folder, until, answer)


def create_tables(db: Database) -> None:
    """Create every table with its primary key, unless it is there."""
    for table in TABLES:
        db.sql(f"CREATE TABLE IF NOT EXISTS {table}")


def load_dimensions(db: Database, folder: Folder) -> None:
    """Write the dimension tables in batch. A write with a known transaction number is skipped."""
    for name in DIMENSIONS:
        rows = db.spark.read.parquet(str(folder.source_file(name)))
        once = {"txnAppId": "flights demo", "txnVersion": "1"}
        writer = rows.write.format("relstate").mode("append").options(table=name, **once)
        writer.save(db.store.path)


def stream(db: Database, folder: Folder) -> None:
    """Replay the changes into both streamed tables, a file a micro-batch, and tell how it goes."""
    files = sorted(folder.changes.glob("*.parquet"))
    title(f"Streaming {len(files)} micro-batches of {flights_changes.BATCH_DAYS} days each")
    queries = (
        keep_flights(read_changes(db, folder, files=1), db, folder.checkpoints / "flights"),
        # Half as many micro-batches, each of them twice the work: so both come to the same day.
        keep_delays(read_changes(db, folder, files=2), db, folder.checkpoints / "carrier_delays"),
    )
    watch(queries, files, live=lambda: told_live(db.store))


def read_changes(db: Database, folder: Folder, *, files: int) -> DataFrame:
    """Return the stream of changes, so many files a micro-batch."""
    reader = db.spark.readStream.schema(flights_changes.CHANGE_COLUMNS)
    return reader.option("maxFilesPerTrigger", files).parquet(str(folder.changes))


def keep_flights(changes: DataFrame, db: Database, checkpoint: Path) -> StreamingQuery:
    """Start the query that applies every change, a micro-batch at one epoch, exactly once."""
    # In no order: the table's version column tells which of two changes is the later.
    writer = changes.writeStream.format("relstate").queryName("flights")
    writer = writer.options(table="flights", opColumn="op")
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start(db.store.path)


def keep_delays(changes: DataFrame, db: Database, checkpoint: Path) -> StreamingQuery:
    """Start the query that aggregates the landings; only carriers that changed are written."""
    landings = changes.where("status = 'landed'").groupBy("carrier")
    delays = landings.agg(
        f.count("*").alias("landings"),
        f.sum("arr_delay").alias("total_delay"),
        f.count_if(f.col("arr_delay") > 60).alias("over_an_hour"),
        f.max("arr_delay").alias("worst_delay"),
    )
    # Spark keeps update mode from Python sinks; foreachBatch has it, with the same guarantee.
    writer = delays.writeStream.outputMode("update").foreachBatch(db.writer("carrier_delays"))
    writer = writer.queryName("carrier_delays").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def told_live(store: Store) -> str:
    """Look up, without Spark, how late one airline is on average, while the streams are running."""
    united = store.table("carrier_delays").get("UA")
    delay = "" if united is None else f"  United {united.total_delay / united.landings:+.1f} min"
    return f"epoch {store.epoch:3}{delay}"


def ask(db: Database) -> DataFrame:
    """Join all the tables at one epoch, and return the answer."""
    title(f"SQL over six tables at epoch {db.store.epoch}: what fog costs")
    answer = db.sql(FOG.format(**NAMES)).cache()
    answer.show(truncate=False)
    return answer


def go_back(db: Database) -> None:
    """Ask one question at an earlier epoch and at the latest."""
    for epoch in (earlier_epoch(db), db.store.epoch):
        title(f"The most delayed airlines at epoch {epoch}")
        at: dict[str, Any] = {
            name: db.table(name, version=epoch) for name in ("carrier_delays", "airlines")
        }
        db.spark.sql(STANDING, **at).show(truncate=False)


def follow(db: Database) -> None:
    """Read the change feed: what became of the flights between two epochs, row by row and net."""
    first, last = earlier_epoch(db) + 1, db.store.epoch
    title(f"The change feed of the flights, epochs {first} to {last}")
    feed = db.spark.read.format("relstate").options(table="flights", readChangeFeed="true")
    feed = feed.options(startingVersion=first, endingVersion=last)
    each = feed.load(db.store.path).groupBy("_change_type").count()
    net = feed.option("deduplicationMode", "netChanges").load(db.store.path)
    both = each.withColumnRenamed("count", "commit_by_commit").join(
        net.groupBy("_change_type").count().withColumnRenamed("count", "net"),
        "_change_type",
        "left",
    )
    both.orderBy("_change_type").show(truncate=False)


def look_up(db: Database) -> None:
    """Look up flights by their keys in this process, and one of them at both epochs."""
    title("Looking up flights without Spark")
    flights = db.store.table("flights")
    every_key = pa.Table.from_batches(flights.scan(KEY))
    some = every_key.take(list(range(0, len(every_key), len(every_key) // 1000 or 1)))
    keys = [tuple(key.values()) for key in some.to_pylist()]
    began = time.perf_counter()
    found = [flights.get(*key) for key in keys]
    each = (time.perf_counter() - began) / len(keys)
    print(
        f"  {len(found):,} of {len(every_key):,} flights by key, {each * 1e6:.0f} microseconds each"
    )
    key = latest_to_come(db)
    if key is not None:
        then = db.store.at(earlier_epoch(db)).table("flights").get(*key)
        show_both(then, flights.get(*key), earlier_epoch(db), db.store.epoch)


def show_both(then: Row | None, now: Row | None, *epochs: int) -> None:
    """Show a row as of two epochs side by side."""
    assert then is not None
    assert now is not None
    print(f"  This one was announced at epoch {epochs[0]}; of those, none came later:")
    print(f"    {'':15} {f'epoch {epochs[0]}':26} epoch {epochs[1]}")
    for name in now.columns:
        print(f"    {name:15} {then[name]!s:26} {now[name]}")


def earlier_epoch(db: Database) -> int:
    """Return an epoch in the midst of the replay."""
    return db.store.epoch * 2 // 3


def latest_to_come(db: Database) -> tuple[object, ...] | None:
    """Return the key of the flight that had the worst delay of those then scheduled."""
    then = db.table("flights", version=earlier_epoch(db))
    scheduled = then.where("status = 'scheduled'").select(*KEY)
    landed = db.table("flights").where("status = 'landed'")
    latest = scheduled.join(landed, list(KEY)).orderBy(f.desc("arr_delay"), *KEY)
    # Not first(): Spark's own rows drop the time zone.
    keys = latest.select(*KEY).limit(1).toArrow().to_pylist()
    return tuple(keys[0].values()) if keys else None


def compare(db: Database, folder: Folder, until: datetime, answer: DataFrame) -> bool:
    """Compare tables and answer with plain Spark over the source; return whether all are equal."""
    title(f"Compared with plain Spark over the source, as of {until:%Y-%m-%d}")
    source = {
        name: db.spark.read.parquet(str(folder.source_file(name))) for name in flights_source.NAMES
    }
    expected: dict[str, Any] = {name: source[name] for name in DIMENSIONS} | {
        "flights": flights_truth.flights(source["flights"], until),
        "carrier_delays": flights_truth.carrier_delays(source["flights"], until),
    }
    results = [report(name, db.table(name), rows) for name, rows in expected.items()]
    results.append(report("the answer about fog", answer, db.spark.sql(FOG, **expected)))

    then = earlier_epoch(db)
    earlier = db.table("flights", version=then)
    rows = flights_truth.flights(source["flights"], moment_of(earlier))
    results.append(report(f"flights at epoch {then}", earlier, rows))
    return all(results)


def moment_of(flights: DataFrame) -> datetime:
    """Return the moment as of which a table of flights is: its newest change tells."""
    newest = flights.agg(f.max("updated_at")).toArrow().to_pydict()
    (moment,) = newest.popitem()[1]
    return flights_changes.START if moment is None else flights_changes.batch_end(moment)


def report(name: str, rows: DataFrame, expected: DataFrame) -> bool:
    """Tell how ``rows`` compare with what is expected; return whether they are equal."""
    found = flights_truth.compare(rows, expected)
    verdict = "equal" if found.equal else f"DIFFERENT in {found.differences:,} rows"
    print(f"  {name:22} {found.rows:8,} rows, {found.expected_rows:8,} expected: {verdict}")
    return found.equal


def title(text: str) -> None:
    """Begin a part of the demo."""
    print(f"\n== {text}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Replay a year of flights into a relstate store.")
    parser.add_argument("--store", type=Path, default=DEFAULT_STORE, help="folder of the store")
    parser.add_argument("--days", type=int, default=STREAM_DAYS, help="replay only so many days")
    parser.add_argument("--reset", action="store_true", help="start over")
    given = parser.parse_args()
    if given.days < 1:
        parser.error("--days must be 1 or more")
    given.store = given.store.absolute()
    return given


if __name__ == "__main__":
    sys.exit(main())
