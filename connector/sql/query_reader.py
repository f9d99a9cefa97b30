"""Queries over the tables of a store: planned, handed to Spark, and explained.

Promises: every reference to a table is a relation of its own, at the query's one epoch unless it
names another; it reads only the columns the query may need, and only the rows for which the
conditions of the query on that reference are true. With ``consistent``, tables and views that are
read together were true together, or the query is refused.
Does not know: what a query is for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from relstate.connector.analysis_error import TABLE_NOT_FOUND, function_names, in_names_of_query
from relstate.connector.failure import unwrap_errors
from relstate.connector.options import (
    EXPIRY_PATHS,
    FOLLOWS_LATEST,
    PARTIAL_AGGREGATE,
    ROW_LIMIT,
    feed_options,
)
from relstate.connector.parallelism import driver_threads
from relstate.connector.query_syntax import check_syntax
from relstate.connector.rows_frame import MOST_ROWS_OF_SPARK, frame_of_rows
from relstate.connector.source.read import read_small_feed
from relstate.connector.storage_options import storage_options
from relstate.connector.syntax.parsed_query import AsOf, ChangeFeed, ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree
from relstate.connector.types import named_columns, struct_of, struct_type
from relstate.storage import (
    LimitedPlan,
    Predicate,
    ReadPlan,
    Store,
    StoreState,
    errors,
    iso_time,
    moment_of,
)

from .consistent_epochs import consistent_epochs
from .driver_aggregate import DriverAggregates
from .join_reduction import SmallRelations, by_target, reduction
from .planned_query import PlannedQuery, Relation, is_input, is_read_on_driver, takes_as_is
from .pruning import key_sources, pruning_conjuncts
from .pushed_aggregate import PushRules, pushed_aggregate
from .pushed_limit import PushedLimit, pushed_limit
from .remaining_time import showing_expiries, ttl_calls, with_remaining_times
from .rewritten_text import RewrittenTexts
from .session_settings import SessionSettings

_MOST_CONDITION = 1 << 20
# Rows of a LIMIT that the driver reads.
_MOST_LIMITED = 8192


class QueryReader:
    """Plans the queries of one statement over one store, and gives their rows."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        epochs: Mapping[int, int] | None = None,
        *,
        shows_places: bool = True,
    ) -> None:
        """``epochs``: those of tables, by id, that are not read at the latest epoch.

        ``shows_places``: queries are as the user wrote them, so that errors name places in them.
        """
        self._shows_places = shows_places
        self._epochs = epochs or {}
        self._spark = spark
        self._store = store
        self._session = SessionSettings(spark)
        self._texts = RewrittenTexts(spark)
        self._state = store.state
        self._time = moment_of(store.environment.now())
        self._states: dict[AsOf, StoreState] = {}

    @property
    def epoch(self) -> int:
        """The epoch at which tables are read for which the query names none."""
        return self._state.epoch

    @property
    def session(self) -> SessionSettings:
        """The session's settings."""
        return self._session

    def plan(
        self, text: str, *, consistent: bool = False, target: str | None = None
    ) -> PlannedQuery:
        """Return a query with its relations. UnsupportedStatementError if it cannot be read.

        ``target``: the alias of the table that a statement changes, in the outermost FROM; its
        hidden columns are read too, and joins are not `reduced`: its rows may be looked up.
        ``consistent``: tables are read at the epoch that the views among them reflect;
        EpochNotFoundError if they do not reflect one.
        """
        query = _parsed(text, self._session)
        check_syntax(self._spark, query.tree)
        references = query.table_references(self._is_table)
        epochs = self._epochs
        if consistent:
            read = (self._id_of(reference) for reference in references if reference.as_of is None)
            epochs = consistent_epochs(self._store, self._state, read)
        plans = [self._read_plan(reference, epochs) for reference in references]
        calls = ttl_calls(query, list(zip(references, plans, strict=True)))
        plans = [
            showing_expiries(plan, calls, reference)
            for reference, plan in zip(references, plans, strict=True)
        ]
        conditions = self._conditions(query, references, plans)
        relations = tuple(
            Relation(
                reference,
                _with_columns(plan, query, is_target=is_input(query, reference, target)),
                *condition,
                reference.as_of is not None,
            )
            for reference, plan, condition in zip(references, plans, conditions, strict=True)
        )
        _check_row_ids(query, relations, has_target=target is not None)
        relations = tuple(self._pushed(query, relation) for relation in relations)
        planned = PlannedQuery(query, self.epoch, relations, query.change_feeds(), calls)
        return planned if target is not None else self.reduced(planned)

    def frame(
        self, planned: PlannedQuery, source_frames: Mapping[str, DataFrame] | None = None
    ) -> DataFrame:
        """Return the rows of a planned query.

        ``source_frames``: relations of the query that are not tables of the store, by the names
        that it has for them.
        """
        return self.settled_frame(planned, source_frames)[1]

    def settled_frame(
        self, planned: PlannedQuery, source_frames: Mapping[str, DataFrame] | None = None
    ) -> tuple[PlannedQuery, DataFrame]:
        """Return a planned query and its rows, as `frame`.

        Tasks add up rows only if the query then has the columns that Spark gives it as written.
        """
        plain = planned.without_aggregates()
        starts = [relation.reference.start for relation in planned.relations]
        end = min(starts, default=None) if self._shows_places else 0
        beginning = planned.query.text[:end]
        with in_names_of_query(
            planned.columns_by_table(),
            self._state.user_names(),
            beginning,
            functions=lambda: function_names(self._spark),
        ):
            rows = self._spark_frame(plain, source_frames or {})
            if plain is planned:
                return planned, rows
            for added_up in self._added_up(planned).ways_to_group():
                frame = self._frame_like(rows, added_up, source_frames or {})
                if frame is not None:
                    return added_up, frame
        return plain, rows

    def _frame_like(
        self, rows: DataFrame, planned: PlannedQuery, source_frames: Mapping[str, DataFrame]
    ) -> DataFrame | None:
        """Return the rows of a query, named as others; None if it has not their columns."""
        try:
            frame = self._spark_frame(planned, source_frames)
            if len(frame.columns) == len(rows.columns) and frame.columns != rows.columns:
                frame = frame.toDF(*rows.columns)
            return frame if frame.schema == rows.schema else None
        except PySparkException:
            return None

    def _added_up(self, planned: PlannedQuery) -> PlannedQuery:
        """Return a query with the partial rows that the driver adds up, here and now."""
        driver = DriverAggregates(self._spark)
        relations = []
        for relation in planned.relations:
            plan = relation.aggregate_plan
            partials = None if plan is None else driver.partials_of(plan)
            relations.append(replace(relation, partials=partials))
        return replace(planned, relations=tuple(relations))

    def _spark_frame(
        self, planned: PlannedQuery, source_frames: Mapping[str, DataFrame]
    ) -> DataFrame:
        rows = [
            (
                relation.reference,
                with_remaining_times(
                    self._relation(planned, relation), relation.plan, planned.calls
                ),
            )
            for relation in planned.relations
        ]
        rows += [(feed.reference, self._feed(feed)) for feed in planned.feeds]
        others = planned.query.table_references(lambda name, as_of: name in source_frames)
        rows += [(reference, source_frames[reference.name]) for reference in others]
        if not rows:
            return self._spark.sql(planned.query.text)
        rows.sort(key=lambda pair: pair[0].start)
        edits = [edit for relation in planned.relations for edit in relation.aggregate_edits]
        edits += [call.edit for call in planned.calls]
        try:
            return self._texts.frame_of(planned.query, rows, edits)
        except ParseException:
            self._check_syntax(planned.query.text)
            raise

    def _check_syntax(self, text: str) -> None:
        """Raise what Spark finds wrong with a query as it was written, but for its tables."""
        try:
            self._spark.sql(text)
        except AnalysisException as error:
            if error.getCondition() not in TABLE_NOT_FOUND:
                raise

    def _relation(self, planned: PlannedQuery, relation: Relation) -> DataFrame:
        if relation.limit is not None:
            return self._limited(relation.read, relation.limit)
        pushed = relation.aggregate
        if pushed is None:
            if relation.rows is not None:
                return self._local(relation.rows.to_batches(), relation.read)
            return self.relation(relation.plan, relation.where)
        schema = struct_of(pushed.aggregate.fields)
        if relation.partials is not None:
            partials = relation.partials.partials
            # Of one partition an aggregate or an order needs no shuffle, which costs more than it
            # saves where rows are few.
            is_spread = relation.has_final_rows and (
                planned.is_row_by_row or partials.num_rows > MOST_ROWS_OF_SPARK
            )
            partitions = driver_threads(self._spark) if is_spread else 1
            return frame_of_rows(self._spark, partials, schema, partitions)
        reader = self._reader(relation.plan, schema)
        reader = reader.option(PARTIAL_AGGREGATE, pushed.aggregate.json)
        return self._load(reader, pushed.where)

    def _limited(self, read: ReadPlan, pushed: PushedLimit) -> DataFrame:
        """Return the first rows of a table, read here and now if few have to be read for them."""
        rows = limited_on_driver(read, pushed)
        if rows is not None:
            return self._local(rows, read)
        reader = self._reader(read).option(ROW_LIMIT, pushed.limit.json)
        return self._load(reader, pushed.where)

    def _local(self, batches: Iterable[pa.RecordBatch], read: ReadPlan) -> DataFrame:
        schema = struct_type(named_columns(read.definition.schema, read.columns))
        rows = pa.Table.from_batches(batches, read.arrow_schema())
        return self._spark.createDataFrame(rows, schema)

    def _feed(self, feed: ChangeFeed) -> DataFrame:
        """Return the changes that a call of ``table_changes`` names, up to the query's epoch.

        Few are read here and now, which takes less time than a task.
        """
        kind = "Version" if isinstance(feed.first, int) else "Timestamp"
        options = {
            "readChangeFeed": "true",
            "table": feed.table,
            f"starting{kind}": str(feed.first),
        }
        if feed.last is not None:
            end = "Version" if isinstance(feed.last, int) else "Timestamp"
            options[f"ending{end}"] = str(feed.last)
        elif isinstance(feed.first, int):
            if feed.first > self.epoch:
                self._store.state_at(feed.first)
            options["endingVersion"] = str(self.epoch)
        if kind == "Timestamp":
            options["timeZone"] = self._session.time_zone
        small = read_small_feed(self._store, feed_options(options | {"path": self._store.path}))
        if small is not None:
            schema, rows = small
            return self._spark.createDataFrame(rows, schema)
        reader = self._spark.read.format("relstate").options(**options)
        with unwrap_errors():
            return reader.options(**storage_options(self._store.path)).load(self._store.path)

    def latest_relation(self, plan: ReadPlan) -> DataFrame:
        """Return a table at the latest epoch as a relation that says so, for a view made of it."""
        return self._load(self._reader(plan).option(FOLLOWS_LATEST, "true"), None)

    def relation(self, plan: ReadPlan, where: Predicate | None = None) -> DataFrame:
        """Return a table as a relation.

        Its schema is given, so that Spark starts no worker for it. A small table, or a few keys
        of a large one, are read here and now, which takes less time than a task.
        """
        read = replace(plan, where=where)
        if is_read_on_driver(read):
            return self._local(read.read((range(read.vnode_count),)), read)
        return self.source(plan, where)

    def source(self, plan: ReadPlan, where: Predicate | None = None) -> DataFrame:
        """Return a table as a relation that reads it when it is used."""
        return self._load(self._reader(plan), where)

    def _load(self, reader: DataFrameReader, where: Predicate | None) -> DataFrame:
        if where is not None:
            reader = reader.option("boundCondition", where.json)
        with unwrap_errors():
            return reader.options(**storage_options(self._store.path)).load(self._store.path)

    def _reader(self, plan: ReadPlan, schema: StructType | None = None) -> DataFrameReader:
        """Return a reader of a table; ``schema``: by default of the plan's columns."""
        schema = schema or struct_type(named_columns(plan.definition.schema, plan.columns))
        reader = self._spark.read.format("relstate").schema(schema)
        reader = reader.options(table=plan.definition.name, versionAsOf=plan.epoch)
        # The latest epoch is named too, so that all references read the same one. The time for
        # expiry is given because its default for a named epoch is the time of the commit.
        reader = reader.option("expiresBy", iso_time(plan.time))
        if plan.expiry_columns:
            paths = [expiry.path for expiry in plan.expiry_columns]
            reader = reader.option(EXPIRY_PATHS, json.dumps(paths))
        return reader

    # Which tables, at which epoch

    def _is_table(self, name: str, as_of: AsOf | None) -> bool:
        states = (self._state, self._state_of(as_of))
        return any(name.lower() in state.table_ids for state in states)

    def _state_of(self, as_of: AsOf | None) -> StoreState:
        if as_of is None:
            return self._state
        if as_of not in self._states:
            self._states[as_of] = self._store.state_at(self.epoch_of(as_of))
        return self._states[as_of]

    def epoch_of(self, as_of: AsOf) -> int:
        """Return the epoch that ``AS OF`` names. Errors: as `epoch_at`; for a text, `instant`."""
        if as_of.version is not None:
            return as_of.version
        assert as_of.timestamp is not None
        return self._store.epoch_at(self._session.instant(as_of.timestamp))

    def _id_of(self, reference: TableReference) -> int:
        return self._state_of(reference.as_of).table(reference.name).definition.table_id

    def _read_plan(self, reference: TableReference, epochs: Mapping[int, int]) -> ReadPlan:
        table_id, state = self._id_of(reference), self._state_of(reference.as_of)
        state.check_populated(table_id)
        if reference.as_of is not None:
            return self._store.read_plan(reference.name, epoch=state.epoch)
        if table_id in epochs:
            epoch = epochs[table_id]
            # A view may have had another name then.
            return self._store.read_plan(self._store.state_at(epoch).name_of(table_id), epoch=epoch)
        return self._store.read_plan(reference.name, epoch=self.epoch, time=self._time)

    # Joins with small relations

    def reduced(self, planned: PlannedQuery) -> PlannedQuery:
        """Return a query of which large relations read what small ones leave of them."""
        if not self._session.reads_conditions:
            return planned
        by_node = {id(relation.reference.node): relation for relation in planned.relations}
        references = [relation.reference for relation in planned.relations]
        sources = key_sources(planned.query, references, lambda r: by_node[id(r.node)].schema)
        small = SmallRelations(self._spark, planned.query, by_node)
        for target, sources_of_target in by_target(sources).items():
            relation = by_node[target]
            if is_read_on_driver(relation.read):
                continue
            reduced = reduction(relation.read, sources_of_target, small.rows_of)
            if reduced is not None:
                by_node[target] = replace(
                    relation, where=reduced.where, reduction=reduced.description
                )
        return replace(planned, relations=tuple(by_node[id(r.node)] for r in references))

    # What more the reads do

    def _pushed(self, query: ParsedQuery, relation: Relation) -> Relation:
        """Return a relation with what its tasks add up, or its limit, if it is large."""
        if not self._session.reads_conditions or relation.plan.expiry_columns:
            return relation
        session = self._session
        rules = PushRules(session.time_zone, session.divides_decimals, session.has_null_deviations)
        plan, reference = relation.plan, relation.reference
        aggregate = pushed_aggregate(query, reference, plan, rules)
        limit = pushed_limit(query, reference, plan.definition.schema, rules.time_zone)
        pushed = aggregate or limit
        if pushed is None or is_read_on_driver(relation.read):
            return relation
        if pushed.where is not None and len(pushed.where.json) > _MOST_CONDITION:
            return relation
        relation = replace(relation, aggregate=aggregate, limit=limit)
        added_up = relation.aggregate_plan
        if added_up is not None and not DriverAggregates(self._spark).pays(added_up):
            return replace(relation, aggregate=None)
        return relation

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


def _parsed(text: str, session: SessionSettings) -> ParsedQuery:
    has_single_pipes = "|" in text and session.has_single_pipes
    try:
        return ParsedQuery.parse(text, has_single_pipes=has_single_pipes)
    except errors.UnsupportedStatementError as error:
        raise errors.UnsupportedStatementError(
            f"{error}; if Spark can run it, use spark.sql over "
            "db.table(name).createOrReplaceTempView(name)"
        ) from None


def limited_on_driver(read: ReadPlan, pushed: PushedLimit) -> Iterable[pa.RecordBatch] | None:
    """Return the first rows of a read; None if tasks have to find them.

    The driver takes a few, either the first that come, or those of the lowest or greatest keys.
    """
    if pushed.limit.rows > _MOST_LIMITED or not takes_as_is(read):
        return None
    limited, vnodes = LimitedPlan(read, pushed.limit), (range(read.vnode_count),)
    if pushed.limit.order:
        rows = limited.first_by_key(vnodes)
        return None if rows is None else [rows]
    return limited.read(vnodes) if read.where is None else None


def _with_columns(plan: ReadPlan, query: ParsedQuery, *, is_target: bool) -> ReadPlan:
    """Return a plan that reads the columns a query may need, at least one.

    ``is_target``: it may need all hidden columns.
    """
    schema = plan.definition.schema
    names = [column.name for column in schema.visible_columns]
    shown = [expiry.column.name for expiry in plan.expiry_columns]
    hidden = [c.name for c in schema.columns if c.hidden and c.name not in shown]
    read = query.columns_read(names, hidden)
    if is_target:
        read += tuple(name for name in hidden if name not in read)
    return replace(plan, columns=(*(read or names[:1]), *shown))


def _check_row_ids(query: ParsedQuery, relations: Sequence[Relation], *, has_target: bool) -> None:
    """UnsupportedStatementError if a query names a row id that it does not read, because of a star.

    Spark would take it for a column of an outer query, such as the row id of the rows to delete.
    """
    without = [relation for relation in relations if _lacks_row_id(relation.plan)]
    names = {relation.reference.alias for relation in without}
    others = {relation.reference.alias for relation in relations} - names
    for relation in without:
        row_id = relation.plan.definition.schema.row_id
        if row_id is not None and query.names_column(row_id.name, others, has_target=has_target):
            raise errors.UnsupportedStatementError(
                f"the query names {row_id.name!r}, which '*' leaves out: write the names of the "
                "columns instead of '*', also in subqueries (EXISTS (SELECT 1 FROM …)); the source "
                "of a MERGE with NOT MATCHED BY SOURCE cannot name it"
            )


def _lacks_row_id(plan: ReadPlan) -> bool:
    row_id = plan.definition.schema.row_id
    return row_id is not None and plan.columns is not None and row_id.name not in plan.columns
