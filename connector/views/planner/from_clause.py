"""FROM and WHERE: tables, subqueries and joins, with conditions pushed down as far as possible.

Promises: every reference to a table is a separate scan with its own fields, so a table joined with
itself is two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import excerpt
from relstate.connector.syntax.tree import Tree, columns_of, conjuncts, is_star, text_of
from relstate.storage import types

from ..plan.join import JoinKind
from ..plan.node import Node
from ..plan.stateless import Scan, ScanColumn
from .analysis import Table, Tables, table_not_found_error
from .builder import Builder, Item, Relation, has_subquery_call
from .constants import one_row, plan_range, plan_values
from .expressions import function_name, unsupported_error
from .generators import is_generator, named_columns, plan_generator, usual_names
from .join_chain import JoinChain, JoinStep, resolve_all
from .pivot import plan_pivot
from .scope import Outer, ResolveSubquery, Scope
from .temporal import filter_expired

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


@dataclass(frozen=True, slots=True)
class Context:
    """What a SELECT can name besides the columns of its FROM.

    ``outer``: the columns of the query around a subquery in an expression, for its WHERE and for ON
    of its inner joins alone.
    """

    common_tables: CommonTables
    resolve_subquery: ResolveSubquery
    outer: Outer | None = None

    def scope(self, items: Sequence[Item], aliases: Mapping[str, Tree] | None = None) -> Scope:
        """Return the scope of an expression over columns."""
        return Scope(tuple(items), aliases or {}, resolve_subquery=self.resolve_subquery)

    def where_scope(self, items: Sequence[Item]) -> Scope:
        """Return the scope of a WHERE over columns."""
        return replace(self.scope(items), outer=self.outer)

    @property
    def parameters(self) -> Set[str]:
        """The names of the outer query's values in conditions."""
        return set() if self.outer is None else self.outer.parameters.keys()


PlanLateral: TypeAlias = Callable[[Relation, exp.Lateral, Context], Relation]


@dataclass
class FromPlanner:
    """Plans the FROM of queries.

    ``query``: the whole query; ``plan``: plans a nested query; ``plan_lateral``: joins a relation
    with a LATERAL subquery.
    """

    builder: Builder
    tables: Tables
    query: ParsedQuery
    plan: PlanQuery
    plan_lateral: PlanLateral
    _read_columns: dict[str, Sequence[str]] = field(default_factory=dict)

    def plan_from(self, select: Tree, context: Context) -> tuple[Relation, list[Tree]]:
        """Return (the rows of FROM for which WHERE is true, conditions that read the outer query).

        The conditions are those conjuncts of WHERE that the rows alone do not decide.
        """
        clause, where = select.args.get("from_"), select.args.get("where")
        joins, laterals = _split_laterals(select)
        conditions = () if where is None else tuple(conjuncts(where.this))
        late = [c for c in conditions if laterals and _may_read(c, laterals)]
        early = [c for c in conditions if c not in late]
        if clause is None:
            relation = one_row(self.builder)
            chain = JoinChain(self.builder, relation, (), context.scope, context.where_scope)
        else:
            chain = self._chain(clause.this, joins, context)
        relation, remaining = chain.plan(early)
        for lateral in laterals:
            relation = self._plan_lateral(relation, lateral, context)
        remaining += resolve_all(context.where_scope(relation.items), late)
        own = [c for c in remaining if columns_of(c).isdisjoint(context.parameters)]
        correlated = [c for c in remaining if c not in own]
        return replace(relation, node=self.builder.filter(relation.node, own)), correlated

    def _plan_lateral(self, relation: Relation, tree: exp.Lateral, context: Context) -> Relation:
        """Return rows with those that a generator makes of each."""
        call = tree.this
        if isinstance(call, exp.Query):
            return self.plan_lateral(relation, tree, context)
        if not is_generator(call):
            raise unsupported_error("this function after LATERAL", "write a subquery", tree)
        resolved = context.scope(relation.items).resolve(call)
        is_outer = bool(tree.args.get("outer")) or is_left_join(tree.parent)
        node = relation.node
        if has_subquery_call(resolved):
            node, (resolved,) = self.builder.attach_values(node, [resolved])
        node, made = plan_generator(self.builder, node, resolved, is_outer=is_outer)
        title, names = _alias_of(tree)
        items = named_columns(made, names, tree)
        return Relation(node, (*relation.items, *(replace(i, qualifier=title) for i in items)))

    # Inputs

    def _chain(self, first: Tree, joins: Sequence[Tree], context: Context) -> JoinChain:
        relation = self._plan_input(first, context)
        all_joins = (*_joins_of(first), *joins)
        _check_commas(all_joins)
        steps = [self._plan_step(join, context) for join in all_joins]
        return JoinChain(self.builder, relation, steps, context.scope, context.where_scope)

    def _plan_joins(self, first: Tree, context: Context) -> Relation:
        relation, _ = self._chain(first, (), replace(context, outer=None)).plan(())
        return relation

    def _plan_input(self, tree: Tree, context: Context) -> Relation:
        """Return one input of FROM, without the joins that sqlglot nests in it."""
        _check_input(tree)
        relation = self._plan_source(tree, context)
        for pivot in tree.args.get("pivots") or ():
            relation = plan_pivot(self.builder, relation, pivot)
        return relation

    def _plan_source(self, tree: Tree, context: Context) -> Relation:
        """Return one input of FROM without the PIVOT after it."""
        title, names = _alias_of(tree)
        common_tables = context.common_tables
        if isinstance(tree, exp.Subquery):
            if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.args.get("with_"):
                inner = self._plan_joins(tree.this, context)
                return inner if title is None else inner.with_alias(title, names)
            return self.plan(tree.this, visible_common_tables(tree, common_tables)).with_alias(
                title, names
            )
        if isinstance(tree, exp.Values):
            return plan_values(self.builder, tree).with_alias(title, names)
        if not isinstance(tree, exp.Table):
            raise unsupported_error("this in FROM", "read tables, views and subqueries", tree)
        if not isinstance(tree.this, exp.Identifier):
            return self._plan_function(tree.this).with_alias(title, names)
        return self._plan_table(tree, title, names, common_tables)

    def _plan_function(self, call: Tree) -> Relation:
        if function_name(call) == "range":
            return plan_range(self.builder, call)
        if not is_generator(call):
            raise unsupported_error("this function in FROM", "read tables and subqueries", call)
        node, items = plan_generator(
            self.builder, one_row(self.builder).node, Scope(()).resolve(call)
        )
        return Relation(node, items)

    def _plan_table(
        self, tree: exp.Table, title: str | None, names: Sequence[str], common_tables: CommonTables
    ) -> Relation:
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
        sources = [
            column_
            for column_ in (*table.columns, *table.hidden)
            if column_.name.lower() in read | keys
        ]
        columns = [
            ScanColumn(
                column_.name,
                types.Field(self.builder.namer.unique_name(column_.name), column_.type),
            )
            for column_ in sources
        ]
        fields = {column_.column.lower(): column_.field.name for column_ in columns}
        self.builder.never_null.update(
            column_.field.name
            for column_, source in zip(columns, sources, strict=True)
            if not source.nullable
        )
        primary_key = tuple(fields[name.lower()] for name in table.primary_key)
        scan = Scan(table.table_id, table.name, tuple(columns), primary_key, table.is_append_only)
        node: Node = scan
        if table.expires:
            expiry = types.Field(self.builder.namer.unique_name("expiry"), types.BigInt())
            node = filter_expired(replace(scan, expiry=expiry), expiry.name)
        visible = [column_.name for column_ in table.columns if column_.name.lower() in fields]
        return Relation(node, tuple(Item(name, fields[name.lower()]) for name in visible))

    def _columns_read(self, table: Table) -> Sequence[str]:
        key = table.name.lower()
        if key not in self._read_columns:
            names = [column_.name for column_ in table.columns]
            self._read_columns[key] = self.query.columns_read(names)
        return self._read_columns[key]

    def _plan_step(self, join: Tree, context: Context) -> JoinStep:
        method, side, kind = (str(join.args.get(part) or "").upper() for part in _JOIN_PARTS)
        join_kind = _KINDS.get((side, kind))
        if join_kind is None or method not in ("", "NATURAL", "ASOF"):
            raise unsupported_error(
                "this kind of join", "it is not maintained incrementally yet", join
            )
        if join.args.get("pivots") or join.this.args.get("pivots"):
            raise unsupported_error(
                "PIVOT or UNPIVOT after a join", "write the join in a subquery in FROM", join
            )
        relation = self._plan_joins(join.this, context)
        on = join.args.get("on")
        using = tuple(name.name for name in join.args.get("using") or ()) or None
        return JoinStep(
            relation,
            join_kind,
            () if on is None else tuple(conjuncts(on)),
            () if method == "NATURAL" else using,
            join,
            join.args.get("match_condition"),
        )


_JOIN_PARTS = ("method", "side", "kind")


def _alias_of(tree: Tree) -> tuple[str | None, list[str]]:
    """Return the alias of an input of FROM, None if it has none, and its columns' names."""
    alias = tree.args.get("alias")
    if alias is None:
        return None, []
    return alias.name or None, [name.name for name in alias.columns]


def _split_laterals(select: Tree) -> tuple[list[Tree], list[exp.Lateral]]:
    """Return the joins of a SELECT, and the generators at the end of its FROM."""
    joins = list(select.args.get("joins") or ())
    laterals: list[exp.Lateral] = []
    while joins and isinstance(joins[-1].this, exp.Lateral):
        join = joins.pop()
        _check_lateral_join(join)
        laterals.insert(0, join.this)
    for join in joins:
        if isinstance(join.this, exp.Lateral):
            raise unsupported_error("a join after LATERAL", "write LATERAL last", join)
    return joins, [*laterals, *(select.args.get("laterals") or ())]


def _check_lateral_join(join: Tree) -> None:
    on = join.args.get("on")
    is_plain = on is None or (isinstance(on, exp.Boolean) and on.this)
    is_plain = is_plain or isinstance(join.this.this, exp.Query)
    side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
    if not is_plain or side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise unsupported_error(
            "this LATERAL join", "write LATERAL VIEW [OUTER], and its condition in WHERE", join
        )


def is_left_join(join: Tree | None) -> bool:
    """Return whether a node, that of a LATERAL, is a LEFT JOIN."""
    return isinstance(join, exp.Join) and str(join.args.get("side") or "").upper() == "LEFT"


def _may_read(condition: Tree, laterals: Sequence[exp.Lateral]) -> bool:
    """Return whether a condition may name a column of a generator."""
    words = {name.name.lower() for name in condition.find_all(exp.Identifier)}
    for lateral in laterals:
        title, names = _alias_of(lateral)
        made = names or _names_made(lateral.this)
        if made is None or not words.isdisjoint(name.lower() for name in (title or "", *made)):
            return True
    return False


def _names_made(source: Tree) -> Sequence[str] | None:
    """Return the names that the columns of a LATERAL may have; None if they are not in it."""
    if not isinstance(source, exp.Query):
        return usual_names(source)
    select = source.unnest()
    if not isinstance(select, exp.Select) or any(map(is_star, select.expressions)):
        return None
    return [expression.alias_or_name for expression in select.expressions]


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
