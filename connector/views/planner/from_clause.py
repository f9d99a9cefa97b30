"""FROM and WHERE: tables, subqueries and joins, with conditions as deep as they may go.

Promises: every reference to a table is a scan with fields of its own, so that a table joined with
itself is two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import shown
from relstate.connector.syntax.tree import Tree, conjuncts, text_of
from relstate.storage import types

from ..plan.stateful import JoinKind
from ..plan.stateless import Scan, ScanColumn
from .builder import Builder, Item, Relation
from .catalog import Table, Tables, not_found
from .chain import Chain, Step
from .expressions import refused

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
        self, first: Tree, joins: Sequence[Tree], where: Sequence[Tree], around: CommonTables
    ) -> Relation:
        relation = self._input(first, around)
        every = (*_inner_joins(first), *joins)
        _check_commas(every)
        steps = [self._step(join, around) for join in every]
        return Chain(self.builder, relation, steps).joined(where)

    def _input(self, tree: Tree, around: CommonTables) -> Relation:
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
        self, tree: exp.Table, title: str | None, names: Sequence[str], around: CommonTables
    ) -> Relation:
        if not isinstance(tree.this, exp.Identifier):
            raise refused("a function in FROM", "read tables, views and subqueries", tree)
        common = None if tree.args.get("db") else around.get(tree.name.lower())
        if common is not None:
            found = self.plan(common.query, common.around).called(tree.name, common.names)
            return found.called(title or tree.name, names)
        table = None if tree.args.get("db") else self.tables.find(tree.name)
        if table is None:
            raise not_found(text_of(tree))
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
        if key not in self._read:
            names = [one.name for one in table.columns]
            self._read[key] = self.query.columns_read(names)
        return self._read[key]

    def _step(self, join: Tree, around: CommonTables) -> Step:
        method, side, kind = (str(join.args.get(one) or "").upper() for one in _JOIN_PARTS)
        found = _KINDS.get((side, kind))
        if found is None or method not in ("", "NATURAL"):
            raise refused("this kind of join", "it is not kept incrementally yet", join)
        relation = self._joined(join.this, (), (), around)
        on = join.args.get("on")
        using = tuple(one.name for one in join.args.get("using") or ()) or None
        return Step(
            relation,
            found,
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
        "laterals": "LATERAL VIEW",
        "order": "a clause here",
        "limit": "a clause here",
        "offset": "a clause here",
    }
    for part, what in named.items():
        if tree.args.get(part):
            raise refused(what, f"a view follows whole tables; found {shown(text_of(tree))}")
