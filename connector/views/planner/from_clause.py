"""FROM and WHERE: tables, subqueries and joins, with conditions pushed down as far as possible.

Promises: every reference to a table is a separate scan with its own fields, so a table joined with
itself is two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import excerpt
from relstate.connector.syntax.tree import Tree, column, conjuncts, text_of
from relstate.storage import types

from ..plan.join import JoinKind
from ..plan.node import Node
from ..plan.stateless import Scan, ScanColumn
from .analysis import Table, Tables, table_not_found_error
from .builder import Builder, Item, Relation, reads_only
from .expressions import unsupported_error
from .join_conditions import is_equality, plan_join
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
    """A query of a WITH clause, and the common tables that it can read."""

    query: Tree
    names: tuple[str, ...]
    common_tables: Mapping[str, CommonTable]


CommonTables: TypeAlias = Mapping[str, CommonTable]
PlanQuery: TypeAlias = Callable[[Tree, CommonTables], Relation]


@dataclass
class FromPlanner:
    """Plans the FROM of queries. ``query``: the whole query; ``plan``: plans a nested query."""

    builder: Builder
    tables: Tables
    query: ParsedQuery
    plan: PlanQuery
    _read_columns: dict[str, Sequence[str]] = field(default_factory=dict)

    def plan_from(self, select: Tree, common_tables: CommonTables) -> Relation:
        """Return the rows of FROM for which WHERE is true."""
        clause = select.args.get("from_")
        if clause is None:
            raise unsupported_error("a SELECT without FROM", "it has no rows to follow", select)
        where = select.args.get("where")
        joins = select.args.get("joins") or ()
        conditions = () if where is None else tuple(conjuncts(where.this))
        return self._plan_joins(clause.this, joins, conditions, common_tables)

    # Inputs

    def _plan_joins(
        self, first: Tree, joins: Sequence[Tree], where: Sequence[Tree], common_tables: CommonTables
    ) -> Relation:
        relation = self._plan_input(first, common_tables)
        all_joins = (*_joins_of(first), *joins)
        _check_commas(all_joins)
        steps = [self._plan_step(join, common_tables) for join in all_joins]
        return JoinChain(self.builder, relation, steps).plan(where)

    def _plan_input(self, tree: Tree, common_tables: CommonTables) -> Relation:
        """Return one input of FROM, without the joins that sqlglot nests in it."""
        _check_input(tree)
        alias = tree.args.get("alias")
        title = alias.name if alias is not None and alias.name else None
        names = [name.name for name in alias.columns] if alias is not None else []
        if isinstance(tree, exp.Subquery):
            if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.args.get("with_"):
                inner = self._plan_joins(tree.this, (), (), common_tables)
                return inner if title is None else inner.with_alias(title, names)
            return self.plan(tree.this, visible_common_tables(tree, common_tables)).with_alias(
                title, names
            )
        if not isinstance(tree, exp.Table):
            raise unsupported_error("this in FROM", "read tables, views and subqueries", tree)
        return self._plan_table(tree, title, names, common_tables)

    def _plan_table(
        self, tree: exp.Table, title: str | None, names: Sequence[str], common_tables: CommonTables
    ) -> Relation:
        if not isinstance(tree.this, exp.Identifier):
            raise unsupported_error("a function in FROM", "read tables, views and subqueries", tree)
        common_table = None if tree.args.get("db") else common_tables.get(tree.name.lower())
        if common_table is not None:
            relation = self.plan(common_table.query, common_table.common_tables).with_alias(
                tree.name, common_table.names
            )
            return relation.with_alias(title or tree.name, names)
        table = None if tree.args.get("db") else self.tables.find(tree.name)
        if table is None:
            raise table_not_found_error(text_of(tree))
        return self._plan_scan(table).with_alias(title or table.name, names)

    def _plan_scan(self, table: Table) -> Relation:
        read = {name.lower() for name in self._columns_read(table)}
        keys = {name.lower() for name in table.primary_key}
        columns = [
            ScanColumn(
                column_.name,
                types.Field(self.builder.namer.unique_name(column_.name), column_.type),
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
        if key not in self._read_columns:
            names = [column_.name for column_ in table.columns]
            self._read_columns[key] = self.query.columns_read(names)
        return self._read_columns[key]

    def _plan_step(self, join: Tree, common_tables: CommonTables) -> JoinStep:
        method, side, kind = (str(join.args.get(part) or "").upper() for part in _JOIN_PARTS)
        join_kind = _KINDS.get((side, kind))
        if join_kind is None or method not in ("", "NATURAL"):
            raise unsupported_error(
                "this kind of join", "it is not maintained incrementally yet", join
            )
        relation = self._plan_joins(join.this, (), (), common_tables)
        on = join.args.get("on")
        using = tuple(name.name for name in join.args.get("using") or ()) or None
        return JoinStep(
            relation,
            join_kind,
            () if on is None else tuple(conjuncts(on)),
            () if method == "NATURAL" else using,
            join,
        )


_JOIN_PARTS = ("method", "side", "kind")


def visible_common_tables(tree: Tree, common_tables: CommonTables) -> CommonTables:
    """Return the common tables that a query can read: its own and those of outer queries."""
    clause = tree.args.get("with_")
    if clause is None:
        return common_tables
    tables = dict(common_tables)
    for table in clause.expressions:
        names = tuple(column_.name for column_ in table.args["alias"].columns)
        tables[table.alias.lower()] = CommonTable(table.this, names, dict(tables))
    return tables


def _joins_of(tree: Tree) -> Sequence[Tree]:
    return tree.args.get("joins") or ()


def _check_commas(joins: Sequence[Tree]) -> None:
    """Refuse a join after a comma whose left side would be all inputs before the comma."""
    is_after_comma = False
    for join in joins:
        parts = [join.args.get(name) for name in (*_JOIN_PARTS, "on", "using")]
        is_outer = str(join.args.get("side") or "").upper() in ("RIGHT", "FULL")
        if is_after_comma and (is_outer or join.args.get("using") or join.args.get("method")):
            raise unsupported_error(
                "this join after a comma", "write JOIN … ON for the comma", join
            )
        is_after_comma = is_after_comma or not any(parts)


def _check_input(tree: Tree) -> None:
    """Refuse clauses after an input of FROM that are not maintained."""
    clause_names = {
        "version": "VERSION AS OF or TIMESTAMP AS OF",
        "when": "VERSION AS OF or TIMESTAMP AS OF",
        "laterals": "LATERAL VIEW",
        "order": "a clause here",
        "limit": "a clause here",
        "offset": "a clause here",
    }
    for argument, clause_name in clause_names.items():
        if tree.args.get(argument):
            raise unsupported_error(
                clause_name, f"a view follows whole tables; found {excerpt(text_of(tree))}"
            )


_KEEPS_RIGHT_ROWS = (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One more input, its kind of join, and its conditions over names of the query.

    ``using``: column names; empty for all names that both sides have; None without USING.
    """

    relation: Relation
    kind: JoinKind
    on: tuple[Tree, ...]
    using: tuple[str, ...] | None
    tree: Tree


@dataclass
class JoinChain:
    """The inputs of one FROM, joined from left to right."""

    builder: Builder
    first: Relation
    steps: Sequence[JoinStep]

    def plan(self, where: Sequence[Tree]) -> Relation:
        """Return the joined rows of all inputs for which all conditions are true."""
        # Below the last RIGHT or FULL join, WHERE must not remove rows of the left side.
        open_from = max(
            (number for number, step in enumerate(self.steps, 1) if step.kind in _KEEPS_RIGHT_ROWS),
            default=0,
        )
        relation, pending = (
            self.first,
            self._resolve_conditions(self.first, 0, where, open_from == 0),
        )
        relation, pending = self._apply_conditions(relation, pending)
        for number, step in enumerate(self.steps, 1):
            if number == open_from and step.kind is JoinKind.RIGHT:
                pending = self._resolve_conditions(relation, number - 1, where)
            relation, used = self._join_step(relation, step, pending)
            if number == open_from and step.kind is JoinKind.FULL:
                pending = self._resolve_conditions(relation, number, where)
            pending = [condition for condition in pending if condition not in used]
            relation, pending = self._apply_conditions(relation, pending)
        # Conditions that read no column are applied last.
        return replace(relation, node=self.builder.filter(relation.node, pending))

    def _resolve_conditions(
        self, relation: Relation, joined_steps: int, where: Sequence[Tree], is_due: bool = True
    ) -> list[Tree]:
        """Return the conditions over fields, resolved after all joins; empty if not ``is_due``."""
        items = relation.items
        for step in self.steps[joined_steps:]:
            items = _join_items(items, step)[0]
        return [Scope(items).resolve(condition) for condition in where] if is_due else []

    def _apply_conditions(
        self, relation: Relation, pending: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        ready = [condition for condition in pending if reads_only(relation.node.names, condition)]
        node = self.builder.filter(relation.node, ready)
        return replace(relation, node=node), [
            condition for condition in pending if condition not in ready
        ]

    def _join_step(
        self, left: Relation, step: JoinStep, pending: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        """Return the join with one more input, and the conditions of WHERE that it has used."""
        items, equalities = _join_items(left.items, step)
        scope = Scope((*left.items, *step.relation.items))
        on = [*equalities, *(scope.resolve(condition) for condition in step.on)]
        right = step.relation.node
        used: list[Tree] = []
        if step.kind is JoinKind.INNER:
            used = [
                condition
                for condition in pending
                if is_equality(condition, left.node, right) or reads_only(right.names, condition)
            ]
        elif step.kind is JoinKind.RIGHT:
            used = [condition for condition in pending if reads_only(right.names, condition)]
            right = self.builder.filter(right, used)
        conditions = [*on, *used] if step.kind is JoinKind.INNER else on
        node, remaining = plan_join(
            self.builder, left.node, right, step.kind, conditions, step.tree
        )
        result: Node = self.builder.filter(node, remaining)
        if step.kind is JoinKind.FULL and equalities:
            # If one side has no row, the column has the value of the other: the key field has both.
            count = len(equalities)
            merged = [
                replace(item, field=key.field.name)
                for item, key in zip(items[:count], node.keys[:count], strict=True)
            ]
            items = (*merged, *items[count:])
        return Relation(result, items), used


def _join_items(left: tuple[Item, ...], step: JoinStep) -> tuple[tuple[Item, ...], list[Tree]]:
    """Return the columns of a join in the order of ``*``, and the equalities of its USING."""
    right = step.relation.items
    pairs = step.kind.gives_pairs
    if step.using is None:
        return (*left, *(right if pairs else ())), []
    left_scope, right_scope = Scope(left), Scope(right)
    names = step.using or _common_names(left, right)
    columns = [(left_scope.item(name), right_scope.item(name)) for name in names]
    matches = [(l_item, r_item) for l_item, r_item in columns if l_item and r_item]
    if len(matches) < len(names) or not matches:
        raise unsupported_error(
            "this join", "each side needs one column of every name in common", step.tree
        )
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
    items = [replace(item, is_hidden=True) if item in hidden else item for item in (*left, *right)]
    return (*merged, *items), equalities


def _common_names(left: Sequence[Item], right: Sequence[Item]) -> tuple[str, ...]:
    right_names = {(item.name or "").lower() for item in right if not item.is_hidden}
    return tuple(
        item.name
        for item in left
        if item.name and not item.is_hidden and item.name.lower() in right_names
    )
