"""Whether a query means to its user's session what it means by default.

relstate resolves names, positions and clauses as Spark does by default. Settings may give them
another meaning: then the query is refused, and never read otherwise.

Does not know: plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession
from sqlglot import exp

from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.tokens import excerpt
from relstate.connector.syntax.tree import Tree
from relstate.storage import errors, types

from ..view_settings import CASE_SENSITIVE, READING, stored_settings
from .analysis import Analysis, Tables
from .expressions import unsupported_error


def check_reading(session: SparkSession, tables: Tables, query: ParsedQuery) -> None:
    """UnsupportedStatementError if a query means something else under settings than by default.

    An invalid query raises Spark's error. ``session``: with the settings, of its own; they are
    as by default afterwards.
    """
    changed = sorted(READING & stored_settings(session).keys())
    if not changed:
        return
    analysis = Analysis(session, tables)
    written = analysis.frame_of(query)
    columns = written.schema
    if CASE_SENSITIVE in changed:
        _check_case(tables, query)
        changed.remove(CASE_SENSITIVE)
    for name in (CASE_SENSITIVE, *changed):
        session.conf.unset(name)
    if not changed:
        return
    advice = "unset the setting and write what the query means without it"
    if not analysis.shows_plans:
        raise errors.UnsupportedStatementError(
            f"Spark Connect does not show whether {excerpt(query.text)} depends on "
            f"{' or '.join(changed)}: {advice}"
        )
    if not analysis.has_meaning(query, written) or analysis.frame_of(query).schema != columns:
        raise errors.UnsupportedStatementError(
            f"{excerpt(query.text)} means something else under {' and '.join(changed)} than by "
            f"default, which is how a view reads it: {advice}"
        )


def _check_case(tables: Tables, query: ParsedQuery) -> None:
    """Refuse a query in which two names differ in case only, which relstate takes for one."""
    spellings: dict[str, str] = {}
    for name in _names_in(tables, query.tree):
        spelling = spellings.setdefault(name.lower(), name)
        if spelling != name:
            raise unsupported_error(
                f"names that differ in case only ({spelling}, {name})",
                "write a name in one way, or unset spark.sql.caseSensitive",
            )


def _names_in(tables: Tables, tree: Tree) -> Iterator[str]:
    """Yield the names that a query writes, and those of the columns of its tables."""
    for identifier in tree.find_all(exp.Identifier):
        yield identifier.name
    for node in tree.find_all(exp.Table):
        table = tables.find(node.name)
        for column in () if table is None else table.columns:
            yield column.name
            yield from _names_of(column.type)


def _names_of(data_type: types.DataType) -> Iterator[str]:
    """Yield the names of the fields of structs in a type."""
    match data_type:
        case types.Array(element, _):
            yield from _names_of(element)
        case types.Map(key, value, _):
            yield from _names_of(key)
            yield from _names_of(value)
        case types.Struct(fields):
            for field in fields:
                yield field.name
                yield from _names_of(field.type)
