"""A store as a database: statements, tables and writers in one Spark session.

Promises: a query reads all its tables at one epoch, the latest when `sql` is called; each
reference is a separate relation, which reads only the columns that the query may need, and the
rows that its conditions allow; nothing is left in the session. Errors are relstate's, or Spark's
errors about its own SQL.
Does not know: how statements are written (statement), or how they are run (query_reader, ddl_run,
dml_run, view_run).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from relstate.connector.commits import COMMIT_SCHEMA, commit_rows
from relstate.connector.figures.metrics import metric_values, store_metrics
from relstate.connector.s3a_options import s3a_options
from relstate.connector.sink.foreach import ForeachBatchWriter
from relstate.connector.source.interpreter import use_driver_python
from relstate.connector.spark.version import check_version, session_version
from relstate.connector.syntax.parameters import Arguments, bind_arguments
from relstate.connector.views.listener import ViewStreamListener
from relstate.connector.views.refresh import Refreshed
from relstate.connector.views.sessions import is_classic
from relstate.connector.views.stream import Trigger, ViewStream
from relstate.connector.views.views import Views
from relstate.storage import (
    CompactionReport,
    ErasureReport,
    Predicate,
    Rows,
    Store,
    errors,
    parse_instant,
    parse_interval,
)

from . import dml_run
from .apply_changes import ChangeApplier, make_changelog
from .apply_history import ChangeHistory, HistoryApplier
from .change_batches import check_batch
from .change_expressions import Expression
from .check_views import ViewReport, check_views
from .create_as import TableCreator
from .create_table import CreateTableAs
from .ddl_run import DdlRunner
from .debezium import debezium
from .debezium_placeholder import UNAVAILABLE
from .debezium_values import Units
from .dml import DmlStatement
from .dml_run import DmlResult, DmlRunner
from .explain import EXPLAIN_SCHEMA, explain_rows
from .frame_query import FrameQueries
from .frame_write import Mode, write_frame
from .maintenance import maintain
from .maintenance_run import MaintenanceRunner
from .maintenance_statements import MaintenanceStatement
from .properties import ON_ERROR, view_properties
from .query_reader import QueryReader
from .result import Result
from .show import ShowStatement
from .show_run import show
from .source_frame import check_frame
from .statement import Explain, ExplainChange, Query, parse_statement
from .view_ddl import CreateView, ViewStatement
from .view_run import ViewRunner

_ESCAPED_LITERALS = "spark.sql.parser.escapedStringLiterals"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def connect(
    spark: SparkSession, path: str, *, storage_options: Mapping[str, str] | None = None
) -> Database:
    """Return the store at ``path`` as a database of a session.

    ``storage_options``: as in `Store.create`; for S3 the default is the session's settings
    ``spark.hadoop.fs.s3a.*``.
    StoreNotFoundError or NotAStoreError if there is none; SessionError if ``spark`` is not a
    session, is of a version of Spark that relstate does not work with, or has a setting under which
    no Python source can be read. A local Spark for which no
    PYSPARK_PYTHON is set runs the Python that runs this.
    """
    if not hasattr(spark, "conf"):
        raise errors.SessionError(f"connect needs a SparkSession, not {spark!r}")
    check_version(session_version(spark))
    batch_rows = spark.conf.get(_BATCH_ROWS)
    if batch_rows is not None and int(batch_rows) <= 0:
        raise errors.SessionError(
            f"{_BATCH_ROWS} is {batch_rows}, and below 1 Spark cannot read from a Python source: "
            f"spark.conf.unset('{_BATCH_ROWS}') restores the default"
        )
    options = s3a_options(spark, path, storage_options)
    use_driver_python(spark)
    return Database(spark, Store.open(path, storage_options=options))


class Database:
    """A store in one session. Safe between the threads that may use the session."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._spark = spark
        self._store = store
        self._ddl = DdlRunner(store)
        self._dml = DmlRunner(spark, store)
        self._creator = TableCreator(spark, store)
        self._maintenance = MaintenanceRunner(spark, store, self._dml)
        self._frames = FrameQueries(spark, store.path)
        self._views = Views(spark, store)
        self._view_ddl = ViewRunner(self._views)

    def __repr__(self) -> str:
        return f"Database({self._store.path!r})"

    def _repr_html_(self) -> str:
        """Return the tables and views, with their sizes, as notebooks show them."""
        return self._store._repr_html_()

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    @property
    def store(self) -> Store:
        """The store."""
        return self._store

    def maintain(self, table: str | None = None) -> CompactionReport:
        """Compact a table, or all, in Spark tasks of one or more shards each; see `Store.compact`.

        Without files to merge, it runs no job and commits nothing. TableNotFoundError,
        ConflictError if other processes keep compacting.
        """
        return maintain(self._spark, self._store, table)

    def sql(
        self, text: str, args: Arguments | None = None, *, consistent: bool = False
    ) -> DataFrame:
        """Run one statement and return its result as a DataFrame.

        ``args``: the values of parameters, a dict for ``:name`` or a list for ``?``. They become
        literals of the statement, so conditions on them use keys and indexes.
        ``consistent``: a query reads tables at the epoch that the views in it reflect, not at the
        latest; EpochNotFoundError if these views do not reflect one epoch.

        A name in a query is a table or view of the store, or else one of Spark. A statement that
        changes rows commits one epoch, or none if it changes no row, and returns one row: the
        epoch, and how many rows it changed (NULL: not counted).
        UnsupportedStatementError for an unknown statement; MissingError, ExistsError, SchemaError,
        DataError and CommitError as the store raises them.
        """
        if args is not None:
            self._check_literals()
            text = bind_arguments(text, args)
        match parse_statement(text):
            case CreateTableAs() as creation:
                return self._outcome(self._creator.run(creation))
            case Query(query):
                with self._store.one_look():
                    reader = QueryReader(self._spark, self._store)
                    frame = reader.frame(reader.plan(query, consistent=consistent))
                if not consistent:
                    self._frames.note(frame, query)
                return frame
            case Explain(query, mode):
                return self._explain(query, mode)
            case ExplainChange(change, mode):
                rows = explain_rows(*self._dml.plan(change), mode)
                return self._result(Result(rows, EXPLAIN_SCHEMA))
            case dml_statement if isinstance(dml_statement, DmlStatement):
                return self._outcome(self._dml.run(dml_statement))
            case view_statement if isinstance(view_statement, ViewStatement):
                result = self._view_ddl.run(view_statement)
                return self._result(result)
            case show_statement if isinstance(show_statement, ShowStatement):
                result = show(self._store, show_statement)
                return self._result(result)
            case maintenance if isinstance(maintenance, MaintenanceStatement):
                result = self._maintenance.run(maintenance)
                return self._result(result)
            case ddl_statement:
                result = self._ddl.run(ddl_statement)
                return self._result(result)

    def _check_literals(self) -> None:
        if self._spark.conf.get(_ESCAPED_LITERALS) == "true":
            raise errors.SessionError(
                f"{_ESCAPED_LITERALS} is set, under which texts cannot be passed as args: "
                f"spark.conf.unset('{_ESCAPED_LITERALS}')"
            )

    def create_view(
        self,
        name: str,
        frame: DataFrame,
        *,
        or_replace: bool = False,
        parallelism: int | None = None,
        comment: str | None = None,
        cluster_by: str | Sequence[str] = (),
        on_error: Literal["fail", "quarantine"] = "fail",
    ) -> int:
        """Create a materialized view with the rows of a DataFrame.

        Return the epoch at which it is complete. The frame is built from `table` with the DataFrame
        API; its SELECT becomes that of the view. ``or_replace``: as in CREATE OR REPLACE;
        ``cluster_by``: the columns of CLUSTER BY; ``on_error``: as the property. Errors as of
        CREATE MATERIALIZED VIEW; UnsupportedStatementError for a frame that is not a SELECT; over
        Spark Connect for any but a result of `sql`.
        """
        query = self._frames.query_of(frame)
        properties = {} if comment is None else {"comment": comment}
        statement = CreateView(
            name,
            query,
            parallelism,
            False,
            user_properties=properties,
            or_replace=or_replace,
            cluster_by=(cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by),
            quarantines=view_properties({ON_ERROR: on_error}).on_error == "quarantine",
        )
        ((epoch,),) = self._view_ddl.run(statement).rows
        return int(epoch)

    def refresh(self, views: str | Sequence[str] | None = None) -> Refreshed:
        """Refresh views, by default all, and the views that they read to the latest epoch.

        They are refreshed in one commit, or none if nothing changed. ViewNotFoundError,
        ConflictError if other processes keep refreshing them. The error of a view that cannot be
        computed is raised after the others were refreshed.
        """
        return self._views.refresh(_view_names(views))

    def erase(self, table: str, keys: Rows = (), *, dry_run: bool = False) -> ErasureReport:
        """Delete the rows with some primary keys, and remove them from all files of the store.

        As `Store.erase`, after a refresh of all views. The error of a view that cannot be computed
        is raised: the rows are deleted then, and still in files.
        """
        return self._store.jobs.erase(table, keys, self._views.refresh, dry_run=dry_run)

    def check_views(self, views: str | Sequence[str] | None = None) -> tuple[ViewReport, ...]:
        """Compare views, by default all, with their SELECTs, and their state with their inputs.

        It costs as much as creating the views. The report of a view that cannot be checked gives
        the reason. ViewNotFoundError, SessionError.
        """
        return check_views(self._spark, self._store, _view_names(views))

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics of the store by name and labels, as Prometheus writes them.

        They are those of the command ``relstate metrics``: sizes of tables, lag of views, files.
        """
        return metric_values(store_metrics(self._store))

    def stream(
        self,
        views: str | Sequence[str] | None = None,
        *,
        trigger: str | float | None = None,
        available_now: bool = False,
        query_name: str | None = None,
        listener: ViewStreamListener | None = None,
        stop_on_failure: bool = False,
    ) -> ViewStream:
        """Refresh views, by default all, as their tables change, until the stream is stopped.

        ``trigger``: how long to wait between two checks (seconds, or an interval such as
        ``'200 milliseconds'``), None for no wait. ``available_now``: process the current changes,
        then end. ``query_name``: its name. ``listener``: called for commits, refreshes and views
        that fail. ``stop_on_failure``: a view that cannot be computed ends the stream; by default
        it goes on with the others. ViewNotFoundError, OptionError.
        """
        if trigger is not None and available_now:
            raise errors.OptionError("trigger and available_now exclude each other; give one")
        seconds = 0.0 if trigger is None else _trigger_seconds(trigger)
        stream_trigger = Trigger(seconds, available_now, stop_on_failure)
        names = _view_names(views)
        return ViewStream(self._views, names, stream_trigger, query_name, listener).start()

    def table(
        self,
        name: str,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> DataFrame:
        """Return a DataFrame of a table at a fixed epoch, by default the latest.

        ``where``: a condition in SQL, as in the read option of this name; conditions on the key or
        an index become lookups. ``columns``: their names, by default all. ``version``: the epoch;
        ``timestamp``: a time, for the latest epoch then; a text without a zone is in UTC.
        OptionError if both are given or a datetime has no zone, TableNotFoundError,
        SchemaMismatchError for an unknown column, UnsupportedExpressionError; EpochNotFoundError,
        EpochExpiredError or ViewNotPopulatedError if it cannot be read.
        """
        if timestamp is not None:
            if version is not None:
                raise errors.OptionError("version and timestamp both name an epoch; give one")
            time = parse_instant(timestamp) if isinstance(timestamp, str) else timestamp
            version = self._store.epoch_at(time)
        reader = QueryReader(self._spark, self._store)
        epoch = reader.epoch if version is None else version
        plan = self._store.read_plan(name, epoch=epoch, columns=columns)
        self._store.state_at(epoch).check_populated(plan.definition.table_id)
        if where is not None:
            schema = plan.definition.schema
            return reader.source(plan, Predicate.parse(where, schema, reader.session.time_zone))
        return reader.latest_relation(plan) if version is None else reader.source(plan)

    def write(
        self,
        frame: DataFrame,
        table: str,
        mode: Mode = "append",
        *,
        primary_key: Sequence[str] | None = None,
        bad_rows: Literal["fail", "quarantine"] | None = None,
    ) -> int:
        """Write the rows of a DataFrame to a table as one epoch and return it.

        ``mode``: for an existing table, ``append`` upserts the rows and ``overwrite`` replaces all
        rows. ``errorifexists`` and ``ignore`` create a table with the columns of the DataFrame and
        ``primary_key``, if given; if the table exists, ``ignore`` writes nothing. Columns are
        matched by name; a missing column is NULL or its default. For options such as a TTL, use
        ``frame.write.format("relstate")``.
        ``bad_rows``: what becomes of a row that breaks a rule of an existing table: ``'fail'`` (the
        default) or ``'quarantine'``, see the option ``badRows``.
        OptionError, TableNotFoundError, TableExistsError, SchemaMismatchError, DataError.
        """
        return write_frame(self._store, frame, table, mode, primary_key, bad_rows)

    def history(self, table: str | None = None, limit: int | None = None) -> DataFrame:
        """Return the commits, the newest first; for a table, only those that changed it.

        Columns: see `COMMIT_SCHEMA`. ``limit``: the maximum number of commits.
        """
        return self._result(Result(commit_rows(self._store, table, limit), COMMIT_SCHEMA))

    def writer(
        self,
        table: str,
        *,
        txn_app_id: str | None = None,
        op_column: str | None = None,
        clustered: bool = False,
        partitions: int | None = None,
        ttl: str | int | None = None,
        ttl_column: str | None = None,
        patch: bool = False,
        bad_rows: Literal["fail", "quarantine"] | None = None,
    ) -> ForeachBatchWriter:
        """Return a function for ``foreachBatch`` that upserts each micro-batch exactly once.

        ``txn_app_id`` replaces the id of the query, which Spark Connect does not pass on.
        ``op_column`` names the column that says insert, update or delete; with ``clustered`` you
        promise that the changes of a key are in one partition, in order, which is required unless
        the table has a version column. ``ttl``: after how long the rows expire (seconds, or
        ``'7 days'``); ``ttl_column`` names a column with the seconds of each row.
        ``patch``: the rows change parts of rows of a document table: see docs/documents.md.
        ``bad_rows``: what becomes of a row that breaks a rule of the table: ``'fail'`` (the
        default) or ``'quarantine'``, see the option ``badRows``.
        ``partitions``: how many tasks write, each a range of vnodes; without it, rows are
        shuffled only if they are in more partitions than can run at once.
        TableNotFoundError if there is no such table, OptionError for arguments that do not fit.
        """
        self._check_application(txn_app_id)
        return ForeachBatchWriter(
            self._store.jobs.write_target(table),
            txn_app_id,
            op_column,
            partitions,
            clustered,
            None if ttl is None else str(ttl),
            ttl_column,
            patch,
            bad_rows,
        )

    def apply_changes(
        self,
        target: str,
        source: DataFrame,
        keys: Sequence[Expression],
        sequence_by: Expression,
        apply_as_deletes: Expression | None = None,
        apply_as_truncates: Expression | None = None,
        column_list: Sequence[Expression] | None = None,
        except_column_list: Sequence[Expression] | None = None,
        stored_as_scd_type: Literal[1, 2, "1", "2"] = 1,
        track_history_column_list: Sequence[Expression] | None = None,
        track_history_except_column_list: Sequence[Expression] | None = None,
        *,
        checkpoint: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        txn_app_id: str | None = None,
        txn_version: int | None = None,
    ) -> StreamingQuery | None:
        """Apply a source of changes to a table: Spark's AUTO CDC with its arguments.

        ``keys`` are the table's; ``sequence_by`` (an expression in SQL, or a Column) orders the
        changes of a key, and is stored in the table's version column, which it must have. Rows for
        which ``apply_as_deletes`` is true delete; all others upsert, as the table merges rows.
        ``column_list`` or ``except_column_list``: which columns are stored.

        ``stored_as_scd_type=2`` keeps the history: the target is a materialized view that the first
        call creates, over a table ``<target>_changes`` of all changes. It has a row for each state
        of a key, with the sequences ``__START_AT`` and ``__END_AT``. A change begins a new state if
        it changes a column of ``track_history_column_list`` (by default any column).

        A batch is applied when this returns; once, if ``txn_app_id`` and ``txn_version`` identify
        it. A stream needs ``checkpoint``, a folder; its started query is returned, which applies
        every micro-batch once; ``trigger``: the arguments of ``DataStreamWriter.trigger``; Spark
        Connect needs ``txn_app_id``. OptionError, SchemaMismatchError, TableNotFoundError.
        """
        check_frame(source, "db.apply_changes")
        if apply_as_truncates is not None:
            raise errors.OptionError(
                "apply_as_truncates is not offered, because a truncate has no position among "
                "changes that may arrive in any order; run TRUNCATE TABLE"
            )
        if source.isStreaming:
            self._check_application(txn_app_id)
        else:
            check_batch(checkpoint, trigger, query_name)
        tracked = (track_history_column_list, track_history_except_column_list)
        columns = (column_list, except_column_list)
        if str(stored_as_scd_type) == "2":
            history = ChangeHistory.of(
                source, keys, sequence_by, apply_as_deletes, *columns, *tracked
            )
            history_applier = HistoryApplier.create(
                self._views, target, history, source, txn_app_id
            )
            if source.isStreaming:
                return history_applier.start(source, checkpoint, trigger, query_name)
            history_applier.run(self._views, source, txn_version)
            return None
        if str(stored_as_scd_type) != "1" or any(names is not None for names in tracked):
            raise errors.OptionError(
                f"stored_as_scd_type is {stored_as_scd_type!r}: pass 1 for the current rows, or 2 "
                "for their history; the lists track_history_… need 2"
            )
        write_target = self._store.jobs.write_target(target)
        changelog = make_changelog(
            write_target, source, keys, sequence_by, apply_as_deletes, *columns
        )
        applier = ChangeApplier(write_target, changelog, txn_app_id)
        if source.isStreaming:
            return applier.start(source, checkpoint, trigger, query_name)
        applier.run(source, txn_version)
        return None

    def debezium(
        self,
        frame: DataFrame,
        schema: str | StructType,
        *,
        value: str = "value",
        key: str | None = None,
        sequence_by: str | None = None,
        timestamps: Units | None = None,
        unavailable_value: str = UNAVAILABLE,
    ) -> DataFrame:
        """Return Debezium's change events as rows for `apply_changes`: see `debezium.debezium`."""
        return debezium(
            frame,
            schema,
            value=value,
            key=key,
            sequence_by=sequence_by,
            timestamps=timestamps,
            unavailable_value=unavailable_value,
        )

    def _check_application(self, application: str | None) -> None:
        """OptionError for a writer of micro-batches that cannot know its query."""
        if application is None and not is_classic(self._spark):
            raise errors.OptionError(
                "txn_app_id is missing: under Spark Connect, foreachBatch cannot identify its "
                "query; pass a name that is unique to this stream, and a new one with a new "
                "checkpoint"
            )

    def _explain(self, text: str, mode: str) -> DataFrame:
        reader = QueryReader(self._spark, self._store)
        query, frame = reader.settled_frame(reader.plan(text))
        return self._result(Result(explain_rows(query, frame, mode), EXPLAIN_SCHEMA))

    def _outcome(self, result: DmlResult) -> DataFrame:
        """Return the row of a statement; Spark collects it without a job."""
        return self._spark.createDataFrame(result.table(), dml_run.SCHEMA)

    def _result(self, result: Result) -> DataFrame:
        """Return the rows of a statement; Spark collects them without a job."""
        return self._spark.createDataFrame(result.table(), result.schema)


def _view_names(views: str | Sequence[str] | None) -> Sequence[str] | None:
    return [views] if isinstance(views, str) else views


def _trigger_seconds(trigger: str | float) -> float:
    """Return a trigger's interval in seconds. OptionError for anything else."""
    try:
        seconds = float(parse_interval(trigger)) if isinstance(trigger, str) else float(trigger)
    except ValueError as error:
        raise errors.OptionError(f"trigger is {trigger!r}: {error}") from None
    if seconds < 0:
        raise errors.OptionError(f"trigger is {trigger!r}; it cannot be negative")
    return seconds
