"""The statements about materialized views, as values.

    CREATE MATERIALIZED VIEW [IF NOT EXISTS] v [(a, b)] [TBLPROPERTIES ('parallelism' = '4')]
        AS SELECT …
    DROP MATERIALIZED VIEW [IF EXISTS] v [CASCADE]
    ALTER MATERIALIZED VIEW v SET PARALLELISM n
    REFRESH MATERIALIZED VIEW v
    SHOW MATERIALIZED VIEWS [LIKE 'pattern']
    SHOW INTERNAL TABLES [FROM v]
    EXPLAIN MATERIALIZED VIEW v
    EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT …

Does not know: the store, Spark, or what a SELECT means.
"""

from __future__ import annotations

from dataclasses import dataclass

from relstate.connector.syntax.tokens import TokenReader
from relstate.storage import errors

from .ddl import read_names, read_new_name, read_pattern, read_properties


@dataclass(frozen=True, slots=True)
class CreateView:
    """``query``: the SELECT as written; ``parallelism``: None for the session's.

    ``columns``: the names of the view's columns; empty for those of the SELECT.
    """

    name: str
    query: str
    parallelism: int | None
    if_not_exists: bool
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropView:
    """Drop a view; with ``cascade`` also the views that read it."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class SetParallelism:
    """Set the number of parallel units of a view."""

    name: str
    parallelism: int


@dataclass(frozen=True, slots=True)
class RefreshView:
    """Bring a view to the latest epoch of its tables."""

    name: str


@dataclass(frozen=True, slots=True)
class ShowViews:
    """List the views whose names match ``pattern``, in Spark's sense; None for all."""

    pattern: str | None


@dataclass(frozen=True, slots=True)
class ShowInternalTables:
    """List the state tables of a view; None for those of all views."""

    view: str | None


@dataclass(frozen=True, slots=True)
class ExplainView:
    """Describe how a view is maintained: an existing one, or one that a statement would create."""

    view: str | CreateView


ViewStatement = (
    CreateView
    | DropView
    | SetParallelism
    | RefreshView
    | ShowViews
    | ShowInternalTables
    | ExplainView
)


def read_create_view(reader: TokenReader) -> CreateView:
    """Read what follows CREATE MATERIALIZED VIEW."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = read_new_name(reader, "the view's name")
    columns = read_names(reader) if reader.next_is("(") else ()
    properties = read_properties(reader) if reader.accept("TBLPROPERTIES") else {}
    unknown = properties.keys() - {"parallelism"}
    if unknown:
        raise errors.OptionError(
            f"unknown property {min(unknown)!r} of a materialized view; there is 'parallelism'"
        )
    reader.expect("AS")
    if reader.token is None:
        raise reader.unexpected("a query")
    query = reader.source(reader.rest())
    parallelism = properties.get("parallelism")
    units = None if parallelism is None else _number(parallelism)
    return CreateView(name, query, units, if_not_exists, columns)


def read_drop_view(reader: TokenReader) -> DropView:
    """Read what follows DROP MATERIALIZED VIEW."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the view's name")
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.finish()
    return DropView(name, if_exists, cascade)


def read_alter_view(reader: TokenReader) -> SetParallelism:
    """Read what follows ALTER MATERIALIZED VIEW."""
    name = reader.name("the view's name")
    reader.expect("SET", "PARALLELISM")
    reader.accept("=") or reader.accept("TO")
    token = reader.token
    if token is None:
        raise reader.unexpected("a number")
    reader.skip()
    reader.finish()
    return SetParallelism(name, _number(token.text))


def read_refresh_view(reader: TokenReader) -> RefreshView:
    """Read what follows REFRESH MATERIALIZED VIEW."""
    name = reader.name("the view's name")
    reader.finish()
    return RefreshView(name)


def read_show_views(reader: TokenReader) -> ShowViews:
    """Read what follows SHOW MATERIALIZED VIEWS."""
    return ShowViews(read_pattern(reader))


def read_show_internal_tables(reader: TokenReader) -> ShowInternalTables:
    """Read what follows SHOW INTERNAL TABLES."""
    view = None
    if reader.accept("FROM") or reader.accept("IN"):
        view = reader.name("the view's name")
    reader.finish()
    return ShowInternalTables(view)


def read_explain_view(reader: TokenReader) -> ExplainView:
    """Read what follows EXPLAIN MATERIALIZED VIEW, or EXPLAIN up to a CREATE of one."""
    if reader.accept("CREATE", "MATERIALIZED", "VIEW"):
        return ExplainView(read_create_view(reader))
    reader.expect("MATERIALIZED", "VIEW")
    name = reader.name("the view's name")
    reader.finish()
    return ExplainView(name)


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise errors.OptionError(f"parallelism is a number of parallel units, not {text!r}")
    return int(text)
