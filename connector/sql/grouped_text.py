"""The text of a SELECT with groups, as one that groups nothing, over rows that are its groups.

Its GROUP BY or DISTINCT goes, and its HAVING becomes a WHERE. Spark then computes what the SELECT
has outside of its calls only for the rows that are asked for, whereas an aggregate computes it for
all groups, and fails where it fails. So these texts are only of SELECTs of which nothing outside
of calls can fail.

Does not know: what replaces the calls, or whether the rows are all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import TokenType, exp

from relstate.connector.syntax.parsed_query import Edit, ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree

SET_OPERATORS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_AFTER_GROUPS = (
    TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, *SET_OPERATORS,
)  # fmt: skip
DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_CONSTANTS = (exp.Literal, exp.Boolean, exp.Null)
_AROUND = (exp.Alias, exp.Paren, exp.Ordered)
_CONDITIONS = (
    exp.Having, exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT,
    exp.GTE, exp.LT, exp.LTE, exp.Is, exp.Between, exp.In,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupedText:
    """One SELECT with groups.

    ``is_field``: whether a part of it is a field of the rows, or an expression over such a field
    that cannot fail.
    """

    query: ParsedQuery
    reference: TableReference
    select: exp.Select
    is_field: Callable[[Tree], bool]

    @property
    def is_global(self) -> bool:
        """Whether all rows are its one group."""
        return not (self.select.args.get("group") or self.select.args.get("distinct"))

    def group_items(self) -> Sequence[Tree] | None:
        """Return the items by which it groups; None if that is not known, or it groups twice."""
        if self.is_global:
            return ()
        group = self.select.args.get("group")
        items: Sequence[Tree] = self.select.expressions
        if group is None:
            return items
        if not {name for name, value in group.args.items() if value} <= {"expressions", "all"}:
            return None
        if self.select.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            return None
        return items if group.args.get("all") else group.expressions

    def ungrouped(self, others: Iterable[Edit]) -> tuple[Edit, ...] | None:
        """Return the changes that make it a SELECT without groups; None if it may then differ.

        ``others``: the changes inside of its clauses, of which those of GROUP BY go with it.
        """
        if not self._cannot_fail():
            return None
        clauses = list(self._clauses())
        removed = [clause for clause in clauses if not clause.text]
        if len(removed) != (0 if self.is_global else 1):
            return None
        kept = [
            edit
            for edit in others
            if not any(place.start <= edit.start < place.end for place in removed)
        ]
        return (*kept, *clauses)

    def _cannot_fail(self) -> bool:
        """Return whether all that it computes for each group cannot fail."""
        order, having = self.select.args.get("order"), self.select.args.get("having")
        terms = map(_without_names, () if order is None else order.expressions)
        return (
            all(map(self._is_bare, self.select.expressions))
            # A name may be that of an item here.
            and all(isinstance(term, exp.Column) or self._is_bare(term) for term in terms)
            and (having is None or self._is_condition(having))
        )

    def _is_bare(self, node: Tree) -> bool:
        node = _without_names(node)
        return isinstance(node, _CONSTANTS) or self.is_field(node)

    def _is_condition(self, node: Tree) -> bool:
        if self._is_bare(node):
            return True
        return isinstance(node, _CONDITIONS) and all(
            self._is_condition(part) for part in node.iter_expressions()
        )

    def _clauses(self) -> Iterator[Edit]:
        """Yield what the words of the clauses become, which are outside of all parentheses."""
        if self.select.args.get("distinct") and not self.select.args.get("group"):
            yield from self._distinct()
            return
        depth, start, end = 0, None, 0
        for token in self.query.tokens:
            if token.start < self.reference.end:
                continue
            depth += DEPTH.get(token.token_type, 0)
            if depth < 0:
                break
            is_after = start is not None or self.is_global
            if depth == 0 and token.token_type in _AFTER_GROUPS and is_after:
                if token.token_type is TokenType.HAVING:
                    yield Edit(token.start, token.end + 1, "WHERE")
                break
            if depth == 0 and token.token_type is TokenType.GROUP_BY:
                start = token.start
            end = token.end + 1
        if start is not None:
            yield Edit(start, end, "")

    def _distinct(self) -> Iterator[Edit]:
        """Yield the change of DISTINCT, which is right after the SELECT's first word."""
        depth, after = 0, None
        for token in reversed(self.query.tokens):
            if token.end >= self.reference.start:
                continue
            depth -= DEPTH.get(token.token_type, 0)
            if depth == 0 and token.token_type is TokenType.SELECT:
                if after is not None and after.token_type is TokenType.DISTINCT:
                    yield Edit(after.start, after.end + 1, "")
                return
            after = token


def _without_names(node: Tree) -> Tree:
    """Return a node without the alias, the direction and the parentheses around it."""
    while isinstance(node, _AROUND):
        node = node.this
    return node
