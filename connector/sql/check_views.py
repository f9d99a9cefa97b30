"""The check of views: a view's rows against its SELECT, and its state against its inputs.

Promises: Spark runs the SELECT over the rows that the inputs had at the epochs which the view
reflects, with the columns that they had when it was created, and under the settings of its
creation; rows in its quarantine are left out of them; nothing is changed; a view that cannot be
checked does not stop the check of the others. Does not know: how views are maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s
from pyspark.sql.window import Window

from relstate.connector.failure import describe_error
from relstate.connector.spark.version import session_version, version_numbers
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import query_at
from relstate.connector.syntax.tokens import quoted
from relstate.connector.types import struct_of
from relstate.connector.views.checked_epochs import checked_epochs
from relstate.connector.views.determined import Determined, determined_fields
from relstate.connector.views.lineage import is_replacement, view_ids
from relstate.connector.views.plan.materialize import Materialize
from relstate.connector.views.quarantine import RowSelection, key_codec
from relstate.connector.views.rebuild import TOLERANCE, find_differences
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.sessions import Sessions, batch_sessions, keep_active_session
from relstate.connector.views.signed import signed_fields
from relstate.connector.views.viewplan import creator_of
from relstate.storage import (
    CatalogView,
    ReadPlan,
    Store,
    StoreState,
    TableSchema,
    arrow,
    errors,
    types,
)
from relstate.storage import Column as TableColumn

from .query_reader import QueryReader

_NUMBER = "__relstate_number"


@dataclass(frozen=True, slots=True)
class ViewReport:
    """The problems of one view at the epoch that it reflects; a correct view has none."""

    view: str
    reflects: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def check_views(
    spark: SparkSession,
    store: Store,
    names: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[ViewReport, ...]:
    """Return a report of every view, by default of all. ViewNotFoundError, SessionError.

    If a view cannot be checked, the reason is one of its problems. ``progress`` takes how many
    views are done, and of how many.
    """
    state = store.state
    runner, sessions = JobRunner(spark, store), batch_sessions(spark)
    checked = [view_id for view_id in view_ids(state, names) if not is_replacement(state, view_id)]
    reports: list[ViewReport] = []
    with keep_active_session(spark):
        for view_id in checked:
            if progress is not None:
                progress(len(reports), len(checked))
            reports.append(_report(sessions, runner, state, state.views[view_id]))
    return tuple(reports)


def _report(
    sessions: Sessions, runner: JobRunner, state: StoreState, view: CatalogView
) -> ViewReport:
    name = state.name_of(view.view_id)
    if not view.progress.is_populated:
        return ViewReport(name, view.progress.reflects, ("it is not filled yet: refresh it",))
    problems: list[str] = []
    try:
        differences = list(_against_select(sessions, runner, state, view))
        problems += [problem + _other_version(sessions, view) for problem in differences]
        problems += find_differences(runner, view.view_id)
    except errors.SessionError:
        raise
    except Exception as error:
        problems.append(f"{name}: it cannot be checked: {describe_error(error)}")
    return ViewReport(name, view.progress.reflects, tuple(problems))


def _other_version(sessions: Sessions, view: CatalogView) -> str:
    """Return what a difference may come from if another version of Spark has created a view."""
    creator, version = creator_of(view.definition.plan), session_version(sessions.spark)
    if creator is None or version_numbers(creator)[:2] == version_numbers(version)[:2]:
        return ""
    return (
        f"; Spark {creator} has created it, and this is Spark {version}: if a function of its "
        "SELECT has changed, create the view again"
    )


def _against_select(
    sessions: Sessions, runner: JobRunner, state: StoreState, view: CatalogView
) -> Iterator[str]:
    """Yield the differences between the rows of a view and those of its SELECT."""
    store, name = runner.store, state.name_of(view.view_id)
    session = sessions.of(view.definition.settings)
    quarantine = runner.quarantine_of(state, view.view_id)
    plan = runner.plan_of(state, view.view_id)
    selections = {} if quarantine is None else quarantine.selections(plan)
    expected = select_frame(session, store, state, view, selections)
    own = QueryReader(session, store, {view.view_id: state.epoch})
    actual = own.frame(own.plan(f"SELECT * FROM {quoted(name)}"))
    root = plan.root
    determined = determined_fields(root)
    if determined is None:
        return
    actual, expected = (_determined_part(frame, root, determined) for frame in (actual, expected))
    actual, expected = (_with_signs(frame, root, determined) for frame in (actual, expected))
    missing, surplus, example = _compare(actual, expected)
    if missing or surplus:
        yield (
            f"{name}: {missing} rows of its SELECT are missing, and {surplus} of its rows are not "
            f"in its SELECT; for example {example}"
        )


def _determined_part(frame: DataFrame, root: Materialize, determined: Determined) -> DataFrame:
    """Return the rows with the columns that the SELECT determines; with a constant if none is.

    Of an array whose order it leaves open they have the sorted elements.
    """
    fields = frame.schema.fields
    frame = frame.toDF(*(f"c{index}" for index in range(len(fields))))
    columns = []
    for index, (column, (_, name)) in enumerate(zip(fields, root.visible, strict=True)):
        if name in determined.exact:
            columns.append(f.col(f"c{index}"))
        elif name in determined.unordered and not _has_no_order(column.dataType):
            columns.append(f.sort_array(f"c{index}"))
    return frame.select(columns or [f.lit(True)])


def _with_signs(frame: DataFrame, root: Materialize, determined: Determined) -> DataFrame:
    """Return the determined rows with the zeros of floats as text, in which -0 is not 0.

    Of the fields whose values are those of rows; which row it is has to be determined, too.
    """
    if not determined.has(name for _, name in root.visible):
        return frame
    signed = signed_fields(root)
    zeros = [
        f.when(f.col(name) == 0, f.col(name).cast("string")).alias(f"{name}_zero")
        for name, (_, field) in zip(frame.columns, root.visible, strict=True)
        if field in signed and _is_float(frame.schema[name])
    ]
    return frame.select("*", *zeros)


def _compare(actual: DataFrame, expected: DataFrame) -> tuple[int, int, str]:
    """Return how many rows are missing, how many are surplus, and one of them.

    Rows are paired by all columns that are not floats, and equal ones in the order of the floats;
    floats of a pair may differ by a fraction of the greatest magnitude.
    """
    names = [f"c{index}" for index in range(len(actual.columns))]
    actual, expected = (_comparable(frame.toDF(*names)) for frame in (actual, expected))
    floats = [field.name for field in actual.schema.fields if _is_float(field)]
    actual, expected = (_numbered(frame, names, floats) for frame in (actual, expected))
    keys = [_NUMBER, *(name for name in names if name not in floats)]
    left, right = actual.alias("l"), expected.alias("r")
    condition = f.lit(True)
    for key in keys:
        condition = condition & f.col(f"l.{key}").eqNullSafe(f.col(f"r.{key}"))
    tolerance = TOLERANCE * max(1.0, _magnitude(actual, floats), _magnitude(expected, floats))
    joined = left.join(right, condition, "full")
    pairs = f.col(f"l.{_NUMBER}").isNotNull() & f.col(f"r.{_NUMBER}").isNotNull()
    for name in floats:
        joined = joined.withColumn(
            f"same_{name}", _close(f.col(f"l.{name}"), f.col(f"r.{name}"), tolerance)
        )
        pairs = pairs & f.col(f"same_{name}")
    wrong = joined.where(~f.coalesce(pairs, f.lit(False)))
    sides = [f.count(f.col(f"{side}.{_NUMBER}")) for side in ("r", "l")]
    missing, surplus = wrong.select(*sides).collect()[0]
    example = wrong.first() if missing or surplus else None
    return missing, surplus, str(example)


def _comparable(frame: DataFrame) -> DataFrame:
    """Return a frame in which what Spark cannot compare is text: maps, variants, untyped NULLs."""
    columns = [
        f.to_json(f.struct(field.name)).alias(field.name)
        if _has_no_order(field.dataType)
        else f.col(field.name)
        for field in frame.schema.fields
    ]
    return frame.select(*columns)


def _has_no_order(data_type: s.DataType) -> bool:
    match data_type:
        case s.ArrayType():
            return _has_no_order(data_type.elementType)
        case s.StructType():
            return any(_has_no_order(field.dataType) for field in data_type.fields)
    return isinstance(data_type, s.MapType | s.VariantType | s.NullType)


def _numbered(frame: DataFrame, names: Sequence[str], floats: Sequence[str]) -> DataFrame:
    """Return a frame that numbers rows which differ in floats only."""
    group = [f.col(name) for name in names if name not in floats]
    order = [f.col(name) for name in floats] or [f.lit(0)]
    window = Window.partitionBy(*group).orderBy(*order)
    return frame.withColumn(_NUMBER, f.row_number().over(window))


def _magnitude(frame: DataFrame, floats: Sequence[str]) -> float:
    if not floats:
        return 0.0
    finite = [
        f.max(f.when(f.abs(name) < float("inf"), f.abs(name)).cast("double")) for name in floats
    ]
    row = frame.select(*finite).first() or ()
    return max([0.0, *(float(value) for value in row if value is not None)])


def _close(left: Column, right: Column, tolerance: float) -> Column:
    return left.eqNullSafe(right) | (f.abs(left - right) <= tolerance)


def _is_float(field: s.StructField) -> bool:
    return isinstance(field.dataType, s.FloatType | s.DoubleType)


# The SELECT of a view, over its inputs with the columns that they had when it was created: a column
# that came later is in no ``*``, and hides no alias and no column of another table.


def select_frame(
    spark: SparkSession,
    store: Store,
    state: StoreState,
    view: CatalogView,
    selections: Mapping[int, RowSelection] = MappingProxyType({}),
) -> DataFrame:
    """Return the rows of a view's SELECT at the epochs, and the present time, of its progress.

    ``selections``: by the ids of its inputs, of the rows that are not in its quarantine.
    """
    epochs, clock = checked_epochs(state, view), view.progress.clock
    created = view.definition.planned_epoch or state.tables[view.view_id].definition.created_epoch
    query, reader = ParsedQuery.parse(view.definition.query), QueryReader(spark, store)
    if clock is not None:
        query = query_at(query, clock.time)
    references = query.table_references(lambda name, as_of: True)
    frames: dict[str, Any] = {}
    for number, reference in enumerate(references):
        table_id = state.table(reference.name).definition.table_id
        # What only an unread common table names is no input, and has no epoch of its own.
        epoch = epochs.get(table_id, state.epoch)
        # The table may have had another name then.
        plan = store.read_plan(store.state_at(epoch).name_of(table_id), epoch=epoch)
        if clock is not None:
            plan = replace(plan, time=clock.time)
        schema = _schema_at(store, plan, created)
        columns_by_name = {column.name: column for column in schema.visible_columns}
        names = query.columns_read(list(columns_by_name)) or tuple(columns_by_name)[:1]
        frames[f"relation_{number}"] = _input_frame(
            reader, plan, [columns_by_name[name] for name in names], selections.get(table_id)
        )
    if not frames:
        # Without relations the text is not a template: Spark leaves its braces as they are.
        return spark.sql(query.text)
    return spark.sql(query.replaced(references, list(frames)), **frames)


def _schema_at(store: Store, plan: ReadPlan, epoch: int) -> TableSchema:
    """Return the schema that a table had at an epoch, even if that epoch has expired."""
    if not plan.definition.older_schemas:
        return plan.definition.schema
    return next(
        definition.schema
        for entry in store.history()
        if entry.epoch <= epoch
        for definition in (*entry.altered_tables, *entry.created_tables)
        if definition.table_id == plan.definition.table_id
    )


def _input_frame(
    reader: QueryReader,
    plan: ReadPlan,
    columns: list[TableColumn],
    selection: RowSelection | None = None,
) -> DataFrame:
    """Return a table's rows with columns that it had when the view was created.

    ``selection``: of the rows; None for all. A column that was dropped or got another type since is
    NULL: the view does not read it.
    """
    schema = plan.definition.schema
    now = {(column.id, column.type): column.name for column in schema.columns}
    read = [now[column.id, column.type] for column in columns if (column.id, column.type) in now]
    key = [column.name for column in schema.key_columns]
    names = read or key[:1]
    if selection is not None:
        names = list(dict.fromkeys((*names, *key)))
    frame = reader.relation(replace(plan, columns=tuple(names)))
    if selection is not None:
        frame = _without_keys(frame, key, selection)
    return frame.select(
        [_input_column(now.get((column.id, column.type)), column) for column in columns]
    )


def _without_keys(frame: DataFrame, key: Sequence[str], selection: RowSelection) -> DataFrame:
    """Return the rows of a table that a selection does not leave out.

    Spark evaluates nothing of a query over them for the others: it would move conditions, and keys
    of joins, below the anti join, but moves none through a filter that is not deterministic.
    """
    fields = [selection.scan.type_of(name) for name in selection.scan.primary_key]
    numbered = [types.Field(f"k{number}", of) for number, of in enumerate(fields)]
    columns = key_codec(selection.scan).decode(selection.left_out)
    rows = pa.Table.from_arrays(columns, schema=arrow.arrow_schema(numbered))
    left_out = frame.sparkSession.createDataFrame(rows, struct_of(numbered))
    condition = f.lit(True)
    for name, field in zip(key, numbered, strict=True):
        condition = condition & frame[quoted(name)].eqNullSafe(left_out[field.name])
    rows = frame.join(left_out, condition, "left_anti")
    return rows.where(f.monotonically_increasing_id() >= 0)


def _input_column(name: str | None, column: TableColumn) -> Column:
    if name is not None:
        return f.col(quoted(name)).alias(column.name)
    return f.lit(None).cast(struct_of([column.field]).fields[0].dataType).alias(column.name)
