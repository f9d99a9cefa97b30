"""The order of Debezium's change events: positions in the logs of databases, as numbers or text.

Promises: of two changes of one key the later has the greater position, or the query fails.
Does not know: rows, or operations.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from relstate.storage import errors

# A position in MySQL's log consists of the number of a file, a position in the file, and a row of
# the event there. In one BIGINT the position and the row have these numbers of bits.
_POSITION_BITS, _ROW_BITS = 32, 12
_MOST_FILES = 1 << (63 - _POSITION_BITS - _ROW_BITS)
_RS_ID = r"^\s*(?:0x)?([0-9a-fA-F]{6}\.[0-9a-fA-F]{8}\.[0-9a-fA-F]{4})\s*$"
_LSN = "^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}$"
_NUMBER = "^[0-9]{1,20}$"
_NO_LSN = "00000000:00000000:0000"


def sequence_column(event: Column, sequence_by: str | None) -> Column:
    """Return the values that order the changes of a key: see `debezium.debezium`.

    OptionError if ``sequence_by`` names a field that has no order of its own.
    """
    name = "" if sequence_by is None else sequence_by.rpartition(".")[2]
    if name in ("commit_lsn", "change_lsn"):
        return _lsn_text(event)
    if name == "rs_id":
        return _redo_text(event)
    if name == "file":
        return _binlog_text(event)
    if name == "pos":
        raise errors.OptionError(
            f"sequence_by is {sequence_by!r}, which starts again with every log file of MySQL: "
            "leave sequence_by out, or pass 'source.file' for the whole position as text"
        )
    if sequence_by is not None:
        return _whole_number(event, sequence_by)
    has_lsn_text = (
        _source(event, "commit_lsn").isNotNull() | _source(event, "change_lsn").isNotNull()
    )
    is_binlog = _source(event, "pos").isNotNull() | _source(event, "file").isNotNull()
    return (
        f.when(_source(event, "lsn").isNotNull(), _whole_number(event, "source.lsn"))
        .when(is_binlog, _binlog_number(event))
        .when(
            has_lsn_text,
            error_column(
                "OptionError",
                "positions in the log of this database (source.commit_lsn) do not fit a BIGINT: "
                "pass sequence_by='source.commit_lsn' to debezium, which gives them as text, and "
                "give the table a version column of type STRING",
            ).cast("bigint"),
        )
        .when(
            _source(event, "scn").isNotNull(),
            error_column(
                "OptionError",
                "two changes of one row may have the same source.scn in Oracle: pass "
                "sequence_by='source.rs_id' to debezium, which gives the whole position as text, "
                "and give the table a version column of type STRING; or pass 'source.scn' if no "
                "transaction changes a row twice",
            ).cast("bigint"),
        )
        .when(_source(event, "epoch").isNotNull(), _whole_number(event, "source.epoch"))
        .otherwise(_whole_number(event, "ts_ms"))
    )


def _source(event: Column, name: str) -> Column:
    return f.get_json_object(event, f"$.source.{name}")


def _whole_number(event: Column, path: str) -> Column:
    """Return a field of an event as a BIGINT, NULL if it has none."""
    text = f.get_json_object(event, f"$.{path}")
    field_error = error_column(
        "SchemaMismatchError", f"the field {path!r} of an event of Debezium is ", text,
        ", which is not a whole number",
    )  # fmt: skip
    return f.when(text.isNotNull(), f.coalesce(text.try_cast("bigint"), field_error.cast("bigint")))


def _binlog_parts(event: Column) -> tuple[Column, Column, Column]:
    """Return the number of MySQL's log file, the position in it, and the row of the event there."""
    file, position = _source(event, "file"), _source(event, "pos").try_cast("bigint")
    number = f.regexp_extract(file, r"\.([0-9]+)$", 1).try_cast("bigint")
    row = f.coalesce(_source(event, "row").try_cast("bigint"), f.lit(0).cast("bigint"))
    field_error = error_column(
        "SchemaMismatchError",
        "an event of MySQL needs source.file, which ends with a number, and source.pos; it has ",
        f.coalesce(file, f.lit("NULL")), " and ",
        f.coalesce(_source(event, "pos"), f.lit("NULL")),
    ).cast("bigint")  # fmt: skip
    return f.coalesce(number, field_error), f.coalesce(position, field_error), row


def _binlog_number(event: Column) -> Column:
    file, position, row = _binlog_parts(event)
    fits = (file < _MOST_FILES) & (position < 1 << _POSITION_BITS) & (row < 1 << _ROW_BITS)
    packed = (file * (1 << _POSITION_BITS) + position) * (1 << _ROW_BITS) + row
    field_error = error_column(
        "OptionError",
        "the position of an event in MySQL's log (source.file, pos and row) does not fit a BIGINT: "
        "pass sequence_by='source.file' to debezium, which gives it as text, and give the table a "
        "version column of type STRING",
    )
    return f.when(fits, packed).otherwise(field_error.cast("bigint"))


def _binlog_text(event: Column) -> Column:
    parts = [f.lpad(part.cast("string"), 20, "0") for part in _binlog_parts(event)]
    return f.concat_ws("/", *parts)


def _lsn_text(event: Column) -> Column:
    """Return a position in SQL Server's log: of the commit, of the change, and of its parts.

    Rows of the snapshot have no change: they come before all changes of the same commit.
    """
    commit = _source(event, "commit_lsn")
    change = f.coalesce(_source(event, "change_lsn"), f.lit(_NO_LSN))
    number = f.lpad(f.coalesce(_source(event, "event_serial_no"), f.lit("0")), 20, "0")
    field_error = error_column(
        "SchemaMismatchError",
        "the positions commit_lsn and change_lsn of an event must be like "
        "'00000027:00000758:0003'; they are ",
        f.coalesce(commit, f.lit("NULL")), " and ", change,
    ).cast("string")  # fmt: skip
    is_valid = f.coalesce(commit.rlike(_LSN) & change.rlike(_LSN), f.lit(False))
    position = f.lower(f.concat_ws("/", commit, change, number))
    return f.when(is_valid, position).otherwise(field_error)


def _redo_text(event: Column) -> Column:
    """Return a position in Oracle's redo log: scn, redo record, and the change within the record.

    Rows of the snapshot have no redo record: they come before all changes of the same scn.
    """
    scn, record = _source(event, "scn"), _source(event, "rs_id")
    change = _source(event, "ssn")
    field_error = error_column(
        "SchemaMismatchError",
        "an event of Oracle needs source.scn, a whole number, and source.rs_id like "
        "'0x000245.0000ab12.0010' with source.ssn; it has ",
        f.coalesce(scn, f.lit("NULL")), ", ",
        f.coalesce(record, f.lit("NULL")), " and ",
        f.coalesce(change, f.lit("NULL")),
    ).cast("string")  # fmt: skip
    is_snapshot = record.isNull() & (f.get_json_object(event, "$.op") == "r")
    address = f.when(record.rlike(_RS_ID), f.lower(f.regexp_extract(record, _RS_ID, 1)))
    position = f.concat_ws(
        "/",
        f.lpad(scn, 20, "0"),
        f.when(is_snapshot, f.lit("")).otherwise(address),
        f.lpad(f.coalesce(change, f.lit("0")), 20, "0"),
    )
    is_valid = scn.rlike(_NUMBER) & (address.isNotNull() | is_snapshot)
    is_valid = is_valid & (change.isNull() | change.rlike(_NUMBER))
    return f.when(f.coalesce(is_valid, f.lit(False)), position).otherwise(field_error)


def error_column(error: str, *parts: str | Column) -> Column:
    """Return an expression that raises an error of relstate's when it is evaluated."""
    columns = [f.lit(part) if isinstance(part, str) else part for part in parts]
    return f.raise_error(f.concat(f.lit(f"\n{errors.__name__}.{error}: "), *columns, f.lit("\n")))
