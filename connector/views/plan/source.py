"""FROM and WHERE: tables, subqueries and joins, with conditions as deep as they may go.

Promises: every reference to a table is a scan with fields of its own, so that a table joined with
itself is two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.reference import columns_read
from relstate.connector.syntax.tokens import shown
from relstate.storage import errors, types

from .catalog import Table, Tables
from .dialect import Tree, column, columns_of, conjuncts, text_of
from .function import refused
from .joining import is_equality, joined
from .node import JoinKind, Node, Scan, ScanColumn
from .relation import Builder, Item, Relation
from .scope import Scope

_KINDS = {
    ("", ""): JoinKind.INNER, ("", "INNER"): JoinKind.INNER, ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT, ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT, ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL, ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI, ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI, ("", "ANTI"): JoinKind.ANTI,
}  # fmt: skip
_MOVING = (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of a WITH clause, and what it sees of others."""

    query: Tree
    names: tuple[str, ...]
    around: Mapping[str, CommonTable]


Environment: TypeAlias = Mapping[str, CommonTable]
QueryPlanner: TypeAlias = Callable[[Tree, Environment], Relation]


@dataclass(frozen=True, slots=True)
class _Step:
    """A further input: how it is joined and on what, over names of the query."""

    relation: Relation
    kind: JoinKind
    on: tuple[Tree, ...]
    using: tuple[str, ...] | None
    tree: Tree


@dataclass
class SourcePlanner:
    """Plans the FROM of queries. ``text``: the whole query; ``plan``: plans one within it."""

    builder: Builder
    tables: Tables
    tree: Tree
    text: str
    plan: QueryPlanner
    _plain: dict[str, Sequence[str]] = field(default_factory=dict)

    def source(self, select: Tree, around: Environment) -> Relation:
        """Return what a SELECT reads, and of it the rows that its WHERE leaves."""
        clause = select.args.get("from_")
        if clause is None:
            raise refused("a SELECT without FROM", "it has no rows to follow", select)
        where = select.args.get("where")
        joins = select.args.get("joins") or ()
        conditions = () if where is None else tuple(conjuncts(where.this))
        return self._joined(clause.this, joins, conditions, around)

    # Inputs

    def _joined(
        self, first: Tree, joins: Sequence[Tree], where: Sequence[Tree], around: Environment
    ) -> Relation:
        relation = self._input(first, around)
        every = (*_inner_joins(first), *joins)
        _check_commas(every)
        steps = [self._step(join, around) for join in every]
        return _Chain(self.builder, relation, steps).joined(where)

    def _input(self, tree: Tree, around: Environment) -> Relation:
        """Return one input of FROM, without the joins that sqlglot has put beneath it."""
        _check_input(tree)
        alias = tree.args.get("alias")
        title = alias.name if alias is not None and alias.name else None
        names = [one.name for one in alias.columns] if alias is not None else []
        if isinstance(tree, exp.Subquery):
            if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.args.get("with_"):
                inner = self._joined(tree.this, (), (), around)
                return inner if title is None else inner.called(title, names)
            return self.plan(tree.this, with_common_tables(tree, around)).called(title, names)
        if not isinstance(tree, exp.Table):
            raise refused("this in FROM", "read tables, views and subqueries", tree)
        return self._named(tree, title, names, around)

    def _named(
        self, tree: exp.Table, title: str | None, names: Sequence[str], around: Environment
    ) -> Relation:
        if not isinstance(tree.this, exp.Identifier):
            raise refused("a function in FROM", "read tables, views and subqueries", tree)
        common = None if tree.args.get("db") else around.get(tree.name.lower())
        if common is not None:
            found = self.plan(common.query, common.around).called(tree.name, common.names)
            return found.called(title or tree.name, names)
        table = None if tree.args.get("db") else self.tables.find(tree.name)
        if table is None:
            raise errors.TableNotFoundError(
                f"the store has no table {text_of(tree)}, and a view reads tables and views of "
                "its own store only"
            )
        return self._scan(table).called(title or table.name, names)

    def _scan(self, table: Table) -> Relation:
        wanted = {name.lower() for name in self._columns_read(table)}
        keys = {name.lower() for name in table.primary_key}
        columns = [
            ScanColumn(one.name, types.Field(self.builder.namer.fresh(one.name), one.type))
            for one in (*table.columns, *table.hidden)
            if one.name.lower() in wanted | keys
        ]
        fields = {one.column.lower(): one.field.name for one in columns}
        primary_key = tuple(fields[name.lower()] for name in table.primary_key)
        node = Scan(table.table_id, table.name, tuple(columns), primary_key, table.is_append_only)
        visible = [one.name for one in table.columns if one.name.lower() in fields]
        return Relation(node, tuple(Item(name, fields[name.lower()]) for name in visible))

    def _columns_read(self, table: Table) -> Sequence[str]:
        key = table.name.lower()
        if key not in self._plain:
            names = [one.name for one in table.columns]
            self._plain[key] = columns_read(self.tree, self.text, names)
        return self._plain[key]

    def _step(self, join: Tree, around: Environment) -> _Step:
        method, side, kind = (str(join.args.get(one) or "").upper() for one in _JOIN_PARTS)
        found = _KINDS.get((side, kind))
        if found is None or method not in ("", "NATURAL"):
            raise refused("this kind of join", "it is not kept incrementally yet", join)
        relation = self._joined(join.this, (), (), around)
        on = join.args.get("on")
        using = tuple(one.name for one in join.args.get("using") or ()) or None
        return _Step(
            relation,
            found,
            () if on is None else tuple(conjuncts(on)),
            () if method == "NATURAL" else using,
            join,
        )


_JOIN_PARTS = ("method", "side", "kind")


@dataclass
class _Chain:
    """The inputs of one FROM, joined from the left to the right."""

    builder: Builder
    first: Relation
    steps: Sequence[_Step]

    def joined(self, where: Sequence[Tree]) -> Relation:
        """Return the rows of all inputs together for which all conditions are true."""
        # Before its last RIGHT or FULL join no condition of WHERE may take rows from the left.
        open_from = max((n for n, s in enumerate(self.steps, 1) if s.kind in _MOVING), default=0)
        relation, waiting = self.first, self._resolved(self.first, 0, where, open_from == 0)
        relation, waiting = self._filtered(relation, waiting)
        for number, step in enumerate(self.steps, 1):
            if number == open_from and step.kind is JoinKind.RIGHT:
                waiting = self._resolved(relation, number - 1, where)
            relation, taken = self._step(relation, step, waiting)
            if number == open_from and step.kind is JoinKind.FULL:
                waiting = self._resolved(relation, number, where)
            waiting = [one for one in waiting if one not in taken]
            relation, waiting = self._filtered(relation, waiting)
        # What reads no column is told in the end.
        return replace(relation, node=self.builder.filtered(relation.node, waiting))

    def _resolved(
        self, relation: Relation, done: int, where: Sequence[Tree], now: bool = True
    ) -> list[Tree]:
        """Return the conditions over fields, as names stand behind all joins; none if not now."""
        items = relation.items
        for step in self.steps[done:]:
            items = _items(items, step)[0]
        return [Scope(items).resolved(one) for one in where] if now else []

    def _filtered(
        self, relation: Relation, waiting: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        names = set(relation.node.names)
        now = [one for one in waiting if columns_of(one) and columns_of(one) <= names]
        node = self.builder.filtered(relation.node, now)
        return replace(relation, node=node), [one for one in waiting if one not in now]

    def _step(
        self, left: Relation, step: _Step, waiting: Sequence[Tree]
    ) -> tuple[Relation, list[Tree]]:
        """Return the join with one more input, and the conditions of WHERE that it has taken in."""
        items, equalities = _items(left.items, step)
        scope = Scope((*left.items, *step.relation.items))
        on = [*equalities, *(scope.resolved(one) for one in step.on)]
        right = step.relation.node
        taken: list[Tree] = []
        if step.kind is JoinKind.INNER:
            taken = [one for one in waiting if _belongs(one, left.node, right)]
        elif step.kind is JoinKind.RIGHT:
            taken = [one for one in waiting if _reads_only(one, right)]
            right = self.builder.filtered(right, taken)
        conditions = [*on, *taken] if step.kind is JoinKind.INNER else on
        node, above = joined(self.builder, left.node, right, step.kind, conditions, step.tree)
        result: Node = self.builder.filtered(node, above)
        if step.kind is JoinKind.FULL and equalities:
            # Where one side is missing the column is the other's: the key's.
            count = len(equalities)
            merged = [
                replace(item, field=key.field.name)
                for item, key in zip(items[:count], node.keys[:count], strict=True)
            ]
            items = (*merged, *items[count:])
        return Relation(result, items), taken


def _belongs(condition: Tree, left: Node, right: Node) -> bool:
    return is_equality(condition, left, right) or _reads_only(condition, right)


def _reads_only(condition: Tree, node: Node) -> bool:
    read = columns_of(condition)
    return bool(read) and read <= set(node.names)


def _items(left: tuple[Item, ...], step: _Step) -> tuple[tuple[Item, ...], list[Tree]]:
    """Return the columns of a join in the order of ``*``, and the equalities that USING says."""
    right = step.relation.items
    pairs = step.kind.gives_pairs
    if step.using is None:
        return (*left, *(right if pairs else ())), []
    ours, theirs = Scope(left), Scope(right)
    names = step.using or _common_names(left, right)
    columns = [(ours.item(name), theirs.item(name)) for name in names]
    found = [(one, other) for one, other in columns if one is not None and other is not None]
    if len(found) < len(names) or not found:
        raise refused("this join", "each side needs one column of every name in common", step.tree)
    equalities: list[Tree] = [
        exp.EQ(this=column(one.field), expression=column(other.field)) for one, other in found
    ]
    if not pairs:
        return left, equalities
    kept = [other if step.kind is JoinKind.RIGHT else one for one, other in found]
    merged = [
        Item(one.name, side.field) for (one, _), side in zip(found, kept, strict=True)
    ]
    hidden = {item for pair in found for item in pair}
    rest = [
        replace(item, is_behind=True) if item in hidden else item for item in (*left, *right)
    ]
    return (*merged, *rest), equalities


def _common_names(left: Sequence[Item], right: Sequence[Item]) -> tuple[str, ...]:
    theirs = {(item.name or "").lower() for item in right if not item.is_behind}
    return tuple(
        item.name
        for item in left
        if item.name and not item.is_behind and item.name.lower() in theirs
    )


def with_common_tables(tree: Tree, around: Environment) -> Environment:
    """Return what a query sees of common tables: its own, and those around it."""
    clause = tree.args.get("with_")
    if clause is None:
        return around
    if clause.args.get("recursive"):
        raise refused("a recursive WITH", "it is not kept incrementally yet", clause)
    found = dict(around)
    for one in clause.expressions:
        names = tuple(each.name for each in one.args["alias"].columns)
        found[one.alias.lower()] = CommonTable(one.this, names, dict(found))
    return found


def _inner_joins(tree: Tree) -> Sequence[Tree]:
    return tree.args.get("joins") or ()


def _check_commas(joins: Sequence[Tree]) -> None:
    """Refuse a join behind a comma that would take what is before the comma for its left side."""
    behind = False
    for join in joins:
        parts = [join.args.get(one) for one in (*_JOIN_PARTS, "on", "using")]
        moving = str(join.args.get("side") or "").upper() in ("RIGHT", "FULL")
        if behind and (moving or join.args.get("using") or join.args.get("method")):
            raise refused("this join behind a comma", "write JOIN … ON for the comma", join)
        behind = behind or not any(parts)


def _check_input(tree: Tree) -> None:
    """Refuse what can be written behind an input of FROM and is not kept."""
    named = {
        "version": "VERSION AS OF or TIMESTAMP AS OF",
        "when": "VERSION AS OF or TIMESTAMP AS OF",
        "sample": "TABLESAMPLE",
        "pivots": "PIVOT",
        "laterals": "LATERAL VIEW",
        "order": "a clause here",
        "limit": "a clause here",
        "offset": "a clause here",
    }
    for part, what in named.items():
        if tree.args.get(part):
            raise refused(what, f"a view follows whole tables; found {shown(text_of(tree))}")
