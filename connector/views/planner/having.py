"""What the names in HAVING mean.

A name that a column of FROM and an alias of SELECT have in common is the column to Spark wherever
the column may stand: within an aggregate function, and within an expression that SELECT or GROUP BY
has too. Anywhere else it is the alias.

Does not know: operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, conjuncts, is_column, meaning
from relstate.storage import errors

from .expressions import is_aggregate
from .scope import Scope

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
        """Return what a part of the condition is over fields; None to look at its own parts."""
        found = None if _is_fragment(node) else self._of_columns(node)
        if found is not None:
            if is_aggregate(node):
                return found
            if (there := self._grouped(found)) is not None:
                return there.copy()
        return self.scope.with_aliases_first().resolved(node) if is_column(node) else None

    def _of_columns(self, node: Tree) -> Tree | None:
        """Return a part over fields, its names being columns; None if they cannot be."""
        if node.find(exp.Column) is None:
            return None
        try:
            return Scope(self.scope.items).resolved(node)
        except errors.UnsupportedStatementError:
            return None

    def _grouped(self, value: Tree) -> Tree | None:
        """Return what the query groups by, or selects, that is a value; None if nothing is.

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
