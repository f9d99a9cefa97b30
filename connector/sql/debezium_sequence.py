"""The order of Debezium's change events: positions in the logs of databases, as numbers or text.

Promises: of two changes of one key the later has the greater position, or the query fails. Of
changes with equal positions (a document that one transaction of MongoDB changes twice) nothing is
known.
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
# A position in MongoDB's oplog: milliseconds, and the number of the operation within its second.
_ORDINAL_BITS = 21
_MOST_MILLISECONDS = 1 << (63 - _ORDINAL_BITS)
_RS_ID = r"^\s*(?:0x)?([0-9a-fA-F]{6}\.[0-9a-fA-F]{8}\.[0-9a-fA-F]{4})\s*$"
_LSN = "^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}$"
_NUMBER = "^[0-9]{1,20}$"
_NO_LSN = "00000000:00000000:0000"


def sequence_column(sequence_by: str | None) -> Column:
    """Return the values that order the changes of a key: see `debezium.debezium`.

    They are made of the columns of `debezium_messages.read_messages`.
    OptionError if ``sequence_by`` names a field that has no order of its own.
    """
    name = (sequence_by or "").rpartition(".")[2].removeprefix("__").removeprefix("source_")
    if name in ("commit_lsn", "change_lsn"):
        return _lsn_text()
    if name == "rs_id":
        return _redo_text()
    if name == "file":
        return _binlog_text()
    if name == "ord":
        return _oplog_number()
    if name == "pos":
        raise errors.OptionError(
            f"sequence_by is {sequence_by!r}, which starts again with every log file of MySQL: "
            "leave sequence_by out, or pass 'source.file' for the whole position as text"
        )
    if sequence_by is not None:
        return _whole_number(sequence_by, f.get_json_object("event", f"$.{sequence_by}"))
    return _default_sequence()


def _source(name: str) -> Column:
    """Return a field of ``source`` as text, NULL if there is none."""
    return f.col("source")[name]


def _default_sequence() -> Column:
    """Return the position as a BIGINT, by whichever fields the event has."""
    has_lsn_text = _source("commit_lsn").isNotNull() | _source("change_lsn").isNotNull()
    is_binlog = _source("pos").isNotNull() | _source("file").isNotNull()
    return (
        f.when(_source("lsn").isNotNull(), _whole_number("source.lsn", _source("lsn")))
        .when(_source("ord").isNotNull(), _oplog_number())
        .when(is_binlog & ~_source("connector").eqNullSafe("cassandra"), _binlog_number())
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
            _source("scn").isNotNull(),
            error_column(
                "OptionError",
                "two changes of one row may have the same source.scn in Oracle: pass "
                "sequence_by='source.rs_id' to debezium, which gives the whole position as text, "
                "and give the table a version column of type STRING; or pass 'source.scn' if no "
                "transaction changes a row twice",
            ).cast("bigint"),
        )
        .when(_source("epoch").isNotNull(), _whole_number("source.epoch", _source("epoch")))
        .when(_source("connector").isNotNull(), _unordered_error(_source("connector")))
        .when(f.col("time").isNotNull(), _whole_number("ts_ms", f.col("time")))
        .when(f.col("is_flat"), _flat_error())
    )


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


def _oplog_number() -> Column:
    """Return a position in MongoDB's oplog: source.ts_ms and source.ord in one number."""
    time, ordinal = _source("ts_ms"), _source("ord")
    milliseconds, number = time.try_cast("bigint"), ordinal.try_cast("bigint")
    fits = milliseconds.between(0, _MOST_MILLISECONDS - 1) & number.between(
        0, (1 << _ORDINAL_BITS) - 1
    )
    field_error = error_column(
        "SchemaMismatchError",
        "an event of MongoDB needs source.ts_ms and source.ord, whole numbers below 2^42 and "
        "2^21; it has ",
        f.coalesce(time, f.lit("NULL")), " and ", f.coalesce(ordinal, f.lit("NULL")),
    ).cast("bigint")  # fmt: skip
    packed = milliseconds * (1 << _ORDINAL_BITS) + number
    return f.when(f.coalesce(fits, f.lit(False)), packed).otherwise(field_error)


def _binlog_parts() -> tuple[Column, Column, Column]:
    """Return the number of MySQL's log file, the position in it, and the row of the event there."""
    file, offset = _source("file"), _source("pos").try_cast("bigint")
    number = f.regexp_extract(file, r"\.([0-9]+)$", 1).try_cast("bigint")
    row = f.coalesce(_source("row").try_cast("bigint"), f.lit(0).cast("bigint"))
    field_error = error_column(
        "SchemaMismatchError",
        "an event of MySQL needs source.file, which ends with a number, and source.pos; it has ",
        f.coalesce(file, f.lit("NULL")), " and ",
        f.coalesce(_source("pos"), f.lit("NULL")),
    ).cast("bigint")  # fmt: skip
    return f.coalesce(number, field_error), f.coalesce(offset, field_error), row


def _binlog_number() -> Column:
    file, offset, row = _binlog_parts()
    fits = (file < _MOST_FILES) & (offset < 1 << _POSITION_BITS) & (row < 1 << _ROW_BITS)
    packed = (file * (1 << _POSITION_BITS) + offset) * (1 << _ROW_BITS) + row
    field_error = error_column(
        "OptionError",
        "the position of an event in MySQL's log (source.file, pos and row) does not fit a BIGINT: "
        "pass sequence_by='source.file' to debezium, which gives it as text, and give the table a "
        "version column of type STRING",
    )
    return f.when(fits, packed).otherwise(field_error.cast("bigint"))


def _binlog_text() -> Column:
    parts = [f.lpad(part.cast("string"), 20, "0") for part in _binlog_parts()]
    return f.concat_ws("/", *parts)


def _lsn_text() -> Column:
    """Return a position in SQL Server's log: of the commit, of the change, and of its parts.

    Rows of the snapshot have no change: they come before all changes of the same commit. Informix
    has whole numbers instead.
    """
    commit, change = _source("commit_lsn"), _source("change_lsn")
    number = f.lpad(f.coalesce(_source("event_serial_no"), f.lit("0")), 20, "0")
    lsn_change, numeric_change = (f.coalesce(change, f.lit(no)) for no in (_NO_LSN, "0"))
    field_error = error_column(
        "SchemaMismatchError",
        "the positions commit_lsn and change_lsn of an event must be like "
        "'00000027:00000758:0003'; they are ",
        f.coalesce(commit, f.lit("NULL")), " and ", lsn_change,
    ).cast("string")  # fmt: skip
    is_lsn = f.coalesce(commit.rlike(_LSN) & lsn_change.rlike(_LSN), f.lit(False))
    is_numeric = f.coalesce(commit.rlike(_NUMBER) & numeric_change.rlike(_NUMBER), f.lit(False))
    numeric = (f.lpad(commit, 20, "0"), f.lpad(numeric_change, 20, "0"))
    text = f.when(is_lsn, f.lower(f.concat_ws("/", commit, lsn_change, number)))
    text = text.when(is_numeric, f.concat_ws("/", *numeric, number))
    return text.otherwise(field_error)


def _redo_text() -> Column:
    """Return a position in Oracle's redo log: scn, redo record, and the change within the record.

    Rows of the snapshot have no redo record: they come before all changes of the same scn.
    """
    scn, record, change = (_source(name) for name in ("scn", "rs_id", "ssn"))
    field_error = error_column(
        "SchemaMismatchError",
        "an event of Oracle needs source.scn, a whole number, and source.rs_id like "
        "'0x000245.0000ab12.0010' with source.ssn (log.mining.buffer.track.rs_id=true); it has ",
        f.coalesce(scn, f.lit("NULL")), ", ",
        f.coalesce(record, f.lit("NULL")), " and ",
        f.coalesce(change, f.lit("NULL")),
    ).cast("string")  # fmt: skip
    is_snapshot = record.isNull() & f.col("op").eqNullSafe("r")
    address = f.when(record.rlike(_RS_ID), f.lower(f.regexp_extract(record, _RS_ID, 1)))
    text = f.concat_ws(
        "/",
        f.lpad(scn, 20, "0"),
        f.when(is_snapshot, f.lit("")).otherwise(address),
        f.lpad(f.coalesce(change, f.lit("0")), 20, "0"),
    )
    is_valid = scn.rlike(_NUMBER) & (address.isNotNull() | is_snapshot)
    is_valid = is_valid & (change.isNull() | change.rlike(_NUMBER))
    return f.when(f.coalesce(is_valid, f.lit(False)), text).otherwise(field_error)


def error_column(error: str, *parts: str | Column) -> Column:
    """Return an expression that raises an error of relstate's when it is evaluated."""
    columns = [f.lit(part) if isinstance(part, str) else part for part in parts]
    return f.raise_error(f.concat(f.lit(f"\n{errors.__name__}.{error}: "), *columns, f.lit("\n")))
