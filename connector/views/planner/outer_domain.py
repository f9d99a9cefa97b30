"""Subqueries that read outer values in any clause and at any depth, planned for all values at once.

The *domain* is each distinct combination of the outer values that a subquery reads. It is joined
with the FROM of every SELECT in the subquery that reads them, and of the result each row has the
values of the domain that it is for. All clauses are applied for each combination: GROUP BY,
DISTINCT, PARTITION BY, INTERSECT and EXCEPT have its fields as further columns, and LIMIT takes
the first rows of each. An outer row has the rows with its own values.

Promises: NULLs among the values are values like others. An aggregate without GROUP BY has a row for
each combination.
Does not know: the joins with the outer rows (subqueries, lateral).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    column,
    columns_of,
    comparable_text,
    is_column,
    parse_expression,
    substituted,
)
from relstate.storage import types
from relstate.vnode import cached_property

from ..plan.generate import OneRow
from ..plan.join import JoinKind, JoinNode
from ..plan.node import Names, Node, walk
from ..plan.stateless import Project, Scan, ScanColumn
from .builder import (
    Builder,
    Item,
    Relation,
    field_title,
    has_subquery_call,
    is_keyable,
    pass_through_output,
)
from .collations import is_collated
from .expressions import function_name, unsupported_error
from .group_by import plan_aggregate, plan_distinct, with_defaults
from .grouping_sets import GroupBy, plan_group_by
from .join_chain import JoinChain, JoinStep
from .join_conditions import plan_join
from .limit_rule import compared_columns, compares_each_once
from .scope import Outer, Scope, StarColumn, as_fields, parts_of

_KEEPS_RIGHT_ROWS = JoinKind.RIGHT, JoinKind.FULL


class _ParameterFoundError(Exception):
    """A subquery reads an outer value that its domain does not have: it is to be planned again."""

    def __init__(self, outer: Outer) -> None:
        super().__init__()
        self.outer = outer


@dataclass(frozen=True)
class Domain:
    """The distinct combinations of outer values; ``names``: a field for each parameter of outer.

    ``equalities``: those of columns of one type in the subquery, by which Spark applies a LIMIT to
    the rows of each combination; the position of the outer value, and a field.
    ``other_equalities``: those that Spark may apply above a LIMIT, to which all rows are one set.
    """

    builder: Builder
    outer: Outer
    node: Node
    names: Names
    equalities: list[tuple[int, str]] = field(default_factory=list)
    other_equalities: list[Tree] = field(default_factory=list)

    def value_in(self, name: str, position: int) -> Tree:
        """Return the outer value at a position, which a field has; a collated string is one."""
        data_type = self._collations.get(position)
        if data_type is None:
            return column(name)
        return parse_expression(cast_text(types.quoted(name), data_type))

    @cached_property
    def _collations(self) -> dict[int, types.DataType]:
        """The types of the outer values that are collated, by position."""
        data_types = {
            position: self.builder.type_of(value)
            for position, (value, name) in enumerate(
                zip(self.outer.parameters.values(), self.names, strict=False)
            )
            if isinstance(self.node.type_of(name), types.String)
        }
        return {
            position: data_type
            for position, data_type in data_types.items()
            if is_collated(data_type)
        }

    def is_read_in(self, tree: Tree) -> bool:
        """Return whether a part of a query may name one of the values."""
        references = tree.find_all(exp.Column)
        return any(parts_of(reference) in self.outer.references for reference in references)

    def copy(self) -> Relation:
        """Return the combinations in fields of their own, which no name refers to."""
        fields = {field.name: field for field in self.node.fields}
        renamed = tuple(map(self.builder.namer.unique_name, self.names))
        outputs = (
            pass_through_output(fields[name], new_name)
            for name, new_name in zip(self.names, renamed, strict=True)
        )
        return Relation(Project(self.node, tuple(outputs)), (), domain=renamed)

    def note_comparisons(self, conditions: Iterable[Tree], node: Node, fields: Names) -> None:
        """Note the equalities of a filter with outer values: Spark may apply them above a LIMIT.

        ``conditions``: of the rows of ``node``, whose ``fields`` have the outer values.
        """
        values = self.outer.parameters.values()
        own_types = {field.name: field.type for field in node.fields if field.name not in fields}
        outer_types = {
            name: node.type_of(name)
            for name, value in zip(fields, values, strict=False)
            if is_column(value)
        }
        for condition in filter(_is_equality, conditions):
            reads = columns_of(condition)
            if reads.isdisjoint(fields) or reads <= set(fields):
                continue
            pair = compared_columns(condition, own_types, outer_types)
            if pair is None:
                self.other_equalities.append(condition)
            else:
                outer, own = pair
                self.equalities.append((fields.index(outer), own))

    def forget_equalities(self, count: int) -> None:
        """Forget all equalities but the first ones.

        Those in an input of a set operation have no effect on a LIMIT around it.
        """
        del self.equalities[count:]

    def check_limit(self, tree: Tree) -> None:
        """Refuse a LIMIT that Spark does not apply to the rows of each combination."""
        if self.other_equalities:
            raise unsupported_error(
                "LIMIT in a subquery that compares a column with one of the query around it by "
                "<=>, by = of different types, or by = with an expression",
                "Spark limits all of its rows then, not those of each row of the query: compare "
                "columns of one type by =, and compute their values in subqueries in FROM",
                tree,
            )
        if not compares_each_once(self.equalities):
            raise unsupported_error(
                "LIMIT in a subquery that compares several columns with one of the query around it",
                "Spark limits the rows by one of them alone: compare the others with that one, as "
                "in b.x = a.x AND b.y = b.x",
                tree,
            )

    def applied_to(self, relation: Relation) -> Relation:
        """Return rows for each combination; they have its fields already, or are for all."""
        if relation.domain:
            return relation
        combinations = self.copy()
        node, _ = plan_join(self.builder, combinations.node, relation.node, JoinKind.INNER, [])
        return replace(relation, node=node, domain=combinations.domain)


@dataclass(frozen=True, slots=True)
class DomainColumns:
    """The outer values as fields of the rows of one FROM; none if it does not read any."""

    domain: Domain
    fields: Names

    def parameter(self, node: Tree) -> Tree:
        """Return the field of an outer value that a name or a call means."""
        outer = self.domain.outer
        count = len(outer.references)
        name = outer.parameter(node).name
        position = list(outer.parameters).index(name)
        if position < len(self.fields):
            return self.domain.value_in(self.fields[position], position)
        if position < len(self.domain.names) and len(outer.references) == count:
            raise unsupported_error(
                "a column of the query around a subquery", "write it in its SELECT or WHERE", node
            )
        raise _ParameterFoundError(outer)

    def is_map(self, reference: exp.Column) -> bool:
        """Return whether a name means a map of the query around the subquery."""
        return self.domain.outer.is_map(reference)

    def star(self, star: Tree) -> list[StarColumn]:
        """Return the fields of the outer values that a star means."""
        columns = self.domain.outer.columns_of(star)
        return [(name, self.parameter(as_fields(value))) for name, value in columns]


@dataclass(frozen=True, slots=True)
class _NoOuterColumns:
    """The outer values in ON where the rows of one side stay without a match: there are none."""

    def parameter(self, node: Tree) -> Tree:
        """Refuse the name of an outer value."""
        raise unsupported_error(
            "a column of the query around a subquery in ON, in a FROM with a RIGHT, FULL or ASOF "
            "JOIN",
            "write a LEFT JOIN; that of a RIGHT JOIN has its inputs in the other order",
            node,
        )

    def is_map(self, reference: exp.Column) -> bool:
        """Return False: every name is refused."""
        return False

    def star(self, star: Tree) -> list[StarColumn]:
        """Refuse a star of outer values."""
        return [(None, self.parameter(star))]


def compute_parameters(builder: Builder, outer: Outer, node: Node) -> tuple[Node, Names]:
    """Return an operator with the parameters of ``outer`` as fields, and these fields.

    Collated strings as their bytes: those that are equal are different values to a subquery.
    """
    node, names = builder.compute(node, list(outer.parameters.values()))
    return builder.as_bytes(node, names)


def plan_domain(builder: Builder, outer: Outer, node: Node, names: Sequence[str]) -> Domain:
    """Return the domain of rows; ``names``: their fields with the parameters of ``outer``."""
    return Domain(builder, outer, plan_distinct(builder, node, names), tuple(names))


def find_parameters(builder: Builder, outer: Outer, plan: Callable[[Domain], Relation]) -> None:
    """Add all outer values that a subquery reads to the parameters of ``outer``.

    ``plan``: plans the subquery over a domain. It begins again whenever it reads another value.
    """
    while True:
        try:
            plan(_unknown_domain(builder, outer))
            return
        except _ParameterFoundError as found:
            if found.outer is not outer:
                raise


def _unknown_domain(builder: Builder, outer: Outer) -> Domain:
    """Return a domain of the types of the parameters, over rows that no plan reads."""
    fields = []
    for value in outer.parameters.values():
        if has_subquery_call(value):
            raise unsupported_error(
                "a subquery that reads another subquery of the query around it",
                "compute the other one in a subquery in FROM",
                value,
            )
        data_type = builder.type_of(value)
        if is_collated(data_type):
            data_type = types.String()
        if not is_keyable(data_type):
            raise unsupported_error(
                f"a {data_type} of the query around a subquery, whose rows are computed for each "
                "of its values",
                "such values cannot be compared; compute what the subquery reads of it, as in m[k] "
                "AS v, in a subquery in FROM",
                value,
            )
        name = builder.namer.unique_name(field_title(value))
        fields.append(types.Field(name, data_type))
    columns = tuple(ScanColumn(field.name, field) for field in fields)
    names = tuple(field.name for field in fields)
    return Domain(builder, outer, Scan(0, "outer", columns, names), names)


def equal_values(left: Iterable[str], right: Iterable[str]) -> list[Tree]:
    """Return the conditions that combinations in fields of two operators are the same."""
    pairs = zip(left, right, strict=True)
    return [
        exp.NullSafeEQ(this=as_fields(column(l_name)), expression=as_fields(column(r_name)))
        for l_name, r_name in pairs
    ]


# FROM


def join_domain_inputs(
    domain: Domain, tree: Tree, first: Relation | None, steps: Sequence[JoinStep]
) -> tuple[Relation | None, list[JoinStep], Names]:
    """Return the inputs of a FROM with those of the domain, and the latter's fields.

    ``first``: None without a FROM.
    """
    inputs = [step.relation for step in steps] if first is None else [first, *_relations(steps)]
    is_dependent = any(relation.domain for relation in inputs)
    if not is_dependent and not domain.is_read_in(tree):
        return first, list(steps), ()
    if first is not None and not all(map(_keeps_left_rows, steps)):
        first, steps = _joined_alone(domain, tree, first, steps, is_dependent=is_dependent), ()
    provider = first
    if provider is None or not provider.domain:
        provider = domain.copy()
        if first is not None:
            steps = [JoinStep(first, JoinKind.INNER, (), None, tree), *steps]
    joined_steps = []
    for step in steps:
        if step.relation.domain:
            equalities = equal_values(provider.domain, step.relation.domain)
            step = replace(step, on=(*step.on, *equalities))
        joined_steps.append(step)
    return provider, joined_steps, provider.domain


def _relations(steps: Sequence[JoinStep]) -> list[Relation]:
    return [step.relation for step in steps]


def _keeps_left_rows(step: JoinStep) -> bool:
    return step.kind not in _KEEPS_RIGHT_ROWS and step.match is None


def _joined_alone(
    domain: Domain, tree: Tree, first: Relation, steps: Sequence[JoinStep], *, is_dependent: bool
) -> Relation:
    """Return joins that are the same for all combinations, with which the domain is then joined."""
    if is_dependent:
        raise unsupported_error(
            "a RIGHT, FULL or ASOF JOIN of subqueries that read columns of the query around them",
            "write the subquery as a join, by LEFT JOINs",
            tree,
        )

    def scope(items: Sequence[Item]) -> Scope:
        return Scope(tuple(items), outer=_NoOuterColumns())

    relation, _ = JoinChain(domain.builder, first, steps, scope, scope).plan(())
    return relation


# Clauses


def group_over_domain(
    domain: Domain, node: Node, keys: Names, group: GroupBy, expressions: Sequence[Tree], tree: Tree
) -> tuple[Node, list[Tree], Names]:
    """Return (an aggregate for each combination, expressions over it, its fields of the domain).

    ``keys``: the fields of the domain in ``node``. ``tree``: the SELECT.
    """
    columns = list(map(column, keys))
    if group.expressions or group.sets is not None:
        node, outputs = plan_group_by(
            domain.builder, node, _with_columns(group, columns, tree), [*columns, *expressions]
        )
        names = tuple(output.name for output in outputs[: len(keys)])
        return node, outputs[len(keys) :], names
    aggregate, outputs = plan_aggregate(domain.builder, node, columns, expressions)
    outputs = with_defaults(aggregate, outputs, tree)
    combinations = domain.copy()
    node, _ = plan_join(
        domain.builder,
        combinations.node,
        aggregate,
        JoinKind.LEFT,
        equal_values(combinations.domain, keys),
    )
    renamed = dict(zip(keys, combinations.domain, strict=True))

    def replacement(part: Tree) -> Tree | None:
        is_key = isinstance(part, exp.Column) and part.name in renamed
        return column(renamed[part.name]) if is_key else None

    return node, [substituted(output, replacement) for output in outputs], combinations.domain


def _with_columns(group: GroupBy, columns: Sequence[Tree], tree: Tree) -> GroupBy:
    """Return a GROUP BY that has some columns more, in each of its sets."""
    expressions = (*columns, *group.expressions)
    if group.sets is None:
        return GroupBy(expressions)
    texts = set(map(comparable_text, columns))
    if not texts.isdisjoint(map(comparable_text, group.expressions)):
        raise unsupported_error(
            "grouping sets by a column of the query around a subquery",
            "group by columns of the subquery alone",
            tree,
        )
    count = len(columns)
    own = range(count)
    sets = ((*own, *(position + count for position in members)) for members in group.sets)
    expanded = group.expanded
    if expanded is not None:
        fields = (*(tree.name for tree in columns), *expanded.fields)
        expanded = replace(expanded, fields=fields)
    return GroupBy(expressions, tuple(sets), expanded)


def partition_by_domain(expression: Tree, keys: Names) -> Tree:
    """Return an expression whose windows see the rows of one combination."""

    def replacement(node: Tree) -> Tree | None:
        if not isinstance(node, exp.Window):
            return None
        window: Tree = node.copy()
        window.set("partition_by", [*map(column, keys), *(window.args.get("partition_by") or ())])
        return window

    return substituted(expression, replacement)


def _is_equality(condition: Tree) -> bool:
    return (
        isinstance(condition, exp.EQ | exp.NullSafeEQ) or function_name(condition) == "equal_null"
    )


def has_one_row_each(relation: Relation) -> bool:
    """Return whether a relation has one row at most for each combination of its domain."""
    nodes = walk(relation.node)
    if any(isinstance(node, JoinNode) and node.kind is JoinKind.FULL for node in nodes):
        return False
    constants = {node.field.name for node in nodes if isinstance(node, OneRow)}
    return {*relation.domain, *constants}.issuperset(relation.node.key)


# Set operations


def as_inputs(domain: Domain, inputs: Sequence[Relation]) -> tuple[list[Relation], int]:
    """Return inputs of a set operation whose first columns are the domain's, and how many.

    None are, if no input is for single combinations.
    """
    if not any(relation.domain for relation in inputs):
        return list(inputs), 0
    applied = map(domain.applied_to, inputs)
    relations = [
        Relation(relation.node, (*(Item(None, name) for name in relation.domain), *relation.items))
        for relation in applied
    ]
    return relations, len(domain.names)


def without_domain_columns(relation: Relation, count: int) -> Relation:
    """Return the rows of a set operation whose first columns are the domain's."""
    names = tuple(item.field for item in relation.items[:count])
    return replace(relation, items=relation.items[count:], domain=names)
