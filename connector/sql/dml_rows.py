"""A statement that changes rows, as the rows of changes that Spark computes.

The changes come from one query, in which the statement's expressions stand as written; what they
are stored as is decided from the types that Spark finds for them.

Promises: an expression is evaluated once a row, and only for rows that it is for.
Does not know: how changes are checked, written or committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relstate.connector.sink.dml_task import OLD_VERSION, OPERATION, Operation
from relstate.connector.syntax.tokens import quoted
from relstate.storage import Column as TableColumn
from relstate.storage import TableDefinition, errors

from .assignment import Assigner
from .dml import Action, Assignment, Clause, Delete, Insert, Merge, Update
from .dml_merge import clause_number, joined, visible
from .query_reader import PlannedQuery, QueryReader

_CLAUSE = "__relstate_clause"


@dataclass(frozen=True, slots=True)
class DmlRows:
    """The rows of changes, the query they come from, and whether keys may be touched twice."""

    rows: DataFrame
    query: PlannedQuery
    is_checked: bool


class DmlPlanner:
    """Plans the changes of one statement to one table, at the epoch of a reader of queries."""

    def __init__(self, reader: QueryReader, definition: TableDefinition) -> None:
        self._reader = reader
        self._definition = definition
        self._columns = definition.schema.columns
        self._keys = definition.schema.key_columns
        self._assign = Assigner(definition, reader.session.is_ansi)

    def changes(self, statement: Insert | Update | Delete | Merge) -> DmlRows:
        """Return the changes of a statement. SchemaMismatchError, UnsupportedStatementError."""
        match statement:
            case Insert():
                return self._inserted(statement)
            case Update():
                return self._updated(statement)
            case Delete():
                return self._deleted(statement)
            case Merge():
                return self._merged(statement)

    def _inserted(self, statement: Insert) -> DmlRows:
        query = self._reader.plan(statement.query)
        frame = self._reader.frame(query)
        columns = self._target_columns(statement, frame)
        plain = frame.toDF(*(f"c{place}" for place in range(len(columns))))
        stored = [
            self._assign(plain.schema[place].dataType, f.col(f"c{place}"), column)
            for place, column in enumerate(columns)
        ]
        return DmlRows(plain.select(_operation(Operation.UPSERT), *stored), query, False)

    def _target_columns(self, statement: Insert, frame: DataFrame) -> Sequence[TableColumn]:
        names = tuple(frame.columns) if statement.by_name else statement.columns
        columns = self._columns if names is None else self._named(names)
        if len(columns) != len(frame.columns):
            raise errors.SchemaMismatchError(
                f"the query has {len(frame.columns)} columns ({', '.join(frame.columns)}) for the "
                f"{len(columns)} columns {', '.join(column.name for column in columns)} of the "
                f"table {self._definition.name!r}"
            )
        return columns

    def _updated(self, statement: Update) -> DmlRows:
        assigned = self._by_column(statement.assignments)
        self._named([one.column for one in statement.assignments])
        alias = quoted(statement.alias)
        parts = [f"{alias}.{quoted(key.name)} AS {_old(i)}" for i, key in enumerate(self._keys)]
        parts += self._version_parts(alias)
        for place, column in enumerate(self._columns):
            value = assigned.get(column.name.lower(), f"{alias}.{quoted(column.name)}")
            parts.append(f"({value}) AS {_new(0, place)}")
        query = self._reader.plan(
            f"SELECT {', '.join(parts)} FROM {quoted(statement.table)} AS {alias}"
            f"{_where(statement.where)}"
        )
        frame = self._reader.frame(query)
        values = [self._stored(frame, 0, place) for place in range(len(self._columns))]
        moves = any(key.name.lower() in assigned for key in self._keys)
        if not moves:
            rows = frame.select(_operation(Operation.UPDATE), *self._version(frame), *values)
            return DmlRows(rows, query, False)
        return DmlRows(self._moved(frame, f.lit(int(Operation.UPDATE)), values), query, True)

    def _deleted(self, statement: Delete) -> DmlRows:
        alias = quoted(statement.alias)
        names = [column.name for column in self._columns if self._is_needed_to_delete(column)]
        parts = ", ".join(f"{alias}.{quoted(name)} AS {quoted(name)}" for name in names)
        query = self._reader.plan(
            f"SELECT {parts} FROM {quoted(statement.table)} AS {alias}{_where(statement.where)}"
        )
        frame = self._reader.frame(query)
        columns = [f.col(quoted(name)) for name in names]
        return DmlRows(frame.select(_operation(Operation.DELETE), *columns), query, False)

    def _is_needed_to_delete(self, column: TableColumn) -> bool:
        is_key = any(key.id == column.id for key in self._keys)
        return is_key or column.id == self._definition.properties.version_column

    # MERGE

    def _merged(self, statement: Merge) -> DmlRows:
        query = self._reader.plan(self._merge_query(statement))
        frame = self._reader.frame(query)
        clause = f.col(_CLAUSE)
        values = [
            self._chosen(frame, statement.clauses, place, column)
            for place, column in enumerate(self._columns)
        ]
        operation: Column = f.lit(None).cast("int")
        for number, one in enumerate(statement.clauses):
            operation = f.when(clause == number, int(_OPERATIONS[one.action])).otherwise(operation)
        frame = frame.where(clause.isNotNull())
        return DmlRows(self._moved(frame, operation, values), query, True)

    def _merge_query(self, statement: Merge) -> str:
        target = quoted(statement.alias)
        parts = [
            f"{clause_number(statement, f'{target}.{quoted(self._keys[0].name)}')} AS {_CLAUSE}"
        ]
        parts += [f"{target}.{quoted(key.name)} AS {_old(i)}" for i, key in enumerate(self._keys)]
        parts += self._version_parts(target)
        for number, clause in enumerate(statement.clauses):
            values = self._clause_values(clause, quoted(statement.source_alias), target)
            parts += [
                f"CASE WHEN {_CLAUSE} = {number} THEN ({visible(statement, clause, value)}) END "
                f"AS {_new(number, place)}"
                for place, value in values.items()
            ]
        return f"SELECT {', '.join(parts)} FROM {joined(statement)}"

    def _clause_values(self, clause: Clause, source: str, target: str) -> dict[int, str]:
        """Return the expressions of a clause by the places of the columns they are for."""
        if clause.action is Action.DELETE:
            return {}
        if clause.assignments is None:
            return {i: f"{source}.{quoted(one.name)}" for i, one in enumerate(self._columns)}
        self._named([one.column for one in clause.assignments])
        assigned = self._by_column(clause.assignments)
        found: dict[int, str] = {}
        for place, column in enumerate(self._columns):
            value = assigned.get(column.name.lower())
            if value is None and clause.action is Action.UPDATE:
                value = f"{target}.{quoted(column.name)}"
            if value is not None:
                found[place] = value
        return found

    def _chosen(
        self, frame: DataFrame, clauses: Sequence[Clause], place: int, column: TableColumn
    ) -> Column:
        """Return the value of a column under the clause that applies; NULL where it gives none."""
        found: Column = f.lit(None).cast(str(column.type))
        for number in range(len(clauses)):
            if _new(number, place) in frame.columns:
                value = self._stored(frame, number, place)
                found = f.when(f.col(_CLAUSE) == number, value).otherwise(found)
        return found.alias(column.name)

    # Rows that move

    def _moved(self, frame: DataFrame, operation: Column, values: Sequence[Column]) -> DataFrame:
        """Return changes in which an update that gives a row another key is two."""
        named = {column.name: value for column, value in zip(self._columns, values, strict=True)}
        version = self._version(frame)
        plain = frame.select(
            operation.alias(OPERATION),
            *(f.col(_old(place)) for place in range(len(self._keys))),
            *version,
            *(value.alias(name) for name, value in named.items()),
        )
        same = f.lit(True)
        for place, key in enumerate(self._keys):
            same = same & f.col(_old(place)).eqNullSafe(f.col(quoted(key.name)))
        is_moved = (f.col(OPERATION) == int(Operation.UPDATE)) & ~same
        leaves = f.col(OPERATION) == int(Operation.DELETE)
        versions = [OLD_VERSION] if version else []
        own = self._entry(f.col(OPERATION), {}, versions)
        gone = {key.name: f.col(_old(place)) for place, key in enumerate(self._keys)}
        gone |= self._old_version(versions)
        old = self._entry(
            f.when(leaves, f.col(OPERATION)).otherwise(int(Operation.MOVE_FROM)), gone, versions
        )
        new = self._entry(f.lit(int(Operation.MOVE_TO)), {}, versions)
        entries = f.when(is_moved, f.array(old, new)).when(leaves, f.array(old))
        return plain.select(f.inline(entries.otherwise(f.array(own))))

    def _old_version(self, versions: Sequence[str]) -> dict[str, Column]:
        """Return the version that a delete has: that of the row."""
        wanted = self._definition.properties.version_column
        names = [column.name for column in self._columns if column.id == wanted]
        return {names[0]: f.col(OLD_VERSION)} if versions else {}

    def _entry(
        self, operation: Column, given: Mapping[str, Column], versions: Sequence[str]
    ) -> Column:
        """Return one change as a struct of the columns that changes have."""
        fields = [operation.cast("int").alias(OPERATION), *map(f.col, versions)]
        for column in self._columns:
            value = given.get(column.name, f.col(quoted(column.name)))
            fields.append(value.cast(str(column.type)).alias(column.name))
        return f.struct(*fields)

    # Columns

    def _version_parts(self, alias: str) -> list[str]:
        wanted = self._definition.properties.version_column
        names = [column.name for column in self._columns if column.id == wanted]
        return [f"{alias}.{quoted(name)} AS {OLD_VERSION}" for name in names]

    def _version(self, frame: DataFrame) -> list[Column]:
        return [f.col(OLD_VERSION)] if OLD_VERSION in frame.columns else []

    def _stored(self, frame: DataFrame, clause: int, place: int) -> Column:
        name = _new(clause, place)
        return self._assign(frame.schema[name].dataType, f.col(name), self._columns[place])

    def _by_column(self, assignments: Sequence[Assignment]) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in assignments:
            if one.column.lower() in found:
                raise errors.UnsupportedStatementError(f"the column {one.column!r} is set twice")
            found[one.column.lower()] = one.expression
        return found

    def _named(self, names: Sequence[str]) -> Sequence[TableColumn]:
        try:
            columns = [self._definition.schema.column(name) for name in names]
        except errors.SchemaError as error:
            raise errors.SchemaMismatchError(f"table {self._definition.name}: {error}") from None
        if len({column.id for column in columns}) < len(columns):
            raise errors.SchemaMismatchError(
                f"table {self._definition.name}: a column is named twice in {', '.join(names)}"
            )
        return columns


_OPERATIONS = {
    Action.UPDATE: Operation.UPDATE,
    Action.INSERT: Operation.CREATE,
    Action.DELETE: Operation.DELETE,
}


def _operation(operation: Operation) -> Column:
    return f.lit(int(operation)).alias(OPERATION)


def _old(place: int) -> str:
    return f"__relstate_old_{place}"


def _new(clause: int, place: int) -> str:
    return f"__relstate_new_{clause}_{place}"


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {condition}"
