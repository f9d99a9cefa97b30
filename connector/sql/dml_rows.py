"""A statement that changes rows, as the rows of changes that Spark computes.

The changes come from one query, which contains the statement's expressions as written. How a value
is stored follows from the type that Spark finds for its expression, by the rule of SQL and of
Spark's ``storeAssignmentPolicy=ANSI``: a number may become any number, a date or timestamp any of
these, any simple value text; a value that does not fit is an error.

Promises: an expression is evaluated once per row, and only for the rows that need it.
Does not know: how changes are checked, written or committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relstate.connector.sink.dml_task import COMPUTED, OLD_VERSION, OPERATION, Operation
from relstate.connector.syntax.tokens import quoted
from relstate.connector.types import cast_text
from relstate.storage import Column as TableColumn
from relstate.storage import TableDefinition, errors

from .dml import (
    Action,
    Assignment,
    Clause,
    Delete,
    DeleteParts,
    Insert,
    Merge,
    Place,
    Update,
)
from .dml_query import (
    CLAUSE,
    assigned_expressions,
    check_expressions,
    delete_query,
    merge_query,
    named_columns,
    new_value,
    old_key,
    shared_value,
    update_query,
)
from .key_equality import Scope, is_same_column
from .lookup import LookedUp, LookupPlanner, Statement
from .planned_query import PlannedQuery
from .query_reader import QueryReader
from .stored_value import StoredValues


@dataclass(frozen=True, slots=True)
class DmlRows:
    """The rows of changes and the query they come from.

    ``is_checked``: several changes may have one key, so that the tasks must check keys.
    ``is_clustered``: the rows of a range of vnodes are in one partition. ``batch``: the rows, if
    the driver has computed them; the frame has none then.
    """

    rows: DataFrame
    query: PlannedQuery
    is_checked: bool
    is_clustered: bool = False
    batch: pa.RecordBatch | None = None


class DmlPlanner:
    """Plans the changes of one statement to one table, at the epoch of a query reader."""

    def __init__(self, reader: QueryReader, definition: TableDefinition) -> None:
        self._reader = reader
        self._definition = definition
        self._lookups = LookupPlanner(reader, definition)
        self._columns = definition.schema.columns
        self._visible = definition.schema.visible_columns
        self._keys = definition.schema.key_columns

    def changes(self, statement: Insert | Update | Delete | Merge) -> DmlRows:
        """Return the changes of a statement. SchemaMismatchError, UnsupportedStatementError."""
        match statement:
            case Insert():
                return self._insert_rows(statement)
            case Update():
                return self._update_rows(statement)
            case Delete():
                return self._delete_rows(statement)
            case Merge():
                return self._merge_rows(statement)

    def _insert_rows(self, statement: Insert) -> DmlRows:
        query = self._reader.plan(statement.query)
        frame = self._reader.frame(query)
        columns = self._target_columns(statement, frame)
        self._definition.check_versions(column.name for column in columns)
        plain = frame.toDF(*(f"c{index}" for index in range(len(columns))))
        values = [
            self._stored(plain, f"c{index}", column, by_name=statement.by_name)
            + f" AS {quoted(column.name)}"
            for index, column in enumerate(columns)
            if column.name not in statement.computed
        ]
        given = {column.id for column in columns}
        values += [
            f"CAST(NULL AS {cast_text(key.type)}) AS {quoted(key.name)}"
            for key in self._keys
            if key.nullable and not key.hidden and key.id not in given
        ]
        return DmlRows(plain.selectExpr(_operation(Operation.UPSERT), *values), query, False)

    def _target_columns(self, statement: Insert, frame: DataFrame) -> Sequence[TableColumn]:
        names = tuple(frame.columns) if statement.by_name else statement.columns
        columns = self._visible if names is None else named_columns(self._definition, names)
        if len(columns) != len(frame.columns):
            raise errors.SchemaMismatchError(
                f"the query has {len(frame.columns)} columns ({', '.join(frame.columns)}) for the "
                f"{len(columns)} columns {', '.join(column.name for column in columns)} of the "
                f"table {self._definition.name!r}"
            )
        return columns

    def _update_rows(self, statement: Update) -> DmlRows:
        read = self._read(statement, lambda update: update_query(update, self._definition))
        return _computed(read, lambda read: self._updated_rows(statement, read))

    def _updated_rows(self, statement: Update, read: LookedUp) -> DmlRows:
        frame, query = read.frame, read.query
        assigned = assigned_expressions(self._definition, statement.assignments)
        values = {
            column.name: self._stored(frame, new_value(0, index), column)
            for index, column in enumerate(self._columns)
            if column.generated is None or column.id in assigned
        }
        if any(key.id in assigned for key in self._keys):
            rows = self._with_moves(frame, str(int(Operation.UPDATE)), values)
            return DmlRows(rows, query, True)
        stored = [f"{value} AS {quoted(name)}" for name, value in values.items()]
        rows = frame.selectExpr(_operation(Operation.UPDATE), *_old_versions(frame), *stored)
        return DmlRows(rows, query, False, read.is_clustered)

    def _delete_rows(self, statement: Delete) -> DmlRows:
        names = [column.name for column in self._columns if self._is_needed_to_delete(column)]
        read = self._read(statement, lambda delete: delete_query(delete, names))
        columns = [_operation(Operation.DELETE), *map(quoted, names)]

        def deleted_rows(read: LookedUp) -> DmlRows:
            return DmlRows(read.frame.selectExpr(*columns), read.query, False, read.is_clustered)

        return _computed(read, deleted_rows)

    def _read(self, statement: Statement, text_of: Callable[[Statement], str]) -> LookedUp:
        """Return the rows of the query of an UPDATE or a DELETE; ``text_of`` returns its text."""
        query = planned_query(self._reader, statement, text_of(statement))
        return self._lookups.named_rows(statement, query, text_of)

    def _is_needed_to_delete(self, column: TableColumn) -> bool:
        is_key = any(key.id == column.id for key in self._keys)
        return is_key or column.id in self._definition.properties.version_columns

    # MERGE

    def _merge_rows(self, statement: Merge) -> DmlRows:
        statement = self._with_given_columns(statement)
        for clause in statement.clauses:
            if clause.action is Action.INSERT and clause.assignments is not None:
                self._definition.check_versions(item.column for item in clause.assignments)
        text = merge_query(statement, self._definition)
        query = planned_query(self._reader, statement, text)
        read = self._lookups.merged_rows(statement, query)
        return _computed(read, lambda read: self._merged_rows(statement, read))

    def _with_given_columns(self, statement: Merge) -> Merge:
        """Return a MERGE whose ``*`` leaves out the generated columns that its source lacks."""
        generated = {column.name.lower() for column in self._definition.schema.generated_columns}
        if not generated or all(clause.assignments is not None for clause in statement.clauses):
            return statement
        source = self._reader.frame(self._reader.plan(f"SELECT * FROM {statement.source}"))
        lacking = generated - {name.lower() for name in source.columns}
        alias = quoted(statement.source_alias)
        every = tuple(
            Assignment(Place(column.name), f"{alias}.{quoted(column.name)}")
            for column in self._visible
            if column.name.lower() not in lacking
        )
        clauses = tuple(
            replace(clause, assignments=every) if clause.assignments is None else clause
            for clause in statement.clauses
        )
        return replace(statement, clauses=clauses) if lacking else statement

    def _merged_rows(self, statement: Merge, read: LookedUp) -> DmlRows:
        frame, query = read.frame, read.query
        values = {}
        for index, column in enumerate(self._columns):
            computing = _computing_clauses(frame, statement.clauses, index, column)
            if computing and computing == _writing_clauses(statement.clauses):
                continue
            values[column.name] = self._merged_value(frame, statement.clauses, index, column)
            if computing:
                is_computed = f.expr(f"{CLAUSE} IN ({', '.join(map(str, computing))})")
                frame = frame.withColumn(f"{COMPUTED}{column.id}", is_computed)
        operations = [int(_OPERATIONS[clause.action]) for clause in statement.clauses]
        operation = _by_clause({n: str(code) for n, code in enumerate(operations)}, "INT")
        frame = frame.where(f"{CLAUSE} IS NOT NULL")
        if self._keeps_keys(statement, read):
            return DmlRows(self._without_moves(frame, operation, values), query, True)
        return DmlRows(self._with_moves(frame, operation, values), query, True)

    def _keeps_keys(self, statement: Merge, read: LookedUp) -> bool:
        """Return whether each UPDATE of a MERGE leaves keys as they are.

        It does if it gives them the value by which the row was found.
        """
        source = Scope.of(statement.source_alias, read.source_columns)
        target = Scope.of(statement.alias, [column.name for column in self._columns])
        for clause in statement.clauses:
            if clause.action is not Action.UPDATE:
                continue
            if clause.assignments is None:
                qualifier = quoted(statement.source_alias)
                texts = {key.id: f"{qualifier}.{quoted(key.name)}" for key in self._keys}
            else:
                texts = assigned_expressions(self._definition, clause.assignments)
            for key in self._keys:
                text, value = texts.get(key.id), read.key_values.get(key.name.lower())
                if text is None:
                    continue
                if value is None or not is_same_column(text, value, source, target):
                    return False
        return True

    def _merged_value(
        self, frame: DataFrame, clauses: Sequence[Clause], index: int, column: TableColumn
    ) -> str:
        """Return the SQL of a column's value under the clause that applies; NULL if it has none."""
        if shared_value(index) in frame.columns:
            return self._stored(frame, shared_value(index), column)
        values = {
            number: self._stored(frame, name, column)
            for number in range(len(clauses))
            if (name := new_value(number, index)) in frame.columns
        }
        return _by_clause(values, cast_text(column.type))

    # Updates of keys

    def _with_moves(self, frame: DataFrame, operation: str, values: Mapping[str, str]) -> DataFrame:
        """Return changes in which an update that gives a row another key is two changes."""
        flags = [name for name in frame.columns if name.startswith(COMPUTED)]
        plain = frame.selectExpr(
            f"{operation} AS {OPERATION}",
            *(old_key(index) for index in range(len(self._keys))),
            *_old_versions(frame),
            *flags,
            *(f"{value} AS {quoted(name)}" for name, value in values.items()),
        )
        same = f.lit(True)
        for index, key in enumerate(self._keys):
            same = same & f.col(old_key(index)).eqNullSafe(f.col(quoted(key.name)))
        is_moved = (f.col(OPERATION) == int(Operation.UPDATE)) & ~same
        is_deleted = f.col(OPERATION) == int(Operation.DELETE)
        versions = _old_versions(frame)
        columns = [column for column in self._columns if column.name in values]
        carried = [*versions, *flags]
        own = self._entry(columns, f.col(OPERATION), {}, carried)
        old_values = {key.name: f.col(old_key(i)) for i, key in enumerate(self._keys)}
        ids = self._definition.properties.version_columns
        for column, name in zip(
            self._definition.schema.version_columns(ids), versions, strict=bool(versions)
        ):
            old_values[column.name] = f.col(name)
        old = self._entry(
            columns,
            f.when(is_deleted, f.col(OPERATION)).otherwise(int(Operation.MOVE_FROM)),
            old_values,
            carried,
        )
        new = self._entry(columns, f.lit(int(Operation.MOVE_TO)), {}, carried)
        entries = f.when(is_moved, f.array(old, new)).when(is_deleted, f.array(old))
        return plain.select(f.inline(entries.otherwise(f.array(own))))

    def _without_moves(
        self, frame: DataFrame, operation: str, values: Mapping[str, str]
    ) -> DataFrame:
        """Return changes in which each row keeps its key; of a row that goes its key and version.

        Spark computes these without a job over rows that it has.
        """
        own = {key.id: old_key(index) for index, key in enumerate(self._keys)}
        versions = _old_versions(frame)
        ids = self._definition.properties.version_columns
        stored = self._definition.schema.version_columns(ids)
        gone = own | {column.id: name for column, name in zip(stored, versions, strict=True)}
        columns = []
        for column in self._columns:
            if column.name not in values:
                continue
            value = values[column.name]
            if column.id in gone:
                codes = [int(Operation.DELETE)]
                if column.id in own:
                    codes.append(int(Operation.UPDATE))
                is_old = f"{operation} IN ({', '.join(map(str, codes))})"
                value = f"CASE WHEN {is_old} THEN {gone[column.id]} ELSE {value} END"
            columns.append(f"{value} AS {quoted(column.name)}")
        flags = [name for name in frame.columns if name.startswith(COMPUTED)]
        return frame.selectExpr(f"{operation} AS {OPERATION}", *versions, *flags, *columns)

    def _entry(
        self,
        columns: Sequence[TableColumn],
        operation: Column,
        values: Mapping[str, Column],
        carried: Sequence[str],
    ) -> Column:
        """Return one change as a struct of the columns that changes have.

        ``values``: of columns, by name, that are not the columns of the row. ``carried``: names of
        columns for the tasks.
        """
        fields = [operation.cast("int").alias(OPERATION), *map(f.col, carried)]
        for column in columns:
            value = values.get(column.name, f.col(quoted(column.name)))
            fields.append(value.alias(column.name))
        return f.struct(*fields)

    # Values

    def _stored(
        self, frame: DataFrame, name: str, column: TableColumn, *, by_name: bool = True
    ) -> str:
        """Return the SQL of what is stored of a value in a column of the table.

        ``by_name``: how the fields of structs are found. SchemaMismatchError if nothing of the
        value's type can be stored in the column.
        """
        description = f"table {self._definition.name}: the column {column.name!r}"
        values = StoredValues(self._reader.session.is_ansi, by_name)
        return values.text(frame, name, column.type, description)


_OPERATIONS = {
    Action.UPDATE: Operation.UPDATE,
    Action.INSERT: Operation.CREATE,
    Action.DELETE: Operation.DELETE,
}


def planned_query(
    reader: QueryReader, statement: Update | Delete | DeleteParts | Merge, text: str
) -> PlannedQuery:
    """Return the query of a statement, whose text is given; errors are in the user's words."""
    try:
        return reader.plan(text, target=statement.alias)
    except errors.UnsupportedStatementError:
        check_expressions(statement)
        raise


def _computed(read: LookedUp, changes: Callable[[LookedUp], DmlRows]) -> DmlRows:
    """Return the changes of what was read, computed here if the driver has what was read."""
    rows = changes(read)
    if read.local is None:
        return rows
    batch = read.local.computed(rows.rows)
    return changes(read.in_spark()) if batch is None else replace(rows, batch=batch)


def _writing_clauses(clauses: Sequence[Clause]) -> list[int]:
    """Return the numbers of the clauses of a MERGE after which there is a row."""
    return [number for number, clause in enumerate(clauses) if clause.action is not Action.DELETE]


def _computing_clauses(
    frame: DataFrame, clauses: Sequence[Clause], index: int, column: TableColumn
) -> list[int]:
    """Return the numbers of the clauses of a MERGE that give a generated column no value."""
    if column.generated is None or shared_value(index) in frame.columns:
        return []
    return [
        number
        for number in _writing_clauses(clauses)
        if new_value(number, index) not in frame.columns
    ]


def _operation(operation: Operation) -> str:
    return f"{int(operation)} AS {OPERATION}"


def _old_versions(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name.startswith(OLD_VERSION)]


# One text for all of an expression: each function of PySpark makes about ten calls to the JVM.


def _by_clause(values: Mapping[int, str], type_text: str) -> str:
    """Return the SQL of the value that the clause of a row has; NULL of a type for others."""
    branches = "".join(f" WHEN {number} THEN {value}" for number, value in values.items())
    null = f"CAST(NULL AS {type_text})"
    return f"CASE {CLAUSE}{branches} ELSE {null} END" if branches else null
