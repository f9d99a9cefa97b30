"""The order of Debezium's change events: positions in the logs of databases, as numbers or text.

Promises: of two changes of one key the later has the greater position, or the query fails. Of
changes with equal positions (a document that one transaction of MongoDB changes twice) nothing is
known. Rows of snapshots come before all changes: see `debezium_snapshot`.
Does not know: rows.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from relstate.storage import errors

from .debezium_snapshot import snapshot_number, snapshot_text

# A position in MySQL's log consists of the number of a file, a position in the file, and a row of
# the event there. In one BIGINT the position and the row have these numbers of bits.
_POSITION_BITS, _ROW_BITS = 32, 12
_MOST_FILES = 1 << (63 - _POSITION_BITS - _ROW_BITS)
# A position in MongoDB's oplog: milliseconds, and the number of the operation within its second.
_ORDINAL_BITS = 21
_MOST_MILLISECONDS = 1 << (63 - _ORDINAL_BITS)
_RS_ID = r"^\s*(?:0x)?([0-9a-fA-F]{6}\.[0-9a-fA-F]{8}\.[0-9a-fA-F]{4})\s*$"
_LSN = "^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}$"
_NUMBER = "^[0-9]{1,20}$"
_NO_LSN = "00000000:00000000:0000"
# Connectors whose positions do not fit a BIGINT, and those whose positions do.
_LSN_TEXTS = ("sqlserver", "db2", "informix")
_NUMBERED = ("postgresql", "mongodb", "mysql", "mariadb")


def sequence_column(sequence_by: str | None) -> Column:
    """Return the values that order the changes of a key: see `debezium.debezium`.

    They are made of the columns of `debezium_messages.read_messages`.
    OptionError if ``sequence_by`` names a field that has no order of its own.
    """
    name = (sequence_by or "").rpartition(".")[2].removeprefix("__").removeprefix("source_")
    if name in ("commit_lsn", "change_lsn"):
        return _text_sequence(_lsn_value(), _lsn_error())
    if name == "rs_id":
        return _text_sequence(_redo_value(), _redo_error())
    if name == "file":
        return _text_sequence(_binlog_text(), _binlog_error().cast("string"))
    if name == "ord":
        return _number_sequence(_oplog_value(), _oplog_error())
    if name == "pos":
        raise errors.OptionError(
            f"sequence_by is {sequence_by!r}, which starts again with every log file of MySQL: "
            "leave sequence_by out, or pass 'source.file' for the whole position as text"
        )
    if sequence_by is not None:
        field = f.get_json_object("event", f"$.{sequence_by}")
        return _number_sequence(field.try_cast("bigint"), _whole_number(sequence_by, field))
    return _default_sequence()


def _source(name: str) -> Column:
    """Return a field of ``source`` as text, NULL if there is none."""
    return f.col("source")[name]


def _number_sequence(position: Column, otherwise: Column) -> Column:
    """Return positions as BIGINTs; ``otherwise`` for a change without one."""
    return f.when(_is_snapshot(), snapshot_number(_time(), position)).otherwise(
        f.coalesce(position, otherwise)
    )


def _text_sequence(position: Column, otherwise: Column) -> Column:
    """Return positions as text; ``otherwise`` for a change without one."""
    return f.when(_is_snapshot(), snapshot_text(_time(), position)).otherwise(
        f.coalesce(position, otherwise)
    )


def _time() -> Column:
    """Return when the connector processed a message, in milliseconds since 1970."""
    return _whole_number("ts_ms", f.col("time"))


def _is_snapshot() -> Column:
    return f.col("op").eqNullSafe("r")


def _default_sequence() -> Column:
    """Return the position as a BIGINT, by whichever fields the event has.

    Feeds of relstate begin with rows of a snapshot whose epoch is their exact position.
    """
    connector, lsn, ordinal = (_source(name) for name in ("connector", "lsn", "ord"))
    has_lsn_text = _source("commit_lsn").isNotNull() | _source("change_lsn").isNotNull()
    is_binlog = _source("pos").isNotNull() | _source("file").isNotNull()
    is_binlog &= ~connector.eqNullSafe("cassandra")
    # Rows of an incremental snapshot of PostgreSQL have the field, which is NULL.
    has_lsn = f.map_contains_key("source", f.lit("lsn"))
    is_numbered = connector.isin(*_NUMBERED) | has_lsn | is_binlog | ordinal.isNotNull()
    position = f.coalesce(lsn.try_cast("bigint"), _oplog_value(), _binlog_value())
    change = (
        f.when(has_lsn, _required_number("source.lsn", lsn))
        .when(ordinal.isNotNull(), f.coalesce(_oplog_value(), _oplog_error()))
        .when(is_binlog, f.coalesce(_binlog_value(), _binlog_error(), _binlog_room_error()))
        .when(connector.isNotNull(), _unordered_error(connector))
        .when(f.col("time").isNotNull(), _time())
        .when(f.col("is_flat"), _flat_error())
    )
    return (
        f.when(_source("epoch").isNotNull(), _whole_number("source.epoch", _source("epoch")))
        .when(has_lsn_text | connector.isin(*_LSN_TEXTS), _lsn_text_error())
        .when(_source("scn").isNotNull() | connector.eqNullSafe("oracle"), _scn_error())
        .when(connector.isNotNull() & ~is_numbered, _unordered_error(connector))
        .when(_is_snapshot(), snapshot_number(_time(), position))
        .otherwise(change)
    )


def _lsn_text_error() -> Column:
    return error_column(
        "OptionError",
        "positions in the log of this database (source.commit_lsn) do not fit a BIGINT: "
        "pass sequence_by='source.commit_lsn' to debezium, which gives them as text, and "
        "give the table a version column of type STRING",
    ).cast("bigint")


def _scn_error() -> Column:
    return error_column(
        "OptionError",
        "two changes of one row may have the same source.scn in Oracle: pass "
        "sequence_by='source.rs_id' to debezium, which gives the whole position as text, "
        "and give the table a version column of type STRING; or pass 'source.scn' if no "
        "transaction changes a row twice",
    ).cast("bigint")


def _unordered_error(connector: Column) -> Column:
    return error_column(
        "OptionError",
        "events of the connector ", connector, " have no position by which relstate could order "
        "them: pass a field of the event that grows with every change of a row as sequence_by, "
        "such as 'transaction.transaction_rank' (Vitess with ordered transaction metadata), or "
        "'ts_ms' if no row changes twice in a millisecond",
    ).cast("bigint")  # fmt: skip


def _flat_error() -> Column:
    return error_column(
        "OptionError",
        "a flattened event has no field that orders it: add the position to the property "
        "add.fields of the transformation ExtractNewRecordState, such as op,lsn (PostgreSQL) or "
        "op,file,pos,row (MySQL)",
    ).cast("bigint")


def _whole_number(path: str, text: Column) -> Column:
    """Return the text of a field as a BIGINT, NULL if there is none."""
    field_error = error_column(
        "SchemaMismatchError", f"the field {path!r} of an event of Debezium is ", text,
        ", which is not a whole number",
    )  # fmt: skip
    return f.when(text.isNotNull(), f.coalesce(text.try_cast("bigint"), field_error.cast("bigint")))


def _required_number(path: str, text: Column) -> Column:
    """Return the text of a field that every change has as a BIGINT."""
    return f.coalesce(
        text.try_cast("bigint"),
        error_column(
            "SchemaMismatchError", f"the field {path!r} of an event of Debezium is ",
            f.coalesce(text, f.lit("NULL")), ", which is not a whole number",
        ).cast("bigint"),
    )  # fmt: skip


def _oplog_value() -> Column:
    """Return a position in MongoDB's oplog: source.ts_ms and source.ord in one number, or NULL."""
    milliseconds = _source("ts_ms").try_cast("bigint")
    number = _source("ord").try_cast("bigint")
    fits = milliseconds.between(0, _MOST_MILLISECONDS - 1) & number.between(
        0, (1 << _ORDINAL_BITS) - 1
    )
    return f.when(fits, milliseconds * (1 << _ORDINAL_BITS) + number)


def _oplog_error() -> Column:
    return error_column(
        "SchemaMismatchError",
        "an event of MongoDB needs source.ts_ms and source.ord, whole numbers below 2^42 and "
        "2^21; it has ",
        f.coalesce(_source("ts_ms"), f.lit("NULL")), " and ",
        f.coalesce(_source("ord"), f.lit("NULL")),
    ).cast("bigint")  # fmt: skip


def _binlog_parts() -> tuple[Column, Column, Column]:
    """Return the number of MySQL's log file, the position in it, and the row of the event there.

    NULL for what is not a number.
    """
    file, offset = _source("file"), _source("pos").try_cast("bigint")
    number = f.regexp_extract(file, r"\.([0-9]+)$", 1).try_cast("bigint")
    row = f.coalesce(_source("row").try_cast("bigint"), f.lit(0).cast("bigint"))
    return number, offset, row


def _binlog_value() -> Column:
    """Return a position in MySQL's log as one number; NULL if there is none, or it is too large."""
    file, offset, row = _binlog_parts()
    fits = (file < _MOST_FILES) & (offset < 1 << _POSITION_BITS) & (row < 1 << _ROW_BITS)
    return f.when(fits, (file * (1 << _POSITION_BITS) + offset) * (1 << _ROW_BITS) + row)


def _binlog_text() -> Column:
    """Return a position in MySQL's log as text, NULL if there is none."""
    file, offset, row = (f.lpad(part.cast("string"), 20, "0") for part in _binlog_parts())
    return f.concat(file, f.lit("/"), offset, f.lit("/"), row)


def _binlog_error() -> Column:
    """Return the error of an event that has no position in MySQL's log; NULL if it has one."""
    file, offset, _ = _binlog_parts()
    field_error = error_column(
        "SchemaMismatchError",
        "an event of MySQL needs source.file, which ends with a number, and source.pos; it has ",
        f.coalesce(_source("file"), f.lit("NULL")), " and ",
        f.coalesce(_source("pos"), f.lit("NULL")),
    ).cast("bigint")  # fmt: skip
    return f.when(file.isNull() | offset.isNull(), field_error)


def _binlog_room_error() -> Column:
    return error_column(
        "OptionError",
        "the position of an event in MySQL's log (source.file, pos and row) does not fit a BIGINT: "
        "pass sequence_by='source.file' to debezium, which gives it as text, and give the table a "
        "version column of type STRING",
    ).cast("bigint")


def _lsn_value() -> Column:
    """Return a position in SQL Server's log: of the commit, of the change, and of its parts.

    Informix has whole numbers instead. NULL if it is neither.
    """
    commit, change = _source("commit_lsn"), _source("change_lsn")
    number = f.lpad(f.coalesce(_source("event_serial_no"), f.lit("0")), 20, "0")
    lsn_change, numeric_change = (f.coalesce(change, f.lit(no)) for no in (_NO_LSN, "0"))
    is_lsn = commit.rlike(_LSN) & lsn_change.rlike(_LSN)
    is_numeric = commit.rlike(_NUMBER) & numeric_change.rlike(_NUMBER)
    numeric = (f.lpad(commit, 20, "0"), f.lpad(numeric_change, 20, "0"))
    text = f.when(is_lsn, f.lower(f.concat_ws("/", commit, lsn_change, number)))
    return text.when(is_numeric, f.concat_ws("/", *numeric, number))


def _lsn_error() -> Column:
    return error_column(
        "SchemaMismatchError",
        "the positions commit_lsn and change_lsn of an event must be like "
        "'00000027:00000758:0003'; they are ",
        f.coalesce(_source("commit_lsn"), f.lit("NULL")), " and ",
        f.coalesce(_source("change_lsn"), f.lit(_NO_LSN)),
    ).cast("string")  # fmt: skip


def _redo_value() -> Column:
    """Return a position in Oracle's redo log: scn, redo record, and the change within the record.

    Rows of a snapshot have no redo record. NULL if it is not one.
    """
    scn, record, change = (_source(name) for name in ("scn", "rs_id", "ssn"))
    address = f.when(record.rlike(_RS_ID), f.lower(f.regexp_extract(record, _RS_ID, 1)))
    address = f.when(record.isNull() & _is_snapshot(), f.lit("")).otherwise(address)
    is_valid = scn.rlike(_NUMBER) & (change.isNull() | change.rlike(_NUMBER))
    number = f.lpad(f.coalesce(change, f.lit("0")), 20, "0")
    return f.when(is_valid, f.concat(f.lpad(scn, 20, "0"), f.lit("/"), address, f.lit("/"), number))


def _redo_error() -> Column:
    return error_column(
        "SchemaMismatchError",
        "an event of Oracle needs source.scn, a whole number, and source.rs_id like "
        "'0x000245.0000ab12.0010' with source.ssn (log.mining.buffer.track.rs_id=true); it has ",
        f.coalesce(_source("scn"), f.lit("NULL")), ", ",
        f.coalesce(_source("rs_id"), f.lit("NULL")), " and ",
        f.coalesce(_source("ssn"), f.lit("NULL")),
    ).cast("string")  # fmt: skip


def error_column(error: str, *parts: str | Column) -> Column:
    """Return an expression that raises an error of relstate's when it is evaluated."""
    columns = [f.lit(part) if isinstance(part, str) else part for part in parts]
    return f.raise_error(f.concat(f.lit(f"\n{errors.__name__}.{error}: "), *columns, f.lit("\n")))
