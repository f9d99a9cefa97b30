"""Runs the statements that change rows: Spark computes the changes, its tasks write, we commit.

Promises: a statement is one epoch or nothing. What it read did not change up to its epoch, or it is
run again, at most five times, and then fails. Statements of one `DmlRunner` that read and change
one table run one after the other, so that they do not conflict with each other.

A row counts as read if it met the condition with which its table was read. So a commit conflicts if
a row that it changed meets the condition before or after the change; without a condition every row
does.
Does not know: how statements are written.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeGuard

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import in_short, unwrap_errors
from relstate.connector.local_rows import known_rows
from relstate.connector.sink.dml_task import DmlTask
from relstate.connector.sink.part_task import PartTask
from relstate.connector.sink.shuffle import shuffle_by_key, shuffle_by_vnode, writing_tasks
from relstate.connector.task_report import NO_ROWS, REPORT_SCHEMA, RowCounts, TaskReport
from relstate.storage import (
    Entry,
    Proposal,
    ReadPlan,
    Reads,
    SegmentRecord,
    StorageTable,
    Store,
    TableDefinition,
    WriteTarget,
    check_ttl,
    encoding_of,
    errors,
    moment_of,
    sequence_segments,
)

from .column_defaults import with_defaults
from .dml import Change, Delete, DeleteParts, DmlStatement, Insert, Merge, Truncate, Update
from .dml_rows import DmlPlanner, DmlRows
from .part_rows import PartPlanner
from .planned_query import PlannedQuery, Relation
from .query_reader import QueryReader

_COUNTS = ("num_affected_rows", "num_inserted_rows", "num_updated_rows", "num_deleted_rows")
SCHEMA = ", ".join(["epoch BIGINT NOT NULL", *(f"{name} BIGINT" for name in _COUNTS)])
_RETRIES = 5
# So many rows are counted on the driver: a lookup takes microseconds, a job of Spark's at least a
# hundred milliseconds.
MOST_COUNTED = 10_000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DmlResult:
    """The epoch of a statement, and what became of rows."""

    epoch: int
    counts: RowCounts = NO_ROWS

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of columns as in ``SCHEMA``."""
        counts = (self.counts.inserted, self.counts.updated, self.counts.deleted)
        affected = None if None in counts else sum(count or 0 for count in counts)
        return (self.epoch, affected, *counts)

    def table(self) -> pa.Table:
        """Return `row` as Arrow."""
        columns = [pa.array([value], pa.int64()) for value in self.row()]
        return pa.table(columns, ["epoch", *_COUNTS])


class DmlRunner:
    """Changes the tables of a store. For the threads that may use the session."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark = spark
        self._store = store
        self._turns: defaultdict[int, Lock] = defaultdict(Lock)

    def run(self, statement: DmlStatement) -> DmlResult:
        """Run a statement and return its result.

        TableNotFoundError, UnsupportedStatementError, SchemaMismatchError, DataError where rows do
        not fit, ConflictError if others changed what it read every time, other CommitErrors.
        """
        with self._store.one_look():
            return self._run(statement)

    def _run(self, statement: DmlStatement) -> DmlResult:
        target = self._store.jobs.write_target(statement.table)
        definition = target.definition
        _check_allowed(statement, definition)
        _check_ttl(statement, definition)
        if isinstance(statement, Truncate):
            return DmlResult(self._store.truncate(statement.table), RowCounts(None, None, None))
        # What reads nothing conflicts with nothing; an INSERT that reads is run again.
        is_blind = isinstance(statement, Insert) or self._is_blind(statement, target)
        turn = nullcontext() if is_blind else self._turns[definition.table_id]
        with turn, in_short(), unwrap_errors():
            try:
                return self._attempt(statement)
            except errors.ConflictError:
                return self._attempt_again(statement)

    def _attempt_again(self, statement: DmlStatement) -> DmlResult:
        for _ in range(_RETRIES - 1):
            with suppress(errors.ConflictError), self._store.one_look(again=True):
                return self._attempt(statement)
        with self._store.one_look(again=True):
            return self._attempt(statement)

    def _is_blind(self, statement: Change, target: WriteTarget) -> bool:
        """Return whether a statement changes parts of a row without reading."""
        statement = with_defaults(statement, target)
        is_deletion = isinstance(statement, Delete) and _is_of_documents(target.definition)
        if not is_deletion and not _changes_parts(statement, target.definition):
            return False
        assert isinstance(statement, Update | DeleteParts | Delete)
        reader = QueryReader(self._spark, self._store, shows_places=False)
        return PartPlanner(reader, target.definition, target.vnode_count).is_blind(statement)

    def plan(self, statement: Change) -> tuple[PlannedQuery, DataFrame]:
        """Return the query that a statement would run now, and its rows, without changing any.

        Errors as of `run`.
        """
        target = self._store.jobs.write_target(statement.table)
        definition = target.definition
        _check_allowed(statement, definition)
        _check_ttl(statement, definition)
        statement = with_defaults(statement, target)
        with in_short(), unwrap_errors():
            reader = QueryReader(self._spark, self._store, shows_places=False)
            if _changes_parts(statement, definition):
                parts = PartPlanner(reader, definition, target.vnode_count).plan(statement)
                return parts.query, parts.rows
            assert not isinstance(statement, DeleteParts)
            changes = self._row_changes(statement, reader, target)
            return changes.query, changes.rows

    def _row_changes(
        self, statement: Insert | Update | Delete | Merge, reader: QueryReader, target: WriteTarget
    ) -> DmlRows:
        """Return the changes of whole rows; a row of documents named by its key is not read."""
        definition = target.definition
        if isinstance(statement, Delete) and _is_of_documents(definition):
            planner = PartPlanner(reader, definition, target.vnode_count)
            if (deletion := planner.deletion(statement)) is not None:
                return deletion
        return DmlPlanner(reader, definition).changes(statement)

    def _attempt(self, statement: DmlStatement) -> DmlResult:
        assert not isinstance(statement, Truncate)
        started = self._store.environment.now()
        reader = QueryReader(self._spark, self._store, shows_places=False)
        ttl = statement.ttl if isinstance(statement, Insert | Update) else None
        target = self._store.jobs.write_target(statement.table, expiring=ttl is not None)
        statement = with_defaults(statement, target)
        if _changes_parts(statement, target.definition):
            return self._change_parts(statement, reader, target, ttl)
        assert not isinstance(statement, DeleteParts)
        changes = self._row_changes(statement, reader, target)
        has_key = target.definition.schema.row_id is None
        existing = None
        if changes.is_checked and has_key:
            existing = self._store.read_plan(statement.table, epoch=reader.epoch)
        job = DmlTask(target, tuple(changes.rows.columns), changes.is_checked, existing, ttl)
        if changes.batch is not None:
            reports = [job.run(iter([changes.batch]))]
        else:
            reports = task_reports(changes.rows, job, is_clustered=changes.is_clustered)
        segments = tuple(segment for report in reports for segment in report.segments)
        overwrite = isinstance(statement, Insert) and statement.overwrite
        violations = tuple(item for report in reports for item in report.violations)
        if not segments and not violations and not overwrite:
            return DmlResult(reader.epoch)
        created = None if existing is None else Created(existing, segments)
        reads = ReadSet(self._store, changes.query.relations, created)
        is_blind = created is None and all(relation.is_pinned for relation in reads.relations)
        proposal = Proposal(
            operation=_operation(statement),
            started=min([started, *(report.started for report in reports)]),
            segments=segments,
            written_under=(target.definition,),
            violations=violations,
            based_tables=(target.definition.table_id,) if overwrite else (),
            reads=None if is_blind else Reads(reader.epoch, reads.is_changed_by),
        )
        with self._store.jobs.discarding(segments):
            result = self._store.jobs.commit(proposal)
        counts = RowCounts.total(report.counts for report in reports)
        if isinstance(statement, Delete) and not changes.query.relations:
            counts = RowCounts(0, 0, None)
        if isinstance(statement, Insert):
            counts = self._insert_counts(target.definition, segments, result.epoch, overwrite)
        return DmlResult(result.epoch, counts)

    def _change_parts(
        self,
        statement: Update | DeleteParts,
        reader: QueryReader,
        target: WriteTarget,
        ttl: int | None,
    ) -> DmlResult:
        """Run a statement that changes parts of rows; nothing is read if it names one row."""
        started = self._store.environment.now()
        rows = PartPlanner(reader, target.definition, target.vnode_count).plan(statement)
        task = PartTask(target, rows.names, rows.changes, ttl)
        reads = None
        if rows.batch is not None:
            reports = [task.run(iter([rows.batch]))]
            counts = RowCounts(None, None, 0)
        else:
            reports = task_reports(rows.rows, task, is_clustered=rows.is_clustered)
            counts = RowCounts.total(report.counts for report in reports)
            read_set = ReadSet(self._store, rows.query.relations)
            reads = Reads(reader.epoch, read_set.is_changed_by)
        segments = tuple(segment for report in reports for segment in report.segments)
        if not segments:
            return DmlResult(reader.epoch)
        proposal = Proposal(
            operation="patch",
            started=min([started, *(report.started for report in reports)]),
            segments=segments,
            reads=reads,
        )
        with self._store.jobs.discarding(segments):
            return DmlResult(self._store.jobs.commit(proposal).epoch, counts)

    def _insert_counts(
        self,
        definition: TableDefinition,
        segments: Sequence[SegmentRecord],
        epoch: int,
        overwrite: bool,
    ) -> RowCounts:
        """Return `_insert_counts`; NULLs where they fail, since the statement is committed."""
        try:
            return _insert_counts(self._store, definition, segments, epoch, overwrite)
        except Exception as error:
            _logger.debug("the rows of a statement were not counted", exc_info=error)
            return RowCounts(None, None, None if overwrite else 0)


def task_reports(
    rows: DataFrame, job: DmlTask | PartTask, *, is_clustered: bool = False
) -> list[TaskReport]:
    """Write rows of changes, and return the reports of the tasks that did it.

    Rows that the driver has are written by its process, without a job of Spark.
    ``is_clustered``: the rows of a range of vnodes are in one partition.
    """
    batches = known_rows(rows)
    if batches is not None:
        return [job.run(iter(batches))]
    target = job.target
    schema, vnode_count = target.definition.schema, target.vnode_count
    if isinstance(job, DmlTask) and job.is_checked:
        rows = shuffle_by_key(rows, schema, vnode_count)
    elif not is_clustered and (units := writing_tasks(rows)) is not None:
        rows = shuffle_by_vnode(rows, schema, vnode_count, units)
    # Spark would read a name with a dot as a field of a struct, and fail for a backtick.
    plain = rows.toDF(*(f"c{index}" for index in range(len(job.names))))
    reports = plain.mapInArrow(job, REPORT_SCHEMA).collect()
    return [TaskReport.from_json(text) for (text,) in reports]


def _insert_counts(
    store: Store,
    definition: TableDefinition,
    segments: Sequence[SegmentRecord],
    epoch: int,
    overwrite: bool,
) -> RowCounts:
    """Return what an INSERT that was committed at an epoch did to the rows of the epoch before.

    Numbers are None where finding them would take long, for many rows, where a version column
    decides which rows are seen, and for documents, whose changes read nothing. Errors of the store,
    if the epoch before is gone for one.
    """
    written = sum(segment.rows(definition.table_id) for segment in segments)
    is_growing = definition.properties.append_only or definition.schema.row_id is not None
    if is_growing and not overwrite:
        return RowCounts(written)
    if _is_of_documents(definition) and not overwrite:
        return RowCounts(None, None)
    now = moment_of(store.environment.now())
    before = store.read_plan(definition.name, epoch=epoch - 1, time=now)
    names = tuple(column.name for column in before.definition.schema.key_columns)
    sequenced = sequence_segments(segments, epoch, definition.table_id)
    keys = _rows(replace(before, segments=sequenced, columns=names), MOST_COUNTED)
    if overwrite:
        replaced = _rows(replace(before, columns=names), MOST_COUNTED)
        inserted = written if is_growing else _length(keys)
        return RowCounts(inserted, 0, _length(replaced))
    if keys is None or definition.properties.is_versioned:
        return RowCounts(None, None)
    matches = len(before.open().get_rows(keys, names[:1])[0]) if keys.num_rows else 0
    updated = 0 if definition.properties.merge == "ignore" else matches
    return RowCounts(keys.num_rows - matches, updated)


def _rows(plan: ReadPlan, limit: int) -> pa.RecordBatch | None:
    """Return the rows of a plan; None where more than ``limit`` entries are stored."""
    if plan.stored_rows > limit:
        return None
    schema = plan.arrow_schema()
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    return pa.concat_batches([empty, *plan.read((range(plan.vnode_count),))])


def _length(rows: pa.RecordBatch | None) -> int | None:
    return None if rows is None else rows.num_rows


def _changes_parts(
    statement: DmlStatement, definition: TableDefinition
) -> TypeGuard[Update | DeleteParts]:
    """Return whether a statement changes parts of rows of a document table.

    An UPDATE that gives rows another key writes them whole.
    """
    if isinstance(statement, DeleteParts):
        return True
    if not isinstance(statement, Update) or not _is_of_documents(definition):
        return False
    names = {column.name.lower() for column in definition.schema.key_columns}
    return names.isdisjoint(assignment.column.lower() for assignment in statement.assignments)


def _is_of_documents(definition: TableDefinition) -> bool:
    return definition.properties.encoding == "document"


def _check_ttl(statement: DmlStatement, definition: TableDefinition) -> None:
    """Raise what is wrong with the TTL of a statement."""
    if not isinstance(statement, Insert | Update) or statement.ttl is None:
        return
    check_ttl(definition, statement.ttl)
    if not isinstance(statement, Update) or _changes_parts(statement, definition):
        return
    if _is_of_documents(definition):
        raise errors.OptionError(
            f"UPDATE {definition.name} USING TTL: an UPDATE that changes the key writes whole "
            "rows, and only columns expire alone; change the key in a statement without a TTL"
        )
    raise errors.OptionError(
        f"UPDATE {definition.name} USING TTL: only columns of document tables expire alone; "
        "INSERT the rows USING TTL, or create the table with encoding = 'document'"
    )


def _operation(statement: DmlStatement) -> str:
    if isinstance(statement, Insert) and statement.overwrite:
        return "overwrite"
    return type(statement).__name__.lower()


def _check_allowed(statement: DmlStatement, definition: TableDefinition) -> None:
    """AppendOnlyError if a table does not take a statement."""
    properties = definition.properties
    name = type(statement).__name__.upper()
    only_inserts = (isinstance(statement, Insert) and not statement.overwrite) or (
        isinstance(statement, Merge)
        and all(clause.action.value == "INSERT" for clause in statement.clauses)
    )
    if properties.append_only and not only_inserts:
        raise errors.AppendOnlyError(
            f"{name}: the table {definition.name!r} is append-only: it takes INSERT of new keys"
        )


# --- What a statement read -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadSet:
    """What a statement read of a store: by relations, and the keys of ``created``.

    ``created``: segments to be committed whose keys must be free; None if none need be.
    """

    store: Store
    relations: tuple[Relation, ...]
    created: Created | None = None

    def is_changed_by(self, entry: Entry) -> bool:
        """Tell whether a commit changed what was read."""
        if any(_changes(self.store, relation, entry) for relation in self.relations):
            return True
        return self.created is not None and self.created.is_changed_by(self.store, entry)


@dataclass(frozen=True, slots=True)
class Created:
    """Segments to be committed to the table of a plan, with keys that must be free."""

    plan: ReadPlan
    segments: tuple[SegmentRecord, ...]

    def is_changed_by(self, store: Store, entry: Entry) -> bool:
        """Tell whether a commit changed a row with one of their keys."""
        definition = self.plan.definition
        if not _touches(entry, definition.table_id):
            return False
        names = [column.name for column in definition.schema.key_columns]
        encoding = encoding_of(definition, self.plan.vnode_count)
        sequenced = sequence_segments(self.segments, entry.epoch, definition.table_id)
        created_rows = StorageTable(store.environment, encoding, sequenced, lambda: 0)
        batches = _changed_rows(store, self.plan, entry, names)
        if batches is None:
            return True
        keys = (encoding.conform_keys(batch.select(names)) for batch in batches)
        return any(len(created_rows.get_values(encoding.encode_keys(batch))) for batch in keys)


def _changes(store: Store, relation: Relation, entry: Entry) -> bool:
    definition = relation.plan.definition
    if relation.is_pinned or not _touches(entry, definition.table_id):
        return False
    where = relation.where
    if where is None or not where.columns:
        return True
    batches = _changed_rows(store, relation.plan, entry, where.columns)
    return batches is None or any(where.mask(batch).true_count for batch in batches)


def _touches(entry: Entry, table_id: int) -> bool:
    removed = (*entry.dropped_tables, *entry.based_tables)
    return table_id in removed or any(record.rows(table_id) for record in entry.added)


def _changed_rows(
    store: Store, plan: ReadPlan, entry: Entry, columns: Sequence[str]
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows, before and after, that a commit changed; None if they are unknown."""
    definition = plan.definition
    if definition.table_id in (*entry.dropped_tables, *entry.based_tables):
        return None
    # A statement judges expiry by the clock, a feed by the times of epochs.
    if plan.may_expire or any(record.expiring(definition.table_id) for record in entry.added):
        return None
    try:
        now = store.state_at(entry.epoch).table(definition.name).definition
        if now.schema.version != definition.schema.version:
            return None
        return store.changes(definition.name, entry.epoch, entry.epoch, columns=columns)
    except (errors.UsageError, errors.MissingError):
        return None
