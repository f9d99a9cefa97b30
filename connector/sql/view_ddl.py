"""The statements about materialized views, as values.

    CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] v [(a [COMMENT 'text'], b)]
        [CLUSTER BY (a)] [COMMENT 'text']
        [TBLPROPERTIES ('parallelism' = '4', 'on_error' = 'quarantine', 'owner.team' = 'x')]
        AS SELECT …
    CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] v (a type [COMMENT 'text'], b type)
        … USING REDIS HASH 'prefix*' [DATABASE n]
    DROP MATERIALIZED VIEW [IF EXISTS] v [CASCADE]
    ALTER MATERIALIZED VIEW v RENAME TO w | SET PARALLELISM n
        | SET TBLPROPERTIES ('parallelism' = '4') | UNSET TBLPROPERTIES ('owner.team')
        | ALTER COLUMN c COMMENT 'text' | AS SELECT …
    REFRESH MATERIALIZED VIEW v
    SHOW MATERIALIZED VIEWS [LIKE 'pattern']
    SHOW INTERNAL TABLES [FROM v]
    EXPLAIN MATERIALIZED VIEW v
    EXPLAIN CREATE [OR REPLACE] MATERIALIZED VIEW v AS SELECT …
    EXPLAIN ALTER MATERIALIZED VIEW v AS SELECT …

Does not know: the store, Spark, or what a SELECT means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import Token

from relstate.connector.syntax.tokens import TokenReader
from relstate.storage import errors

from .ddl import (
    CommentColumn,
    read_descriptions,
    read_new_name,
    read_pattern,
    read_properties,
    read_unset_properties,
)
from .properties import altered_view_properties, parse_parallelism, view_properties
from .redis_hash import read_hash_query


@dataclass(frozen=True, slots=True)
class CreateView:
    """``query``: the SELECT as written; ``parallelism``: None for the session's.

    ``columns``: the names of the view's columns; empty for those of the SELECT.
    ``user_properties``: with the view's comment as ``comment``; ``column_comments`` by the columns.
    ``or_replace``: a view of this name gets the SELECT and all the rest. ``cluster_by``: columns by
    which the view's rows are distributed; none for any. ``quarantines``: rows for which it cannot
    be computed are left out.
    """

    name: str
    query: str
    parallelism: int | None
    if_not_exists: bool
    columns: tuple[str, ...] = ()
    user_properties: Mapping[str, str | None] = field(default_factory=dict)
    column_comments: Mapping[str, str] = field(default_factory=dict)
    or_replace: bool = False
    cluster_by: tuple[str, ...] = ()
    quarantines: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    """Drop a view; with ``cascade`` also the views that read it."""

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """Give a view another SELECT; it keeps the rest."""

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class RenameView:
    """Give a view another name."""

    name: str
    new: str


@dataclass(frozen=True, slots=True)
class SetViewProperties:
    """Set the number of parallel units of a view, unless it is None, and its user's properties.

    ``user_properties``: with the comment as ``comment``; None removes one.
    """

    name: str
    parallelism: int | None
    user_properties: Mapping[str, str | None] = field(default_factory=dict)


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
    """Describe how a view is maintained: an existing one, or as a statement would make it."""

    view: str | CreateView | AlterQuery


ViewStatement = (
    CreateView
    | DropView
    | AlterQuery
    | RenameView
    | SetViewProperties
    | RefreshView
    | ShowViews
    | ShowInternalTables
    | ExplainView
)


def read_create_view(reader: TokenReader) -> CreateView:
    """Read what follows CREATE MATERIALIZED VIEW."""
    return _read_create(reader, if_not_exists=reader.accept("IF", "NOT", "EXISTS"))


def read_replace_view(reader: TokenReader) -> CreateView:
    """Read what follows CREATE OR REPLACE MATERIALIZED VIEW."""
    if reader.next_is("IF", "NOT", "EXISTS"):
        raise errors.UnsupportedStatementError(
            "CREATE OR REPLACE and IF NOT EXISTS exclude each other; write one of them"
        )
    return replace(_read_create(reader, if_not_exists=False), or_replace=True)


def _read_create(reader: TokenReader, *, if_not_exists: bool) -> CreateView:
    name = read_new_name(reader, "the view's name")
    items = reader.definitions() if reader.next_is("(") else []
    cluster_by = _read_cluster(reader)
    properties = view_properties({**read_descriptions(reader)})
    cluster_by = cluster_by or _read_cluster(reader)
    if any(reader.next_is(*words) for words in _KEY_CLAUSES):
        raise errors.UnsupportedStatementError(
            "the key of a view follows from its SELECT: write CLUSTER BY (region) to have the rows "
            "of a region together, and end the SELECT in ORDER BY to have them in an order"
        )
    if reader.accept("USING"):
        query = read_hash_query(reader, items)
        columns = [_read_column(reader.text, item, has_type=True) for item in items]
    else:
        columns = [_read_column(reader.text, item) for item in items]
        reader.expect("AS")
        query = _read_query(reader)
    return CreateView(
        name,
        query,
        properties.parallelism,
        if_not_exists,
        tuple(column for column, _ in columns),
        properties.users,
        {column: text for column, text in columns if text is not None},
        cluster_by=cluster_by,
        quarantines=properties.on_error == "quarantine",
    )


_KEY_CLAUSES = (("CLUSTERED", "BY"), ("PARTITIONED", "BY"), ("PRIMARY", "KEY"))


def _read_cluster(reader: TokenReader) -> tuple[str, ...]:
    """Return the columns of ``CLUSTER BY (a, b)``; none if the clause is not next."""
    if not reader.accept("CLUSTER", "BY"):
        return ()
    columns: list[str] = []
    for item in reader.parenthesised():
        column = TokenReader(reader.text, item)
        columns.append(column.name("a column's name"))
        column.finish()
    return tuple(columns)


def _read_column(
    text: str, tokens: Sequence[Token], *, has_type: bool = False
) -> tuple[str, str | None]:
    """Return the name and the comment of a column; ``has_type``: a type is between them."""
    column = TokenReader(text, tokens)
    name = column.name("a column's name")
    if has_type:
        column.until("COMMENT")
    comment = column.string("the comment") if column.accept("COMMENT") else None
    column.finish()
    return name, comment


def _read_query(reader: TokenReader) -> str:
    if reader.token is None:
        raise reader.unexpected("a query")
    return reader.source(reader.rest())


def read_drop_view(reader: TokenReader) -> DropView:
    """Read what follows DROP MATERIALIZED VIEW."""
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the view's name")
    cascade = reader.accept("CASCADE")
    if not cascade:
        reader.accept("RESTRICT")
    reader.finish()
    return DropView(name, if_exists, cascade)


ViewAlteration = AlterQuery | RenameView | SetViewProperties | CommentColumn


def read_alter_view(reader: TokenReader) -> ViewAlteration:
    """Read what follows ALTER MATERIALIZED VIEW."""
    name = reader.name("the view's name")
    statement = _alteration(name, reader)
    reader.finish()
    return statement


def _alteration(name: str, reader: TokenReader) -> ViewAlteration:
    if reader.accept("AS"):
        return AlterQuery(name, _read_query(reader))
    if reader.accept("RENAME", "TO"):
        return RenameView(name, read_new_name(reader, "the view's new name"))
    if reader.accept("SET", "PARALLELISM"):
        reader.accept("=") or reader.accept("TO")
        token = reader.token
        if token is None:
            raise reader.unexpected("a number")
        reader.skip()
        return SetViewProperties(name, parse_parallelism(token.text))
    if reader.accept("SET", "TBLPROPERTIES"):
        return _altered(name, {**read_properties(reader)})
    if reader.accept("UNSET", "TBLPROPERTIES"):
        return _altered(name, read_unset_properties(reader))
    if reader.accept("ALTER", "COLUMN"):
        column = reader.name("the column's name")
        reader.expect("COMMENT")
        return CommentColumn(name, column, reader.string("the comment"))
    raise reader.unexpected(
        "AS SELECT …, RENAME TO w, SET PARALLELISM n, [UN]SET TBLPROPERTIES, or ALTER COLUMN c "
        "COMMENT 'text'"
    )


def _altered(name: str, changes: Mapping[str, str | None]) -> SetViewProperties:
    properties = altered_view_properties(changes)
    return SetViewProperties(name, properties.parallelism, properties.users)


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
    """Read what follows EXPLAIN, up to MATERIALIZED VIEW or a CREATE or ALTER of one."""
    if reader.accept("CREATE", "MATERIALIZED", "VIEW"):
        return ExplainView(read_create_view(reader))
    if reader.accept("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"):
        return ExplainView(read_replace_view(reader))
    if reader.accept("ALTER", "MATERIALIZED", "VIEW"):
        name = reader.name("the view's name")
        reader.expect("AS")
        return ExplainView(AlterQuery(name, _read_query(reader)))
    reader.expect("MATERIALIZED", "VIEW")
    name = reader.name("the view's name")
    reader.finish()
    return ExplainView(name)
