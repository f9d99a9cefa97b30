"""The word DEFAULT, and columns that are left out, in statements that change rows.

Promises: after `with_defaults` a statement means the same without the word. An INSERT that leaves
columns out is written without them: the writer gives them their defaults, as at every other door.
The DEFAULT of a generated column is the value that the writer computes, so it is left out too.
Does not know: how a statement is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relstate.connector.syntax.parameters import literal
from relstate.storage import (
    Column,
    ColumnDefault,
    TableDefinition,
    WriteTarget,
    arrow,
    errors,
    types,
)

from .default_words import default_places, with_values
from .dml import Action, Assignment, Change, Clause, Insert, Merge, Place, Update
from .dml_query import named_columns

_DEFAULT = "DEFAULT"


def with_defaults(statement: Change, target: WriteTarget) -> Change:
    """Return a statement with the defaults of columns in the place of the word DEFAULT.

    The present time is that of the target: its writers give it to rows that lack the column.
    SchemaMismatchError for an unknown column; UnsupportedStatementError for a DEFAULT in an INSERT
    whose column is not known, or is generated and given in other rows, and for a default of type
    TIME in an UPDATE or a MERGE.
    """
    definition = _definition_at(target)
    match statement:
        case Insert():
            return replace(
                statement,
                query=_inserted_query(statement, definition),
                computed=_computed_columns(statement, definition),
            )
        case Update():
            return replace(statement, assignments=_assigned(statement.assignments, definition))
        case Merge():
            clauses = tuple(_clause(clause, definition) for clause in statement.clauses)
            return replace(statement, clauses=clauses)
    return statement


def _definition_at(target: WriteTarget) -> TableDefinition:
    """Return the definition of a target whose defaults are constants, at the time of the target."""
    definition = target.definition
    if not definition.schema.clock_columns or target.planned is None:
        return definition
    columns = tuple(column.at(target.planned) for column in definition.schema.columns)
    return replace(definition, schema=replace(definition.schema, columns=columns))


def default_text(column: Column) -> str:
    """Return the default of a column as an expression of Spark; NULL if it has none.

    It is a constant.
    """
    if not isinstance(column.default, ColumnDefault):
        return "NULL"
    value = column.default.scalar(arrow.arrow_type(column.type)).as_py()
    match column.type:
        # Spark has no CAST to this type, and parameters no literal.
        case types.Time():
            return f"TIME'{value.isoformat()}'"
        # As a TIMESTAMP it would be a time in the zone of the session, which has gaps.
        case types.TimestampNtz():
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        # Text gets the collation of the column when it is stored.
        case types.String():
            return f"CAST({literal(value)} AS STRING)"
    return f"CAST({literal(value)} AS {column.type})"


def _computed_text(column: Column) -> str:
    """Return the text of a default in an UPDATE or a MERGE, whose rows Spark computes."""
    if column.default is not None and isinstance(column.type, types.Time):
        raise errors.UnsupportedStatementError(
            f"the column {column.name!r} has a DEFAULT of type {column.type}, which Spark does not "
            "compute in an UPDATE or a MERGE: write the rows with INSERT, which may leave the "
            "column out, or with store.write"
        )
    return default_text(column)


def _clause(clause: Clause, definition: TableDefinition) -> Clause:
    """Return a clause of MERGE; its INSERT names all columns that have a default."""
    if clause.assignments is None:
        return clause
    assignments = _assigned(clause.assignments, definition)
    if clause.action is Action.INSERT:
        names = {assignment.column.lower() for assignment in assignments}
        assignments += tuple(
            Assignment(Place(column.name), _computed_text(column))
            for column in definition.schema.visible_columns
            if column.default is not None and column.name.lower() not in names
        )
    return replace(clause, assignments=assignments)


def _assigned(
    assignments: Sequence[Assignment], definition: TableDefinition
) -> tuple[Assignment, ...]:
    generated = {column.name.lower() for column in definition.schema.generated_columns}
    return tuple(
        replace(assignment, expression=_default_of(assignment, definition))
        if assignment.expression.upper() == _DEFAULT
        else assignment
        for assignment in assignments
        if assignment.expression.upper() != _DEFAULT or assignment.column.lower() not in generated
    )


def _default_of(assignment: Assignment, definition: TableDefinition) -> str:
    """Return the default of what is assigned; a part of a column has none."""
    (column,) = named_columns(definition, [assignment.column])
    return "NULL" if assignment.place.steps else _computed_text(column)


def _inserted_query(statement: Insert, definition: TableDefinition) -> str:
    """Return the query of an INSERT, with a default for each value that is DEFAULT."""

    def value_at(position: int) -> str:
        if statement.by_name:
            raise errors.UnsupportedStatementError(
                "INSERT … BY NAME: DEFAULT has no name; leave the column out of the query, which "
                "gives it its default, or write `default`, in backticks, for a column of this name"
            )
        names, schema = statement.columns, definition.schema
        columns = schema.visible_columns if names is None else named_columns(definition, names)
        # A value too many stays, for the statement to be refused.
        return default_text(columns[position]) if position < len(columns) else "NULL"

    return with_values(statement.query, value_at)


def _computed_columns(statement: Insert, definition: TableDefinition) -> tuple[str, ...]:
    """Return the generated columns that are DEFAULT in all rows of the query of an INSERT."""
    schema = definition.schema
    if statement.by_name or not schema.generated_columns:
        return ()
    names = statement.columns
    columns = schema.visible_columns if names is None else named_columns(definition, names)
    rows = default_places(statement.query)
    computed = []
    for position, column in enumerate(columns):
        count = sum(position in row for row in rows)
        if column.generated is None or not count:
            continue
        if count < len(rows):
            raise errors.UnsupportedStatementError(
                f"the generated column {column.name!r} is DEFAULT in some rows and given in "
                "others: leave it out of the statement, and it is computed in all"
            )
        computed.append(column.name)
    return tuple(computed)
