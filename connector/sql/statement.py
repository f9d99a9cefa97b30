"""The statements of the SQL interface, as values: which one a text is.

    create_table            CREATE TABLE, also AS SELECT and LIKE
    ddl                     DROP TABLE, ALTER TABLE, COMMENT ON
    show                    SHOW TABLES, TBLPROPERTIES, COLUMNS, CREATE TABLE; DESCRIBE
    refusals                what is not run, with what to write instead
    index_ddl               CREATE INDEX, DROP INDEX, SHOW INDEXES
    view_ddl                CREATE, DROP, ALTER, REFRESH, SHOW and EXPLAIN of MATERIALIZED VIEWs
    dml                     INSERT, UPDATE, DELETE, TRUNCATE, MERGE
    maintenance_statements  OPTIMIZE, VACUUM, ANALYZE, RESTORE
    here                    SELECT …  (also WITH …, FROM …, VALUES …, TABLE t …), and EXPLAIN
                            [EXTENDED] of one, or of an INSERT, UPDATE, DELETE or MERGE

Does not know: the store, Spark, or which names in a query are tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from relstate.connector.syntax.tokens import TokenReader, excerpt, tokens_of
from relstate.storage import errors

from . import create_table, ddl, dml, index_ddl, maintenance_statements, refusals, show, view_ddl
from .create_table import Creation
from .ddl import Alteration, DropTable, RecoverQuarantine
from .dml import Change, DmlStatement
from .index_ddl import IndexStatement
from .maintenance_statements import MaintenanceStatement
from .show import ShowStatement
from .view_ddl import ExplainView, ViewStatement


@dataclass(frozen=True, slots=True)
class Query:
    """A query in Spark's SQL, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Explain:
    """Explain how a query is run; ``mode``: as ``DataFrame.explain`` takes it."""

    text: str
    mode: str


@dataclass(frozen=True, slots=True)
class ExplainChange:
    """Explain how a statement finds what it changes; ``mode`` as in `Explain`."""

    statement: Change
    mode: str


Statement: TypeAlias = (
    Creation
    | DropTable
    | ShowStatement
    | Alteration
    | RecoverQuarantine
    | MaintenanceStatement
    | IndexStatement
    | ViewStatement
    | DmlStatement
    | Query
    | Explain
    | ExplainChange
)

_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_EXPLAINED: tuple[tuple[str, ...], ...] = ((), ("CREATE",), ("CREATE", "OR", "REPLACE"), ("ALTER",))
_MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")
_READERS: tuple[tuple[tuple[str, ...], Callable[[TokenReader], Statement]], ...] = (
    (("CREATE", "MATERIALIZED", "VIEW"), view_ddl.read_create_view),
    (("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"), view_ddl.read_replace_view),
    (("DROP", "MATERIALIZED", "VIEW"), view_ddl.read_drop_view),
    (("ALTER", "MATERIALIZED", "VIEW"), view_ddl.read_alter_view),
    (("REFRESH", "MATERIALIZED", "VIEW"), view_ddl.read_refresh_view),
    (("CREATE", "UNIQUE", "INDEX"), index_ddl.read_create_unique_index),
    (("CREATE", "INDEX"), index_ddl.read_create_index),
    (("DROP", "INDEX"), index_ddl.read_drop_index),
    (("CREATE", "TABLE"), create_table.read_create_table),
    (("CREATE", "OR", "REPLACE", "TABLE"), create_table.read_replace_table),
    (("DROP", "TABLE"), ddl.read_drop_table),
    (("ALTER", "TABLE"), ddl.read_alter_table),
    (("COMMENT", "ON"), ddl.read_comment),
    (("DESCRIBE", "QUERY"), show.read_describe_query),
    (("DESC", "QUERY"), show.read_describe_query),
    (("DESCRIBE", "HISTORY"), show.read_describe_history),
    (("DESC", "HISTORY"), show.read_describe_history),
    (("DESCRIBE",), show.read_describe),
    (("DESC",), show.read_describe),
    (("ANALYZE", "TABLE"), maintenance_statements.read_analyze),
    (("RESTORE",), maintenance_statements.read_restore),
    (("INSERT",), dml.read_insert),
    (("UPDATE",), dml.read_update),
    (("DELETE",), dml.read_delete),
    (("TRUNCATE",), dml.read_truncate),
    (("MERGE",), dml.read_merge),
)


_CHANGES: Mapping[str, Callable[[TokenReader], Change]] = {
    "INSERT": dml.read_insert,
    "UPDATE": dml.read_update,
    "DELETE": dml.read_delete,
    "MERGE": dml.read_merge,
}


def parse_statement(text: str) -> Statement:
    """Return a statement as a value; UnsupportedStatementError if it is not one of relstate's."""
    tokens = tokens_of(text)
    reader = TokenReader(text, tokens)
    if any(reader.next_is(word) for word in _QUERIES):
        refusals.check_query(tokens)
        return Query(text[: tokens[-1].end + 1])
    refusals.FORMS.check(reader)
    for words, read in _READERS:
        if reader.accept(*words):
            return read(reader)
    for word, read_rest in _COMMANDS.items():
        if reader.accept(word):
            return read_rest(text[tokens[0].end + 1 : tokens[-1].end + 1])
    refusals.STATEMENTS.check(reader)
    raise errors.UnsupportedStatementError(
        f"relstate runs queries, EXPLAIN, INSERT, UPDATE, DELETE, MERGE, TRUNCATE TABLE, CREATE, "
        f"DROP and ALTER TABLE or MATERIALIZED VIEW, CREATE and DROP INDEX, REFRESH, SHOW, "
        f"DESCRIBE, OPTIMIZE, VACUUM and RESTORE, not "
        f"{excerpt(text)}; statements about Spark alone go to spark.sql"
    )


def _read_show(rest: str) -> Statement:
    reader = TokenReader(rest, tokens_of(rest))
    if reader.accept("MATERIALIZED", "VIEWS") or reader.accept("VIEWS"):
        return view_ddl.read_show_views(reader)
    if reader.accept("INTERNAL", "TABLES"):
        return view_ddl.read_show_internal_tables(reader)
    refusals.SHOWN.check(reader)
    if reader.accept("TABLES"):
        return show.read_show_tables(reader)
    if reader.accept("TBLPROPERTIES"):
        return show.read_show_properties(reader)
    if reader.accept("COLUMNS"):
        return show.read_show_columns(reader)
    if reader.accept("CREATE", "TABLE") or reader.accept("CREATE", "MATERIALIZED", "VIEW"):
        return show.read_show_create(reader)
    if reader.accept("INDEXES"):
        return index_ddl.read_show_indexes(reader)
    raise errors.UnsupportedStatementError(
        "relstate shows TABLES, TBLPROPERTIES, COLUMNS, CREATE TABLE, MATERIALIZED VIEWS, INDEXES "
        f"and INTERNAL TABLES, not {excerpt(rest)}; "
        "DESCRIBE EXTENDED describes a table or view; statements about Spark alone go to spark.sql"
    )


def _read_optimize(rest: str) -> Statement:
    return maintenance_statements.read_optimize(TokenReader(rest, tokens_of(rest)))


def _read_vacuum(rest: str) -> Statement:
    # Nothing has to follow it.
    tokens = tokens_of(rest) if rest.strip() else []
    return maintenance_statements.read_vacuum(TokenReader(rest, tokens))


def _read_explain(rest: str) -> Explain | ExplainChange | ExplainView:
    tokens = tokens_of(rest)
    reader = TokenReader(rest, tokens)
    if any(reader.next_is(*words, "MATERIALIZED", "VIEW") for words in _EXPLAINED):
        return view_ddl.read_explain_view(reader)
    refusals.EXPLAINED.check(reader)
    mode = next((mode.lower() for mode in _MODES if reader.accept(mode)), "simple")
    for word, read in _CHANGES.items():
        if reader.accept(word):
            return ExplainChange(read(reader), mode)
    query = reader.token
    if query is None or not any(reader.next_is(word) for word in _QUERIES):
        raise reader.unexpected("a query, INSERT, UPDATE, DELETE or MERGE")
    return Explain(rest[query.start : tokens[-1].end + 1], mode)


# The tokenizer makes one string of all that follows these words.
_COMMANDS: dict[str, Callable[[str], Statement]] = {
    "SHOW": _read_show,
    "EXPLAIN": _read_explain,
    "OPTIMIZE": _read_optimize,
    "VACUUM": _read_vacuum,
}
