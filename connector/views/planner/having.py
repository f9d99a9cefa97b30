"""What the names in a HAVING mean: groups and columns of the SELECT before columns of the FROM.

Does not know: how groups are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from relstate.connector.syntax.tree import Tree, columns_of, comparable_text, conjuncts, is_column
from relstate.storage import errors
from relstate.vnode import cached_property

from .calls import has_aggregate, is_aggregate
from .scope import Scope

IsSame: TypeAlias = Callable[[Tree, Tree], bool]


def having_conditions(
    clause: Tree, scope: Scope, grouped: Sequence[Tree], is_same: IsSame
) -> list[Tree]:
    """Return the conditions of a HAVING over fields, all of which must hold.

    ``grouped``: what the query groups by and the columns of its SELECT, over fields. ``is_same``:
    whether Spark takes two expressions over fields for the same.
    """
    having = _HavingScope(scope, grouped, is_same)
    return list(conjuncts(scope.resolve(clause.this, having.replacement)))


@dataclass(frozen=True)
class _HavingScope:
    """The scope of a HAVING; for the fields see `having_conditions`."""

    scope: Scope
    grouped: Sequence[Tree]
    is_same: IsSame

    def replacement(self, node: Tree) -> Tree | None:
        """Return a part of the condition over fields; None to continue with its own parts."""
        resolved = None if _is_fragment(node) else self._resolve_columns(node)
        if resolved is not None:
            if is_aggregate(node):
                return resolved
            if (grouped_value := self._find_grouped(resolved)) is not None:
                return grouped_value.copy()
        return self.scope.with_aliases_first().resolve(node) if is_column(node) else None

    def _resolve_columns(self, node: Tree) -> Tree | None:
        """Return a part over fields, with its names resolved as columns; None if they cannot be."""
        if node.find(exp.Column) is None:
            return None
        try:
            return Scope(self.scope.items).resolve(node)
        except errors.UnsupportedStatementError:
            return None

    def _find_grouped(self, value: Tree) -> Tree | None:
        """Return the group or column of the query that equals a value; None if there is none.

        Spark finds ``b + a`` in ``GROUP BY a + b``.
        """
        if (match := self._by_meaning.get(comparable_text(value))) is not None:
            return match
        if has_aggregate(value):
            return None
        columns = columns_of(value)
        candidates = (
            candidate for candidate in self._grouped_expressions if columns_of(candidate) == columns
        )
        return next((candidate for candidate in candidates if self.is_same(candidate, value)), None)

    @cached_property
    def _by_meaning(self) -> dict[str, Tree]:
        return {comparable_text(value): value for value in reversed(self.grouped)}

    @cached_property
    def _grouped_expressions(self) -> list[Tree]:
        expressions = {
            key: value for key, value in self._by_meaning.items() if not is_column(value)
        }
        return [value for value in expressions.values() if not has_aggregate(value)]


def _is_fragment(node: Tree) -> bool:
    """Return whether a node is only a part of an expression: a branch of a CASE, or a lambda."""
    return isinstance(node, exp.Lambda) or (
        isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
    )
