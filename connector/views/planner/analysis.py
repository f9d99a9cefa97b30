"""What Spark says of a query and of expressions: columns, types, and whether they were read right.

Promises: a query that sqlglot would change, or that Spark does not call deterministic, is refused.
Spark only analyses relations without rows: nothing runs.
Does not know: plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from relstate.connector.failure import describe_error
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import shown
from relstate.connector.syntax.tree import text_of
from relstate.connector.types import fields_of, struct_of
from relstate.storage import StoreState, errors, types

_BUILTIN = "SHOW SYSTEM FUNCTIONS"
_USERS = "SHOW USER FUNCTIONS"


class Analysis:
    """What a session of Spark says. For one view."""

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables
        self._relations: dict[tuple[types.Field, ...], DataFrame] = {}

    @property
    def is_ansi(self) -> bool:
        """Whether the session is in ANSI mode."""
        return str(self._spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ in case only are different."""
        return str(self._spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"

    def functions(self) -> frozenset[str]:
        """Return the names of Spark's own functions, those that a user has replaced left out."""
        own = {row[0].lower() for row in self._spark.sql(_BUILTIN).collect()}
        return frozenset(own - {row[0].lower() for row in self._spark.sql(_USERS).collect()})

    def columns(self, query: ParsedQuery) -> tuple[types.Field, ...]:
        """Return the columns of a query; what is wrong with it is Spark's error.

        UnsupportedStatementError unless its tree means to Spark what its text does.
        """
        original = self._query(query)
        rewritten = text_of(query.tree)
        try:
            again = self._query(ParsedQuery.parse(rewritten))
            equal = original.sameSemantics(again) or _optimized_alike(original, again)
        except errors.RelstateError:
            raise
        except Exception:
            # An error of the rewritten query is not one of the original.
            equal = False
        if not equal:
            raise errors.UnsupportedStatementError(
                f"relstate does not read {shown(query.text)} as Spark does, but as "
                f"{rewritten!r}; write it in a simpler way"
            )
        plan: Any = getattr(original, "_jdf", None)
        if plan is not None and not plan.queryExecution().analyzed().deterministic():
            raise errors.UnsupportedStatementError(
                f"{shown(query.text)} is not deterministic: a view must follow from its rows"
            )
        return fields_of(original.schema)

    def types_of(
        self, fields: Sequence[types.Field], expressions: Sequence[str]
    ) -> tuple[types.DataType, ...]:
        """Return the types of expressions over fields."""
        if not expressions:
            return ()
        named = [f"{one} AS c{place}" for place, one in enumerate(expressions)]
        schema = self._relation(tuple(fields)).selectExpr(*named).schema
        return tuple(loosened(field.type) for field in fields_of(schema))

    def checked_types_of(
        self, fields: Sequence[types.Field], expressions: Sequence[str]
    ) -> tuple[types.DataType, ...]:
        """Return the types of expressions over fields that Spark takes and calls deterministic.

        ValueError for others.
        """
        try:
            kinds = self.types_of(fields, expressions)
            frame = self._relation(tuple(fields)).selectExpr(*expressions)
        except Exception as error:
            raise ValueError(describe_error(error)) from None
        plan: Any = getattr(frame, "_jdf", None)
        if plan is not None and not plan.queryExecution().analyzed().deterministic():
            raise ValueError(f"{shown(', '.join(expressions))} is not deterministic")
        return kinds

    def is_same(self, fields: Sequence[types.Field], one: str, other: str) -> bool:
        """Return whether two expressions over fields are the same to Spark.

        Not if one is no expression by itself, such as a lambda's variable.
        """
        relation = self._relation(tuple(fields))
        try:
            return relation.selectExpr(one).sameSemantics(relation.selectExpr(other))
        except Exception:
            return False

    def means_now(self, fields: Sequence[types.Field], expressions: Sequence[str]) -> bool | None:
        """Return whether Spark takes a string in expressions for the present time, or 'epoch'.

        None over Spark Connect, which does not say.
        """
        frame = self._relation(tuple(fields)).selectExpr(*expressions)
        plan: Any = getattr(frame, "_jdf", None)
        if plan is None:
            return None
        machine: Any = frame.sparkSession._jvm
        rules = machine.org.apache.spark.sql.catalyst.optimizer
        plain = _rule(rules, "ReplaceExpressions").apply(plan.queryExecution().analyzed())
        return not plain.fastEquals(_rule(rules, "SpecialDatetimeValues").apply(plain))

    def united(
        self, left: Sequence[types.DataType], right: Sequence[types.DataType]
    ) -> tuple[types.DataType, ...]:
        """Return the types of the columns of a UNION of two inputs."""
        one, other = (
            self._relation(tuple(types.Field(f"c{n}", kind) for n, kind in enumerate(each)))
            for each in (left, right)
        )
        return tuple(loosened(field.type) for field in fields_of(one.union(other).schema))

    def _query(self, query: ParsedQuery) -> DataFrame:
        references = query.table_references(self._is_table)
        names = sorted({reference.name.lower() for reference in references})
        fields = {name: f"relation_{number}" for number, name in enumerate(names)}
        relations: dict[str, Any] = {
            fields[name]: self._relation(self._columns_of(name)) for name in names
        }
        if not relations:
            # Without relations the text is not a template: its braces are its own.
            return self._spark.sql(query.text)
        template = query.replaced(
            references, [fields[reference.name.lower()] for reference in references]
        )
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


def loosened(data_type: types.DataType) -> types.DataType:
    """Return a type with NULLs allowed in all its parts: a plan knows of no others."""
    match data_type:
        case types.Array(element, _):
            return types.Array(loosened(element))
        case types.Map(key, value, _):
            return types.Map(loosened(key), loosened(value))
        case types.Struct(fields):
            return types.Struct(tuple(types.Field(f.name, loosened(f.type)) for f in fields))
    return data_type


def _rule(package: Any, name: str) -> Any:
    """Return a rule of Spark's optimizer."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _optimized_alike(one: Any, other: Any) -> bool:
    """Return whether two queries are the same after optimization; False over Spark Connect."""
    if not hasattr(one, "_jdf"):
        return False
    left, right = (each._jdf.queryExecution().optimizedPlan() for each in (one, other))
    return bool(left.sameResult(right))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the store, or a view.

    ``columns``: those that a query can name. ``hidden``: those of its key that it cannot.
    """

    table_id: int
    name: str
    columns: tuple[types.Field, ...]
    primary_key: tuple[str, ...]
    is_append_only: bool = False
    hidden: tuple[types.Field, ...] = ()


class Tables(Protocol):
    """Where tables are found."""

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
        return Table(
            definition.table_id,
            definition.name,
            tuple(column.field for column in columns if not column.hidden),
            tuple(column.name for column in definition.schema.key_columns),
            definition.properties.append_only,
            tuple(column.field for column in columns if column.hidden),
        )


def not_found(name: str) -> errors.TableNotFoundError:
    """Return the error for a name that is no table's."""
    return errors.TableNotFoundError(
        f"there is no table {name!r} in the store; a view reads tables and views of its own store "
        "only"
    )
