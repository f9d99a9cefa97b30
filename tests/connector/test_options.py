"""The laws of options: text becomes values, or one error that names every problem."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from relstate.connector.delta_options import DELTA_OPTIONS
from relstate.connector.failure import find_own_error
from relstate.connector.options import (
    _ALL_NAMES,
    ReadOptions,
    WriteOptions,
    feed_options,
    read_options,
    stream_write_options,
    write_options,
)
from relstate.storage import Store
from relstate.storage.errors import OptionError

PLACE = {"path": "/data/shop", "table": "orders"}


def test_a_read_needs_no_more_than_its_place() -> None:
    """A path and a table are a read of all columns at the latest epoch."""
    assert read_options(PLACE) == ReadOptions("/data/shop", "orders")


def test_names_match_whatever_their_case() -> None:
    """Spark passes option names in lower case."""
    options = {"PATH": "/s", "Table": "t", "versionasof": "7", "NUMPARTITIONS": "3"}

    assert read_options(options) == ReadOptions("/s", "t", version=7, partitions=3)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("k", ("k",)),
        (" k , v ", ("k", "v")),
        ("`odd, name`,v", ("odd, name", "v")),
        ("`a``b`", ("a`b",)),
    ],
)
def test_columns_are_names_between_commas(text: str, columns: tuple[str, ...]) -> None:
    """Backticks keep commas and backticks within a name, as in Spark's SQL."""
    assert read_options({**PLACE, "columns": text}).columns == columns


def test_a_condition_is_a_text_and_its_time_zone() -> None:
    """Both are passed on unchanged; a time zone without local times is refused."""
    options = read_options({**PLACE, "where": "a > 1", "timezone": "Europe/Rome"})

    assert (options.where, options.time_zone) == ("a > 1", "Europe/Rome")
    assert read_options({**PLACE, "where": "a > 1"}).time_zone == "UTC"
    with pytest.raises(OptionError, match="'timeZone' is the zone of local times in 'where'"):
        read_options({**PLACE, "timeZone": "UTC"})
    with pytest.raises(OptionError, match="'where'"):
        read_options({**PLACE, "where": " "})


@pytest.mark.parametrize("text", ["", ",", "a,,b", "a,a", "a,A", "`a"])
def test_columns_that_name_nothing_are_refused(text: str) -> None:
    """An empty name, a name twice, and an open quote are errors."""
    with pytest.raises(OptionError, match="'columns'"):
        read_options({**PLACE, "columns": text})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/shop", "/data/shop"),
        ("data/shop", "data/shop"),
        ("file:/data/shop", "/data/shop"),
        ("file:///data/shop", "/data/shop"),
        ("file://localhost/data/shop", "/data/shop"),
        ("file:///data/a%20b", "/data/a b"),
        ("/data/a:b", "/data/a:b"),
    ],
)
def test_a_path_may_be_a_file_uri(text: str, path: str) -> None:
    """Spark's catalog writes a local path as a URI of the scheme file."""
    assert read_options({"path": text, "table": "t"}).path == path


@pytest.mark.parametrize("text", ["s3://bucket/..", "hdfs:/shop", "file://host/shop", " "])
def test_a_path_elsewhere_is_refused(text: str) -> None:
    """A store is in a local directory; another scheme is not read as the name of a folder."""
    with pytest.raises(OptionError, match="'path'"):
        read_options({"path": text, "table": "t"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("versionAsOf", "-1"),
        ("versionAsOf", "latest"),
        ("versionAsOf", "1_0"),
        ("versionAsOf", str(2**63)),
        ("numPartitions", "0"),
        ("numPartitions", "32769"),
        ("numPartitions", "2.5"),
    ],
)
def test_a_number_out_of_its_range_is_refused(name: str, text: str) -> None:
    """The error has the documented name of the option, and the value."""
    with pytest.raises(OptionError, match=f"option '{name}' is '{text}'"):
        read_options({**PLACE, name: text})


def test_an_unknown_option_is_refused_with_the_nearest_names() -> None:
    """A misspelt option is never ignored."""
    with pytest.raises(OptionError, match=r"unknown option 'tabel'.*did you mean 'table'\?"):
        read_options({**PLACE, "tabel": "x"})
    with pytest.raises(OptionError) as refusal:
        write_options({"path": PLACE["path"], "tabel": "x"})
    assert str(refusal.value) == "unknown option 'tabel' for a write; did you mean 'table'?"


def test_an_option_of_other_systems_is_unknown() -> None:
    """The error has similar names, or all names."""
    with pytest.raises(OptionError, match="unknown option 'pushFilters'"):
        read_options({**PLACE, "pushFilters": "x"})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("ignorechanges", "option readChangeFeed"),
        ("maxFilesPerTrigger", "write maxEpochsPerTrigger"),
        ("readChangeData", "write readChangeFeed"),
    ],
)
def test_an_option_of_delta_is_answered_with_what_to_do(name: str, advice: str) -> None:
    """A user of Delta Lake is not left with a list of names."""
    with pytest.raises(OptionError, match=f"'{name}' of Delta Lake is not offered: .*{advice}"):
        read_options({**PLACE, name: "x"})


def test_no_option_of_delta_that_is_refused_is_offered() -> None:
    """The advice is never given for an option that has a meaning here."""
    assert not {name.lower() for name in _ALL_NAMES} & DELTA_OPTIONS.keys()


@pytest.mark.parametrize("name", ["opColumn", "clustered", "txnAppId", "txnVersion"])
def test_an_option_of_writes_means_nothing_for_a_read(name: str) -> None:
    """An option of another operation is refused, and the error says that it is one."""
    with pytest.raises(OptionError, match=f"'{name}' has no meaning for a read"):
        read_options({**PLACE, name: "1"})


@pytest.mark.parametrize("name", ["versionAsOf", "columns", "numPartitions"])
def test_an_option_of_reads_means_nothing_for_a_write(name: str) -> None:
    """A write has no epoch and no choice of columns."""
    with pytest.raises(OptionError, match=f"'{name}' has no meaning for a write"):
        write_options({**PLACE, name: "1"})


def test_every_problem_is_told_at_once() -> None:
    """One line lists what is missing, what is unknown and what is wrong."""
    with pytest.raises(OptionError) as caught:
        read_options({"tabel": "x", "versionAsOf": "soon", "numPartitions": "0"})

    text = str(caught.value)
    assert text.startswith("4 problems in the options of a read: ")
    for part in ("'tabel'", "'versionAsOf'", "'numPartitions'", "'path'", "mean 'table'"):
        assert part in text
    assert "\n" not in text


def test_a_value_that_is_refused_is_the_only_problem() -> None:
    """Options that go with it are not called missing or useless."""
    feed = {**PLACE, "startingTimestamp": "soon", "timeZone": "UTC"}
    for parse, options, part in (
        (feed_options, feed, "'startingTimestamp' is 'soon'"),
        (write_options, {**PLACE, "txnAppId": "a", "txnVersion": "x"}, "'txnVersion' is 'x'"),
    ):
        with pytest.raises(OptionError) as caught:
            parse(options)
        assert part in str(caught.value)
        assert "problems" not in str(caught.value)


def test_a_range_that_ends_before_it_starts_shows_both_ends() -> None:
    """Whoever made them of variables sees the values."""
    with pytest.raises(OptionError, match="'startingVersion' is '5', and 'endingVersion' is '3'"):
        feed_options({**PLACE, "startingVersion": "5", "endingVersion": "3"})


def test_several_paths_are_refused() -> None:
    """Spark passes load(["a", "b"]) as an option of its own."""
    with pytest.raises(OptionError, match="several paths"):
        read_options({"paths": '["/a","/b"]', "table": "t"})


def test_a_write_may_be_idempotent_and_carry_changes() -> None:
    """The options of idempotent writes and of change streams can be combined."""
    options = {**PLACE, "opColumn": "op", "clustered": "true", "txnAppId": "job", "txnVersion": "9"}

    assert write_options(options) == WriteOptions(
        "/data/shop", "orders", "op", "job", 9, clustered=True
    )


def test_an_application_needs_its_version() -> None:
    """Without a version, every later write of the application would be a repetition."""
    with pytest.raises(OptionError, match="'txnAppId' needs 'txnVersion'"):
        write_options({**PLACE, "txnAppId": "job"})


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("60", 60), ("7 days", 604_800), ("INTERVAL 1 hour 30 minutes", 5400)]
)
def test_a_time_to_live_is_a_length_of_time(ttl: str, seconds: int) -> None:
    """It is a number of seconds, or an interval of SQL."""
    options = write_options({**PLACE, "ttl": ttl, "ttlColumn": "life", "mergeSchema": "TRUE"})

    assert (options.ttl, options.ttl_column, options.merge_schema) == (seconds, "life", True)


@pytest.mark.parametrize("ttl", ["0", "-1", "0 days", "soon", "1 month", "1 day 2"])
def test_a_time_to_live_is_a_second_or_more(ttl: str) -> None:
    """Zero, a negative length, a month and other text are refused."""
    with pytest.raises(OptionError, match="'ttl'"):
        write_options({**PLACE, "ttl": ttl})


def test_the_promise_alone_is_refused() -> None:
    """'clustered' is about the rows of 'opColumn', and has no meaning without it."""
    with pytest.raises(OptionError, match="'clustered'"):
        write_options({**PLACE, "clustered": "true"})


def test_a_stream_ignores_what_spark_adds() -> None:
    """Spark adds the query's name and checkpoint to the options of a sink."""
    options = {**PLACE, "queryname": "q", "checkpointlocation": "/c", "txnAppId": "job"}

    assert stream_write_options(options) == WriteOptions("/data/shop", "orders", application="job")


def test_a_stream_has_its_own_version() -> None:
    """The number of the micro-batch is the version, so an option for it is refused."""
    with pytest.raises(OptionError, match="'txnVersion' has no meaning for a streaming write"):
        stream_write_options({**PLACE, "txnAppId": "job", "txnVersion": "1"})


@given(
    st.dictionaries(
        st.one_of(st.sampled_from(["path", "table", "versionAsOf", "columns"]), st.text()),
        st.text(),
    )
)
def test_any_options_give_a_value_or_an_option_error(texts: dict[str, str]) -> None:
    """No text makes another error."""
    try:
        options = read_options(texts)
    except OptionError:
        return
    assert options.path
    assert options.table


@pytest.mark.parametrize("parse", [write_options, stream_write_options])
def test_a_patch_excludes_what_is_for_rows(parse: Callable[..., WriteOptions]) -> None:
    """An operation column and columns that the table lacks."""
    assert parse({**PLACE, "patch": "true"}).patch
    assert not parse(PLACE).patch
    with pytest.raises(OptionError, match="a patch removes by NULL"):
        parse({**PLACE, "patch": "true", "opColumn": "op", "clustered": "true"})
    with pytest.raises(OptionError, match="leave out option 'mergeSchema'"):
        parse({**PLACE, "patch": "true", "mergeSchema": "true"})
    with pytest.raises(OptionError, match="a patch has no row to set aside"):
        parse({**PLACE, "patch": "true", "badRows": "quarantine"})


@pytest.mark.parametrize("parse", [write_options, stream_write_options])
def test_bad_rows_fail_unless_they_are_set_aside(parse: Callable[..., WriteOptions]) -> None:
    """One of two words, in any case."""
    assert not parse(PLACE).quarantine
    assert not parse({**PLACE, "badRows": "fail"}).quarantine
    assert parse({**PLACE, "BADROWS": "Quarantine"}).quarantine
    with pytest.raises(OptionError, match="'badRows' is 'drop': it must be 'fail' or 'quarantine'"):
        parse({**PLACE, "badRows": "drop"})


def test_an_error_of_an_option_is_one_sentence_in_spark(spark: SparkSession, store: Store) -> None:
    """Of reads and of writes: no lines of relstate's modules come before it."""
    rows = spark.createDataFrame([(1,)], "id INT")
    for use in (
        lambda: spark.read.format("relstate").option("tabel", "t").load(store.path),
        lambda: rows.write.format("relstate").option("tabel", "t").mode("append").save(store.path),
    ):
        with pytest.raises(AnalysisException, match="did you mean 'table'") as failure:
            use()
        assert "Traceback" not in str(failure.value)
        assert len(str(failure.value).splitlines()) == 2
        assert isinstance(find_own_error(str(failure.value)), OptionError)
