"""FROM and WHERE: tables, subqueries and joins, with conditions as deep as they may go.

Promises: every reference to a table is a scan with fields of its own, so that a table joined with
itself is two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import shown
from relstate.connector.syntax.tree import Tree, column, conjuncts, text_of
from relstate.storage import types

from ..plan.node import Node
from ..plan.stateful import JoinKind
from ..plan.stateless import Scan, ScanColumn
from .analysis import Table, Tables, not_found
from .builder import Builder, Item, Relation, covers
from .expressions import refused
from .join_conditions import is_equality, joined
from .scope import Scope

_KINDS = {
    ("", ""): JoinKind.INNER, ("", "INNER"): JoinKind.INNER, ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT, ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT, ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL, ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI, ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI, ("", "ANTI"): JoinKind.ANTI,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of a WITH clause, and what it sees of others."""

    query: Tree
    names: tuple[str, ...]
    around: Mapping[str, CommonTable]


CommonTables: TypeAlias = Mapping[str, CommonTable]
PlanQuery: TypeAlias = Callable[[Tree, CommonTables], Relation]


@dataclass
class SourcePlanner:
    """Plans the FROM of queries. ``query``: the whole query; ``plan``: plans one within it."""

    builder: Builder
    tables: Tables
    query: ParsedQuery
    plan: PlanQuery
    _read: dict[str, Sequence[str]] = field(default_factory=dict)

    def source(self, select: Tree, around: CommonTables) -> Relation:
        """Return the rows of FROM for which WHERE is true."""
        clause = select.args.get("from_")
        if clause is None:
            raise refused("a SELECT without FROM", "it has no rows to follow", select)
        where = select.args.get("where")
        joins = select.args.get("joins") or ()
        conditions = () if where is None else tuple(conjuncts(where.this))
        return self._joined(clause.this, joins, conditions, around)

    # Inputs

    def _joined(
        self, first: Tree, joins: Sequence[Tree], where: Sequence[Tree], around: CommonTables
    ) -> Relation:
        relation = self._input(first, around)
        all_joins = (*_inner_joins(first), *joins)
        _check_commas(all_joins)
        steps = [self._step(join, around) for join in all_joins]
        return Chain(self.builder, relation, steps).joined(where)

    def _input(self, tree: Tree, around: CommonTables) -> Relation:
        """Return one input of FROM, without the joins that sqlglot has put into it."""
        _check_input(tree)
        alias = tree.args.get("alias")
        title = alias.name if alias is not None and alias.name else None
        names = [name.name for name in alias.columns] if alias is not None else []
        if isinstance(tree, exp.Subquery):
            if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.args.get("with_"):
                inner = self._joined(tree.this, (), (), around)
                return inner if title is None else inner.called(title, names)
            return self.plan(tree.this, with_common_tables(tree, around)).called(title, names)
        if not isinstance(tree, exp.Table):
            raise refused("this in FROM", "read tables, views and subqueries", tree)
        return self._named(tree, title, names, around)

    def _named(
        self, tree: exp.Table, title: str | None, names: Sequence[str], around: CommonTables
    ) -> Relation:
        if not isinstance(tree.this, exp.Identifier):
            raise refused("a function in FROM", "read tables, views and subqueries", tree)
        common = None if tree.args.get("db") else around.get(tree.name.lower())
        if common is not None:
            relation = self.plan(common.query, common.around).called(tree.name, common.names)
            return relation.called(title or tree.name, names)
        table = None if tree.args.get("db") else self.tables.find(tree.name)
        if table is None:
            raise not_found(text_of(tree))
        return self._scan(table).called(title or table.name, names)

    def _scan(self, table: Table) -> Relation:
        read = {name.lower() for name in self._columns_read(table)}
        keys = {name.lower() for name in table.primary_key}
        columns = [
            ScanColumn(
                column_.name, types.Field(self.builder.namer.fresh(column_.name), column_.type)
            )
            for column_ in (*table.columns, *table.hidden)
            if column_.name.lower() in read | keys
        ]
        fields = {column_.column.lower(): column_.field.name for column_ in columns}
        primary_key = tuple(fields[name.lower()] for name in table.primary_key)
        node = Scan(table.table_id, table.name, tuple(columns), primary_key, table.is_append_only)
        visible = [column_.name for column_ in table.columns if column_.name.lower() in fields]
        return Relation(node, tuple(Item(name, fields[name.lower()]) for name in visible))

    def _columns_read(self, table: Table) -> Sequence[str]:
        key = table.name.lower()
        if key not in self._read:
            names = [column_.name for column_ in table.columns]
            self._read[key] = self.query.columns_read(names)
        return self._read[key]

    def _step(self, join: Tree, around: CommonTables) -> Step:
        method, side, kind = (str(join.args.get(part) or "").upper() for part in _JOIN_PARTS)
        join_kind = _KINDS.get((side, kind))
        if join_kind is None or method not in ("", "NATURAL"):
            raise refused("this kind of join", "it is not maintained incrementally yet", join)
        relation = self._joined(join.this, (), (), around)
        on = join.args.get("on")
        using = tuple(name.name for name in join.args.get("using") or ()) or None
        return Step(
            relation,
            join_kind,
            () if on is None else tuple(conjuncts(on)),
            () if method == "NATURAL" else using,
            join,
        )


_JOIN_PARTS = ("method", "side", "kind")


def with_common_tables(tree: Tree, around: CommonTables) -> CommonTables:
    """Return what a query sees of common tables: its own, and those around it."""
    clause = tree.args.get("with_")
    if clause is None:
        return around
    tables = dict(around)
    for table in clause.expressions:
        names = tuple(column_.name for column_ in table.args["alias"].columns)
        tables[table.alias.lower()] = CommonTable(table.this, names, dict(tables))
    return tables


def _inner_joins(tree: Tree) -> Sequence[Tree]:
    return tree.args.get("joins") or ()


def _check_commas(joins: Sequence[Tree]) -> None:
    """Refuse a join after a comma whose left side would be all that is before the comma."""
    is_after_comma = False
    for join in joins:
        parts = [join.args.get(name) for name in (*_JOIN_PARTS, "on", "using")]
        is_outer = str(join.args.get("side") or "").upper() in ("RIGHT", "FULL")
        if is_after_comma and (is_outer or join.args.get("using") or join.args.get("method")):
            raise refused("this join after a comma", "write JOIN … ON for the comma", join)
        is_after_comma = is_after_comma or not any(parts)


def _check_input(tree: Tree) -> None:
    """Refuse clauses after an input of FROM that are not maintained."""
    named = {
        "version": "VERSION AS OF or TIMESTAMP AS OF",
        "when": "VERSION AS OF or TIMESTAMP AS OF",
        "laterals": "LATERAL VIEW",
        "order": "a clause here",
        "limit": "a clause here",
        "offset": "a clause here",
    }
    for part, what in named.items():
        if tree.args.get(part):
            raise refused(what, f"a view follows whole tables; found {shown(text_of(tree))}")


_MOVING = (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True, slots=True)
class Step:
    """One more input: how it is joined and on what, over names of the query.

    ``using``: names; an empty tuple for all that both sides have; None without USING.
    """

    relation: Relation
    kind: JoinKind
    on: tuple[Tree, ...]
    using: tuple[str, ...] | None
    tree: Tree


@dataclass
class Chain:
    """The inputs of one FROM, joined from the left to the right."""

    builder: Builder
    first: Relation
    steps: Sequence[Step]

    def joined(self, where: Sequence[Tree]) -> Relation:
        """Return the rows of all inputs together for which all conditions are true."""
        # Before its last RIGHT or FULL join no condition of WHERE may take rows from the left.
        open_from = max((n for n, s in enumerate(self.steps, 1) if s.kind in _MOVING), default=0)
        relation, pending = self.first, self._resolved(self.first, 0, where, open_from == 0)
        relation, pending = self._filtered(relation, pending)
        for number, step in enumerate(self.steps, 1):
            if number == open_from and step.kind is JoinKind.RIGHT:
                pending = self._resolved(relation, number - 1, where)
            relation, used = self._step(relation, step, pending)
            if number == open_from and step.kind is JoinKind.FULL:
                pending = self._resolved(relation, number, where)
            pending = [condition for condition in pending if condition not in used]
            relation, pending = self._filtered(relation, pending)
        # Conditions that read no column come last.
        return replace(relation, node=self.builder.filtered(relation.node, pending))

    def _resolved(
        self, relation: Relation, joined_steps: int, where: Sequence[Tree], is_due: bool = True
    ) -> list[Tree]:
        """Return the conditions over fields, resolved after all joins; none if they are not due."""
        items = relation.items
        for step in self.steps[joined_steps:]:
            items = _items(items, step)[0]
        return [Scope(items).resolved(condition) for condition in where] if is_due else []

    def _filtered(self, relation: Relation, pending: Sequence[Tree]) -> tuple[Relation, list[Tree]]:
        ready = [condition for condition in pending if covers(relation.node.names, condition)]
        node = self.builder.filtered(relation.node, ready)
        return replace(relation, node=node), [
            condition for condition in pending if condition not in ready
        ]

    def _step(
        self, left: Relation, step: Step, pending: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        """Return the join with one more input, and the conditions of WHERE that it has used."""
        items, equalities = _items(left.items, step)
        scope = Scope((*left.items, *step.relation.items))
        on = [*equalities, *(scope.resolved(condition) for condition in step.on)]
        right = step.relation.node
        used: list[Tree] = []
        if step.kind is JoinKind.INNER:
            used = [
                condition
                for condition in pending
                if is_equality(condition, left.node, right) or covers(right.names, condition)
            ]
        elif step.kind is JoinKind.RIGHT:
            used = [condition for condition in pending if covers(right.names, condition)]
            right = self.builder.filtered(right, used)
        conditions = [*on, *used] if step.kind is JoinKind.INNER else on
        node, above = joined(self.builder, left.node, right, step.kind, conditions, step.tree)
        result: Node = self.builder.filtered(node, above)
        if step.kind is JoinKind.FULL and equalities:
            # If one side has no row the column is that of the other: the key's.
            count = len(equalities)
            merged = [
                replace(item, field=key.field.name)
                for item, key in zip(items[:count], node.keys[:count], strict=True)
            ]
            items = (*merged, *items[count:])
        return Relation(result, items), used


def _items(left: tuple[Item, ...], step: Step) -> tuple[tuple[Item, ...], list[Tree]]:
    """Return the columns of a join in the order of ``*``, and the equalities that USING says."""
    right = step.relation.items
    pairs = step.kind.gives_pairs
    if step.using is None:
        return (*left, *(right if pairs else ())), []
    ours, theirs = Scope(left), Scope(right)
    names = step.using or _common_names(left, right)
    columns = [(ours.item(name), theirs.item(name)) for name in names]
    matches = [(l_item, r_item) for l_item, r_item in columns if l_item and r_item]
    if len(matches) < len(names) or not matches:
        raise refused("this join", "each side needs one column of every name in common", step.tree)
    equalities: list[Tree] = [
        exp.EQ(this=column(l_item.field), expression=column(r_item.field))
        for l_item, r_item in matches
    ]
    if not pairs:
        return left, equalities
    is_right = step.kind is JoinKind.RIGHT
    merged = [
        Item(l_item.name, (r_item if is_right else l_item).field) for l_item, r_item in matches
    ]
    hidden = {item for pair in matches for item in pair}
    rest = [replace(item, is_behind=True) if item in hidden else item for item in (*left, *right)]
    return (*merged, *rest), equalities


def _common_names(left: Sequence[Item], right: Sequence[Item]) -> tuple[str, ...]:
    theirs = {(item.name or "").lower() for item in right if not item.is_behind}
    return tuple(
        item.name
        for item in left
        if item.name and not item.is_behind and item.name.lower() in theirs
    )
