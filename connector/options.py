"""The options of reads and writes through Spark, parsed from the text in which they arrive.

    read     path table versionAsOf timestampAsOf expiresBy columns where boundCondition timeZone
             partialAggregate rowLimit numPartitions
    feed     path table readChangeFeed startingVersion startingTimestamp startingBoundInclusive
             endingVersion endingTimestamp endingBoundInclusive deduplicationMode computeUpdates
             changeFormat tombstonesOnDelete columns timeZone numPartitions
    follow   path table readChangeFeed startingVersion startingTimestamp startingBoundInclusive
             deduplicationMode computeUpdates changeFormat tombstonesOnDelete columns timeZone
             numPartitions maxEpochsPerTrigger
    write    path table patch opColumn clustered ttl ttlColumn mergeSchema badRows txnAppId
             txnVersion
    stream   path table patch opColumn clustered ttl ttlColumn mergeSchema badRows txnAppId

Any of them takes options ``storage.<name>`` or ``storage.secret.<name>`` of the object store that
the path is in.
``feed`` is a batch read of a change feed, ``follow`` a streaming read of one.

Promises: one error reports all problems of a set of options, by the names of the documentation; an
option that is unknown, or has no meaning for the operation, is refused and never ignored.
Does not know: Spark, or whether the store and the table exist. Names match in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeAlias

from relstate.storage import DEDUPLICATIONS, errors, location_of, parse_instant, positive_seconds

from .delta_options import DELTA_OPTIONS
from .option_values import (
    LATEST,
    MAX_LONG,
    Parse,
    boolean,
    change_format,
    column_names,
    deduplication,
    instant_text,
    sets_bad_rows_aside,
    text_value,
    version,
    version_or_latest,
    whole_number,
)
from .storage_options import is_storage_option, location

MAX_PARTITIONS = 32_768
# The epoch of a read is named, but only because it was the latest: `db.table` sets it.
FOLLOWS_LATEST = "followsLatest"
PARTIAL_AGGREGATE = "partialAggregate"
ROW_LIMIT = "rowLimit"
EXPIRY_PATHS = "expiryPaths"

_Check: TypeAlias = Callable[[Mapping[str, Any]], str | None]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a batch read. ``columns`` is None for all.

    ``version`` or ``time`` names the epoch; if both are None, it is the latest.
    ``where``: a SQL expression, None for all rows; local times in it are those of ``time_zone``.
    ``bound_condition``: a condition that `db.sql` has bound to the table's columns, as JSON.
    ``partial_aggregate``, ``row_limit``: what the tasks add up for `db.sql`, or how many rows they
    send, as JSON; None if they send all rows. ``expiry_paths``: the argument of
    `ReadPlan.showing_expiries`, as JSON.
    ``expires_by``: rows that expire by this time are left out; None for the time of the read.
    """

    path: str
    table: str
    version: int | None = None
    time: datetime | None = None
    columns: tuple[str, ...] | None = None
    partitions: int | None = None
    where: str | None = None
    time_zone: str = "UTC"
    expires_by: datetime | None = None
    bound_condition: str | None = None
    partial_aggregate: str | None = None
    row_limit: str | None = None
    expiry_paths: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of epochs: a version, a time or neither, and whether it is included."""

    version: int | None = None
    time: datetime | None = None
    inclusive: bool = True


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options of a read of a change feed.

    ``from_latest``: the read starts after the epoch that is the latest at its start. A stream
    without a start begins with the whole table.
    ``deduplication`` is one of `storage.DEDUPLICATIONS`;
    ``update_images``: an update is two rows, the row before it and the one after it.
    ``epochs_per_trigger``: how many epochs with changes a micro-batch takes at most, None for all.
    ``change_format``: one of `CHANGE_FORMATS` if the changes are read as messages, else None;
    ``tombstones``: a message without a value follows Debezium's event of a delete.
    """

    path: str
    table: str
    start: Bound
    end: Bound
    from_latest: bool
    deduplication: str
    update_images: bool
    columns: tuple[str, ...] | None
    partitions: int | None
    epochs_per_trigger: int | None
    change_format: str | None = None
    tombstones: bool = True

    @property
    def has_start(self) -> bool:
        """Whether a start is set."""
        return self.from_latest or self.start.version is not None or self.start.time is not None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write.

    ``patch``: the rows change parts of rows of a document table, as a JSON merge patch does.
    ``operation_column`` names the column with insert, update or delete; ``clustered``: all changes
    of a key arrive in one task, in order. ``ttl``: seconds after which the rows expire;
    ``ttl_column`` names a column with the seconds of each row. ``merge_schema``: columns that the
    table lacks are added to it. ``quarantine``: rows that break a rule of the table are set aside.
    ``application`` and ``version`` make a retried write happen once: a version not above the
    application's last is skipped. A version without an application belongs to the streaming query
    that runs the write.
    """

    path: str
    table: str
    operation_column: str | None = None
    application: str | None = None
    version: int | None = None
    clustered: bool = False
    ttl: int | None = None
    ttl_column: str | None = None
    merge_schema: bool = False
    patch: bool = False
    quarantine: bool = False


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of a batch read; OptionError names every problem."""
    values = _parse_options(options, _READ | _INTERNAL, "a read", _check_time_zone, _check_epoch)
    return ReadOptions(
        path=values["path"],
        table=values["table"],
        version=values.get("versionAsOf"),
        time=_time(values, "timestampAsOf"),
        columns=values.get("columns"),
        partitions=values.get("numPartitions"),
        where=values.get("where"),
        time_zone=values.get("timeZone", "UTC"),
        expires_by=_time(values, "expiresBy"),
        bound_condition=values.get("boundCondition"),
        partial_aggregate=values.get(PARTIAL_AGGREGATE),
        row_limit=values.get(ROW_LIMIT),
        expiry_paths=values.get(EXPIRY_PATHS),
    )


def is_feed(options: Mapping[str, str]) -> bool:
    """Return whether a read is one of a change feed. OptionError if the option is not a boolean."""
    for key, text in options.items():
        if key.lower() == "readchangefeed":
            try:
                return boolean(text)
            except ValueError as error:
                raise errors.OptionError(f"option 'readChangeFeed' is {text!r}: {error}") from None
    return False


def feed_options(options: Mapping[str, str]) -> FeedOptions:
    """Return the options of a change feed read as a batch. Errors: as `read_options`."""
    operation = "a batch read of a change feed"
    checks = (_check_time_zone, _check_range, _check_start, _check_format)
    return _feed_options(_parse_options(options, _FEED, operation, *checks))


def feed_stream_options(options: Mapping[str, str]) -> FeedOptions:
    """Return the options of a stream that follows a change feed. Errors: as `read_options`."""
    if not is_feed(options):
        raise errors.OptionError(
            "a stream reads the changes of a table: set option 'readChangeFeed' to 'true'; a "
            "stream cannot read rows, because they have no order"
        )
    operation = "a streaming read of a change feed"
    checks = (_check_time_zone, _check_range, _check_format)
    return _feed_options(_parse_options(options, _FOLLOW, operation, *checks))


def any_feed_options(options: Mapping[str, str]) -> FeedOptions:
    """Return the options of a feed that may be read as a batch or as a stream."""
    operation = "a read of a change feed"
    return _feed_options(
        _parse_options(options, _FEED | _FOLLOW, operation, _check_time_zone, _check_format)
    )


def _feed_options(values: Mapping[str, Any]) -> FeedOptions:
    start = values.get("startingVersion")
    return FeedOptions(
        path=values["path"],
        table=values["table"],
        start=Bound(
            None if start == LATEST else start,
            _time(values, "startingTimestamp"),
            values.get("startingBoundInclusive", True),
        ),
        end=Bound(
            values.get("endingVersion"),
            _time(values, "endingTimestamp"),
            values.get("endingBoundInclusive", True),
        ),
        from_latest=start == LATEST,
        deduplication=values.get("deduplicationMode", DEDUPLICATIONS[0]),
        update_images=values.get("computeUpdates", True),
        columns=values.get("columns"),
        partitions=values.get("numPartitions"),
        epochs_per_trigger=values.get("maxEpochsPerTrigger"),
        change_format=values.get("changeFormat"),
        tombstones=values.get("tombstonesOnDelete", True),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a batch write; OptionError names every problem."""
    return _write_options(
        _parse_options(options, _WRITE, "a write", _check_operation, _check_patch, _check_identity)
    )


def stream_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a streaming write. Errors: as `write_options`.

    The version is the number of the micro-batch, so it is not an option.
    """
    sink_options = {
        key: value for key, value in options.items() if key.lower() not in _SET_BY_SPARK
    }
    return _write_options(
        _parse_options(sink_options, _STREAM, "a streaming write", _check_operation, _check_patch)
    )


def _write_options(values: Mapping[str, Any]) -> WriteOptions:
    return WriteOptions(
        path=values["path"],
        table=values["table"],
        operation_column=values.get("opColumn"),
        application=values.get("txnAppId"),
        version=values.get("txnVersion"),
        clustered=values.get("clustered", False),
        ttl=values.get("ttl"),
        ttl_column=values.get("ttlColumn"),
        merge_schema=values.get("mergeSchema", False),
        patch=values.get("patch", False),
        quarantine=values.get("badRows", False),
    )


def _parse_options(
    options: Mapping[str, str], parsers: Mapping[str, Parse], operation: str, *checks: _Check
) -> dict[str, Any]:
    """Return the values of options by name. OptionError names every problem.

    ``parsers``: the known options; ``operation``: what the options are for, in a message.
    """
    names = {name.lower(): name for name in parsers}
    values: dict[str, Any] = {}
    problems: list[str] = []
    invalid: set[str] = set()
    for key, text in options.items():
        if is_storage_option(key):
            continue
        name = names.get(key.lower())
        if name is None:
            problems.append(_unknown_option_problem(key, parsers, operation))
            continue
        try:
            values[name] = parsers[name](text)
        except ValueError as error:
            # A path may have credentials, which its error does not repeat.
            value_text = "" if name == "path" else f" is {text!r}"
            problems.append(f"option {name!r}{value_text}: {error}")
            invalid.add(name)
    if "path" in values:
        values["path"] = location({**options, "path": values["path"]})
    present = {names.get(key.lower()) for key in options}
    # A misspelt name is not missing, too.
    problems += [
        _MISSING[name]
        for name in _REQUIRED
        if name not in present and not any(f"did you mean {name!r}" in text for text in problems)
    ]
    if not invalid:
        # A check that lacks a value would blame options that are right.
        problems += [problem for check in checks if (problem := check(values)) is not None]
    if problems:
        raise errors.OptionError(_join_problems(problems, operation))
    return values


def _join_problems(problems: Sequence[str], operation: str) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} problems in the options of {operation}: " + "; ".join(problems)


def _unknown_option_problem(key: str, parsers: Mapping[str, Parse], operation: str) -> str:
    lowered = key.lower()
    if lowered == "paths":
        return "load() was given several paths; a relstate table is in one store"
    for name in _ALL_NAMES:
        if name.lower() == lowered:
            return f"option {name!r} has no meaning for {operation}"
    if lowered in DELTA_OPTIONS:
        return f"option {key!r} of Delta Lake is not offered: {DELTA_OPTIONS[lowered]}"
    public = [name for name in parsers if name not in _INTERNAL]
    by_lower_case = {name.lower(): name for name in public}
    similar_names = [
        repr(by_lower_case[name]) for name in get_close_matches(lowered, by_lower_case, n=2)
    ]
    if similar_names:
        return f"unknown option {key!r} for {operation}; did you mean {' or '.join(similar_names)}?"
    return f"unknown option {key!r} for {operation}; the options are {', '.join(public)}"


def _check_time_zone(values: Mapping[str, Any]) -> str | None:
    if "timeZone" in values and values.keys().isdisjoint(_LOCAL_TIMES):
        return (
            "option 'timeZone' is the zone of local times in 'where', 'timestampAsOf', "
            "'startingTimestamp' and 'endingTimestamp'; give one of them too"
        )
    return None


def _check_epoch(values: Mapping[str, Any]) -> str | None:
    if "versionAsOf" in values and "timestampAsOf" in values:
        return "options 'versionAsOf' and 'timestampAsOf' both name an epoch; give one of them"
    return None


def _check_start(values: Mapping[str, Any]) -> str | None:
    if "startingVersion" not in values and "startingTimestamp" not in values:
        return (
            "a batch read of a change feed needs a start: give option 'startingVersion' or "
            "'startingTimestamp'"
        )
    if values.get("startingVersion") == LATEST:
        return "option 'startingVersion' is 'latest', which is for streams: name an epoch"
    return None


def _check_range(values: Mapping[str, Any]) -> str | None:
    by_version = values.keys() & {"startingVersion", "endingVersion"}
    by_time = values.keys() & {"startingTimestamp", "endingTimestamp"}
    if by_version and by_time:
        return "a range of epochs is given by versions or by timestamps; give options of one kind"
    for name in ("starting", "ending"):
        has_bound = f"{name}BoundInclusive" in values
        if has_bound and values.keys().isdisjoint({f"{name}Version", f"{name}Timestamp"}):
            return f"option '{name}BoundInclusive' needs '{name}Version' or '{name}Timestamp'"
    for kind in ("Version", "Timestamp"):
        start, end = values.get(f"starting{kind}"), values.get(f"ending{kind}")
        if kind == "Timestamp":
            start, end = _time(values, "startingTimestamp"), _time(values, "endingTimestamp")
        if start is not None and end is not None and start != LATEST and end < start:
            return (
                f"the change feed ends before it starts: option 'starting{kind}' is "
                f"{str(start)!r}, and 'ending{kind}' is {str(end)!r}"
            )
    return None


def _check_format(values: Mapping[str, Any]) -> str | None:
    if "tombstonesOnDelete" in values and values.get("changeFormat") != "debezium":
        return "option 'tombstonesOnDelete' needs 'changeFormat' = 'debezium'"
    if "changeFormat" in values and not values.get("computeUpdates", True):
        return (
            "option 'changeFormat' reads an update as one message: leave out option "
            "'computeUpdates'"
        )
    return None


def _check_operation(values: Mapping[str, Any]) -> str | None:
    if "opColumn" not in values and "clustered" in values:
        return "option 'clustered' is about the rows of 'opColumn'; give that too"
    return None


def _check_patch(values: Mapping[str, Any]) -> str | None:
    if values.get("patch") and "opColumn" in values:
        return "a patch removes by NULL: leave out option 'opColumn'"
    if values.get("patch") and values.get("badRows"):
        return "a patch has no row to set aside: leave out option 'badRows'"
    if values.get("patch") and values.get("mergeSchema"):
        return "a patch has some columns of the table: leave out option 'mergeSchema'"
    return None


def _check_identity(values: Mapping[str, Any]) -> str | None:
    if "txnAppId" in values and "txnVersion" not in values:
        return "option 'txnAppId' needs 'txnVersion', the number of this write among its writes"
    return None


def _time(values: Mapping[str, Any], name: str) -> datetime | None:
    """Return the instant that an option names; a local time is in the zone of 'timeZone'."""
    text = values.get(name)
    return None if text is None else parse_instant(text, values.get("timeZone", "UTC"))


_LOCAL_TIMES = ("where", "timestampAsOf", "expiresBy", "startingTimestamp", "endingTimestamp")
_TABLE: dict[str, Parse] = {"path": location_of, "table": text_value}
_REQUIRED = tuple(_TABLE)
_MISSING = {
    "path": "option 'path', the directory of the store, is missing",
    "table": "option 'table', the name of the table in the store, is missing",
}
_READ = _TABLE | {
    "readChangeFeed": boolean,
    "versionAsOf": version,
    "timestampAsOf": instant_text,
    "expiresBy": instant_text,
    "columns": column_names,
    "where": text_value,
    "timeZone": text_value,
    "numPartitions": whole_number(1, MAX_PARTITIONS),
}
# Options that relstate sets on its own reads; they are not documented.
_INTERNAL: dict[str, Parse] = {
    "boundCondition": text_value,
    FOLLOWS_LATEST: boolean,
    PARTIAL_AGGREGATE: text_value,
    ROW_LIMIT: text_value,
    EXPIRY_PATHS: text_value,
}
_STREAM = _TABLE | {
    "patch": boolean,
    "opColumn": text_value,
    "clustered": boolean,
    "ttl": positive_seconds,
    "ttlColumn": text_value,
    "mergeSchema": boolean,
    "badRows": sets_bad_rows_aside,
    "txnAppId": text_value,
}
_WRITE = _STREAM | {"txnVersion": whole_number(0, MAX_LONG)}
_CHANGES = _TABLE | {
    "readChangeFeed": boolean,
    "startingVersion": version_or_latest,
    "startingTimestamp": instant_text,
    "startingBoundInclusive": boolean,
    "deduplicationMode": deduplication,
    "computeUpdates": boolean,
    "changeFormat": change_format,
    "tombstonesOnDelete": boolean,
    "columns": column_names,
    "timeZone": text_value,
    "numPartitions": whole_number(1, MAX_PARTITIONS),
}
_FEED = _CHANGES | {
    "endingVersion": version,
    "endingTimestamp": instant_text,
    "endingBoundInclusive": boolean,
}
_FOLLOW = _CHANGES | {"maxEpochsPerTrigger": whole_number(1, MAX_LONG)}
_ALL_NAMES = tuple(_READ | _FEED | _FOLLOW | _WRITE)
# Spark adds these to the options of a streaming sink.
_SET_BY_SPARK = ("queryname", "checkpointlocation")
