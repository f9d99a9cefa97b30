"""A MERGE as a join of target and source, of which each pair of rows has one clause or none.

Promises: no row is read that no clause is about; a clause about rows without a partner sees the
columns of its own side only, whatever the other's are called.
Does not know: what the clauses do.
"""

from __future__ import annotations

from sqlglot import exp

from relstate.connector.syntax.tokens import quoted
from relstate.storage import errors, syntax

from .dml import Clause, Merge, When

_SOURCE_ROW = "__relstate_source_row"


def _whens(statement: Merge) -> set[When]:
    return {clause.when for clause in statement.clauses}


def clause_number(statement: Merge, target_key: str) -> str:
    """Return, in SQL, the number of the clause that applies to a pair of rows, or NULL."""
    tests = {
        When.MATCHED: f"{target_key} IS NOT NULL",
        When.NOT_MATCHED: f"{target_key} IS NULL",
        When.NOT_MATCHED_BY_SOURCE: f"{quoted(statement.source_alias)}.{_SOURCE_ROW} IS NULL",
    }
    if When.NOT_MATCHED_BY_SOURCE in _whens(statement):
        tests[When.MATCHED] += f" AND {quoted(statement.source_alias)}.{_SOURCE_ROW}"
    cases = []
    for number, clause in enumerate(statement.clauses):
        condition = ""
        if clause.condition is not None:
            condition = f" AND ({visible(statement, clause, clause.condition)})"
        cases.append(f"WHEN {tests[clause.when]}{condition} THEN {number}")
    return f"CASE {' '.join(cases)} END"


def joined(statement: Merge) -> str:
    """Return the FROM of a MERGE: only rows that some clause is about are kept."""
    whens = _whens(statement)
    target = f"{quoted(statement.table)} AS {quoted(statement.alias)}"
    if When.NOT_MATCHED_BY_SOURCE not in whens:
        kind = "LEFT JOIN" if When.NOT_MATCHED in whens else "JOIN"
        return f"{statement.source} {kind} {target} ON {statement.condition}"
    alias = quoted(statement.source_alias)
    source = f"(SELECT *, TRUE AS {_SOURCE_ROW} FROM {statement.source}) AS {alias}"
    kind = "FULL JOIN" if When.NOT_MATCHED in whens else "LEFT JOIN"
    return f"{target} {kind} {source} ON {statement.condition}"


def visible(statement: Merge, clause: Clause, expression: str) -> str:
    """Return an expression of a clause in which names without a table are those of its side."""
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
    bare = (column.this for column in tree.find_all(exp.Column) if not column.table)
    starts = {name.meta["start"] for name in bare if "start" in name.meta}
    for start in sorted(starts, reverse=True):
        expression = f"{expression[:start]}{side}.{expression[start:]}"
    return expression
