"""FROM and WHERE: tables, subqueries and joins, with conditions pushed down as far as possible.

Promises: every reference to a table is a separate scan with its own fields, so a table joined with
itself is two inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from .context import CommonTable, Context, PlanQuery, visible_common_tables
from .expressions import function_name, unsupported_error
from .generators import (
    is_generator,
    is_outer_generator,
    named_columns,
    plan_generator,
    usual_names,
)
from .join_chain import JoinChain, JoinStep, resolve_all
from .outer_domain import join_domain_inputs
from .pivot import plan_pivot
from .recursion import is_recursive, lifts_row_limit, plan_recursion
from .temporal import filter_expired

_KINDS = {
    ("", ""): JoinKind.INNER, ("", "INNER"): JoinKind.INNER, ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT, ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT, ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL, ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI, ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI, ("", "ANTI"): JoinKind.ANTI,
}  # fmt: skip

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
        conditions = () if where is None else tuple(conjuncts(where.this))
        groups = _input_groups(select)
        nested_joins = () if clause is None else _joins_of(clause.this)
        self._check_commas([*nested_joins, *(select.args.get("joins") or ())])
        laterals = groups[-1].laterals
        late = [c for c in conditions if laterals and _may_read(c, laterals)]
        early = [c for c in conditions if c not in late]
        first, steps = (None, []) if clause is None else self._plan_first(clause.this, context)
        relation, remaining, context = self._plan_group(
            select, first, steps, groups[0], early if len(groups) == 1 else (), context
        )
        for group in groups[1:]:
            relation, pending, context = self._plan_group(
                select, relation, (), group, early if group is groups[-1] else (), context
            )
            remaining = [*remaining, *pending]
        remaining += resolve_all(context.where_scope(relation.items), late)
        own = [c for c in remaining if columns_of(c).isdisjoint(context.parameters)]
        correlated = [c for c in remaining if c not in own]
        if context.domain is not None:
            scope = context.scope(relation.items)
            compared = [scope.resolve(c) for c in conditions if context.domain.is_read_in(c)]
            context.domain.note_comparisons(compared, relation.node, relation.domain)
        return replace(relation, node=self.builder.filter(relation.node, own)), correlated

    def _plan_group(
        self,
        select: Tree,
        first: Relation | None,
        steps: Sequence[JoinStep],
        group: _InputGroup,
        where: Sequence[Tree],
        context: Context,
    ) -> tuple[Relation, list[Tree], Context]:
        """Return (inputs joined with a group, conditions to be applied, the context over them)."""
        steps = [*steps, *self._plan_steps(group.joins, context)]
        relation, pending, context = self._joined(select, first, steps, where, context)
        for lateral in group.laterals:
            joined = self._plan_lateral(relation, lateral, context)
            relation = replace(joined, domain=relation.domain)
            self.builder.remember_types(relation.node)
            self._note_lateral_condition(relation, lateral, context)
        return relation, pending, context

    def _joined(
        self,
        tree: Tree,
        first: Relation | None,
        steps: Sequence[JoinStep],
        where: Sequence[Tree],
        context: Context,
    ) -> tuple[Relation, list[Tree], Context]:
        """Return (the joined inputs of a FROM, conditions to be applied, the context over them).

        ``first``: None without a FROM. ``tree``: what the inputs and conditions are part of.
        """
        written_first, written_steps = first, steps
        if context.domain is not None:
            first, steps, fields = join_domain_inputs(context.domain, tree, first, steps)
            context = replace(context, fields=fields)
        if first is None:
            first = one_row(self.builder)
        for relation in (first, *(step.relation for step in steps)):
            self.builder.remember_types(relation.node)
        chain = JoinChain(self.builder, first, steps, context.scope, context.where_scope)
        relation, pending = chain.plan(where)
        if context.domain is not None and written_first is not None:
            written = replace(chain, first=written_first, steps=written_steps)
            compared = written.inner_conditions()
            context.domain.note_comparisons(compared, relation.node, context.fields)
        return replace(relation, domain=context.fields), pending, context

    def _note_lateral_condition(
        self, relation: Relation, tree: exp.Lateral, context: Context
    ) -> None:
        if context.domain is None or not has_join_condition(tree):
            return
        assert tree.parent is not None
        scope = context.scope(relation.items)
        compared = [scope.resolve(part) for part in conjuncts(tree.parent.args["on"])]
        context.domain.note_comparisons(compared, relation.node, relation.domain)

    def _plan_lateral(self, relation: Relation, tree: exp.Lateral, context: Context) -> Relation:
        """Return rows with those that a generator makes of each."""
        call = tree.this
        if isinstance(call, exp.Query):
            return self.plan_lateral(relation, tree, context)
        if not is_generator(call) or has_join_condition(tree):
            return self.plan_lateral(relation, _as_subquery(tree), context)
        resolved = context.scope(relation.items).resolve(call)
        is_outer = bool(tree.args.get("outer")) or is_left_join(tree.parent)
        node, outputs = self._plan_generator(relation.node, resolved, is_outer=is_outer)
        title, names = _alias_of(tree)
        items = named_columns(outputs, names, tree)
        return Relation(node, (*relation.items, *(replace(i, qualifier=title) for i in items)))

    def _check_commas(self, joins: Sequence[Tree]) -> None:
        """Refuse a join after a comma where it does not have all inputs before it on its left."""
        if not self.builder.analysis.joins_before_commas:
            return
        is_after_comma = False
        for join in joins:
            is_comma = not any(join.args.get(name) for name in (*_JOIN_PARTS, "on", "using"))
            if is_after_comma and not is_comma:
                raise unsupported_error(
                    "a join after a comma under spark.sql.ansi.relationPrecedence",
                    "write CROSS JOIN for the comma, or unset it and try again",
                    join,
                )
            is_after_comma = is_after_comma or is_comma

    # Inputs

    def _plan_first(self, tree: Tree, context: Context) -> tuple[Relation, list[JoinStep]]:
        """Return the first input of a FROM, and the joins that sqlglot nests in it."""
        relation = self._plan_input(tree, context)
        return relation, self._plan_steps(_joins_of(tree), context)

    def _plan_steps(self, joins: Sequence[Tree], context: Context) -> list[JoinStep]:
        return [self._plan_step(join, context) for join in joins]

    def _plan_joins(self, tree: Tree, context: Context) -> Relation:
        """Return inputs that are joined with each other alone."""
        context = replace(context, outer=None, fields=())
        self._check_commas(_joins_of(tree))
        first, steps = self._plan_first(tree, context)
        if not steps:
            return first
        relation, pending, _ = self._joined(tree, first, steps, (), context)
        return replace(relation, node=self.builder.filter(relation.node, pending))

    def _plan_input(self, tree: Tree, context: Context) -> Relation:
        """Return one input of FROM, without the joins that sqlglot nests in it."""
        _check_input(tree)
        relation = self._plan_source(tree, context)
        for pivot in tree.args.get("pivots") or ():
            relation = plan_pivot(self.builder, relation, pivot, context.domain)
        return relation

    def _plan_source(self, tree: Tree, context: Context) -> Relation:
        """Return one input of FROM without the PIVOT after it."""
        title, names = _alias_of(tree)
        common_tables = context.common_tables
        if isinstance(tree, exp.Subquery):
            if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.args.get("with_"):
                inner = self._plan_joins(tree.this, context)
                return inner if title is None else inner.with_alias(title, names)
            tables = visible_common_tables(tree, common_tables, context.domain)
            return self.plan(tree.this, tables, context.domain).with_alias(title, names)
        # As the first side of a join in parentheses it is within a table.
        values = tree.this if isinstance(tree, exp.Table) else tree
        if isinstance(values, exp.Values):
            return plan_values(self.builder, values).with_alias(title, names)
        if not isinstance(tree, exp.Table):
            raise unsupported_error("this in FROM", "read tables, views and subqueries", tree)
        if not isinstance(tree.this, exp.Identifier):
            return self._plan_function(tree.this, context).with_alias(title, names)
        return self._plan_table(tree, title, names, context)

    def _plan_function(self, call: Tree, context: Context) -> Relation:
        if function_name(call) == "range":
            return plan_range(self.builder, call)
        if not is_generator(call):
            raise unsupported_error("this function in FROM", "read tables and subqueries", call)
        source = one_row(self.builder)
        if context.domain is not None and context.domain.is_read_in(call):
            source = context.domain.copy()
        scope = replace(context, fields=source.domain).scope(())
        node, items = self._plan_generator(source.node, scope.resolve(call))
        return Relation(node, items, domain=source.domain)

    def _plan_generator(
        self, node: Node, call: Tree, *, is_outer: bool = False
    ) -> tuple[Node, tuple[Item, ...]]:
        """Return the rows that a call makes of each row, and the columns of the call."""
        if has_subquery_call(call):
            node, (call,) = self.builder.attach_values(node, [call])
        return plan_generator(self.builder, node, call, is_outer=is_outer)

    def _plan_table(
        self, tree: exp.Table, title: str | None, names: Sequence[str], context: Context
    ) -> Relation:
        common_tables = context.common_tables
        common_table = None if tree.args.get("db") else common_tables.get(tree.name.lower())
        if common_table is not None and is_recursive(common_table.query):
            return self._plan_recursion(tree, common_table, title, names, context)
        if common_table is not None:
            domain = common_table.domain
            relation = self.plan(common_table.query, common_table.common_tables, domain)
            if relation.domain and domain is not context.domain:
                raise unsupported_error(
                    f"the common table {tree.name!r}, which reads columns of the query around it, "
                    "in a subquery",
                    "write its query in place of its name",
                    tree,
                )
            relation = relation.with_alias(tree.name, common_table.names)
            return relation.with_alias(title or tree.name, names)
        table = None if tree.args.get("db") else self.tables.find(tree.name)
        if table is None:
            raise table_not_found_error(text_of(tree))
        return self._plan_scan(table).with_alias(title or table.name, names)

    def _plan_recursion(
        self,
        tree: exp.Table,
        common_table: CommonTable,
        title: str | None,
        names: Sequence[str],
        context: Context,
    ) -> Relation:
        """Return the rows of a common table that reads itself."""
        common_tables = common_table.common_tables
        context = replace(context, common_tables=common_tables, outer=None, domain=None, fields=())

        def plan_table(table: exp.Table) -> Relation:
            _check_input(table)
            return self._plan_table(table, None, (), context)

        query, own_names = common_table.query, common_table.names
        has_all_rows = lifts_row_limit(self.query.tree)
        relation = plan_recursion(
            self.builder, query, own_names, plan_table, has_all_rows=has_all_rows
        )
        return relation.with_alias(tree.name).with_alias(title or tree.name, names)

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
        if table.has_parts:
            node = replace(scan, by_parts=True)
        elif table.expires:
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


@dataclass(frozen=True, slots=True)
class _InputGroup:
    """Some joins of a FROM, and the LATERAL inputs after them."""

    joins: list[Tree] = field(default_factory=list)
    laterals: list[exp.Lateral] = field(default_factory=list)


def _input_groups(select: Tree) -> list[_InputGroup]:
    """Return the inputs of a SELECT after the first one; the groups are joined in their order."""
    groups = [_InputGroup()]
    for join in select.args.get("joins") or ():
        if isinstance(join.this, exp.Lateral):
            _check_lateral_join(join)
            groups[-1].laterals.append(join.this)
            continue
        if groups[-1].laterals:
            groups.append(_InputGroup())
        groups[-1].joins.append(join)
    groups[-1].laterals.extend(select.args.get("laterals") or ())
    return groups


def _check_lateral_join(join: Tree) -> None:
    side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
    if side not in ("", "LEFT") or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise unsupported_error(
            "this LATERAL join", "write JOIN LATERAL or LEFT JOIN LATERAL", join
        )
    if side and join.args.get("on") is None and _makes_rows_alone(join.this):
        raise unsupported_error(
            "LEFT JOIN LATERAL of a function that returns rows, without ON",
            "Spark 4.3 leaves out rows for which it returns none; write ON TRUE or its name with "
            "_outer to keep them, or JOIN LATERAL",
            join,
        )


def _makes_rows_alone(lateral: Tree) -> bool:
    """Return whether a LATERAL input is a function that may return no rows, and reads no table."""
    calls = (call for call in lateral.find_all(exp.Anonymous) if is_generator(call))
    return any(not is_outer_generator(call) for call in calls) and not any(
        isinstance(table.this, exp.Identifier) for table in lateral.find_all(exp.Table)
    )


def has_join_condition(lateral: Tree) -> bool:
    """Return whether a LATERAL input has a condition after ON."""
    join = lateral.parent
    on = join.args.get("on") if isinstance(join, exp.Join) else None
    return on is not None and not (isinstance(on, exp.Boolean) and on.this)


def _as_subquery(lateral: exp.Lateral) -> exp.Lateral:
    """Return a LATERAL function as a LATERAL subquery that reads it in FROM."""
    source = exp.Table(this=lateral.this.copy())
    select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))
    whole = (lateral.parent if isinstance(lateral.parent, exp.Join) else lateral).copy()
    subquery = whole.this if isinstance(whole, exp.Join) else whole
    subquery.set("this", exp.Subquery(this=select))
    assert isinstance(subquery, exp.Lateral)
    return subquery


def is_left_join(join: Tree | None) -> bool:
    """Return whether a node, that of a LATERAL, is a LEFT JOIN."""
    return isinstance(join, exp.Join) and str(join.args.get("side") or "").upper() == "LEFT"


def _may_read(condition: Tree, laterals: Sequence[exp.Lateral]) -> bool:
    """Return whether a condition may name a column of a generator."""
    words = {name.name.lower() for name in condition.find_all(exp.Identifier)}
    for lateral in laterals:
        title, names = _alias_of(lateral)
        generated_names = names or _names_made(lateral.this)
        if generated_names is None or not words.isdisjoint(
            name.lower() for name in (title or "", *generated_names)
        ):
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


def _joins_of(tree: Tree) -> Sequence[Tree]:
    return tree.args.get("joins") or ()


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
                clause_name, f"a view reads whole tables; found {excerpt(text_of(tree))}"
            )
