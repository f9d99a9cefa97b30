"""Which columns of the table that a statement changes are equal to values of its source.

A MERGE names them in its ON, an UPDATE or a DELETE by a subquery in its WHERE. Where these are the
columns of the primary key, or those of an index, the rows can be looked up by the values.

Promises: a row of the table for which the condition is true has, in these columns, the values of a
row of the source; values are columns, literals and arithmetic, so evaluating them again gives the
same. What it is not sure of it leaves out.
Does not know: Spark, or types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from relstate.connector.syntax.conjuncts import (
    Part,
    conjunction,
    conjuncts,
    equality_sides,
    existence,
    membership,
    part_of,
)
from relstate.connector.syntax.tree import Tree, is_star, without_parentheses
from relstate.storage import syntax

# The parts that a SELECT may have whose rows are those of its FROM that its WHERE leaves.
_PLAIN_PARTS = frozenset({"expressions", "from_", "joins", "where"})
# Of several rows of a source, another one may be meant each time.
_UNSTABLE = frozenset(
    {
        "current_timestamp", "input_file_name", "monotonically_increasing_id", "now", "rand",
        "randn", "random", "randstr", "shuffle", "spark_partition_id", "uniform", "uuid",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """A relation as conditions name it: its alias, and its columns in lower case."""

    alias: str
    columns: frozenset[str]

    @classmethod
    def of(cls, alias: str, columns: Collection[str]) -> Scope:
        """Return the scope of a relation."""
        return cls(alias.lower(), frozenset(name.lower() for name in columns))


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows of a table for which a condition is true, as a subquery in it names them.

    ``columns``, in lower case, are equal to the columns of ``query``, in their order. ``rest`` is
    what else must be true, None if nothing. ``description``: the part of the condition.
    """

    columns: tuple[str, ...]
    query: str
    rest: str | None
    description: str


def source_values(condition: str, target: Scope, source: Scope) -> dict[str, str]:
    """Return the columns of a target, in lower case, that are equal to values of a source.

    ``condition``: the ON of a MERGE. The values are expressions in SQL over the source's columns.
    """
    if target.alias == source.alias:
        return {}
    values: dict[str, str] = {}
    for conjunct in conjuncts(part_of(condition)):
        if _is_unstable(conjunct):
            return {}
        for column, value in _sides(conjunct):
            name = _column_of(column, target, source)
            if name is not None and _is_value_of(value, source, target):
                values.setdefault(name, value.source)
    return values


def is_same_column(expression: str, value: str, source: Scope, target: Scope) -> bool:
    """Return whether two expressions of a MERGE are one column of its source."""
    names = [_name_in(part_of(text).tree, source, target) for text in (expression, value)]
    return names[0] is not None and names[0] == names[1]


def condition_count(condition: str) -> int:
    """Return of how many conditions, all of which must hold, a condition consists."""
    return len(list(conjuncts(part_of(condition))))


def named_rows(condition: str, target: Scope) -> Iterator[NamedRows]:
    """Yield the ways in which subqueries in a condition name the rows for which it is true.

    ``condition``: the WHERE of an UPDATE or a DELETE.
    """
    parts = list(conjuncts(part_of(condition)))
    for index, part in enumerate(parts):
        rest = conjunction([*parts[:index], *parts[index + 1 :]])
        key_query = _named_by_membership(part, target) or _named_by_existence(part, target)
        if key_query is not None:
            columns, query = key_query
            yield NamedRows(columns, query, rest, part.source)


def _named_by_membership(part: Part, target: Scope) -> tuple[tuple[str, ...], str] | None:
    sides = membership(part)
    if sides is None or sides[1].names_alias(target.alias):
        return None
    tree = sides[0].tree
    operands = tree.expressions if isinstance(tree, exp.Tuple) else [tree]
    names = [_name_in(operand, target, None) for operand in operands]
    key_names = tuple(name for name in names if name is not None)
    is_complete = len(set(key_names)) == len(operands)
    return (key_names, sides[1].source) if is_complete else None


def _named_by_existence(part: Part, target: Scope) -> tuple[tuple[str, ...], str] | None:
    query = existence(part)
    if query is None or not _is_plain_select(query, target):
        return None
    words = {query.tokens[index].token_type: index for index in reversed(query.outer_positions())}
    start, stop = words.get(TokenType.FROM), words.get(TokenType.WHERE)
    if start is None or stop is None:
        return None
    relations, condition = query.cut(start, stop), query.cut(stop + 1)
    if relations is None or condition is None or relations.names_alias(target.alias):
        return None
    values: dict[str, str] = {}
    others: list[Part] = []
    for conjunct in conjuncts(condition):
        pair = _outer_equality(conjunct, target)
        if pair is not None and pair[0] not in values:
            values[pair[0]] = pair[1]
        elif conjunct.names_alias(target.alias) or _is_unstable(conjunct):
            return None
        else:
            others.append(conjunct)
    if not values:
        return None
    where = conjunction(others)
    items = ", ".join(f"({value}) AS c{index}" for index, value in enumerate(values.values()))
    text = f"SELECT {items} {relations.source}"
    return tuple(values), text if where is None else f"{text} WHERE {where}"


def _outer_equality(conjunct: Part, target: Scope) -> tuple[str, str] | None:
    """Return a column of the outer query and the value of the inner one that it is equal to."""
    for column, value in _sides(conjunct):
        tree = column.tree
        is_qualified = isinstance(tree, exp.Column) and tree.table.lower() == target.alias
        name = _name_in(tree, target, None) if is_qualified else None
        if name is not None and not value.names_alias(target.alias) and _is_stable_value(value):
            return name, value.source
    return None


def _is_plain_select(query: Part, target: Scope) -> bool:
    """Return whether a query has a row for each of its FROM that its WHERE leaves.

    No table in it may hide the target.
    """
    try:
        tree = syntax.parse_tokens(syntax.tokenize(query.source), query.source)
    except (SqlglotError, RecursionError):
        return False
    if not isinstance(tree, exp.Select):
        return False
    has_other_parts = any(tree.args[name] for name in tree.args.keys() - _PLAIN_PARTS)
    items = map(without_parentheses, tree.expressions)
    are_plain = all(isinstance(item, exp.Column | exp.Literal) or is_star(item) for item in items)
    aliases = {table.alias_or_name.lower() for table in tree.find_all(exp.Table, exp.Subquery)}
    return not has_other_parts and are_plain and target.alias not in aliases


def _sides(conjunct: Part) -> Iterator[tuple[Part, Part]]:
    """Yield the sides of an equality, both ways."""
    sides = equality_sides(conjunct)
    if sides is not None:
        yield sides
        yield sides[::-1]


def _column_of(part: Part, target: Scope, source: Scope) -> str | None:
    """Return the column of the target, in lower case, that an expression is; None if it is not."""
    return _name_in(part.tree, target, source)


def _name_in(tree: Tree | None, scope: Scope, beside: Scope | None) -> str | None:
    """Return the column of a relation, in lower case, that a tree is; None if it is not.

    ``beside``: the other relation that names may belong to.
    """
    tree = None if tree is None else without_parentheses(tree)
    if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier):
        return None
    name, qualifier = tree.name.lower(), tree.table.lower()
    if tree.args.get("db") is not None or name not in scope.columns:
        return None
    if qualifier:
        return name if qualifier == scope.alias else None
    is_other = beside is not None and name in beside.columns
    return None if is_other else name


def _is_value_of(part: Part, source: Scope, target: Scope) -> bool:
    """Return whether an expression is a value of the rows of a source."""
    tree = part.tree
    if tree is None or not _is_stable_value(part):
        return False
    return all(_name_in(column, source, target) for column in tree.find_all(exp.Column))


def _is_stable_value(part: Part) -> bool:
    """Return whether an expression has columns, literals and arithmetic only."""
    tree = part.tree
    if tree is None or tree.find(exp.Query, exp.Star) is not None:
        return False
    return all(isinstance(call, exp.Cast) for call in tree.find_all(exp.Func))


def _is_unstable(part: Part) -> bool:
    """Return whether evaluating a condition again may give something else."""
    return any(token.text.lower() in _UNSTABLE for token in part.tokens)
