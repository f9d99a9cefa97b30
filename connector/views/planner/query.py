"""Queries: SELECT with its clauses, and UNION.

Promises: clauses mean what they do to Spark, in its order: FROM, WHERE, GROUP BY, HAVING, windows,
QUALIFY, SELECT, DISTINCT, ORDER BY, LIMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tree import (
    Tree,
    bare,
    column,
    columns_of,
    conjuncts,
    is_column,
    is_star,
    meaning,
    text_of,
    whole_number,
    with_fields,
)

from ..plan.node import Node
from .builder import Builder, Item, Relation
from .catalog import Tables
from .expressions import refused
from .from_clause import CommonTables, SourcePlanner, with_common_tables
from .group_by import aggregated, distinct, has_aggregates
from .having import having_conditions
from .ranking import ranked, sort_keys, windows_of
from .scope import Scope
from .union import united

_UNKEPT = {
    "laterals": "LATERAL VIEW",
    "windows": "a WINDOW clause",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "into": "INTO",
    "kind": "SELECT AS",
}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a SELECT: its name, None where it has none, and what it is over fields."""

    name: str | None
    value: Tree


class QueryPlanner:
    """Plans one query and those within it."""

    def __init__(self, builder: Builder, tables: Tables, query: ParsedQuery) -> None:
        self._builder = builder
        self._sources = SourcePlanner(builder, tables, query, self.plan)

    def plan(self, tree: Tree, around: CommonTables) -> Relation:
        """Return the plan of a query. UnsupportedStatementError for what is not kept."""
        around = with_common_tables(tree, around)
        if isinstance(tree, exp.Subquery):
            return self._limited(tree, self.plan(tree.this, around))
        if isinstance(tree, exp.Union):
            return self._limited(tree, self._union(tree, around))
        if isinstance(tree, exp.Select):
            return self._select(tree, around)
        what: dict[type[Tree], str] = {
            exp.Intersect: "INTERSECT",
            exp.Except: "EXCEPT",
            exp.Values: "VALUES",
        }
        raise refused(what.get(type(tree), "this"), "it is not kept incrementally yet", tree)

    # SELECT

    def _select(self, tree: exp.Select, around: CommonTables) -> Relation:
        _check_clauses(tree)
        relation = self._sources.source(tree, around)
        columns = _columns(tree, Scope(relation.items))
        aliases = _aliases(columns)
        scope = Scope(relation.items, aliases)
        values = [one.value for one in columns]
        group = _group_of(tree, columns, scope)
        having: list[Tree] = []
        if (clause := tree.args.get("having")) is not None:
            group = group or []
            is_same = partial(self._builder.is_same, relation.node)
            having = having_conditions(clause, scope, [*group, *values], is_same)
        qualify = _qualify(tree, scope, bool(windows_of(values)))
        keys = _order_keys(tree, columns, scope.with_aliases_first())
        parts = [values, having, qualify, [one for one, _, _ in keys]]
        node = relation.node
        if group is not None or has_aggregates([one for part in parts for one in part]):
            node, parts = self._aggregated(node, group or [], parts)
        node = self._builder.filtered(node, parts[1])
        node, parts = self._ranked(node, columns, parts)
        node = self._builder.filtered(node, parts[2])
        names = [one.name for one in columns]
        node, fields = self._builder.computed(node, parts[0], names)
        sorts = [_over(one, parts[0], fields) for one in parts[3]]
        if tree.args.get("distinct"):
            if tree.args["distinct"].args.get("on"):
                raise refused("DISTINCT ON", "Spark has none", tree)
            node = distinct(node, fields)
        items = tuple(Item(name, one) for name, one in zip(names, fields, strict=True))
        order = [(one, *key[1:]) for one, key in zip(sorts, keys, strict=True)]
        return self._sorted(tree, Relation(node, items), order)

    def _aggregated(
        self, node: Node, group: Sequence[Tree], parts: Sequence[Sequence[Tree]]
    ) -> tuple[Node, list[list[Tree]]]:
        node, above = aggregated(self._builder, node, group, [one for p in parts for one in p])
        return node, _split(above, parts)

    def _ranked(
        self, node: Node, columns: Sequence[_Column], parts: Sequence[Sequence[Tree]]
    ) -> tuple[Node, list[list[Tree]]]:
        every = [one for part in parts for one in part]
        windows = windows_of(every)
        if len(windows) > 1:
            raise refused("two windows in one SELECT", "one is kept incrementally", windows[1])
        for window in windows:
            found = (c.name for c, v in zip(columns, parts[0], strict=True) if bare(v) is window)
            title = next(found, None) or "place"
            node, name = ranked(self._builder, node, window, title)
            every = [_over(one, [window], [name]) for one in every]
        return node, _split(every, parts)

    # ORDER BY and LIMIT

    def _limited(self, tree: Tree, relation: Relation) -> Relation:
        """Return a query in parentheses, or a UNION, with the clauses behind it."""
        clause = tree.args.get("order")
        if clause is None and tree.args.get("limit") is None and tree.args.get("offset") is None:
            return relation
        named = [_Column(item.name, column(item.field)) for item in relation.items]
        scope = Scope(relation.items)
        keys = [] if clause is None else _order_keys(tree, named, scope)
        return self._sorted(tree, replace(relation, order=()), keys)

    def _sorted(
        self, tree: Tree, relation: Relation, keys: Sequence[tuple[Tree, bool, bool]]
    ) -> Relation:
        limit, offset = _limit_of(tree)
        if not keys and limit is None and offset == 0:
            return relation
        if not keys:
            raise refused(
                "LIMIT without ORDER BY",
                "which rows it takes is not said, so there is nothing to keep; add an ORDER BY",
                tree,
            )
        if limit is None and offset:
            raise refused("OFFSET without LIMIT", "add a LIMIT", tree)
        node, order = self._builder.ordered(relation.node, keys, "ORDER BY")
        if limit is not None:
            node = self._builder.first(node, order, limit, offset)
        return Relation(node, relation.items, order)

    # UNION

    def _union(self, tree: exp.Union, around: CommonTables) -> Relation:
        relation = united(self._builder, self._inputs(tree, around))
        if not tree.args.get("distinct"):
            return relation
        fields = [item.field for item in relation.items]
        return replace(relation, node=distinct(relation.node, fields))

    def _inputs(self, tree: exp.Union, around: CommonTables) -> list[Relation]:
        """Return the inputs of a UNION; those of a UNION ALL within one are its own."""
        if any(tree.args.get(one) for one in ("by_name", "side", "kind", "on")):
            raise refused("UNION BY NAME", "write the columns in one order", tree)
        left = tree.this
        clauses = ("order", "limit", "offset", "with_", "distinct")
        flat = isinstance(left, exp.Union) and not any(left.args.get(one) for one in clauses)
        first = self._inputs(left, around) if flat else [replace(self.plan(left, around), order=())]
        return [*first, replace(self.plan(tree.expression, around), order=())]


def _columns(tree: exp.Select, scope: Scope) -> list[_Column]:
    """Return the columns of a SELECT; an alias may be named by those behind it."""
    found: list[_Column] = []
    for one in tree.expressions:
        value = one.this if isinstance(one, exp.Alias) else one
        if is_star(value):
            found += [_Column(item.name, column(item.field)) for item in scope.starred(value)]
            continue
        if isinstance(one, exp.Aliases):
            raise refused("several names for one expression", "give it one", one)
        resolved = Scope(scope.items, _aliases(found)).resolved(value)
        # A constant in a SELECT is one in ORDER BY 1 too, so parentheses stay away.
        found.append(_Column(_name(one), bare(resolved)))
    return found


def _name(tree: Tree) -> str | None:
    if isinstance(tree, exp.Alias):
        return tree.alias
    return tree.name or None if isinstance(tree, exp.Column | exp.Dot) else None


def _aliases(columns: Sequence[_Column]) -> dict[str, Tree]:
    """Return what the names of columns stand for; those of several stand for nothing."""
    found: dict[str, Tree] = {}
    twice = set()
    for one in columns:
        name = (one.name or "").lower()
        if name in found and meaning(found[name]) != meaning(one.value):
            twice.add(name)
        found[name] = one.value
    return {name: value for name, value in found.items() if name and name not in twice}


def _qualify(tree: exp.Select, scope: Scope, is_windowed: bool) -> list[Tree]:
    """Return the conditions of a QUALIFY, all of which must hold.

    ``is_windowed``: over the windows of a SELECT Spark finds its aliases first, elsewhere columns.
    """
    clause = tree.args.get("qualify")
    if clause is None:
        return []
    if tree.args.get("having") is not None:
        _check_one_meaning(clause, scope)
    scope = scope.with_aliases_first() if is_windowed else scope
    return [scope.resolved(one) for one in conjuncts(clause.this)]


def _check_one_meaning(clause: Tree, scope: Scope) -> None:
    """Refuse a name that is a column and an alias: of which Spark takes HAVING decides."""
    for one in clause.find_all(exp.Column):
        alias = scope.aliases.get(one.name.lower())
        item = None if alias is None or one.table else scope.item(one.name)
        if alias is not None and item is not None and meaning(alias) != meaning(column(item.field)):
            raise refused(
                "a name in QUALIFY, behind HAVING, that is a column and an alias",
                "Spark takes it for the one or the other; give the alias another name",
                one,
            )


def _group_of(tree: exp.Select, columns: Sequence[_Column], scope: Scope) -> list[Tree] | None:
    """Return what a SELECT groups by; None if it has no GROUP BY."""
    clause = tree.args.get("group")
    if clause is None:
        return None
    if any(clause.args.get(one) for one in ("rollup", "cube", "grouping_sets", "totals")):
        raise refused("ROLLUP, CUBE or GROUPING SETS", "not kept incrementally yet", clause)
    if clause.args.get("all"):
        if scope.item("all") is not None:
            raise refused("GROUP BY ALL over a column of that name", "name the columns", clause)
        return [one.value for one in columns if not has_aggregates([one.value])]
    found = []
    for one in clause.expressions:
        place = whole_number(one)
        if place is not None:
            value = columns[place - 1].value
        elif isinstance(one, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple):
            raise refused("ROLLUP, CUBE or GROUPING SETS", "not kept incrementally yet", clause)
        else:
            value = scope.resolved(one)
        found.append(bare(value))
    return found


def _order_keys(
    tree: Tree, columns: Sequence[_Column], scope: Scope
) -> list[tuple[Tree, bool, bool]]:
    """Return what a query sorts by, over fields; constants tell no rows apart."""
    clause = tree.args.get("order")
    found = []
    for value, descending, nulls_first in () if clause is None else sort_keys(clause):
        if isinstance(value, exp.Var) or (
            isinstance(value, exp.Column) and value.name.upper() == "ALL" and not value.table
        ):
            raise refused("ORDER BY ALL", "name the columns", clause)
        place = whole_number(value)
        resolved = scope.resolved(value) if place is None else columns[place - 1].value
        found.append((bare(resolved), descending, nulls_first))
    return found


def _limit_of(tree: Tree) -> tuple[int | None, int]:
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if isinstance(limit, exp.Fetch):
        raise refused("FETCH", "write LIMIT", tree)
    count = None
    if limit is not None and not _is_all(limit.expression):
        count = _constant(limit.expression)
    return count, 0 if offset is None else _constant(offset.expression)


def _is_all(tree: Tree) -> bool:
    return isinstance(tree, exp.Var | exp.Column) and tree.name.upper() == "ALL"


def _constant(tree: Tree) -> int:
    found = whole_number(tree)
    if found is None:
        raise refused(f"LIMIT {text_of(tree)}", "write a number")
    return found


def _over(expression: Tree, values: Sequence[Tree], fields: Sequence[str]) -> Tree:
    """Return an expression with fields in the place of values."""
    names = {
        meaning(value): name
        for value, name in zip(values, fields, strict=True)
        if isinstance(value, exp.Window) or (columns_of(value) and not is_column(value))
    }
    return with_fields(expression, names) if names else expression


def _split(values: Sequence[Tree], parts: Sequence[Sequence[Tree]]) -> list[list[Tree]]:
    """Return values as parts of the same sizes as before."""
    given = iter(values)
    return [[next(given) for _ in part] for part in parts]


def _check_clauses(tree: exp.Select) -> None:
    for part, what in _UNKEPT.items():
        if tree.args.get(part):
            raise refused(what, "it is not kept incrementally yet", tree)
