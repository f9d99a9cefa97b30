"""Spark's analysis of queries and expressions: columns, types, and whether sqlglot is right.

Promises: a query that sqlglot would change, or that Spark does not call deterministic, is refused.
Spark only analyses relations without rows: nothing runs.
Does not know: plans.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from relstate.connector.analysis_error import function_names, in_names_of_query
from relstate.connector.failure import describe_error
from relstate.connector.query_syntax import check_view_syntax
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import query_at
from relstate.connector.syntax.tokens import excerpt
from relstate.connector.syntax.tree import Tree, substituted, text_of
from relstate.connector.types import fields_of, struct_of
from relstate.storage import StoreState, errors, syntax, types
from relstate.vnode import cached_property

from .equivalence import has_same_meaning, optimizer_rule
from .moments import EPOCH, length_text
from .relations import query_over

_SHOW_BUILTIN_FUNCTIONS = "SHOW SYSTEM FUNCTIONS"
_SHOW_USER_FUNCTIONS = "SHOW USER FUNCTIONS"
_MAP_CALL = re.compile(r"map\w*\(", re.IGNORECASE)
# In Spark's error for maps and variants.
_REFUSED_TYPE = "UNSUPPORTED_CORRELATED_REFERENCE_DATA_TYPE"
PRESENT_TIME_STRING = "a string that is read as the present moment"
TIME_DEPENDENT_REASON = (
    "what it gives depends on when it runs, and a view must follow from its rows"
)


class Analysis:
    """Spark's analysis in one session. For one view."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables
        self._relations: dict[tuple[types.Field, ...], DataFrame] = {}

    @property
    def is_ansi(self) -> bool:
        """Whether the session is in ANSI mode."""
        return self._is("spark.sql.ansi.enabled", "true")

    @property
    def shows_plans(self) -> bool:
        """Whether plans can be compared: Spark Connect does not expose them."""
        return hasattr(self._spark, "_jsparkSession")

    def averages(self, data_type: types.DataType) -> bool:
        """Return whether an average of a type has the digits that it has by default."""
        return not isinstance(data_type, types.Decimal) or self._divides_decimals

    @cached_property
    def _divides_decimals(self) -> bool:
        return self._is("spark.sql.decimalOperations.allowPrecisionLoss", "true")

    @cached_property
    def has_null_deviations(self) -> bool:
        """Whether the deviation of a sample of one value is NULL, as by default."""
        return not self._is("spark.sql.legacy.statisticalAggregate", "false")

    @property
    def joins_before_commas(self) -> bool:
        """Whether ``a, b JOIN c`` joins b with c first; by default a and b come first."""
        return self._is("spark.sql.ansi.relationPrecedence", "false")

    @property
    def time_zone(self) -> str:
        """The time zone of the session."""
        return str(self._spark.conf.get("spark.sql.session.timeZone"))

    def _is(self, name: str, default: str) -> bool:
        return str(self._spark.conf.get(name, default)).lower() == "true"

    def functions(self) -> frozenset[str]:
        """Return the names of Spark's own functions, without those that a user has replaced."""
        builtin_names = {
            row[0].lower() for row in self._spark.sql(_SHOW_BUILTIN_FUNCTIONS).collect()
        }
        return frozenset(
            builtin_names
            - {row[0].lower() for row in self._spark.sql(_SHOW_USER_FUNCTIONS).collect()}
        )

    def columns(self, query: ParsedQuery) -> tuple[types.Field, ...]:
        """Return the columns of a query. An invalid query raises Spark's error.

        UnsupportedStatementError unless its tree means to Spark what its text does.
        """
        check_view_syntax(self._spark, query.tree)
        original = self._query(query)
        rewritten, at_one_time = text_of(_as_written(query.tree)), query_at(query, 0)
        # Spark puts the time of the optimization in for the present one: both at the same time.
        compared = self._query(at_one_time) if at_one_time is not query else original
        if not self._is_equivalent(compared, rewritten):
            _check_constant_maps(query.tree)
            _check_present_time(compared, query)
            _optimize(compared)
            advice = "a SELECT without |>" if query.has_pipes else "it in a simpler way"
            raise errors.UnsupportedStatementError(
                f"relstate does not read {excerpt(query.text)} as Spark does, but as "
                f"{rewritten!r}; write {advice}"
            )
        if not _is_deterministic(original):
            raise errors.UnsupportedStatementError(
                f"{excerpt(query.text)} is not deterministic: a view must follow from its rows"
            )
        if _has_correlated_join(query.tree):
            _optimize(original)
        return fields_of(original.schema)

    def frame_of(self, query: ParsedQuery) -> DataFrame:
        """Return the analysed frame of a query over no rows. An invalid one raises Spark's error.

        The present time is the same in all frames.
        """
        return self._query(query_at(query, 0))

    def has_meaning(self, query: ParsedQuery, frame: DataFrame) -> bool:
        """Return whether a query means now what it meant in an earlier frame, by `frame_of`."""
        try:
            return has_same_meaning(frame, self.frame_of(query))
        except PySparkException:
            return False

    def check_outer_types(self, query: ParsedQuery) -> None:
        """Raise Spark's error if a subquery reads an outer value of a type that Spark refuses."""
        try:
            _optimize(self._query(query))
        except Exception as error:
            if _REFUSED_TYPE in str(error):
                raise error from None

    def names_of(self, tree: Tree) -> list[str]:
        """Return the names of the columns of a query; none if it is not one by itself."""
        try:
            return list(self._query(ParsedQuery.parse(text_of(_as_written(tree)))).columns)
        except Exception:
            # It reads columns of the query around it.
            return []

    def _is_equivalent(self, original: DataFrame, text: str) -> bool:
        """Return whether a query and a text mean the same to Spark."""
        try:
            query = query_at(ParsedQuery.parse(text), 0)
            return has_same_meaning(original, self._query(query))
        except errors.RelstateError:
            raise
        except Exception:
            # The error is of the text: the original is valid.
            return False

    def types_of(
        self, fields: Sequence[types.Field], expressions: Sequence[str]
    ) -> tuple[types.DataType, ...]:
        """Return the types of expressions over fields."""
        if not expressions:
            return ()
        select_list = [
            f"{expression} AS c{number}" for number, expression in enumerate(expressions)
        ]
        schema = self._relation(tuple(fields)).selectExpr(*select_list).schema
        return tuple(as_nullable(field.type) for field in fields_of(schema))

    def columns_of(self, fields: Sequence[types.Field], call: str) -> tuple[types.Field, ...]:
        """Return the columns of a call that returns rows, over fields."""
        schema = self._relation(tuple(fields)).selectExpr(call).schema
        return tuple(
            types.Field(field.name, as_nullable(field.type)) for field in fields_of(schema)
        )

    def columns_after(self, fields: Sequence[types.Field], clause: str) -> tuple[types.Field, ...]:
        """Return the columns of ``SELECT *`` over fields with a clause after FROM, as PIVOT is."""
        text = clause.replace("{", "{{").replace("}", "}}")
        frame = self._spark.sql(
            f"SELECT * FROM {{relation}} {text}", relation=self._relation(tuple(fields))
        )
        return tuple(
            types.Field(field.name, as_nullable(field.type)) for field in fields_of(frame.schema)
        )

    def columns_of_query(
        self, query: str, relations: Mapping[str, tuple[types.Field, ...]]
    ) -> tuple[types.Field, ...]:
        """Return the columns of a query over relations, given by their names and fields."""
        frame = self._query_over(query, relations)
        return tuple(
            types.Field(field.name, as_nullable(field.type)) for field in fields_of(frame.schema)
        )

    def checked_columns_of_query(
        self, query: str, relations: Mapping[str, tuple[types.Field, ...]]
    ) -> tuple[types.Field, ...]:
        """Return the columns of a query over relations.

        ValueError for one that is invalid or not deterministic to Spark, or that sqlglot reads in
        another way.
        """
        written = text_of(ParsedQuery.parse(query).tree)
        try:
            columns = self.columns_of_query(query, relations)
            original = self._query_over(query, relations)
            is_same = has_same_meaning(original, self._query_over(written, relations))
        except Exception as error:
            raise ValueError(describe_error(error)) from None
        if not _is_deterministic(original):
            raise ValueError(f"{excerpt(query)} is not deterministic")
        if not is_same:
            raise ValueError(f"Spark reads {excerpt(query)} in another way than relstate does")
        return columns

    def _query_over(
        self, query: str, relations: Mapping[str, tuple[types.Field, ...]]
    ) -> DataFrame:
        frames = {name: self._relation(fields) for name, fields in relations.items()}
        return query_over(self._spark, query, frames)

    def microseconds(self, duration: str) -> int:
        """Return how long a text in quotes says, as ``'1 hour'``; a day has 24 hours."""
        length = length_text(f"{EPOCH} + CAST({duration} AS INTERVAL) - {EPOCH}")
        row = self._spark.sql(f"SELECT {length}").first()
        assert row is not None
        return int(row[0])

    def length_of(self, text: str) -> int | None:
        """Return how many microseconds a constant expression has; None if it is not an interval.

        An interval of months has none.
        """
        (data_type,) = self.types_of([], [text])
        if not isinstance(data_type, types.DayTimeInterval):
            return None
        row = self._spark.sql(f"SELECT {length_text(text)}").first()
        return None if row is None else row[0]

    def is_null_at(self, text: str, clock: types.Field, moments: Sequence[int]) -> bool:
        """Return whether an expression over a TIMESTAMP is NULL at all of some moments.

        ``moments``: in microseconds since 1970.
        """
        rows = ", ".join(f"(timestamp_micros({moment}))" for moment in moments)
        times = f"VALUES {rows} AS moments({types.quoted(clock.name)})"
        row = self._spark.sql(f"SELECT count({text}) FROM {times}").first()
        return row is not None and row[0] == 0

    def number_of(self, text: str) -> int | None:
        """Return the value of a constant expression if it is a number of rows; None if not."""
        row = self._spark.sql(f"SELECT CAST({text} AS INT)").first()
        return None if row is None or row[0] is None or row[0] < 0 else int(row[0])

    def types_of_query(self, text: str) -> tuple[types.DataType, ...]:
        """Return the types of the columns of a query that reads no tables."""
        return tuple(as_nullable(field.type) for field in fields_of(self._spark.sql(text).schema))

    def checked_types_of(
        self, fields: Sequence[types.Field], expressions: Sequence[str]
    ) -> tuple[types.DataType, ...]:
        """Return the types of expressions over fields.

        ValueError for an expression that is invalid or not deterministic to Spark.
        """
        try:
            data_types = self.types_of(fields, expressions)
            frame = self._relation(tuple(fields)).selectExpr(*expressions)
        except Exception as error:
            raise ValueError(describe_error(error)) from None
        if not _is_deterministic(frame):
            raise ValueError(f"{excerpt(', '.join(expressions))} is not deterministic")
        return data_types

    def is_same(self, fields: Sequence[types.Field], left: str, right: str) -> bool:
        """Return whether two expressions over fields are the same to Spark.

        False if one of them is not a complete expression, such as a lambda's variable.
        """
        relation = self._relation(tuple(fields))
        try:
            return relation.selectExpr(left).sameSemantics(relation.selectExpr(right))
        except Exception:
            return False

    def reads_present_time(
        self, fields: Sequence[types.Field], expressions: Sequence[str]
    ) -> bool | None:
        """Return whether Spark reads a string in expressions as the present time, or as 'epoch'.

        None over Spark Connect, which does not expose it.
        """
        return _reads_present_time(self._relation(tuple(fields)).selectExpr(*expressions))

    def query_reads_present_time(
        self, query: str, relations: Mapping[str, tuple[types.Field, ...]]
    ) -> bool | None:
        """Return what `reads_present_time` does, of a query over relations."""
        return _reads_present_time(self._query_over(query, relations))

    def union_types_of(
        self, left: Sequence[types.DataType], right: Sequence[types.DataType]
    ) -> tuple[types.DataType, ...]:
        """Return the types of the columns of a UNION of two inputs."""
        left_frame, right_frame = (
            self._relation(
                tuple(types.Field(f"c{n}", data_type) for n, data_type in enumerate(data_types))
            )
            for data_types in (left, right)
        )
        return tuple(
            as_nullable(field.type) for field in fields_of(left_frame.union(right_frame).schema)
        )

    def _query(self, query: ParsedQuery) -> DataFrame:
        references = query.table_references(self._is_table)
        functions = partial(function_names, self._spark)
        names = sorted({reference.name.lower() for reference in references})
        placeholders = {name: f"relation_{number}" for number, name in enumerate(names)}
        relations: dict[str, Any] = {
            placeholders[name]: self._relation(self._columns_of(name)) for name in names
        }
        if not relations:
            # Without relations the text is not a template: Spark leaves its braces as they are.
            with in_names_of_query({}, (), query.text, functions=functions):
                return self._spark.sql(query.text)
        template = query.replaced(
            references, [placeholders[reference.name.lower()] for reference in references]
        )
        columns = {name: [field.name for field in self._columns_of(name)] for name in names}
        with in_names_of_query(columns, names, functions=functions):
            return self._spark.sql(template, **relations)

    def _is_table(self, name: str, as_of: object) -> bool:
        return self._tables.find(name) is not None

    def _columns_of(self, name: str) -> tuple[types.Field, ...]:
        table = self._tables.find(name)
        return () if table is None else table.columns

    def _relation(self, fields: tuple[types.Field, ...]) -> DataFrame:
        if fields not in self._relations:
            self._relations[fields] = self._spark.createDataFrame([], struct_of(fields))
        return self._relations[fields]


def as_nullable(data_type: types.DataType) -> types.DataType:
    """Return a type with NULLs allowed in all its parts, as all types in plans are."""
    match data_type:
        case types.Array(element, _):
            return types.Array(as_nullable(element))
        case types.Map(key, value, _):
            return types.Map(as_nullable(key), as_nullable(value))
        case types.Struct(fields):
            return types.Struct(
                tuple(types.Field(member.name, as_nullable(member.type)) for member in fields)
            )
    return data_type


def _has_correlated_join(tree: Tree) -> bool:
    """Return whether a join is LATERAL or has a subquery in its ON."""
    joins = list(tree.find_all(exp.Join))
    conditions = (join.args.get("on") for join in joins)
    return any(isinstance(join.this, exp.Lateral) for join in joins) or any(
        on is not None and on.find(exp.Query) is not None for on in conditions
    )


def _optimize(frame: Any) -> None:
    """Raise Spark's error if its optimizer refuses a query that its analysis accepts."""
    if hasattr(frame, "_jdf"):
        frame._jdf.queryExecution().optimizedPlan()


def _check_constant_maps(tree: Tree) -> None:
    """Refuse maps in VALUES: to Spark two queries with the same ones are not the same."""
    for values in tree.find_all(exp.Values):
        if _MAP_CALL.search(text_of(values)):
            raise errors.UnsupportedStatementError(
                f"a view cannot have a MAP in VALUES at {excerpt(text_of(values))}: write its keys "
                "and values as columns, and the map in a SELECT around VALUES"
            )


def _check_present_time(frame: DataFrame, query: ParsedQuery) -> None:
    """Refuse strings that Spark reads as the present time: no two readings of them are the same."""
    if _reads_present_time(frame):
        raise errors.UnsupportedStatementError(
            f"a view cannot have {PRESENT_TIME_STRING} in {excerpt(query.text)}: "
            f"{TIME_DEPENDENT_REASON}"
        )


def _as_written(tree: Tree) -> Tree:
    """Return a query with ``x IS NOT y`` and ``DATE'2026-01-01'`` where its text has them.

    For Spark these are other expressions than NOT x IS y and a CAST, until it optimizes them.
    """

    def replacement(node: Tree) -> Tree | None:
        if word := node.meta.get(syntax.LITERAL):
            return exp.Var(this=f"{word}{text_of(node.this)}")
        if not node.meta.get(syntax.IS_NOT):
            return None
        inner = node.this
        value = exp.Var(this=f"NOT {text_of(inner.expression)}")
        return exp.Is(this=_as_written(inner.this), expression=value)

    return substituted(tree, replacement)


def _is_deterministic(frame: DataFrame) -> bool:
    """Return whether Spark takes a query for deterministic; True over Spark Connect."""
    plan: Any = getattr(frame, "_jdf", None)
    return plan is None or bool(plan.queryExecution().analyzed().deterministic())


def _reads_present_time(frame: DataFrame) -> bool | None:
    """Return whether Spark reads a string in a query as the present time, or as 'epoch'.

    None over Spark Connect, which does not expose it.
    """
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return None
    jvm: Any = frame.sparkSession._jvm
    rules = jvm.org.apache.spark.sql.catalyst.optimizer
    replaced_plan = optimizer_rule(rules, "ReplaceExpressions").apply(
        plan.queryExecution().analyzed()
    )
    return not replaced_plan.fastEquals(
        optimizer_rule(rules, "SpecialDatetimeValues").apply(replaced_plan)
    )


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the store, or a view.

    ``columns``: the columns that a query can name. ``hidden``: key columns that it cannot name.
    ``row_id``: the name of the hidden row id; None for a table with a primary key.
    ``expires``: whether rows may expire; ``has_parts``: whether parts of them may, each at a time
    of its own.
    """

    table_id: int
    name: str
    columns: tuple[types.Field, ...]
    primary_key: tuple[str, ...]
    is_append_only: bool = False
    hidden: tuple[types.Field, ...] = ()
    row_id: str | None = None
    expires: bool = False
    has_parts: bool = False


class Tables(Protocol):
    """The tables that a view can read."""

    def find(self, name: str) -> Table | None:
        """Return the table of this name, whatever its case; None if there is none."""


class StoreTables:
    """The tables and views of a store, as of one epoch."""

    def __init__(self, state: StoreState) -> None:
        self._state = state

    def find(self, name: str) -> Table | None:
        """Return the table of this name, whatever its case; None if there is none."""
        table_id = self._state.table_ids.get(name.lower())
        if table_id is None:
            return None
        definition = self._state.tables[table_id].definition
        columns = definition.schema.columns
        row_id = definition.schema.row_id
        return Table(
            definition.table_id,
            definition.name,
            tuple(column.field for column in columns if not column.hidden),
            tuple(column.name for column in definition.schema.key_columns),
            definition.properties.append_only,
            tuple(column.field for column in columns if column.hidden),
            None if row_id is None else row_id.name,
            definition.properties.ttl is not None or self._state.expiring_rows(table_id) > 0,
            definition.properties.may_have_parts,
        )


def table_not_found_error(name: str) -> errors.TableNotFoundError:
    """Return the error for a name that no table has."""
    return errors.TableNotFoundError(
        f"there is no table {name!r} in the store; a view reads tables and views of its own store "
        "only"
    )
