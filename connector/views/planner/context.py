"""What the names in a query can mean besides the columns of its FROM.

Those are the common tables of WITH, subqueries in expressions, and columns of the query around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

from relstate.connector.syntax.tree import Tree

from ..plan.node import Names
from .builder import Item, Relation
from .outer_domain import Domain, DomainColumns
from .scope import Outer, ResolveSubquery, Scope


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of a WITH clause, the common tables that it can read, and the outer values."""

    query: Tree
    names: tuple[str, ...]
    common_tables: Mapping[str, CommonTable]
    domain: Domain | None = None


CommonTables: TypeAlias = Mapping[str, CommonTable]
PlanQuery: TypeAlias = Callable[[Tree, CommonTables, Domain | None], Relation]


@dataclass(frozen=True, slots=True)
class Context:
    """What a SELECT can name besides the columns of its FROM.

    ``outer``: the columns of the query around a subquery in an expression, for its WHERE and for ON
    of its inner joins alone. ``domain``: the outer values that all clauses may read, and
    ``fields``: where the rows of FROM have them.
    """

    common_tables: CommonTables
    resolve_subquery: ResolveSubquery
    outer: Outer | None = None
    domain: Domain | None = None
    fields: Names = ()

    def scope(self, items: Sequence[Item], aliases: Mapping[str, Tree] | None = None) -> Scope:
        """Return the scope of an expression over columns."""
        return Scope(
            tuple(items),
            aliases or {},
            resolve_subquery=self.resolve_subquery,
            outer=None if self.domain is None else DomainColumns(self.domain, self.fields),
        )

    def where_scope(self, items: Sequence[Item]) -> Scope:
        """Return the scope of a WHERE over columns."""
        scope = self.scope(items)
        return scope if self.outer is None else replace(scope, outer=self.outer)

    @property
    def parameters(self) -> Set[str]:
        """The names of the outer query's values in conditions."""
        return set() if self.outer is None else self.outer.parameters.keys()


def visible_common_tables(
    tree: Tree, common_tables: CommonTables, domain: Domain | None = None
) -> CommonTables:
    """Return the common tables that a query can read: its own and those of outer queries.

    ``domain``: the outer values that its own ones may read.
    """
    clause = tree.args.get("with_")
    if clause is None:
        return common_tables
    tables = dict(common_tables)
    for table in clause.expressions:
        names = tuple(column_.name for column_ in table.args["alias"].columns)
        tables[table.alias.lower()] = CommonTable(table.this, names, dict(tables), domain)
    return tables
