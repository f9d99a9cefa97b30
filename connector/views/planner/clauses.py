"""The clauses of one SELECT as expressions over the fields of its FROM.

Promises: a name in a clause means what Spark takes it for there.
Does not know: which operators the clauses become (query).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    comparable_text,
    conjuncts,
    is_star,
    text_of,
    whole_number,
    without_parentheses,
)

from .expressions import unsupported_error
from .generators import is_generator
from .group_by import has_aggregates
from .grouping_sets import GroupBy, grouping_sets, has_grouping_sets
from .scope import Scope
from .sort_keys import SortKey, sort_keys

_UNSUPPORTED_CLAUSES = {
    "match": ("MATCH_RECOGNIZE", "Spark does not support it; compare rows by LAG and LEAD"),
    "connect": ("CONNECT BY", "Spark does not support it; write a join for each level"),
    "into": ("INTO", "Spark does not support it; name the view in CREATE MATERIALIZED VIEW"),
    "kind": ("SELECT AS", "Spark does not support it; write struct(…)"),
}
"""By sqlglot's name of a clause its own, and what to write instead."""


@dataclass(frozen=True, slots=True)
class SelectColumn:
    """A column of a SELECT: its name, None if it has none, and its value over fields.

    A ``call`` that returns rows is several columns, of these ``names`` if there are any; its
    ``values`` are those of its arguments that are not constants.
    """

    name: str | None
    value: Tree
    call: Tree | None = None
    names: tuple[str, ...] = ()

    @property
    def values(self) -> list[Tree]:
        """What is to be computed for it."""
        return (
            [self.value] if self.call is None else list(filter(_is_computed, self.call.expressions))
        )

    def call_over(self, fields: Sequence[str]) -> Tree:
        """Return the call over the fields that hold its values."""
        assert self.call is not None
        remaining = iter(fields)
        call = self.call.copy()
        arguments = [
            column(next(remaining)) if _is_computed(argument) else argument
            for argument in call.expressions
        ]
        call.set("expressions", arguments)
        return call


def _is_computed(argument: Tree) -> bool:
    return not isinstance(argument, exp.Literal | exp.Null | exp.Boolean)


def select_columns(tree: exp.Select, scope: Scope) -> list[SelectColumn]:
    """Return the columns of a SELECT; an alias may be used by the columns after it."""
    columns: list[SelectColumn] = []
    for expression in tree.expressions:
        value = expression.this if isinstance(expression, exp.Alias) else expression
        if is_star(value):
            columns += _columns_of_star(value, scope)
            continue
        if isinstance(expression, exp.Aliases):
            value = expression.this
        resolved = replace(scope, aliases=alias_values(columns)).resolve(value)
        if is_generator(resolved):
            columns.append(SelectColumn(None, resolved, resolved, _names_of(expression)))
            continue
        if isinstance(expression, exp.Aliases):
            raise unsupported_error("several names for one expression", "give it one", expression)
        # Remove parentheses, so that ORDER BY 1 sees that a SELECT column is a constant.
        columns.append(SelectColumn(_column_name(expression), without_parentheses(resolved)))
    return columns


def _columns_of_star(star: Tree, scope: Scope) -> list[SelectColumn]:
    """Return the columns of a star, those after its REPLACE with the values there."""
    replaced = (
        {}
        if isinstance(star, exp.Column)
        else {value.alias.lower(): value.this for value in star.args.get("replace") or ()}
    )
    if replaced:
        star = star.copy()
        star.set("replace", None)
    return [
        SelectColumn(
            name,
            without_parentheses(scope.resolve(replaced[name.lower()]))
            if name and name.lower() in replaced
            else value,
        )
        for name, value in scope.star_columns(star)
    ]


def _names_of(tree: Tree) -> tuple[str, ...]:
    """Return the names that a query gives the columns of a call."""
    if isinstance(tree, exp.Aliases):
        return tuple(name.name for name in tree.expressions)
    return (tree.alias,) if isinstance(tree, exp.Alias) else ()


def _column_name(tree: Tree) -> str | None:
    if isinstance(tree, exp.Alias):
        return tree.alias
    is_part = isinstance(tree, exp.Dot) and isinstance(_without_parts(tree), exp.Column)
    return tree.name or None if is_part or isinstance(tree, exp.Column) else None


def _without_parts(tree: Tree) -> Tree:
    """Return what a part of a struct, or a part of a part, is taken from."""
    while isinstance(tree, exp.Dot):
        tree = tree.this
    return tree


def alias_values(columns: Sequence[SelectColumn]) -> dict[str, Tree]:
    """Return the value of each alias; a name with several values is left out."""
    values: dict[str, Tree] = {}
    ambiguous = set()
    for select_column in columns:
        if select_column.call is not None:
            continue
        name = (select_column.name or "").lower()
        if name in values and comparable_text(values[name]) != comparable_text(select_column.value):
            ambiguous.add(name)
        values[name] = select_column.value
    return {name: value for name, value in values.items() if name and name not in ambiguous}


def qualify_conditions(tree: exp.Select, scope: Scope, is_windowed: bool) -> list[Tree]:
    """Return the conditions of a QUALIFY, all of which must hold.

    ``is_windowed``: in a SELECT with windows Spark resolves aliases first, elsewhere columns.
    """
    clause = tree.args.get("qualify")
    if clause is None:
        return []
    if tree.args.get("having") is not None:
        _check_one_meaning(clause, scope)
    scope = scope.with_aliases_first() if is_windowed else scope
    return [scope.resolve(condition) for condition in conjuncts(clause.this)]


def _check_one_meaning(clause: Tree, scope: Scope) -> None:
    """Refuse a name that is both a column and an alias: Spark's choice depends on HAVING."""
    for reference in clause.find_all(exp.Column):
        alias = scope.aliases.get(reference.name.lower())
        item = None if alias is None or reference.table else scope.item(reference.name)
        if (
            alias is not None
            and item is not None
            and comparable_text(alias) != comparable_text(column(item.field))
        ):
            raise unsupported_error(
                "a name in QUALIFY, after HAVING, that is a column and an alias",
                "Spark may take it for either; give the alias another name",
                reference,
            )


def group_by(tree: exp.Select, columns: Sequence[SelectColumn], scope: Scope) -> GroupBy | None:
    """Return the GROUP BY of a SELECT; None if it has none."""
    clause = tree.args.get("group")
    if clause is None:
        return None

    def resolve(expression: Tree) -> Tree:
        position = whole_number(expression)
        value = scope.resolve(expression) if position is None else columns[position - 1].value
        return without_parentheses(value)

    if has_grouping_sets(clause):
        return grouping_sets(clause, resolve)
    if clause.args.get("all"):
        if scope.item("all") is not None:
            raise unsupported_error(
                "GROUP BY ALL over a column of that name", "name the columns", clause
            )
        values = (select_column.value for select_column in columns)
        return GroupBy(tuple(value for value in values if not has_aggregates([value])))
    return GroupBy(tuple(map(resolve, clause.expressions)))


def order_keys(tree: Tree, columns: Sequence[SelectColumn], scope: Scope) -> list[SortKey]:
    """Return the sort keys of a query over fields, without constants."""
    clause = tree.args.get("order")
    keys: list[SortKey] = []
    for key in () if clause is None else sort_keys(clause):
        if is_all(key.value):
            if scope.item("all") is not None or "all" in scope.aliases:
                raise unsupported_error(
                    "ORDER BY ALL over a column of that name", "name the columns", clause
                )
            keys += [key._replace(value=output.value) for output in columns]
            continue
        position = whole_number(key.value)
        resolved = scope.resolve(key.value) if position is None else columns[position - 1].value
        keys.append(key._replace(value=without_parentheses(resolved)))
    return keys


def limit_and_offset(tree: Tree) -> tuple[int | None, int]:
    """Return (limit, offset) of a query; the limit is None if it has none."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if isinstance(limit, exp.Fetch):
        raise unsupported_error("FETCH", "write LIMIT", tree)
    count = None
    if limit is not None and not is_all(limit.expression):
        count = _row_count(limit.expression)
    return count, 0 if offset is None else _row_count(offset.expression)


def with_order_by(tree: Tree) -> Tree:
    """Return a query with ORDER BY for SORT BY and CLUSTER BY, and without DISTRIBUTE BY.

    They order and distribute the rows of a result, and change none of them.
    """
    ordered: Tree = tree.copy()
    for query in ordered.find_all(exp.Query):
        sort, cluster = query.args.get("sort"), query.args.get("cluster")
        for clause in ("sort", "cluster", "distribute"):
            query.set(clause, None)
        if sort is not None:
            query.set("order", exp.Order(expressions=sort.expressions))
        elif cluster is not None:
            keys = [exp.Ordered(this=key, nulls_first=True) for key in cluster.expressions]
            query.set("order", exp.Order(expressions=keys))
    return ordered


def has_limit(tree: Tree) -> bool:
    """Return whether a query, or one in parentheses, ends in ORDER BY, LIMIT or OFFSET."""
    return any(tree.args.get(clause) is not None for clause in ("order", "limit", "offset"))


def is_all(tree: Tree) -> bool:
    """Return whether what follows LIMIT is ALL."""
    is_name = isinstance(tree, exp.Var) or (isinstance(tree, exp.Column) and not tree.table)
    return is_name and tree.name.upper() == "ALL"


def _row_count(tree: Tree) -> int:
    number = whole_number(tree)
    if number is None:
        raise unsupported_error(f"LIMIT {text_of(tree)}", "write a number")
    return number


def check_clauses(tree: exp.Select) -> None:
    """Raise UnsupportedStatementError for a clause that a view cannot have."""
    for argument, (clause_name, advice) in _UNSUPPORTED_CLAUSES.items():
        if tree.args.get(argument):
            raise unsupported_error(clause_name, advice, tree)
