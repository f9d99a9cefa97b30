"""The query that computes the changes of an UPDATE, a DELETE or a MERGE, as text in SQL.

Its columns: `old_key` for the key that a row has, `old_version` for the version that it has,
`new_value` for the values that it gets, and of a MERGE `CLAUSE`, the number of the clause.

A MERGE is a join of target and source; to each pair of rows applies one clause or none.

Promises: no row is read that no clause can apply to; a clause for rows without a match sees the
columns of its own side only, whatever the columns of the other side are called.
Does not know: Spark, or how values are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from sqlglot import exp

from relstate.connector.sink.dml_task import OLD_VERSION
from relstate.connector.syntax.tokens import quoted
from relstate.storage import Column, TableDefinition, errors, syntax

from .dml import (
    Action,
    Assignment,
    Clause,
    Delete,
    DeleteParts,
    Merge,
    Update,
    When,
    check_whole,
)
from .part_changes import PartChange

CLAUSE = "__relstate_clause"
_SOURCE_ROW = "__relstate_source_row"
_IS_MATCH = "__relstate_is_match"


def old_key(index: int) -> str:
    """Return the name of the column with the value of a key column that a row has."""
    return f"__relstate_old_{index}"


def old_version(index: int) -> str:
    """Return the name of the column with the value of a version column that a row has."""
    return f"{OLD_VERSION}{index}"


def new_value(clause: int, index: int) -> str:
    """Return the name of the column with the value that a clause gives a column; 0 of an UPDATE."""
    return f"__relstate_new_{clause}_{index}"


def shared_value(index: int) -> str:
    """Return the name of the column with the value that all clauses of a MERGE give a column."""
    return f"__relstate_value_{index}"


def update_query(statement: Update, definition: TableDefinition) -> str:
    """Return the query of an UPDATE. SchemaMismatchError for a column that is not there.

    A generated column that is not assigned has no value: it is computed again.
    """
    expressions = assigned_expressions(definition, statement.assignments)
    alias = quoted(statement.alias)
    parts = _old_parts(definition, alias)
    for index, column in enumerate(definition.schema.columns):
        if column.generated is not None and column.id not in expressions:
            continue
        expression = expressions.get(column.id, f"{alias}.{quoted(column.name)}")
        parts.append(f"({expression}) AS {new_value(0, index)}")
    return _select(parts, f"{quoted(statement.table)} AS {alias}", statement.where)


def delete_query(statement: Delete, names: Sequence[str]) -> str:
    """Return the query of a DELETE, which has the columns of these names."""
    alias = quoted(statement.alias)
    parts = [f"{alias}.{quoted(name)} AS {quoted(name)}" for name in names]
    return _select(parts, f"{quoted(statement.table)} AS {alias}", statement.where)


def part_key(change: int, index: int) -> str:
    """Return the name of the column with a key on the way to what a change changes."""
    return f"__relstate_key_{change}_{index}"


def part_value(change: int) -> str:
    """Return the name of the column with the value of a change."""
    return f"__relstate_value_{change}"


def part_items(changes: Sequence[PartChange]) -> list[str]:
    """Return the items of a SELECT with the keys and values of changes of parts.

    In a call Spark refuses functions like explode, which return rows: each row is changed once.
    """
    items = []
    for number, change in enumerate(changes):
        items += [
            f"coalesce({key}) AS {part_key(number, index)}" for index, key in enumerate(change.keys)
        ]
        if change.value is not None:
            items.append(f"coalesce({change.value}) AS {part_value(number)}")
    return items


def constant_query(keys: Sequence[str], changes: Sequence[PartChange]) -> str:
    """Return the query of changes of parts of one row, whose key and values are constants."""
    items = [f"({key}) AS {old_key(index)}" for index, key in enumerate(keys)]
    # Spark evaluates over given rows what it plans; over no rows at all it starts a job. Beside a
    # column it refuses aggregates.
    return f"SELECT {', '.join(items + part_items(changes))}, x FROM VALUES (1) AS t(x)"


def part_query(
    statement: Update | DeleteParts, definition: TableDefinition, changes: Sequence[PartChange]
) -> str:
    """Return the query of a statement that changes parts of rows: keys of rows, then the items."""
    alias = quoted(statement.alias)
    parts = _old_parts(definition, alias) + part_items(changes)
    return _select(parts, f"{quoted(statement.table)} AS {alias}", statement.where)


def merge_query(statement: Merge, definition: TableDefinition, relation: str | None = None) -> str:
    """Return the query of a MERGE. SchemaMismatchError for a column that is not there.

    ``relation``: its FROM, by default the join of the target and the source.
    """
    target, source = quoted(statement.alias), quoted(statement.source_alias)
    present = f"{target}.{quoted(_present_column(statement, definition).name)}"
    parts = [f"{_clause_number(statement, present)} AS {CLAUSE}"]
    parts += _old_parts(definition, target)
    values = [
        {
            index: _qualified(statement, clause, expression)
            for index, expression in _clause_values(clause, definition, source, target).items()
        }
        for clause in statement.clauses
    ]
    shared = _shared_columns(values, statement.source_alias)
    parts += [f"{value} AS {shared_value(index)}" for index, value in shared.items()]
    for number, texts in enumerate(values):
        parts += [
            f"CASE WHEN {CLAUSE} = {number} THEN ({value}) END AS {new_value(number, index)}"
            for index, value in texts.items()
            if index not in shared
        ]
    return _select(parts, relation or _join(statement), None)


def _shared_columns(values: Sequence[Mapping[int, str]], alias: str) -> dict[int, str]:
    """Return those values that are the same column of the source in all clauses, by the index.

    ``values``: of each clause. Reading a column fails for no row, so it needs no CASE.
    """
    first, *others = values
    return {
        index: value
        for index, value in first.items()
        if all(texts.get(index) == value for texts in others) and _is_column_of(alias, value)
    }


def _is_column_of(alias: str, expression: str) -> bool:
    """Return whether an expression is a column that is qualified with an alias."""
    try:
        tree = syntax.parse_condition(expression)
    except errors.UnsupportedExpressionError:
        return False
    return isinstance(tree, exp.Column) and tree.table.lower() == alias.lower()


def looked_up_pairs(
    statement: Merge, pairs: str, source_names: Sequence[str], target_names: Sequence[str]
) -> str:
    """Return the FROM of a MERGE over the relation ``pairs``: see `PairLookup`.

    Its columns are `pair_column` of 0 and so on: those of the source, whether there is a row, and
    those of the row. Where the condition of the MERGE is not true there is none.
    """
    count = len(source_names) + 1 + len(target_names)
    columns = [f"{pairs}.{pair_column(index)}" for index in range(count)]
    is_matched, row = columns[len(source_names)], columns[len(source_names) + 1 :]
    source = _aliased(columns, source_names, statement.source_alias)
    candidates = _aliased(row, target_names, statement.alias)
    is_match = f"CASE WHEN {is_matched} THEN ({statement.condition}) END AS {_IS_MATCH}"
    matches = [f"CASE WHEN {pairs}.{_IS_MATCH} THEN {column} END" for column in row]
    return (
        f"(SELECT {', '.join(columns)}, {is_match} FROM {pairs}, {source}, {candidates}) "
        f"AS {pairs}, {source}, {_aliased(matches, target_names, statement.alias)}"
    )


def pair_column(index: int) -> str:
    """Return the name of a column of a relation of pairs."""
    return f"__relstate_pair_{index}"


def _aliased(values: Sequence[str], names: Sequence[str], alias: str) -> str:
    """Return a relation with one row for each row of those before it in the FROM."""
    items = (f"{value} AS {quoted(name)}" for value, name in zip(values, names, strict=False))
    return f"LATERAL (SELECT {', '.join(items)}) AS {quoted(alias)}"


def _present_column(statement: Merge, definition: TableDefinition) -> Column:
    """Return a column of the target that is not NULL in any of its rows."""
    schema = definition.schema
    columns = (*schema.key_columns, *schema.value_columns)
    column = next((column for column in columns if not column.nullable), None)
    if column is None:
        raise errors.UnsupportedStatementError(
            f"MERGE INTO {statement.table}: all columns of the table may be NULL, so a row of "
            "NULLs looks like no match: declare a column NOT NULL, or use INSERT and DELETE"
        )
    return column


def named_columns(definition: TableDefinition, names: Sequence[str]) -> Sequence[Column]:
    """Return the columns of these names. SchemaMismatchError if one is unknown or named twice."""
    try:
        columns = [definition.schema.column(name) for name in names]
    except errors.SchemaError as error:
        raise errors.SchemaMismatchError(f"table {definition.name}: {error}") from None
    for column in columns:
        if column.hidden:
            raise errors.SchemaMismatchError(
                f"table {definition.name}: the column {column.name!r} is the hidden row id, which "
                "cannot be set"
            )
    if len({column.id for column in columns}) < len(columns):
        raise errors.SchemaMismatchError(
            f"table {definition.name}: a column is named twice in {', '.join(names)}"
        )
    return columns


def assigned_expressions(
    definition: TableDefinition, assignments: Sequence[Assignment]
) -> dict[int, str]:
    """Return the expressions of assignments by the ids of their columns.

    SchemaMismatchError for an unknown column, UnsupportedStatementError for one that is set twice.
    """
    for assignment in assignments:
        check_whole(assignment)
    names = [assignment.column.lower() for assignment in assignments]
    for name in names:
        if names.count(name) > 1:
            raise errors.UnsupportedStatementError(f"the column {name!r} is set twice")
    columns = named_columns(definition, [assignment.column for assignment in assignments])
    return {
        column.id: assignment.expression
        for column, assignment in zip(columns, assignments, strict=True)
    }


def check_expressions(statement: Update | Delete | DeleteParts | Merge) -> None:
    """UnsupportedStatementError for an expression of a statement that cannot be read."""
    match statement:
        case Merge():
            texts = [statement.condition, *(clause.condition for clause in statement.clauses)]
            pairs = (clause.assignments or () for clause in statement.clauses)
            assignments = list(chain.from_iterable(pairs))
        case Update():
            texts, assignments = [statement.where], list(statement.assignments)
        case Delete() | DeleteParts():
            texts, assignments = [statement.where], []
    for text in (*texts, *(assignment.expression for assignment in assignments)):
        try:
            if text is not None:
                syntax.parse_condition(text)
        except errors.UnsupportedExpressionError as error:
            raise errors.UnsupportedStatementError(f"table {statement.table}: {error}") from None


def _select(parts: Sequence[str], source: str, where: str | None) -> str:
    condition = "" if where is None else f" WHERE {where}"
    return f"SELECT {', '.join(parts)} FROM {source}{condition}"


def _old_parts(definition: TableDefinition, alias: str) -> list[str]:
    """Return the items of a SELECT with the key and the version that a row has."""
    keys = definition.schema.key_columns
    parts = [f"{alias}.{quoted(key.name)} AS {old_key(index)}" for index, key in enumerate(keys)]
    versions = definition.schema.version_columns(definition.properties.version_columns)
    return parts + [
        f"{alias}.{quoted(column.name)} AS {old_version(index)}"
        for index, column in enumerate(versions)
    ]


def _clause_values(
    clause: Clause, definition: TableDefinition, source: str, target: str
) -> dict[int, str]:
    """Return the expressions of a clause by the index of the column they are for.

    A generated column that it does not assign has none.
    """
    columns = definition.schema.columns
    if clause.action is Action.DELETE:
        return {}
    if clause.assignments is None:
        visible = definition.schema.visible_columns
        expressions = {column.id: f"{source}.{quoted(column.name)}" for column in visible}
    else:
        expressions = assigned_expressions(definition, clause.assignments)
    if clause.action is Action.UPDATE:
        unchanged = {
            column.id: f"{target}.{quoted(column.name)}"
            for column in columns
            if column.generated is None
        }
        expressions = {**unchanged, **expressions}
    return {
        index: expressions[column.id]
        for index, column in enumerate(columns)
        if column.id in expressions
    }


def _kinds(statement: Merge) -> set[When]:
    return {clause.when for clause in statement.clauses}


def _clause_number(statement: Merge, target_key: str) -> str:
    """Return, in SQL, the number of the clause that applies to a pair of rows, or NULL."""
    tests = {
        When.MATCHED: f"{target_key} IS NOT NULL",
        When.NOT_MATCHED: f"{target_key} IS NULL",
        When.NOT_MATCHED_BY_SOURCE: f"{quoted(statement.source_alias)}.{_SOURCE_ROW} IS NULL",
    }
    if When.NOT_MATCHED_BY_SOURCE in _kinds(statement):
        tests[When.MATCHED] += f" AND {quoted(statement.source_alias)}.{_SOURCE_ROW}"
    cases = []
    for number, clause in enumerate(statement.clauses):
        condition = ""
        if clause.condition is not None:
            condition = f" AND ({_qualified(statement, clause, clause.condition)})"
        cases.append(f"WHEN {tests[clause.when]}{condition} THEN {number}")
    return f"CASE {' '.join(cases)} END"


def _join(statement: Merge) -> str:
    """Return the FROM of a MERGE, of the kind of join that keeps no row without a clause."""
    kinds = _kinds(statement)
    target = f"{quoted(statement.table)} AS {quoted(statement.alias)}"
    if When.NOT_MATCHED_BY_SOURCE not in kinds:
        kind = "LEFT JOIN" if When.NOT_MATCHED in kinds else "JOIN"
        return f"{statement.source} {kind} {target} ON {statement.condition}"
    alias = quoted(statement.source_alias)
    source = f"(SELECT *, TRUE AS {_SOURCE_ROW} FROM {statement.source}) AS {alias}"
    kind = "FULL JOIN" if When.NOT_MATCHED in kinds else "LEFT JOIN"
    return f"{target} {kind} {source} ON {statement.condition}"


def _qualified(statement: Merge, clause: Clause, expression: str) -> str:
    """Return an expression of a clause in which names without a table belong to its side."""
    if clause.when is When.MATCHED:
        return expression
    is_source = clause.when is When.NOT_MATCHED
    side = quoted(statement.source_alias if is_source else statement.alias)
    try:
        tree = syntax.parse_condition(expression)
    except errors.UnsupportedExpressionError:
        return expression
    if tree.find(exp.Query) is not None:
        # Names in a subquery may be its own.
        return expression
    plain = (column.this for column in tree.find_all(exp.Column) if not column.table)
    starts = {name.meta["start"] for name in plain if "start" in name.meta}
    for start in sorted(starts, reverse=True):
        expression = f"{expression[:start]}{side}.{expression[start:]}"
    return expression
