"""A query with the store's tables in it: which relation stands for each reference.

Promises: every reference is a relation of its own, at the query's one epoch unless it names
another; it reads only the columns the query may need, and of the rows only those that its
conditions leave.
Does not know: what the query is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import unwrapped
from relstate.connector.syntax.parsed_query import AsOf, ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree
from relstate.connector.types import named_columns, passes_as_is, struct_type
from relstate.storage import (
    Predicate,
    ReadPlan,
    Store,
    StoreState,
    errors,
    iso_time,
    moment_of,
)

from .analysis_error import in_names_of_query
from .consistency import consistent_epochs
from .pruning import pruning_conjuncts

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_CONDITION = 1 << 20
_MOST_LOOKUPS = 64


@dataclass(frozen=True, slots=True)
class Relation:
    """The read of one reference.

    ``conjuncts``: the conditions of the query that the read evaluates, ``where`` all of them, None
    if there are none. ``is_pinned``: the query names its epoch.
    """

    reference: TableReference
    plan: ReadPlan
    conjuncts: tuple[Tree, ...]
    where: Predicate | None
    is_pinned: bool

    @property
    def read(self) -> ReadPlan:
        """The plan with its condition."""
        return replace(self.plan, where=self.where)


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query at one epoch, and the relations for its references to the store's tables."""

    query: ParsedQuery
    epoch: int
    relations: tuple[Relation, ...]


@dataclass(frozen=True)
class Session:
    """What of a session's settings tells how it reads conditions. Not slotted: read once."""

    spark: SparkSession

    @cached_property
    def time_zone(self) -> str:
        """The time zone of its timestamps without one."""
        return self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    @cached_property
    def is_ansi(self) -> bool:
        """Whether it is in ANSI mode."""
        return self._is("spark.sql.ansi.enabled", "true")

    @cached_property
    def reads_conditions(self) -> bool:
        """Whether conditions mean to it what they mean to a read: it is in ANSI mode, and literals
        are those of Spark's own dialect.
        """
        return (
            self.is_ansi
            and not self._is("spark.sql.parser.escapedStringLiterals", "false")
            and not self._is("spark.sql.ansi.doubleQuotedIdentifiers", "false")
        )

    def _is(self, name: str, default: str) -> bool:
        return str(self.spark.conf.get(name, default)).lower() == "true"


class QueryPlanner:
    """Plans queries over one store. For one statement."""

    def __init__(
        self, spark: SparkSession, store: Store, epochs: Mapping[int, int] | None = None
    ) -> None:
        """``epochs``: of tables, by id, that are not to be read at the latest epoch."""
        self._epochs = epochs or {}
        self._spark = spark
        self._store = store
        self._session = Session(spark)
        self._state = store.state
        self._time = moment_of(store.environment.now())
        self._states: dict[AsOf, StoreState] = {}

    @property
    def epoch(self) -> int:
        """The epoch at which everything is read that names none."""
        return self._state.epoch

    @property
    def session(self) -> Session:
        """The session's settings."""
        return self._session

    def plan(self, text: str, *, consistent: bool = False) -> PlannedQuery:
        """Return a query with its relations. UnsupportedStatementError if it cannot be read.

        ``consistent``: tables are read at the epoch that the views among them reflect;
        EpochNotFoundError if they do not reflect one.
        """
        query = _parsed(text)
        references = query.table_references(self._is_table)
        epochs = self._epochs
        if consistent:
            read = (self._id_of(reference) for reference in references if reference.as_of is None)
            epochs = consistent_epochs(self._store, self._state, read)
        plans = [self._read_plan(reference, epochs) for reference in references]
        conditions = self._conditions(query, references, plans)
        relations = tuple(
            Relation(reference, _with_columns(plan, query), *condition, reference.as_of is not None)
            for reference, plan, condition in zip(references, plans, conditions, strict=True)
        )
        return PlannedQuery(query, self.epoch, relations)

    def frame(self, planned: PlannedQuery) -> DataFrame:
        """Return the rows of a planned query."""
        with in_names_of_query(_columns_of(planned), list(self._state.table_ids)):
            return self._spark_frame(planned)

    def _spark_frame(self, planned: PlannedQuery) -> DataFrame:
        if not planned.relations:
            return self._spark.sql(planned.query.text)
        frames: dict[str, Any] = {
            f"relation_{number}": self.relation(relation.plan, relation.where)
            for number, relation in enumerate(planned.relations)
        }
        references = [relation.reference for relation in planned.relations]
        return self._spark.sql(planned.query.replaced(references, list(frames)), **frames)

    def relation(self, plan: ReadPlan, where: Predicate | None = None) -> DataFrame:
        """Return a table as a relation; its schema is given, so that Spark asks no worker.

        Where only a few keys can match, their rows are looked up here and now: that takes less
        than to tell a task.
        """
        schema = struct_type(named_columns(plan.definition.schema, plan.columns))
        if where is not None and _is_lookup(plan, where):
            return self._spark.createDataFrame(_looked_up(plan, where), schema)
        reader = self._spark.read.format("relstate").schema(schema)
        reader = reader.options(table=plan.definition.name, versionAsOf=plan.epoch)
        # The latest epoch is named too, so that all references read one; it is judged by the clock.
        reader = reader.option("expiresBy", iso_time(plan.time))
        if where is not None:
            reader = reader.option("boundCondition", where.json)
        with unwrapped():
            return reader.load(self._store.path)

    # Which tables, and of when

    def _is_table(self, name: str, as_of: AsOf | None) -> bool:
        states = (self._state, self._state_of(as_of))
        return any(name.lower() in state.table_ids for state in states)

    def _state_of(self, as_of: AsOf | None) -> StoreState:
        if as_of is None:
            return self._state
        if as_of not in self._states:
            self._states[as_of] = self._store.state_at(self._epoch_of(as_of))
        return self._states[as_of]

    def _epoch_of(self, as_of: AsOf) -> int:
        if as_of.version is not None:
            return as_of.version
        # Spark knows what the text means, and in which time zone.
        with unwrapped():
            micros = self._spark.sql(
                f"SELECT unix_micros(CAST({as_of.timestamp} AS TIMESTAMP))"
            ).collect()[0][0]
        return self._store.epoch_at(_BEGINNING + timedelta(microseconds=micros))

    def _id_of(self, reference: TableReference) -> int:
        return self._state_of(reference.as_of).table(reference.name).definition.table_id

    def _read_plan(self, reference: TableReference, epochs: Mapping[int, int]) -> ReadPlan:
        table_id, state = self._id_of(reference), self._state_of(reference.as_of)
        state.check_populated(table_id)
        if reference.as_of is not None:
            return self._store.read_plan(reference.name, epoch=state.epoch)
        if table_id in epochs:
            return self._store.read_plan(reference.name, epoch=epochs[table_id])
        return self._store.read_plan(reference.name, epoch=self.epoch, time=self._time)

    # Which rows

    def _conditions(
        self,
        query: ParsedQuery,
        references: Sequence[TableReference],
        plans: Sequence[ReadPlan],
    ) -> list[tuple[tuple[Tree, ...], Predicate | None]]:
        """Return for each reference the conjuncts that its read evaluates, as trees and bound."""
        if not references or not self._session.reads_conditions:
            return [((), None) for _ in references]
        schemas = {
            id(reference.node): plan.definition.schema
            for reference, plan in zip(references, plans, strict=True)
        }
        conjuncts = pruning_conjuncts(
            query, references, lambda reference: schemas[id(reference.node)]
        )
        return [self._bound(plan, trees) for plan, trees in zip(plans, conjuncts, strict=True)]

    def _bound(
        self, plan: ReadPlan, conjuncts: Sequence[Tree]
    ) -> tuple[tuple[Tree, ...], Predicate | None]:
        """Return those of some conjuncts that a read can evaluate, as trees and bound."""
        accepted: list[tuple[Tree, Predicate]] = []
        for tree in conjuncts:
            try:
                predicate = Predicate.bind(tree, plan.definition.schema, self._session.time_zone)
            except (errors.UsageError, errors.SchemaMismatchError):
                continue
            accepted.append((tree, predicate))
        if not accepted:
            return (), None
        where = Predicate.all_of([predicate for _, predicate in accepted])
        if len(where.json) > _MOST_CONDITION:
            return (), None
        return tuple(tree for tree, _ in accepted), where


def _columns_of(planned: PlannedQuery) -> dict[str, list[str]]:
    """Return the names of the columns of each table of a query, by its name."""
    definitions = [relation.plan.definition for relation in planned.relations]
    return {
        definition.name: [column.name for column in definition.schema.visible_columns]
        for definition in definitions
    }


def _parsed(text: str) -> ParsedQuery:
    try:
        return ParsedQuery.parse(text)
    except errors.UnsupportedStatementError as error:
        raise errors.UnsupportedStatementError(
            f"{error}; if Spark can run it, use spark.sql over "
            "db.table(name).createOrReplaceTempView(name)"
        ) from None


def _is_lookup(plan: ReadPlan, where: Predicate) -> bool:
    """Tell whether a read is one of a few keys, and of types that Spark takes as they are."""
    columns = named_columns(plan.definition.schema, plan.columns)
    if not all(passes_as_is(column.type) for column in columns):
        return False
    pruning = replace(plan, where=where).pruning()
    return pruning.ranges == 0 and pruning.points <= _MOST_LOOKUPS


def _looked_up(plan: ReadPlan, where: Predicate) -> pa.Table:
    everything = (range(plan.vnode_count),)
    batches = replace(plan, where=where).read(everything)
    return pa.Table.from_batches(batches, plan.arrow_schema())


def _with_columns(plan: ReadPlan, query: ParsedQuery) -> ReadPlan:
    """Return a plan that reads the columns a query may need, at least one."""
    schema = plan.definition.schema
    names = [column.name for column in schema.visible_columns]
    hidden = [column.name for column in schema.columns if column.hidden]
    return replace(plan, columns=query.columns_read(names, hidden) or (names[0],))
