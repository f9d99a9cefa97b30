"""A plan under construction: an operator, and the query's names of its fields.

Promises: expressions are trees of sqlglot whose columns are fields of the operator, so they can
be taken apart, and moved to any operator with those fields.
Does not know: what names in a query mean (scope).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    cast_text,
    columns_of,
    comparable_text,
    conjunction,
    is_column,
    parse_expression,
    text_of,
    without_parentheses,
)
from relstate.storage import types

from ..plan.node import Names, Node, Order
from ..plan.stateless import Filter, Output, Project
from ..plan.topn import UNBOUNDED, Ranking, TopN
from .analysis import Analysis
from .clock_comparisons import has_clock
from .clock_conditions import filter_by_clock, split_condition
from .clock_flags import attach_flags
from .collations import bytes_text, collation_key, is_collated
from .expressions import SUBQUERY_CALL, unsupported_error
from .rank_bound import apply_rank_bound
from .sort_keys import SortKey

# Words that Spark does not read as a column name without quotes.
_RESERVED = """
    all and anti any array as asc between both by case cast cross current_date current_time
    current_timestamp current_user date day desc distinct div else end escape except exists extract
    false fetch filter for from full group having hour if in inner intersect interval into is join
    lateral leading left like limit map minus minute month natural not null nulls offset on or order
    outer over partition position right rlike second select semi session_user set some struct
    substring table then time timestamp to trailing trim true union unique unknown user using values
    when where window with within year
"""
_WORDS = frozenset(_RESERVED.split())
_LONGEST = 60
_NUMBER = re.compile(r"_\d+$")


class Namer:
    """Makes names that are unique in one plan, ignoring case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique_name(self, base: str) -> str:
        """Return ``base`` if it is free and a valid name, else a similar name."""
        base = re.sub(r"\W+", "_", base).strip("_").lower()[:_LONGEST] or "value"
        if base[0].isdigit():
            base = f"value_{base}"
        if base in self._taken:
            base = _NUMBER.sub("", base)
        name, number = f"{base}_" if base in _WORDS else base, 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


_ORDERLESS = types.Map, types.Variant, types.CalendarInterval, types.YearMonthInterval, types.Void


@dataclass(frozen=True, slots=True)
class Item:
    """A column that a query can name, ``qualifier.name`` or ``name``, and its field.

    ``name``: None for an expression without one. ``is_hidden``: a USING column replaces it,
    and only its qualified name refers to it.
    """

    name: str | None
    field: str
    qualifier: str | None = None
    is_hidden: bool = False


@dataclass(frozen=True)
class Relation:
    """An operator and its columns, in the order of ``*``; ``order``: how a query sorts them.

    ``domain``: the fields with the outer values for which its rows are (outer_domain); none if
    they are the same for all. ``inner_order``: how a query in FROM sorts them, by which a LIMIT
    without ORDER BY takes the first.
    """

    node: Node
    items: tuple[Item, ...]
    order: tuple[Order, ...] = ()
    domain: Names = ()
    inner_order: tuple[Order, ...] = ()

    @property
    def nested(self) -> Relation:
        """The relation in a query around it, whose own order it does not decide."""
        return replace(self, order=(), inner_order=self.order or self.inner_order)

    def with_alias(self, alias: str | None, names: Sequence[str] = ()) -> Relation:
        """Return the relation under an alias, as in FROM; ``names`` rename its columns."""
        visible_items = [item for item in self.items if not item.is_hidden]
        if names and len(names) != len(visible_items):
            raise unsupported_error(
                f"{len(names)} names for {len(visible_items)} columns", f"of {alias!r}"
            )
        titles: Sequence[str | None] = names or [item.name for item in visible_items]
        items = tuple(
            Item(name, item.field, alias) for name, item in zip(titles, visible_items, strict=True)
        )
        return replace(self.nested, items=items)


AttachValues: TypeAlias = Callable[[Node, Sequence[Tree]], tuple[Node, Sequence[Tree]]]
"""Returns an operator joined with the subqueries in expressions, and expressions over it."""
AttachCondition: TypeAlias = Callable[[Node, Tree], tuple[Node, Tree | None]]
"""Returns an operator joined with the subqueries in a condition, and what is left of it."""


def is_subquery_call(tree: Tree) -> bool:
    """Return whether an expression is a call that stands for a subquery."""
    return isinstance(tree, exp.Anonymous) and str(tree.this).startswith(SUBQUERY_CALL)


def has_subquery_call(tree: Tree) -> bool:
    """Return whether an expression has a call that stands for a subquery."""
    return any(map(is_subquery_call, tree.find_all(exp.Anonymous)))


def _attach_no_values(node: Node, expressions: Sequence[Tree]) -> tuple[Node, Sequence[Tree]]:
    raise AssertionError("there are no subqueries")


def _attach_no_condition(node: Node, condition: Tree) -> tuple[Node, Tree | None]:
    raise AssertionError("there are no subqueries")


@dataclass
class Builder:
    """Adds operators to a plan, with names and types. For one plan.

    ``never_null``: the fields of scans that are never NULL. ``field_types``: the types of the
    fields that names of the query may refer to.
    """

    analysis: Analysis
    namer: Namer = field(default_factory=Namer)
    attach_values: AttachValues = _attach_no_values
    attach_condition: AttachCondition = _attach_no_condition
    never_null: set[str] = field(default_factory=set)
    field_types: dict[str, types.DataType] = field(default_factory=dict)

    def remember_types(self, node: Node) -> None:
        """Remember the types of the fields of an operator."""
        self.field_types.update((node_field.name, node_field.type) for node_field in node.fields)

    def type_of(self, expression: Tree) -> types.DataType:
        """Return the type of an expression over fields whose types are remembered."""
        names = sorted(columns_of(expression))
        fields = [types.Field(name, self.field_types[name]) for name in names]
        return self.analysis.types_of(fields, [text_of(expression)])[0]

    def filter(self, node: Node, conditions: Sequence[Tree]) -> Node:
        """Return the rows for which all conditions are true.

        Rank bounds become limits, subqueries joins, and bounds by the present time a filter that
        follows it.
        """
        conditions = [part for condition in conditions for part in split_condition(condition)]
        timed = [condition for condition in conditions if has_clock(condition)]
        conditions = [condition for condition in conditions if not has_clock(condition)]
        own = [condition for condition in conditions if not has_subquery_call(condition)]
        remaining: list[Tree] = []
        for condition in own:
            bounded = apply_rank_bound(node, condition)
            node, remaining = (
                (node, [*remaining, condition]) if bounded is None else (bounded, remaining)
            )
        node = _filter(node, remaining)
        for condition in conditions:
            if has_subquery_call(condition):
                node, residual = self.attach_condition(node, condition)
                node = _filter(node, [] if residual is None else [residual])
        if any(map(has_subquery_call, timed)):
            node, values = self.attach_values(node, timed)
            timed = list(values)
        return filter_by_clock(self.analysis, self.compute, self.namer.unique_name, node, timed)

    def compute(
        self, node: Node, expressions: Sequence[Tree], titles: Sequence[str | None] = ()
    ) -> tuple[Node, tuple[str, ...]]:
        """Return an operator with the expressions as fields, and the names of these fields.

        Subqueries in them become joins, comparisons with the present time fields that follow it.
        """
        if any(map(has_subquery_call, expressions)):
            node, expressions = self.attach_values(node, expressions)
        if any(map(has_clock, expressions)):
            node, expressions = self._attach_flags(node, expressions)
        names = titles or [None] * len(expressions)
        field_names: dict[str, str] = {}
        new_fields: list[tuple[str, str]] = []
        for expression, title in zip(expressions, names, strict=True):
            key = comparable_text(expression)
            if key not in field_names:
                field_names[key] = (
                    expression.name if is_column(expression) else self._unique_name(title)
                )
                if not is_column(expression):
                    new_fields.append((field_names[key], text_of(expression)))
        fields = tuple(field_names[comparable_text(expression)] for expression in expressions)
        return (self._project(node, new_fields) if new_fields else node), fields

    def attach_flags(self, node: Node, conditions: Sequence[Tree]) -> tuple[Node, list[Tree]]:
        """Return an operator with what it compares with the present time, conditions over that.

        Comparisons of fields that it does not have stay as they are.
        """
        return self._attach_flags(node, conditions, is_partial=True)

    def _attach_flags(
        self, node: Node, expressions: Sequence[Tree], *, is_partial: bool = False
    ) -> tuple[Node, list[Tree]]:
        return attach_flags(
            self.analysis,
            self.compute,
            self.namer.unique_name,
            node,
            expressions,
            is_partial=is_partial,
        )

    def with_constant(self, node: Node, title: str) -> tuple[Node, str]:
        """Return an operator with one more field, constant in all rows, and its name."""
        name = self.namer.unique_name(title)
        return self._project(node, [(name, "CAST(0 AS TINYINT)")]), name

    def with_field(self, node: Node, name: str, expression: str) -> Node:
        """Return an operator with one more field; ``name``: one that the namer gave."""
        return self._project(node, [(name, expression)])

    def cast(self, node: Node, name: str, data_type: types.DataType) -> tuple[Node, str]:
        """Return an operator with a field cast to a type, and the name of the cast field."""
        if node.type_of(name) == data_type:
            return node, name
        new_name = self.namer.unique_name(name)
        return self._project(node, [(new_name, cast_text(types.quoted(name), data_type))]), new_name

    def without_signs(self, node: Node, names: Sequence[str]) -> tuple[Node, tuple[str, ...]]:
        """Return an operator with 0 for -0 in floats as fields, as in DISTINCT, and the names.

        For each of ``names`` that of this field; its own if it is not a float.
        """
        floats = {name: node.type_of(name) for name in names}
        texts = {
            name: f"{types.quoted(name)} + {cast_text('0', data_type)}"
            for name, data_type in floats.items()
            if isinstance(data_type, types.Float | types.Double)
        }
        return self._with_values(node, names, texts, list(texts))

    def typed_nulls(self, node: Node, names: Sequence[str]) -> tuple[Node, tuple[str, ...]]:
        """Return an operator with a type for NULLs without one as fields, and the names.

        For each of ``names`` that of this field; its own if it has a type.
        """
        untyped = dict.fromkeys(name for name in names if node.type_of(name) == types.Void())
        texts = {name: cast_text("NULL", types.TinyInt()) for name in untyped}
        return self._with_values(node, names, texts, list(texts))

    def collation_keys(self, node: Node, names: Sequence[str]) -> tuple[Node, tuple[str, ...]]:
        """Return an operator with the keys of collated strings as fields, and the names.

        For each of ``names`` that of its key, or its own if it needs or has none.
        """
        keys = {name: collation_key(types.quoted(name), node.type_of(name)) for name in names}
        texts = {name: key for name, key in keys.items() if key is not None}
        return self._with_values(node, names, texts, [f"{name}_key" for name in texts])

    def as_bytes(self, node: Node, names: Sequence[str]) -> tuple[Node, tuple[str, ...]]:
        """Return an operator with collated strings as fields compared by bytes, and the names.

        For each of ``names`` that of this field; its own if it is not such a string.
        """
        collated = dict.fromkeys(name for name in names if is_collated(node.type_of(name)))
        texts = {name: bytes_text(types.quoted(name)) for name in collated}
        return self._with_values(node, names, texts, list(texts))

    def _with_values(
        self, node: Node, names: Sequence[str], texts: Mapping[str, str], titles: Sequence[str]
    ) -> tuple[Node, tuple[str, ...]]:
        """Return an operator with some values as fields, and names, those of the fields for them.

        ``texts``: the values by the names that they stand for; ``titles``: what they are called.
        """
        if not texts:
            return node, tuple(names)
        node, fields = self.compute(node, list(map(parse_expression, texts.values())), titles)
        by_name = dict(zip(texts, fields, strict=True))
        return node, tuple(by_name.get(name, name) for name in names)

    def compute_order(
        self, node: Node, keys: Iterable[SortKey], clause: str
    ) -> tuple[Node, tuple[Order, ...]]:
        """Return an operator with the values of sort keys as fields."""
        sort_keys = list(keys)
        node, names = self.compute(node, [expression for expression, _, _ in sort_keys])
        node, names = self.typed_nulls(node, names)
        node, names = self.collation_keys(node, names)
        orders: dict[str, Order] = {}
        for name, (_, descending, nulls_first) in zip(names, sort_keys, strict=True):
            check_keyable(node.type_of(name), clause)
            orders.setdefault(name, Order(name, descending, nulls_first))
        return node, tuple(orders.values())

    def limit(
        self,
        node: Node,
        order: tuple[Order, ...],
        limit: int | None,
        offset: int,
        partition: Names = (),
    ) -> Node:
        """Return ``limit`` rows of an order, None for all, after the first ``offset``.

        Rows that tie are in the order of their key, all of them without an order. ``partition``:
        fields for each combination of whose values these are taken.
        """
        is_global = not partition
        if is_global:
            node, all_rows = self.with_constant(node, "all_rows")
            partition = (all_rows,)
        if limit is not None:
            return TopN(node, partition, order, limit, offset, is_global=is_global)
        if not order:  # a window has to have one
            node, place = self.with_constant(node, "place")
            order = (Order(place),)
        rank = types.Field(self.namer.unique_name("position"), types.Int())
        return TopN(
            node,
            partition,
            order,
            UNBOUNDED,
            offset,
            rank=rank,
            ranking=Ranking.ROW_NUMBER,
            is_global=is_global,
        )

    def is_same(self, node: Node, left: Tree, right: Tree) -> bool:
        """Return whether Spark takes two expressions over an operator's fields for the same."""
        return self.analysis.is_same(node.fields, text_of(left), text_of(right))

    def _unique_name(self, title: str | None) -> str:
        return self.namer.unique_name(title or "value")

    def _project(self, node: Node, new_fields: Sequence[tuple[str, str]]) -> Node:
        data_types = self.analysis.types_of(node.fields, [text for _, text in new_fields])
        for data_type in data_types:
            _check_parts(data_type)
        passed_outputs = [pass_through_output(input_field) for input_field in node.fields]
        computed_outputs = [
            Output(types.Field(name, data_type), text)
            for (name, text), data_type in zip(new_fields, data_types, strict=True)
        ]
        return Project(node, (*passed_outputs, *computed_outputs))


def _filter(node: Node, conditions: Sequence[Tree]) -> Node:
    return Filter(node, text_of(conjunction(conditions))) if conditions else node


def pass_through_output(input_field: types.Field, name: str | None = None) -> Output:
    """Return a projection's output that passes a field of its child, renamed if ``name``."""
    return Output(
        replace(input_field, name=name or input_field.name),
        types.quoted(input_field.name),
        input_field.name,
    )


def field_title(tree: Tree) -> str:
    """Return a name for a field that holds an expression, from the fields that it reads."""
    tree = without_parentheses(tree)
    return tree.name if is_column(tree) else "_".join(sorted(columns_of(tree)))[:30] or "value"


def check_keyable(data_type: types.DataType, clause: str) -> None:
    """Raise UnsupportedStatementError if a type cannot be in the key of a state table."""
    if data_type == types.Void():
        raise unsupported_error(
            f"a NULL without a type in {clause}", "cast it, as in CAST(NULL AS STRING)"
        )
    part = _orderless_part(data_type)
    if part is not None:
        raise unsupported_error(f"a {data_type} in {clause}", _orderless_reason(part))


def is_keyable(data_type: types.DataType) -> bool:
    """Return whether a type can be in the key of a state table."""
    return _orderless_part(data_type) is None


def is_map_key(data_type: types.DataType) -> bool:
    """Return whether a type is a map whose entries can be in the key of a state table."""
    return isinstance(data_type, types.Map) and is_keyable(data_type.value)


def _orderless_part(data_type: types.DataType) -> types.DataType | None:
    """Return the part of a type, or itself, that no key can have; None if there is none."""
    match data_type:
        case types.Array(element, _):
            return _orderless_part(element)
        case types.Struct(fields):
            parts = (_orderless_part(member.type) for member in fields)
            return next((part for part in parts if part is not None), None)
        case types.String():
            return data_type if data_type.is_collated else None
    return data_type if isinstance(data_type, _ORDERLESS) else None


def _orderless_reason(data_type: types.DataType) -> str:
    """Return why no key has values of a type, and what to write instead."""
    match data_type:
        case types.String():
            return (
                "keys are compared by their bytes, and no function of Spark returns what strings "
                "that are equal by a collation of ICU have in common; write name COLLATE "
                "UTF8_LCASE, or the strings as they are, name COLLATE UTF8_BINARY"
            )
        case types.Map():
            return "maps have no order; write array_sort(map_entries(m)), which is equal for them"
        case types.Variant():
            return "variants have no order; write parts of it with a type, as in v:a::INT"
        case types.YearMonthInterval():
            return "write its months, extract(YEAR FROM i) * 12 + extract(MONTH FROM i)"
    return "it has no order; write its text, as in CAST(i AS STRING)"


def _check_parts(data_type: types.DataType) -> None:
    """Refuse a struct with two parts of one name, which Spark cannot hand to a task in Python."""
    match data_type:
        case types.Array(element, _):
            _check_parts(element)
        case types.Map(key, value, _):
            _check_parts(key)
            _check_parts(value)
        case types.Struct(members):
            names = [member.name for member in members]
            repeated = next((name for name in names if names.count(name) > 1), None)
            if repeated is not None:
                raise unsupported_error(
                    f"a struct with two parts named {repeated!r}",
                    "name them apart, as in named_struct('a', …, 'b', …), or give columns of "
                    "arrays_zip() other names in a subquery in FROM",
                )
            for member in members:
                _check_parts(member.type)


def reads_only(names: Iterable[str], expression: Tree) -> bool:
    """Return whether an expression reads at least one field, and only fields in ``names``."""
    columns = columns_of(expression)
    return bool(columns) and columns <= set(names)
