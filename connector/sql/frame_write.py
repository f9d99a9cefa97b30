"""Writes of DataFrames to tables, by the modes of Spark's writers.

Promises: a write is one epoch, as is that of a table which it creates.
Does not know: SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from relstate.connector.failure import unwrap_errors
from relstate.connector.option_values import sets_bad_rows_aside
from relstate.connector.sink.dml_task import OPERATION, DmlTask, Operation
from relstate.connector.sink.quarantine import Quarantine, write_options_json
from relstate.connector.sink.schema_mismatch import mismatch_error
from relstate.connector.task_report import TaskReport
from relstate.connector.types import arrow_schema_of, fields_of
from relstate.storage import NewTable, Proposal, Store, WriteTarget, errors, new_table, types

from .dml_run import task_reports
from .source_frame import check_frame

Mode: TypeAlias = Literal["append", "overwrite", "ignore", "error", "errorifexists"]
_MODES = get_args(Mode)
_ATTEMPTS = 5


def write_frame(
    store: Store,
    frame: DataFrame,
    name: str,
    mode: Mode,
    primary_key: Sequence[str] | None,
    bad_rows: str | None = None,
) -> int:
    """Write the rows of a DataFrame to a table and return the epoch: see `Database.write`."""
    check_frame(frame, "db.write", ", or write them without Spark by store.write(table, rows)")
    if frame.isStreaming:
        raise errors.OptionError(
            "db.write writes a batch; a stream is written by writeStream.format('relstate'), or "
            "foreachBatch(db.writer(table))"
        )
    if str(mode).lower() not in _MODES:
        raise errors.OptionError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")
    sets_aside = bad_rows is not None and _sets_aside(bad_rows)
    exists = name.lower() in store.state.table_ids
    mode_name = mode.lower()
    if mode_name in ("append", "overwrite"):
        if primary_key is not None:
            raise errors.OptionError(
                f"mode {mode!r} writes to a table that exists and has its key already: leave "
                "out primary_key"
            )
        with store.one_look():
            overwrite = mode_name == "overwrite"
            return _write(store, frame, name, overwrite=overwrite, sets_aside=sets_aside)
    if sets_aside:
        raise errors.OptionError(
            f"mode {mode!r} creates the table, which has no rules yet that a row could break: "
            "leave out bad_rows, or create the table and write with mode 'append'"
        )
    if not exists:
        return _create(store, frame, name, primary_key)
    if mode_name == "ignore":
        return store.epoch
    raise errors.TableExistsError(
        f"there is a table or view {name!r} already: mode 'append' upserts its rows, 'overwrite' "
        "replaces them all, 'ignore' writes nothing"
    )


def _sets_aside(bad_rows: str) -> bool:
    """Return whether rows that break a rule go to the quarantine. OptionError for other values."""
    try:
        return sets_bad_rows_aside(bad_rows)
    except ValueError as error:
        raise errors.OptionError(f"bad_rows is {bad_rows!r}: {error}") from None


def _write(store: Store, frame: DataFrame, name: str, *, overwrite: bool, sets_aside: bool) -> int:
    target = store.jobs.write_target(name)
    definition = target.definition
    if overwrite and definition.properties.append_only:
        raise errors.AppendOnlyError(
            f"the table {definition.name!r} is append-only: its rows are not replaced by mode "
            "'overwrite'; append rows of new keys"
        )
    rows = arrow_schema_of(frame.schema)
    definition.check_versions(rows.names)
    try:
        definition.schema.check_schema(rows)
    except errors.SchemaMismatchError as error:
        raise mismatch_error(store, definition, error, rows) from None
    started = store.environment.now()
    quarantine = _quarantine(store, name) if sets_aside else None
    reports = _reports(frame, target, quarantine)
    segments = tuple(segment for report in reports for segment in report.segments)
    violations = tuple(item for report in reports for item in report.violations)
    if not segments and not violations and not overwrite:
        return store.epoch
    replaced = [definition.table_id]
    if quarantine is not None:
        replaced.append(quarantine.target.definition.table_id)
    proposal = Proposal(
        operation="overwrite" if overwrite else "write",
        started=min([started, *(report.started for report in reports)]),
        segments=segments,
        written_under=(definition,),
        violations=violations,
        based_tables=tuple(replaced) if overwrite else (),
    )
    with store.jobs.discarding(segments):
        return store.jobs.commit(proposal).epoch


def _quarantine(store: Store, name: str) -> Quarantine:
    """Return where the rows go that a table does not take."""
    return Quarantine(
        store.jobs.quarantine_target(name),
        store.environment.random_id(),
        None,
        None,
        write_options_json(None, None, None),
    )


def _create(store: Store, frame: DataFrame, name: str, primary_key: Sequence[str] | None) -> int:
    """Create a table with the columns and rows of a DataFrame, and return the epoch."""
    columns = ", ".join(
        f"{types.quoted(field.name)} {field.type}" for field in fields_of(frame.schema)
    )
    table = new_table(name, columns, primary_key=primary_key)
    for _ in range(_ATTEMPTS):
        try:
            return _create_once(store, frame, table)
        except errors.ConflictError:
            continue
    return _create_once(store, frame, table)


def _create_once(store: Store, frame: DataFrame, table: NewTable) -> int:
    started = store.environment.now()
    target = store.jobs.new_target(table)
    reports = _reports(frame, target)
    proposal = Proposal(
        operation="create table",
        started=min([started, *(report.started for report in reports)]),
        segments=tuple(segment for report in reports for segment in report.segments),
        created_tables=(table,),
        first_table_id=target.definition.table_id,
    )
    with store.jobs.discarding(proposal.segments):
        return store.jobs.commit(proposal).epoch


def _reports(
    frame: DataFrame, target: WriteTarget, quarantine: Quarantine | None = None
) -> list[TaskReport]:
    """Run the job that writes the rows of a DataFrame, and return the reports of its tasks."""
    names = (OPERATION, *frame.columns)
    rows = frame.select(f.lit(int(Operation.UPSERT)).alias(OPERATION), "*")
    with unwrap_errors():
        return task_reports(rows, DmlTask(target, names, quarantine=quarantine))
