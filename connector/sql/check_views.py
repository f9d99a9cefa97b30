"""The check of views: each against its SELECT, and its state against its inputs.

Promises: the SELECT is run by Spark over the inputs as of the very epochs that the view has taken
in, under the settings it was created under; nothing is changed; a view that cannot be checked keeps
no other from it.
Does not know: how views are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s
from pyspark.sql.window import Window

from relstate.connector.failure import describe_error
from relstate.connector.syntax.tokens import quoted
from relstate.connector.views.lineage import view_ids
from relstate.connector.views.plan.node import walk
from relstate.connector.views.plan.stateful import Materialize, TopN
from relstate.connector.views.rebuild import TOLERANCE, differences
from relstate.connector.views.refresh import Refresher
from relstate.connector.views.sessions import Sessions, batch_sessions, undisturbed
from relstate.storage import CatalogView, Store, StoreState, errors

from .inputs import select_frame
from .query_reader import QueryReader

_PLACE = "__relstate_place"


@dataclass(frozen=True, slots=True)
class ViewReport:
    """What was found of one view at an epoch of its tables; no problem is a view that is right."""

    view: str
    reflects: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def check_views(
    spark: SparkSession, store: Store, names: Sequence[str] | None = None
) -> tuple[ViewReport, ...]:
    """Return what is wrong with views, by default with all. ViewNotFoundError, SessionError.

    Why a view cannot be checked is wrong with it, too.
    """
    state = store.state
    refresher, sessions = Refresher(spark, store), batch_sessions(spark)
    with undisturbed(spark):
        return tuple(
            _report(sessions, refresher, state, state.views[view_id])
            for view_id in view_ids(state, names)
        )


def _report(
    sessions: Sessions, refresher: Refresher, state: StoreState, view: CatalogView
) -> ViewReport:
    name = state.name_of(view.view_id)
    if not view.progress.is_populated:
        return ViewReport(name, view.progress.reflects, ("it is not filled yet: refresh it",))
    problems: list[str] = []
    try:
        problems += _against_select(sessions, refresher, state, view)
        problems += differences(refresher, view.view_id)
    except errors.SessionError:
        raise
    except Exception as error:
        problems.append(f"{name}: it cannot be checked: {describe_error(error)}")
    return ViewReport(name, view.progress.reflects, tuple(problems))


def _against_select(
    sessions: Sessions, refresher: Refresher, state: StoreState, view: CatalogView
) -> Iterator[str]:
    """Yield how the rows of a view differ from those of its SELECT."""
    store, name = refresher.store, state.name_of(view.view_id)
    session = sessions.of(view.definition.settings)
    expected = select_frame(session, store, state, view)
    own = QueryReader(session, store, {view.view_id: state.epoch})
    found = own.frame(own.plan(f"SELECT * FROM {quoted(name)}"))
    if has_ties(refresher.plan_of(state, view.view_id).root):
        counts = found.count(), expected.count()
        if counts[0] != counts[1]:
            yield f"{name}: {counts[0]} rows, but its SELECT has {counts[1]}"
        return
    missing, surplus, example = _compared(found, expected)
    if missing or surplus:
        yield (
            f"{name}: {missing} rows of its SELECT are missing and {surplus} are there that it "
            f"does not have; for example {example}"
        )


def has_ties(plan: Materialize) -> bool:
    """Return whether rows that an order does not tell apart decide what a plan's SELECT gives."""
    tops = [node for node in walk(plan) if isinstance(node, TopN)]
    return any(
        not set(top.child.key) <= {*top.group, *(one.name for one in top.order)} for top in tops
    )


def _compared(found: DataFrame, expected: DataFrame) -> tuple[int, int, str]:
    """Return how many rows are missing, how many too many, and one of them.

    Rows are paired by all columns but those of floats, and among equal ones by these in order;
    floats of a pair may differ by a share of the greatest magnitude.
    """
    names = [f"c{place}" for place in range(len(found.columns))]
    one, other = (_comparable(frame.toDF(*names)) for frame in (found, expected))
    floats = [field.name for field in one.schema.fields if _is_float(field)]
    one, other = (_placed(frame, names, floats) for frame in (one, other))
    keys = [_PLACE, *(name for name in names if name not in floats)]
    left, right = one.alias("l"), other.alias("r")
    condition = f.lit(True)
    for key in keys:
        condition = condition & f.col(f"l.{key}").eqNullSafe(f.col(f"r.{key}"))
    tolerance = TOLERANCE * max(1.0, _magnitude(one, floats), _magnitude(other, floats))
    joined = left.join(right, condition, "full")
    pairs = f.col(f"l.{_PLACE}").isNotNull() & f.col(f"r.{_PLACE}").isNotNull()
    for name in floats:
        joined = joined.withColumn(
            f"same_{name}", _close(f.col(f"l.{name}"), f.col(f"r.{name}"), tolerance)
        )
        pairs = pairs & f.col(f"same_{name}")
    wrong = joined.where(~f.coalesce(pairs, f.lit(False)))
    sides = [f.count(f.col(f"{side}.{_PLACE}")) for side in ("r", "l")]
    missing, surplus = wrong.select(*sides).collect()[0]
    example = wrong.first() if missing or surplus else None
    return missing, surplus, str(example)


def _comparable(frame: DataFrame) -> DataFrame:
    """Return a frame in which what has no order in Spark, maps and variants, is text."""
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
    return isinstance(data_type, s.MapType | s.VariantType)


def _placed(frame: DataFrame, names: Sequence[str], floats: Sequence[str]) -> DataFrame:
    others = [f.col(name) for name in names if name not in floats]
    order = [f.col(name) for name in floats] or [f.lit(0)]
    window = Window.partitionBy(*others).orderBy(*order)
    return frame.withColumn(_PLACE, f.row_number().over(window))


def _magnitude(frame: DataFrame, floats: Sequence[str]) -> float:
    if not floats:
        return 0.0
    finite = [
        f.max(f.when(f.abs(name) < float("inf"), f.abs(name)).cast("double")) for name in floats
    ]
    row = frame.select(*finite).first() or ()
    return max([0.0, *(float(value) for value in row if value is not None)])


def _close(one: Column, other: Column, tolerance: float) -> Column:
    return one.eqNullSafe(other) | (f.abs(one - other) <= tolerance)


def _is_float(field: s.StructField) -> bool:
    return isinstance(field.dataType, s.FloatType | s.DoubleType)
