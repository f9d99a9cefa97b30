"""A plan under construction: an operator, and the query's names of its fields.

Promises: expressions are trees of sqlglot whose columns are fields of the operator, so that they
can be taken apart, and moved to any operator with those fields.
Does not know: what names in a query mean (scope).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from relstate.connector.syntax.tree import (
    Tree,
    bare,
    cast_text,
    columns_of,
    conjunction,
    is_column,
    meaning,
    text_of,
)
from relstate.storage import types

from ..plan.node import Node, Order
from ..plan.stateful import TopN
from ..plan.stateless import Filter, Output, Project
from .analysis import Analysis
from .expressions import refused
from .rank_bound import bounded

# What Spark does not read as the name of a column without quotes.
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
    """Makes names that are unique, whatever their case. For one plan."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, base: str) -> str:
        """Return ``base`` if it is free and reads as a name, else something like it."""
        base = re.sub(r"\W+", "_", base).strip("_").lower()[:_LONGEST] or "value"
        if base[0].isdigit():
            base = f"value_{base}"
        if base in self._taken:
            base = _NUMBER.sub("", base)
        found, number = f"{base}_" if base in _WORDS else base, 2
        while found in self._taken:
            found, number = f"{base}_{number}", number + 1
        self._taken.add(found)
        return found


_ORDERLESS = types.Map, types.Variant, types.CalendarInterval, types.YearMonthInterval, types.Void


@dataclass(frozen=True, slots=True)
class Item:
    """A column that a query can name: ``qualifier.name`` or ``name``, and the field it is.

    ``name``: None for an expression without one. ``is_behind``: a column of a USING replaces it;
    only its qualified name finds it.
    """

    name: str | None
    field: str
    qualifier: str | None = None
    is_behind: bool = False


@dataclass(frozen=True)
class Relation:
    """An operator and its columns, in the order of ``*``; ``order``: how a query sorts them."""

    node: Node
    items: tuple[Item, ...]
    order: tuple[Order, ...] = ()

    def called(self, alias: str | None, names: Sequence[str] = ()) -> Relation:
        """Return it under an alias, as in FROM, its columns perhaps renamed."""
        seen = [item for item in self.items if not item.is_behind]
        if names and len(names) != len(seen):
            raise refused(f"{len(names)} names for {len(seen)} columns", f"of {alias!r}")
        titles: Sequence[str | None] = names or [item.name for item in seen]
        items = tuple(
            Item(name, item.field, alias) for name, item in zip(titles, seen, strict=True)
        )
        return Relation(self.node, items)


@dataclass
class Builder:
    """Adds operators to a plan, with names and types. For one plan."""

    analysis: Analysis
    namer: Namer = field(default_factory=Namer)

    def filtered(self, node: Node, conditions: Sequence[Tree]) -> Node:
        """Return the rows for which all conditions are true; rank bounds become limits."""
        left: list[Tree] = []
        for condition in conditions:
            found = bounded(node, condition)
            node, left = (node, [*left, condition]) if found is None else (found, left)
        return Filter(node, text_of(conjunction(left))) if left else node

    def computed(
        self, node: Node, expressions: Sequence[Tree], titles: Sequence[str | None] = ()
    ) -> tuple[Node, tuple[str, ...]]:
        """Return the operator with expressions as fields, and the names of these."""
        names = titles or [None] * len(expressions)
        found: dict[str, str] = {}
        new: list[tuple[str, str]] = []
        for expression, title in zip(expressions, names, strict=True):
            same = meaning(expression)
            if same not in found:
                found[same] = expression.name if is_column(expression) else self._fresh(title)
                if not is_column(expression):
                    new.append((found[same], text_of(expression)))
        places = tuple(found[meaning(expression)] for expression in expressions)
        return (self._project(node, new) if new else node), places

    def with_constant(self, node: Node, title: str) -> tuple[Node, str]:
        """Return the operator with a field that is the same in all rows."""
        name = self.namer.fresh(title)
        return self._project(node, [(name, "CAST(0 AS TINYINT)")]), name

    def cast(self, node: Node, name: str, wanted: types.DataType) -> tuple[Node, str]:
        """Return the operator with a field of that type for one of its fields."""
        if node.type_of(name) == wanted:
            return node, name
        new = self.namer.fresh(name)
        return self._project(node, [(new, cast_text(types.quoted(name), wanted))]), new

    def ordered(
        self, node: Node, keys: Iterable[tuple[Tree, bool, bool]], what: str
    ) -> tuple[Node, tuple[Order, ...]]:
        """Return the operator with expressions to sort by, (what, descending, NULLs first)."""
        given = list(keys)
        node, names = self.computed(node, [one for one, _, _ in given])
        found: dict[str, Order] = {}
        for name, (_, descending, nulls_first) in zip(names, given, strict=True):
            check_keyable(node.type_of(name), what)
            found.setdefault(name, Order(name, descending, nulls_first))
        return node, tuple(found.values())

    def first(self, node: Node, order: tuple[Order, ...], limit: int, offset: int) -> Node:
        """Return the rows at some positions of an order."""
        node, everything = self.with_constant(node, "all_rows")
        return TopN(node, (everything,), order, limit, offset, is_global=True)

    def is_same(self, node: Node, one: Tree, other: Tree) -> bool:
        """Return whether two expressions over an operator's fields are the same to Spark."""
        return self.analysis.is_same(node.fields, text_of(one), text_of(other))

    def _fresh(self, title: str | None) -> str:
        return self.namer.fresh(title or "value")

    def _project(self, node: Node, new: Sequence[tuple[str, str]]) -> Node:
        kinds = self.analysis.types_of(node.fields, [text for _, text in new])
        passed = [passing(one) for one in node.fields]
        made = [
            Output(types.Field(name, kind), text)
            for (name, text), kind in zip(new, kinds, strict=True)
        ]
        return Project(node, (*passed, *made))


def passing(one: types.Field, name: str | None = None) -> Output:
    """Return the output of a projection that is a field of its child, perhaps renamed."""
    return Output(replace(one, name=name or one.name), types.quoted(one.name), one.name)


def title_of(tree: Tree) -> str:
    """Return what to call a field that holds an expression: after the fields that it reads."""
    tree = bare(tree)
    return tree.name if is_column(tree) else "_".join(sorted(columns_of(tree)))[:30] or "value"


def check_keyable(data_type: types.DataType, what: str) -> None:
    """UnsupportedStatementError if values of a type cannot be in the key of a state table."""
    if not _is_keyable(data_type):
        raise refused(
            f"a {data_type} in {what}",
            "maps, variants, collated strings and some intervals have no order among keys; cast it",
        )


def _is_keyable(data_type: types.DataType) -> bool:
    match data_type:
        case types.Array(element, _):
            return _is_keyable(element)
        case types.Struct(fields):
            return all(_is_keyable(one.type) for one in fields)
        case types.String():
            return not data_type.is_collated
    return not isinstance(data_type, _ORDERLESS)


def covers(names: Iterable[str], expression: Tree) -> bool:
    """Return whether an expression reads fields, and only these."""
    read = columns_of(expression)
    return bool(read) and read <= set(names)
