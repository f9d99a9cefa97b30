"""Which field a name in a query means, by Spark's rules, and what the names in HAVING mean.

Promises: what Spark would refuse as unknown or ambiguous is refused here too; a name before a dot
is an alias of a table before it is a column with parts.
Does not know: operators, or what clauses may name what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    columns_of,
    conjuncts,
    enclosed,
    is_column,
    is_star,
    meaning,
    substituted,
    with_parts,
)
from relstate.storage import errors

from .builder import Item
from .expressions import check_resolved, function_name, is_aggregate, is_aggregated, refused

Replacement: TypeAlias = Callable[[Tree], Tree | None]

# Of a reference that a star has become: its name is a field's, and not looked up.
_IS_FIELD = "is_field"


@dataclass(frozen=True)
class Scope:
    """The columns of FROM, and the aliases of SELECT, by name in lower case.

    ``aliases_first``: an alias wins over a column of its name, but within an aggregate function,
    as in ORDER BY.
    """

    items: tuple[Item, ...]
    aliases: Mapping[str, Tree] = field(default_factory=dict)
    aliases_first: bool = False

    def with_aliases_first(self) -> Scope:
        """Return the scope in which an alias wins."""
        return replace(self, aliases_first=True)

    def resolved(self, expression: Tree, replacement: Replacement | None = None) -> Tree:
        """Return an expression over fields. UnsupportedStatementError for what cannot be.

        ``replacement``: returns what replaces a part of it, in place of the scope's own rules.
        """
        check_resolved(expression)
        tree = substituted(self._with_named_parts(expression), replacement or self._replacement)
        _check_lambdas(tree)
        return tree

    def starred(self, star: Tree) -> tuple[Item, ...]:
        """Return the columns that ``*`` or ``alias.*`` means."""
        qualifier = star.table if isinstance(star, exp.Column) else None
        inner = star.this if isinstance(star, exp.Column) else star
        if inner.args.get("replace") or inner.args.get("rename"):
            raise refused("a star that replaces or renames", "name the columns", star)
        left_out = {one.name.lower() for one in inner.args.get("except_") or ()}
        found = tuple(
            item
            for item in self.items
            if _is_under(item, qualifier) and (item.name or "").lower() not in left_out
        )
        if not found and qualifier is not None and self._found(qualifier, None):
            raise refused("a star over the parts of a struct", "name them, as in s.part", star)
        if not found:
            raise refused("a star of no columns", "name columns of the tables in FROM", star)
        self._check_order(found, star)
        return found

    def _check_order(self, found: Sequence[Item], star: Tree) -> None:
        """Refuse the star of a table whose columns Spark would order in another way than the table.

        Spark puts the columns of a USING first.
        """
        names = [(item.name or "").lower() for item in self.items if item.qualifier is None]
        behind = [item for item in found if item.is_behind]
        places = [names.index((item.name or "").lower()) for item in behind]
        if list(found[: len(behind)]) != behind or places != sorted(places):
            raise refused("a star over one side of a join with USING", "name the columns", star)

    def item(self, name: str, qualifier: str | None = None) -> Item | None:
        """Return the column of this name; None if there is none, or several."""
        found = self._found(name, qualifier)
        return found[0] if len(found) == 1 else None

    def _replacement(self, node: Tree) -> Tree | None:
        if not isinstance(node, exp.Column):
            return None
        if is_star(node):
            raise refused("a star here", "name the columns", node)
        if node.meta.get(_IS_FIELD):
            return column(node.name)
        alias_wins = self.aliases_first and not is_aggregated(node)
        return self._reference(node, [part.name for part in node.parts], alias_wins)

    def _reference(self, node: Tree, parts: Sequence[str], alias_wins: bool) -> Tree:
        alias = self.aliases.get(parts[0].lower())
        if alias is not None and alias_wins:
            if len(parts) > 1 and self._found(parts[1], parts[0]):
                raise refused("an ambiguous column", "give the alias another name", node)
            return with_parts(enclosed(alias), parts[1:])
        if len(parts) > 1 and (found := self._found(parts[1], parts[0])):
            return with_parts(self._only(found, node), parts[2:])
        if found := self._found(parts[0], None):
            return with_parts(self._only(found, node), parts[1:])
        if alias is not None:
            return with_parts(enclosed(alias), parts[1:])
        raise refused("an unknown column", "no table in FROM has it", node)

    def _found(self, name: str, qualifier: str | None) -> tuple[Item, ...]:
        return tuple(
            item
            for item in self.items
            if _is_under(item, qualifier)
            and item.name is not None
            and item.name.lower() == name.lower()
        )

    def _only(self, found: Sequence[Item], node: Tree) -> Tree:
        if len({item.field for item in found}) > 1:
            raise refused("an ambiguous column", "write the table's alias before it", node)
        return column(found[0].field)

    def _with_named_parts(self, expression: Tree) -> Tree:
        """Return a copy in which parts of structs keep the names that columns give them."""

        def named(node: Tree) -> Tree | None:
            if not isinstance(node, exp.Anonymous):
                return None
            arguments = list(self._arguments(node))
            if function_name(node) == "struct":
                arguments = [_named_part(one) for one in arguments]
            if arguments == node.expressions:
                return None
            inner = [self._with_named_parts(one) for one in arguments]
            return exp.Anonymous(this=node.this, expressions=inner)

        return substituted(expression, named)

    def _arguments(self, call: Tree) -> Iterator[Tree]:
        for one in call.expressions:
            if is_star(one):
                for item in self.starred(one):
                    found = column(item.field)
                    found.meta[_IS_FIELD] = True
                    yield exp.alias_(found, item.name or item.field, quoted=True)
            else:
                yield one


def _is_under(item: Item, qualifier: str | None) -> bool:
    """Return whether a name, or a star, with this before its dot can mean a column."""
    if qualifier is None:
        return not item.is_behind
    return item.qualifier is not None and item.qualifier.lower() == qualifier.lower()


def _named_part(argument: Tree) -> Tree:
    if isinstance(argument, exp.Column | exp.Dot) and argument.name:
        return exp.alias_(argument.copy(), argument.name, quoted=True)
    return argument


def _check_lambdas(tree: Tree) -> None:
    """Refuse a lambda whose variable has the name of a column in the plan."""
    for one in tree.find_all(exp.Lambda):
        variables = {each.name.lower() for each in one.expressions}
        if variables & {name.lower() for name in columns_of(one.this)}:
            raise refused("a lambda whose variable is named as a column", "rename it", one)


IsSame: TypeAlias = Callable[[Tree, Tree], bool]


def having_conditions(
    clause: Tree, scope: Scope, grouped: Sequence[Tree], is_same: IsSame
) -> list[Tree]:
    """Return the conditions of a HAVING over fields, all of which must hold.

    ``grouped``: what the query groups by and the columns of its SELECT, over fields. ``is_same``:
    whether two expressions over fields are one to Spark, however they are written.
    """
    having = _Having(scope, grouped, is_same)
    return list(conjuncts(scope.resolved(clause.this, having.replacement)))


@dataclass(frozen=True)
class _Having:
    """The scope of a HAVING; its parts are those of `having_conditions`."""

    scope: Scope
    grouped: Sequence[Tree]
    is_same: IsSame

    def replacement(self, node: Tree) -> Tree | None:
        """Return what a part of the condition is over fields; None to resolve its own parts."""
        found = None if _is_fragment(node) else self._of_columns(node)
        if found is not None:
            if is_aggregate(node):
                return found
            if (there := self._grouped(found)) is not None:
                return there.copy()
        return self.scope.with_aliases_first().resolved(node) if is_column(node) else None

    def _of_columns(self, node: Tree) -> Tree | None:
        """Return a part over fields, taking its names for columns; None if they cannot be."""
        if node.find(exp.Column) is None:
            return None
        try:
            return Scope(self.scope.items).resolved(node)
        except errors.UnsupportedStatementError:
            return None

    def _grouped(self, value: Tree) -> Tree | None:
        """Return the group or column of the query that is a value; None if there is none.

        Spark finds ``b + a`` in ``GROUP BY a + b``.
        """
        if (found := self._by_meaning.get(meaning(value))) is not None:
            return found
        if _takes_rows(value):
            return None
        read = columns_of(value)
        alike = (one for one in self._computed if columns_of(one) == read)
        return next((one for one in alike if self.is_same(one, value)), None)

    @cached_property
    def _by_meaning(self) -> dict[str, Tree]:
        return {meaning(one): one for one in reversed(self.grouped)}

    @cached_property
    def _computed(self) -> list[Tree]:
        kept = {key: one for key, one in self._by_meaning.items() if not is_column(one)}
        return [one for one in kept.values() if not _takes_rows(one)]


def _is_fragment(node: Tree) -> bool:
    """Return whether a node is no expression by itself: a branch of a CASE, a function's lambda."""
    return isinstance(node, exp.Lambda) or (
        isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
    )


def _takes_rows(tree: Tree) -> bool:
    return tree.find(exp.AggFunc) is not None
