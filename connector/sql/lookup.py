"""The rows that a statement changes, looked up by the values of its source.

A MERGE, or an UPDATE or a DELETE with a subquery, names the rows of a table by those of a source.
Where it names all columns of the primary key, or of an index, no other row is read: the tasks that
compute the source's rows look up the table's, or the driver does if it has the source's rows.

Promises: the source is computed once; its rows meet those of the table for which the condition is
true, as in a join. A value is compared as Spark compares it, or the table is read as a whole. NULL
equals nothing.
Does not know: what the statement does to the rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s
from sqlglot import TokenType

from relstate.connector.local_plan import COMPILED_ROWS, LocalRelation
from relstate.connector.local_rows import has_many_rows, known_rows, table_of
from relstate.connector.sink.lookup_task import Lookup, PairLookup, RowLookup
from relstate.connector.sink.shuffle import shuffle_by_key
from relstate.connector.syntax.tokens import quoted, tokens_of
from relstate.connector.types import (
    arrow_schema_of,
    fields_of,
    has_variant,
    named_columns,
    passes_as_is,
    struct_type,
)
from relstate.storage import Column, Predicate, TableDefinition, errors

from .dml import Clause, Delete, DeleteParts, Merge, Update, When
from .dml_query import looked_up_pairs, merge_query, pair_column
from .key_equality import NamedRows, Scope, condition_count, named_rows, source_values
from .planned_query import PlannedQuery, Relation, RelationLookup, is_read_on_driver
from .query_reader import QueryReader
from .value_comparison import comparable_values

Statement = TypeVar("Statement", bound=Update | Delete | DeleteParts)

_PAIRS = "__relstate_pairs"
_ROWS = "__relstate_rows"
# The condition of more values takes longer to make than a conflict of another row is worth.
_MOST_CONDITION_VALUES = 16_384


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The rows of a statement's query, and the query with its relations.

    ``is_clustered``: the rows of a range of vnodes are in one partition. ``key_values``: what the
    columns of the primary key, in lower case, of a row of the target are equal to, if it was found
    by them: expressions over ``source_columns``, those of the source of a MERGE. ``local``: what
    ``frame`` is made over, if the driver has it: the frame has no rows then, see `in_spark`.
    """

    frame: DataFrame
    query: PlannedQuery
    is_clustered: bool = False
    key_values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source_columns: tuple[str, ...] = ()
    local: LocalRelation | None = None
    frame_over: Callable[[DataFrame], DataFrame] | None = None

    def in_spark(self) -> LookedUp:
        """Return the same with a frame that has the rows."""
        if self.local is None or self.frame_over is None:
            return self
        frame = self.frame_over(self.local.in_spark())
        return replace(self, frame=frame, local=None, frame_over=None)


@dataclass(frozen=True, slots=True)
class _Access:
    """A way to find rows: by all columns of the primary key, or of an index."""

    columns: tuple[Column, ...]
    index: str | None = None
    is_unique: bool = True


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of a statement; ``is_small``: the driver would read it by itself."""

    relation: Relation
    is_small: bool

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that are read of it."""
        plan = self.relation.plan
        return named_columns(plan.definition.schema, plan.columns)


@dataclass(frozen=True, slots=True)
class _Result:
    """The rows that a lookup made of values; ``is_local``: the driver did it.

    ``values``: the distinct ones, if the driver did it and they are not too many for a condition.
    ``local``: the rows themselves, if ``rows`` is only a placeholder.
    """

    rows: DataFrame
    is_local: bool = False
    values: pa.RecordBatch | None = None
    local: LocalRelation | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The rows of a statement's query, how they were found, and the condition in SQL.

    ``frame_over``: returns them for the rows of a lookup. ``key_values`` and ``source_columns``: as
    of `LookedUp`.
    """

    frame: DataFrame
    frame_over: Callable[[DataFrame], DataFrame]
    access: _Access
    condition: str
    result: _Result
    key_values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source_columns: tuple[str, ...] = ()


class LookupPlanner:
    """Plans the lookups of one statement in one table, at the epoch of a query reader."""

    def __init__(self, reader: QueryReader, definition: TableDefinition) -> None:
        self._reader = reader
        self._definition = definition
        self._names = [column.name for column in definition.schema.columns]

    def merged_rows(self, statement: Merge, query: PlannedQuery) -> LookedUp:
        """Return the rows of the query of a MERGE, looked up or joined."""
        if When.NOT_MATCHED_BY_SOURCE in {clause.when for clause in statement.clauses}:
            return self._read(query)
        looked_up = self._unless_unclear(
            query, statement.alias, lambda t: self._pairs(statement, t)
        )
        return looked_up or self._read(query)

    def named_rows(
        self,
        statement: Statement,
        query: PlannedQuery,
        text_of: Callable[[Statement], str],
    ) -> LookedUp:
        """Return the rows of the query of an UPDATE or a DELETE, looked up or read.

        ``text_of``: returns the query of such a statement.
        """
        where = statement.where
        if where is None:
            return self._read(query)

        def find(target: _Target) -> _Found | None:
            scope = Scope.of(statement.alias, self._names)
            for key_query in named_rows(where, scope):
                access = self._access(key_query.columns)
                if access is None or len(access.columns) != len(key_query.columns):
                    continue
                result = self._rows(key_query, access, target)
                if result is not None:
                    text = text_of(replace(statement, table=_ROWS, where=key_query.rest))
                    names = [column.name for column in target.columns]
                    frame_over = self._frame_over(text, statement.alias, _ROWS, names)
                    frame = frame_over(result.rows)
                    return _Found(frame, frame_over, access, key_query.description, result)
            return None

        return self._unless_unclear(query, statement.alias, find) or self._read(query)

    def _frame_over(
        self, text: str, alias: str, relation: str, names: Sequence[str] | None = None
    ) -> Callable[[DataFrame], DataFrame]:
        """Return a function that returns the rows of a query in which a frame is a relation.

        ``names``: of the columns of the relation, by default those of the frame.
        """
        planned = self._reader.plan(text, target=alias)

        def frame_over(rows: DataFrame) -> DataFrame:
            named_frame = rows if names is None else rows.toDF(*names)
            return self._reader.frame(planned, {relation: named_frame})

        return frame_over

    def _read(self, query: PlannedQuery) -> LookedUp:
        """Return the rows of a query as Spark finds them."""
        reduced = self._reader.reduced(query)
        return LookedUp(self._reader.frame(reduced), reduced)

    def _unless_unclear(
        self, query: PlannedQuery, alias: str, find: Callable[[_Target], _Found | None]
    ) -> LookedUp | None:
        """Return what ``find`` finds for the target of a query.

        None where the target is little, unless the driver has the source, or the session reads
        conditions in its own way, or the query asks when parts of rows expire, or Spark cannot
        resolve a name of a part of the statement by itself.
        """
        relation = query.input_named(alias)
        if not self._reader.session.reads_conditions or relation.plan.expiry_columns:
            return None
        target = _Target(relation, is_read_on_driver(relation.read))
        try:
            lookup = find(target)
        except (AnalysisException, errors.UnsupportedStatementError):
            return None
        if lookup is None:
            return None
        looked_up = _looked_up(relation, lookup)
        relations = [looked_up if r is relation else r for r in query.relations]
        is_clustered = lookup.access.index is None and self._reader.session.is_adaptive
        planned = replace(query, relations=tuple(relations))
        return LookedUp(
            lookup.frame,
            planned,
            is_clustered,
            lookup.key_values,
            lookup.source_columns,
            lookup.result.local,
            lookup.frame_over,
        )

    # MERGE

    def _pairs(self, statement: Merge, target: _Target) -> _Found | None:
        """Return the rows of the query of a MERGE over pairs of rows."""
        planned = self._reader.plan(f"SELECT * FROM {statement.source}")
        source = self._reader.frame(planned).alias(statement.source_alias)
        names = self._used_names(statement, source.columns)
        if not names or _hides_row_id(statement, planned.relations):
            return None
        values = source_values(
            statement.condition,
            Scope.of(statement.alias, self._names),
            Scope.of(statement.source_alias, source.columns),
        )
        access = self._access(values)
        if access is None:
            return None
        keeps_unmatched = When.NOT_MATCHED in {clause.when for clause in statement.clauses}
        is_exact = access.is_unique or condition_count(statement.condition) == len(access.columns)
        if keeps_unmatched and not is_exact:
            # A row of the source may have several candidates of which none is a match.
            return None
        texts = [values[column.name.lower()] for column in access.columns]
        keys = comparable_values(source, texts, access.columns)
        fields = {field.name: field for field in source.schema.fields}
        passed = s.StructType([fields[name] for name in names])
        if keys is None or not _pass_through_python(passed):
            return None
        task = PairLookup(*self._lookup(access, target), keeps_unmatched)

        def with_keys(source: DataFrame) -> DataFrame:
            rows = source.alias(statement.source_alias)
            return rows.selectExpr(*map(quoted, names), *keys)

        types = [field.dataType for field in passed.fields]
        types += [
            s.BooleanType(),
            *(field.dataType for field in struct_type(target.columns).fields),
        ]
        struct = _struct(types)
        batches = _computed(source, with_keys) if _driver_takes(struct) else None
        pairs = _run(with_keys(source), batches, task, struct, target)
        if pairs is None:
            return None
        row_names = [column.name for column in target.columns]
        relation = looked_up_pairs(statement, _PAIRS, names, row_names)
        text = merge_query(statement, self._definition, relation)
        frame_over = self._frame_over(text, statement.alias, _PAIRS)
        rows = frame_over(pairs.rows)
        equalities = zip(access.columns, texts, strict=True)
        condition = " AND ".join(f"{column.name} = {text}" for column, text in equalities)
        key_values = values if access.index is None else {}
        columns = tuple(source.columns)
        return _Found(rows, frame_over, access, condition, pairs, key_values, columns)

    def _used_names(self, statement: Merge, names: Sequence[str]) -> list[str]:
        """Return the columns of a source that a MERGE may use; none if two have one name."""
        if len({name.lower() for name in names}) < len(names):
            return []
        used = _words(statement)
        if used is None:
            return list(names)
        if any(clause.assignments is None for clause in statement.clauses):
            used |= {column.name.lower() for column in self._definition.schema.visible_columns}
        return [name for name in names if name.lower() in used]

    # UPDATE and DELETE

    def _rows(self, key_query: NamedRows, access: _Access, target: _Target) -> _Result | None:
        """Return the rows of the target that a subquery names, under its columns' names."""
        frame = self._reader.frame(self._reader.plan(key_query.query))
        if len(frame.columns) != len(key_query.columns):
            return None
        plain = frame.toDF(*key_query.columns)
        texts = [quoted(column.name.lower()) for column in access.columns]
        keys = comparable_values(plain, texts, access.columns)
        if keys is None:
            return None
        values = plain.selectExpr(*keys).toDF(*(c.name for c in access.columns))

        def shuffled(values: DataFrame) -> DataFrame:
            if access.index is None:
                count = target.relation.plan.vnode_count
                return shuffle_by_key(values, self._definition.schema, count)
            return values.repartition(*(f.col(quoted(name)) for name in values.columns))

        struct = _struct([field.dataType for field in struct_type(target.columns).fields])
        task = RowLookup(*self._lookup(access, target))
        batches = known_rows(values) if _driver_takes(struct) else None
        return _run(values, batches, task, struct, target, shuffled)

    # How rows are found

    def _access(self, names: Collection[str]) -> _Access | None:
        """Return how rows are found by values of some columns, named in lower case."""
        schema = self._definition.schema
        if all(column.name.lower() in names for column in schema.key_columns):
            return _Access(schema.key_columns)
        by_id = {column.id: column for column in schema.columns}
        accesses = [
            _Access(
                tuple(by_id[column_id] for column_id in index.columns), index.name, index.unique
            )
            for index in self._definition.indexes
        ]
        usable = [
            access
            for access in accesses
            if all(column.name.lower() in names for column in access.columns)
        ]
        return max(usable, key=lambda access: (access.is_unique, len(access.columns)), default=None)

    def _lookup(self, access: _Access, target: _Target) -> tuple[Lookup, pa.Schema]:
        """Return the lookup, and the schema in which Spark takes its rows."""
        names = tuple(column.name for column in access.columns)
        schema = arrow_schema_of(struct_type(target.columns))
        return Lookup(target.relation.plan, names, access.index), schema


def _run(
    values: DataFrame,
    batches: Sequence[pa.RecordBatch] | None,
    task: PairLookup | RowLookup,
    struct: s.StructType,
    target: _Target,
    shuffled: Callable[[DataFrame], DataFrame] = lambda values: values,
) -> _Result | None:
    """Return what a lookup makes of rows whose last columns are the values.

    The driver looks up ``batches``, the rows that it has. What it has not, tasks look up, to which
    ``shuffled`` brings it, but not in a small target: then it is None.
    """
    if batches is not None:
        rows = table_of(task(iter(batches)), arrow_schema_of(struct))
        local = LocalRelation.of(values.sparkSession, rows, struct)
        is_many = rows.num_rows > COMPILED_ROWS
        frame = local.frame if is_many else local.in_spark()
        is_condition = sum(batch.num_rows for batch in batches) <= _MOST_CONDITION_VALUES
        distinct = _distinct_values(batches, task.lookup) if is_condition else None
        return _Result(frame, True, distinct, local if is_many else None)
    if target.is_small:
        return None
    rows_of_tasks = shuffled(values)
    plain = rows_of_tasks.toDF(*(f"c{index}" for index in range(len(values.columns))))
    return _Result(plain.mapInArrow(task, struct))


def _computed(
    source: DataFrame, frame_over: Callable[[DataFrame], DataFrame]
) -> Sequence[pa.RecordBatch] | None:
    """Return the rows of a frame over a source, if the driver has those of the source."""
    if has_many_rows(source, COMPILED_ROWS) and _pass_through_python(source.schema):
        batches = known_rows(source)
        if batches is None:
            return None
        rows = table_of(batches, arrow_schema_of(source.schema))
        relation = LocalRelation.of(source.sparkSession, rows, source.schema)
        batch = relation.computed(frame_over(relation.frame))
        if batch is not None:
            return [batch]
    return known_rows(frame_over(source))


def _driver_takes(struct: s.StructType) -> bool:
    return all(passes_as_is(field.type) for field in fields_of(struct))


def _distinct_values(batches: Sequence[pa.RecordBatch], lookup: Lookup) -> pa.RecordBatch:
    """Return the distinct values without NULLs that are the last columns of some rows."""
    columns = [lookup.plan.definition.schema.column(name) for name in lookup.columns]
    passed = batches[0].num_columns - len(columns) if batches else 0
    values = (batch.select(range(passed, batch.num_columns)) for batch in batches)
    table = table_of(values, arrow_schema_of(struct_type(columns)))
    distinct = table.drop_null().group_by(table.schema.names).aggregate([])
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in distinct.columns], distinct.schema.names
    )


def _looked_up(target: Relation, match: _Found) -> Relation:
    """Return a target of which only rows with some values are read.

    Where the driver knows the values, they are the condition of the read: a commit that changes no
    row with one of them is no conflict.
    """
    values, where, index = match.result.values, target.where, match.access.index
    points = None
    if values is not None:
        points = values.num_rows if index is None else None
        by_column = dict(zip(values.schema.names, values.columns, strict=True))
        of_values = Predicate.of_values(by_column, target.plan.definition.schema)
        conditions = [condition for condition in (where, of_values) if condition is not None]
        where = Predicate.all_of(conditions) if conditions else None
    lookup = RelationLookup(match.condition, index, points, is_local=match.result.is_local)
    return replace(target, where=where, lookup=lookup)


def _struct(types: Sequence[s.DataType]) -> s.StructType:
    return s.StructType(
        [s.StructField(pair_column(index), kind) for index, kind in enumerate(types)]
    )


def _pass_through_python(schema: s.StructType) -> bool:
    """Return whether values of these types come back from Python as they were."""
    try:
        fields_of(schema)
    except errors.UnsupportedTypeError:
        return False
    return not has_variant(schema)


def _hides_row_id(statement: Merge, relations: Sequence[Relation]) -> bool:
    """Return whether a MERGE names a row id that ``*`` leaves out of its source."""
    words = _words(statement)
    row_ids = (relation.plan.definition.schema.row_id for relation in relations)
    return any(
        row_id is not None and (words is None or row_id.name.lower() in words) for row_id in row_ids
    )


def _words(statement: Merge) -> set[str] | None:
    """Return the words of the expressions of a MERGE, in lower case; None if one has a star."""
    texts = [statement.condition]
    for clause in statement.clauses:
        texts += _texts(clause)
    words: set[str] = set()
    for text in texts:
        before = "("
        for token in tokens_of(text):
            if token.token_type is TokenType.STAR and before in ("(", ",", "."):
                return None
            words.add(token.text.lower())
            before = token.text
    return words


def _texts(clause: Clause) -> list[str]:
    assigned = [assignment.expression for assignment in clause.assignments or ()]
    return assigned if clause.condition is None else [clause.condition, *assigned]
