from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import flights_changes
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flights_changes import KEY
from hypothesis import given
from hypothesis import strategies as st


def test_the_key_is_one(year: pa.Table) -> None:
    """No two flights of the year share carrier, flight number, origin and scheduled hour."""
    keys = year.group_by(list(KEY)).aggregate([])

    assert keys.num_rows == year.num_rows


def test_a_flight_lives_one_of_four_lives(stream: pa.Table) -> None:
    """Every flight is announced first; then it departs, and lands or not, or else is cancelled."""
    steps = stream.append_column(
        "step",
        pc.binary_join_element_wise(
            stream["op"].cast(pa.string()), stream["status"].cast(pa.string()), " "
        ),
    )
    lives = steps.group_by(list(KEY), use_threads=False).aggregate([("step", "list")])
    counts = pc.value_counts(pc.binary_join(lives["step_list"], ", ")).to_pylist()

    assert {life["values"]: life["counts"] for life in counts} == {
        "insert scheduled, update departed, update landed": 327_346,
        "insert scheduled, update departed, update diverted": 717,
        "insert scheduled, update departed": 458,
        "insert scheduled, delete cancelled": 8_255,
    }


def test_changes_are_in_the_order_they_happened(stream: pa.Table) -> None:
    """The moment of a change is never before that of the change before it."""
    moments = stream["updated_at"].to_numpy()

    assert (moments[1:] >= moments[:-1]).all()


def test_the_last_change_of_a_flight_is_the_source(year: pa.Table, stream: pa.Table) -> None:
    """What the changes come to is what the source holds of all flights that left."""
    columns = [
        *KEY,
        "dest",
        "tailnum",
        "dep_time",
        "dep_delay",
        "arr_time",
        "arr_delay",
        "air_time",
    ]
    last = stream.group_by(list(KEY), use_threads=False).aggregate(
        [(name, "last") for name in ("op", *columns[len(KEY) :])],
    )
    last = last.filter(pc.not_equal(last["op_last"], "delete"))
    left = year.filter(pc.is_valid(year["dep_time"])).select(columns)
    order = [(name, "ascending") for name in KEY]

    found = last.select([*KEY, *(f"{name}_last" for name in columns[len(KEY) :])])
    assert found.rename_columns(columns).sort_by(order).equals(left.sort_by(order))


def test_a_change_knows_nothing_of_what_comes_later(stream: pa.Table) -> None:
    """A scheduled flight has no delay yet, and a flight in the air has not arrived."""
    scheduled = stream.filter(pc.equal(stream["status"], "scheduled"))
    departed = stream.filter(pc.equal(stream["status"], "departed"))

    for name in flights_changes.DEPARTURE + flights_changes.LANDING:
        assert scheduled[name].null_count == scheduled.num_rows
    for name in flights_changes.LANDING:
        assert departed[name].null_count == departed.num_rows
    assert departed["dep_time"].null_count == 0


SINCE = datetime(2013, 1, 3, tzinfo=UTC)


def _written(flights: pa.Table, folder: Path, days: int = 400) -> datetime:
    folder.mkdir(exist_ok=True)
    return flights_changes.write(
        flights, folder / "history.parquet", folder / "changes", SINCE, days
    )


def test_the_files_are_the_stream(year: pa.Table, stream: pa.Table, tmp_path: Path) -> None:
    """The history, and files in the order of their names and times, hold the changes in order."""
    end = _written(year, tmp_path)
    files = sorted((tmp_path / "changes").iterdir())
    times = [file.stat().st_mtime for file in files]
    history = pq.read_table(tmp_path / "history.parquet")

    assert times == sorted(set(times))
    assert flights_changes.end_of(files[-1]) == end > pc.max(stream["updated_at"]).as_py()
    assert pc.max(history["updated_at"]).as_py() < SINCE
    assert pa.concat_tables([history, *map(pq.read_table, files)]).equals(stream)


def test_a_file_holds_the_changes_of_its_day(year: pa.Table, tmp_path: Path) -> None:
    """The day of a file is its name."""
    _written(year.slice(0, 20_000), tmp_path, days=12)

    files = sorted((tmp_path / "changes").iterdir())
    assert len(files) == 12
    for file in files:
        moments = pq.read_table(file)["updated_at"]
        end = flights_changes.end_of(file)
        assert end - flights_changes.DAY <= pc.min(moments).as_py()
        assert pc.max(moments).as_py() < end
        assert flights_changes.batch_end(pc.max(moments).as_py()) == end


def test_a_longer_replay_keeps_the_files_of_a_shorter(year: pa.Table, tmp_path: Path) -> None:
    """What Spark has read once is never written again, and more days only add to it."""
    some, changes = year.slice(0, 20_000), tmp_path / "changes"
    _written(some, tmp_path, days=3)
    (changes / ".2013-01-06.parquet").write_bytes(b"half a file, left by a kill")
    before = {file: file.stat().st_ino for file in tmp_path.rglob("[!.]*.parquet")}
    end = _written(some, tmp_path, days=6)

    assert end == _written(some, tmp_path, days=1)
    assert len(list(changes.iterdir())) == 6
    assert before.items() <= {file: file.stat().st_ino for file in tmp_path.rglob("*")}.items()


def test_there_are_no_files_after_the_last_change(year: pa.Table, tmp_path: Path) -> None:
    """More days than the stream has, however many, are all of its days."""
    some = year.slice(0, 5_000)
    end = _written(some, tmp_path)
    files = sorted((tmp_path / "changes").iterdir())

    assert _written(some, tmp_path, days=10**12) == end
    assert sorted((tmp_path / "changes").iterdir()) == files
    assert pq.read_metadata(files[-1]).num_rows > 0


@given(st.datetimes(datetime(2012, 12, 25), datetime(2014, 2, 1)))
def test_a_batch_ends_after_its_moments(moment: datetime) -> None:
    """Every moment lies before the end of its day, and within it."""
    end = flights_changes.batch_end(moment.replace(tzinfo=UTC))

    assert timedelta(0) < end - moment.replace(tzinfo=UTC) <= flights_changes.DAY
    assert end.time() == datetime.min.time()
