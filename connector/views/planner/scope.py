"""Which field a name in a query is, by Spark's rules.

Promises: what Spark would refuse as unknown or ambiguous is refused here too; a name before a dot
is an alias of a table before it is a column with parts.
Does not know: operators, or what clauses may name what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import (
    Tree,
    column,
    columns_of,
    enclosed,
    is_star,
    substituted,
    with_parts,
)

from .builder import Item
from .expressions import check_resolved, function_name, is_aggregated, refused

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

        ``replacement``: says what parts of it are in place of what the scope says of names.
        """
        check_resolved(expression)
        tree = substituted(self._with_named_parts(expression), replacement or self._replacement)
        _check_lambdas(tree)
        return tree

    def starred(self, star: Tree) -> tuple[Item, ...]:
        """Return the columns that ``*`` or ``alias.*`` stands for."""
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
        """Refuse the star of a table that Spark would give other places than the table does.

        It puts what a USING has named before all else.
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
    """Tell whether a column can be meant by a name, or a star, with this before its dot."""
    if qualifier is None:
        return not item.is_behind
    return item.qualifier is not None and item.qualifier.lower() == qualifier.lower()


def _named_part(argument: Tree) -> Tree:
    if isinstance(argument, exp.Column | exp.Dot) and argument.name:
        return exp.alias_(argument.copy(), argument.name, quoted=True)
    return argument


def _check_lambdas(tree: Tree) -> None:
    """Refuse a lambda whose variable has the name that a column has in the plan."""
    for one in tree.find_all(exp.Lambda):
        variables = {each.name.lower() for each in one.expressions}
        if variables & {name.lower() for name in columns_of(one.this)}:
            raise refused("a lambda whose variable is named as a column", "rename it", one)
