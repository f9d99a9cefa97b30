"""The first rows that a query needs of a table: LIMIT, with or without ORDER BY.

A read has to give the first rows only, where the SELECT over it has a LIMIT, and every row of the
table for which its WHERE is true is one row of its result: there are no groups, no aggregates, no
windows, no generators. The query's own ORDER BY and LIMIT are evaluated again.

Does not know: how the first rows are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery, TableReference
from relstate.connector.syntax.tree import Tree, is_star, whole_number
from relstate.connector.types import passes_as_is
from relstate.storage import (
    MOST_SORTED_ROWS,
    Predicate,
    RowLimit,
    SortColumn,
    TableSchema,
    errors,
)

from .single_table import NotPushedError, check_qualifier, is_plain, select_over, whole_condition

_CLAUSES = frozenset({"expressions", "from_", "where", "order", "limit", "offset"})


@dataclass(frozen=True, slots=True)
class PushedLimit:
    """How many rows a read gives at most, and of which. ``where``: None for all."""

    limit: RowLimit
    where: Predicate | None

    @property
    def description(self) -> str:
        """What EXPLAIN shows."""
        order = ", ".join(
            f"{column.name}{' DESC' if column.descending else ''}"
            f"{'' if column.nulls_first != column.descending else f' NULLS {_null_order(column)}'}"
            for column in self.limit.order
        )
        limit = f"LIMIT {self.limit.rows}"
        return f"ORDER BY {order} {limit}" if order else limit


def _null_order(column: SortColumn) -> str:
    return "FIRST" if column.nulls_first else "LAST"


def pushed_limit(
    query: ParsedQuery, reference: TableReference, schema: TableSchema, time_zone: str
) -> PushedLimit | None:
    """Return what limits the rows of a reference; None if it has to give all."""
    select = select_over(reference, _CLAUSES)
    if query.has_pipes or select is None:
        return None
    try:
        return _pushed(select, reference.alias, schema, time_zone)
    except (
        NotPushedError,
        errors.SchemaError,
        errors.SchemaMismatchError,
        errors.UnsupportedExpressionError,
    ):
        return None


def _pushed(select: exp.Select, alias: str, schema: TableSchema, time_zone: str) -> PushedLimit:
    rows = _clause_number(select, "limit")
    if rows is None:
        raise NotPushedError
    rows += _clause_number(select, "offset") or 0
    for item in select.expressions:
        _check_plain(item)
    order = tuple(_order(select, alias, schema))
    if order and rows > MOST_SORTED_ROWS:
        raise NotPushedError
    limit = RowLimit(schema, rows, order)
    # The columns are checked here.
    limit.codec()
    return PushedLimit(limit, whole_condition(select, alias, schema, time_zone))


def _clause_number(select: exp.Select, name: str) -> int | None:
    """Return the number of a LIMIT or an OFFSET; None if there is none."""
    clause = select.args.get(name)
    if clause is None:
        return None
    number = whole_number(clause.expression) if type(clause) in (exp.Limit, exp.Offset) else None
    if number is None:
        raise NotPushedError
    return number


def _check_plain(item: Tree) -> None:
    if is_star(item):
        return
    for node in item.walk():
        if not is_plain(node):
            raise NotPushedError


def _order(select: exp.Select, alias: str, schema: TableSchema) -> Iterator[SortColumn]:
    order = select.args.get("order")
    if order is None:
        return
    for item in order.expressions:
        column = item.this if isinstance(item, exp.Ordered) else item
        if not isinstance(column, exp.Column):
            raise NotPushedError
        check_qualifier(column, alias)
        name = _sortable(schema, column.name)
        if not _means_itself(select, alias, column):
            raise NotPushedError
        descending = bool(item.args.get("desc"))
        nulls_first = item.args.get("nulls_first")
        yield SortColumn(name, descending, bool(nulls_first))


def _sortable(schema: TableSchema, name: str) -> str:
    """Return the name of a column whose bytes compare as its values. NotPushedError otherwise."""
    column = schema.column(name)
    if not passes_as_is(column.type):
        raise NotPushedError
    return column.name


def _means_itself(select: exp.Select, alias: str, column: exp.Column) -> bool:
    """Return whether a name in ORDER BY means the column of the table, not an item of the SELECT.

    ORDER BY sees the items first, and a field of a struct has its own name as an item, also in the
    star of a struct. A qualified name may be a field of an item that has the name of the table.
    """
    name = column.table or column.name
    for item in select.expressions:
        if is_star(item):
            if not _is_star_of_table(item, alias):
                return False
            continue
        inner = item.this if isinstance(item, exp.Alias) else item
        if item.alias_or_name.lower() != name.lower():
            continue
        is_same = isinstance(inner, exp.Column) and inner.name.lower() == name.lower()
        if column.table or not is_same:
            return False
        check_qualifier(inner, alias)
    return True


def _is_star_of_table(item: Tree, alias: str) -> bool:
    """Return whether a star stands for columns of the table under their own names."""
    star = item
    if isinstance(item, exp.Column):
        if item.args.get("db") or item.table.lower() != alias:
            return False
        star = item.this
    return not star.args.get("replace") and not star.args.get("rename")
