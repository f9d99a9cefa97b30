"""Statements of Spark and Delta Lake that relstate does not run, each with what to write instead.

Does not know: the statements that it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

from sqlglot import Token, TokenType

from relstate.connector.syntax.tokens import TokenReader, excerpt
from relstate.storage import errors

_SPARK_VIEW = "a view of Spark's session goes to spark.sql"
_NAMESPACE = "a store is one database without schemas, the one that relstate.connect opened"
_SETTINGS = (
    "settings of Spark go to spark.conf.set, properties of a table to ALTER TABLE t SET "
    "TBLPROPERTIES"
)
_CACHE = "write db.table(name).cache(), a DataFrame that stays at its epoch"
_USERS = (
    "a store has no users of its own: who may read or write its folder or bucket may read or write "
    "its tables"
)
_FILES = "the log of the store knows all files of its tables"
_COPY = (
    "files are not taken over as they are: CREATE TABLE t (PRIMARY KEY (id)) AS SELECT * FROM "
    "parquet.`/path` copies their rows"
)
_EARLIER = (
    "earlier epochs have the table for as long as VACUUM retains them: CREATE TABLE t (PRIMARY KEY "
    "(id)) AS SELECT * FROM t VERSION AS OF the epoch before the DROP"
)
_VNODES = (
    "a table has vnodes, by a hash of its primary key: DESCRIBE DETAIL t has its size, relstate ui "
    "shows that of each vnode"
)
_HASHED = (
    "rows are distributed by a hash of the primary key and sorted by it, and a key is not altered: "
    "CREATE TABLE u (PRIMARY KEY ((region), id)) AS SELECT * FROM t; CREATE INDEX finds rows by "
    "other columns"
)
_NOT_NULL = (
    "the schema of rows that are stored is not altered; ALTER TABLE t ADD CONSTRAINT name CHECK "
    "(column IS NOT NULL) is checked against all rows and by every writer"
)

_TEMPORARY = f"{_SPARK_VIEW}, and so does what reads it"
_FUNCTIONS = "functions are Spark's own, in a query of db.sql too: spark.sql(…) describes them"
_TRANSACTIONS = (
    "each statement is one commit of its own; a MERGE changes many rows at once, and RESTORE TABLE "
    "t TO VERSION AS OF an epoch undoes"
)
_STREAMED = (
    "a view that is kept up to date is CREATE MATERIALIZED VIEW v AS SELECT …, REFRESH or db.stream"
)
_CDC = "write db.apply_changes('t', source, keys=[…], sequence_by=…)"
_SCRIPTS = "the program around db.sql is Python; values are passed as args of db.sql"
_MASKS = f"{_USERS}; a materialized view over the table may leave the column out, or shorten it"
_VOLUMES = "a store has tables and views only, no files of other kinds"
_RESOURCES = "spark.addArtifacts or the configuration spark.jars gives a session its files"
_ORDER = "the order of columns is not altered: a query names them in the order that it needs"
_UPSERT = "INSERT INTO t overwrites the row that has the key; to keep it, write MERGE"

_STATEMENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("CREATE", "VIEW"),
        f"a view of the store is a CREATE MATERIALIZED VIEW; {_SPARK_VIEW}",
    ),
    (
        ("CREATE", "OR", "REPLACE"),
        f"only a TABLE or a MATERIALIZED VIEW is replaced; {_SPARK_VIEW}",
    ),
    (("CREATE", "GLOBAL"), _TEMPORARY),
    (("CREATE", "OR", "REFRESH"), _STREAMED),
    (("CREATE", "STREAMING"), _STREAMED),
    (("CREATE", "LIVE"), _STREAMED),
    (("CREATE", "FLOW"), _CDC),
    (("CREATE", "CATALOG"), _NAMESPACE),
    (("CREATE", "FUNCTION"), _FUNCTIONS),
    (("CREATE", "TEMPORARY", "FUNCTION"), _FUNCTIONS),
    (("CREATE", "BLOOMFILTER"), "write CREATE INDEX name ON t (columns)"),
    (("CREATE", "TEMPORARY", "VIEW"), _SPARK_VIEW),
    (("CREATE", "TEMP", "VIEW"), _SPARK_VIEW),
    (("CREATE", "EXTERNAL", "TABLE"), "the rows of a table are in its store: CREATE TABLE"),
    (("CREATE", "TEMPORARY", "TABLE"), _SPARK_VIEW),
    (("CREATE", "DATABASE"), f"{_NAMESPACE}: relstate.create(path) makes another store"),
    (("CREATE", "SCHEMA"), f"{_NAMESPACE}: relstate.create(path) makes another store"),
    (("DROP", "DATABASE"), f"{_NAMESPACE}: a store is removed as a folder"),
    (("DROP", "SCHEMA"), f"{_NAMESPACE}: a store is removed as a folder"),
    (("DROP", "FUNCTION"), _FUNCTIONS),
    (("DROP", "TEMPORARY"), _SPARK_VIEW),
    (("ALTER", "DATABASE"), _NAMESPACE),
    (("ALTER", "SCHEMA"), _NAMESPACE),
    (("DROP", "VIEW"), f"a view of the store is dropped by DROP MATERIALIZED VIEW; {_SPARK_VIEW}"),
    (("ALTER", "VIEW"), f"a view of the store is an ALTER MATERIALIZED VIEW; {_SPARK_VIEW}"),
    (("APPLY", "CHANGES"), _CDC),
    (("BEGIN",), _TRANSACTIONS),
    (("START", "TRANSACTION"), _TRANSACTIONS),
    (("COMMIT",), _TRANSACTIONS),
    (("ROLLBACK",), _TRANSACTIONS),
    (("LOCK",), _TRANSACTIONS),
    (("CALL",), "a store has no procedures: OPTIMIZE, VACUUM and RESTORE are statements"),
    (("DECLARE",), _SCRIPTS),
    (("EXECUTE",), _SCRIPTS),
    (("EXPORT",), "write relstate export STORE t FILE, or db.table('t').write"),
    (("IMPORT",), _COPY),
    (("LOAD",), "write relstate load STORE t FILES, or db.write(spark.read.parquet(path), 't')"),
    (("GENERATE",), f"{_FILES}, which are not Parquet: relstate export STORE t FILE writes such"),
    (("REPLACE",), _UPSERT),
    (("UPSERT",), _UPSERT),
    (("REPAIR",), f"{_FILES}, so there is nothing to find; relstate check STORE verifies them"),
    (("CLEAR",), _CACHE),
    (("CREATE", "VOLUME"), _VOLUMES),
    (("ALTER", "VOLUME"), _VOLUMES),
    (("DROP", "VOLUME"), _VOLUMES),
    (("ADD", "JAR"), _RESOURCES),
    (("ADD", "FILE"), _RESOURCES),
    (("LIST",), _RESOURCES),
    (("KILL",), "a statement ends with the program that runs it, which Ctrl-C stops"),
    (("REFRESH", "TABLE"), "a table needs none; a view, REFRESH MATERIALIZED VIEW"),
    (("REFRESH",), "write REFRESH MATERIALIZED VIEW and the view's name"),
    (
        ("COPY",),
        "COPY INTO is db.write(spark.read.parquet(path), 't'), or relstate load STORE t FILES",
    ),
    (("CONVERT",), _COPY),
    (("REORG",), "OPTIMIZE t compacts a table"),
    (("UNDROP",), _EARLIER),
    (
        ("MSCK", "REPAIR"),
        f"{_FILES}, so there is nothing to find; relstate check STORE verifies them",
    ),
    (("FSCK",), f"{_FILES}, so there is nothing to find; relstate check STORE verifies them"),
    (("GRANT",), _USERS),
    (("REVOKE",), _USERS),
    (("USE",), _NAMESPACE),
    (("SET",), _SETTINGS),
    (("RESET",), _SETTINGS),
    (("CACHE",), _CACHE),
    (("UNCACHE",), _CACHE),
)
# Forms of statements that there are.
_FORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ALTER", "TABLE", "IF", "EXISTS"), "leave IF EXISTS out: SHOW TABLES lists the tables"),
    (("COMMENT", "ON", "DATABASE"), _NAMESPACE),
    (("COMMENT", "ON", "SCHEMA"), _NAMESPACE),
    (
        ("MERGE", "WITH", "SCHEMA", "EVOLUTION"),
        "write ALTER TABLE t ADD COLUMNS first; a MERGE does not add columns",
    ),
    (("ANALYZE", "TABLES"), "write ANALYZE TABLE t; the log of a store has the sizes of all"),
)
_SHOWN: tuple[tuple[tuple[str, ...], str], ...] = (
    (("PARTITIONS",), _VNODES),
    (("DATABASES",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("SCHEMAS",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("NAMESPACES",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("CATALOGS",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("CURRENT",), _NAMESPACE),
    (("FUNCTIONS",), _FUNCTIONS),
    (("USER", "FUNCTIONS"), _FUNCTIONS),
    (("SYSTEM", "FUNCTIONS"), _FUNCTIONS),
    (("ALL", "FUNCTIONS"), _FUNCTIONS),
    (("HISTORY",), "write DESCRIBE HISTORY t"),
    (("TABLE", "EXTENDED"), "write SHOW TABLES, and DESCRIBE EXTENDED t or DESCRIBE DETAIL t"),
    (("TABLES", "IN"), f"{_NAMESPACE}: write SHOW TABLES"),
    (("TABLES", "FROM"), f"{_NAMESPACE}: write SHOW TABLES"),
    (("GRANTS",), _USERS),
    (("GRANT",), _USERS),
    (
        ("LOCKS",),
        (
            "tables are not locked: of two commits that change the same rows the second runs "
            "again, or fails with a ConflictError; DESCRIBE HISTORY t has the commits"
        ),
    ),
    (("VOLUMES",), _VOLUMES),
    (("VARIABLES",), _SCRIPTS),
    (("PROCEDURES",), "a store has no procedures: OPTIMIZE, VACUUM and RESTORE are statements"),
)
_EXPLAINED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ANALYZE",),
        (
            "leave ANALYZE out: EXPLAIN does not run the query and shows what it would read; "
            "Spark's UI measures the queries that ran"
        ),
    ),
)
_DESCRIBED = {
    **dict.fromkeys(
        ("DATABASE", "SCHEMA", "NAMESPACE", "CATALOG"),
        f"{_NAMESPACE}: SHOW TABLES lists its tables, relstate tables STORE their sizes",
    ),
    "FUNCTION": _FUNCTIONS,
    "VOLUME": _VOLUMES,
    "SHARE": _USERS,
}
_OF_DESCRIBED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("AS", "JSON"),
        (
            "DESCRIBE EXTENDED t has the same as rows; the command relstate describe STORE t "
            "--json prints JSON, without Spark"
        ),
    ),
)
_DROPPED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("PURGE",),
        (
            "leave it out: earlier epochs have the table until they expire, then VACUUM removes "
            "its files"
        ),
    ),
)
_TRUNCATED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("PARTITION",), "a table has no partitions: write DELETE FROM t WHERE and their condition"),
)
_SET_ALL = "name the columns: UPDATE t SET a = s.a, b = s.b FROM s WHERE t.id = s.id"
_UPDATED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("*",), f"{_SET_ALL}; MERGE … WHEN MATCHED THEN UPDATE SET * sets all"),
)
_MERGED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("EXCEPT",), "name the columns: UPDATE SET a = s.a, INSERT (a) VALUES (s.a)"),
)
_INSERTED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("IGNORE",), "to keep rows that are there, write MERGE … WHEN NOT MATCHED THEN INSERT *"),
    (("OVERWRITE", "DIRECTORY"), "write relstate export STORE t FILE, or db.sql(query).write"),
    (
        ("WITH", "SCHEMA", "EVOLUTION"),
        "write ALTER TABLE t ADD COLUMNS, or the option mergeSchema of a write",
    ),
)
_INSERTED_INTO: tuple[tuple[tuple[str, ...], str], ...] = (
    (("PARTITION",), f"leave it out; {_HASHED}"),
    (("REPLACE", "USING"), "INSERT INTO t overwrites the rows that have the keys: leave it out"),
    (("REPLACE", "ON"), "write MERGE INTO t USING … ON … WHEN MATCHED THEN UPDATE SET *"),
)
_CONSTRAINTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("PRIMARY", "KEY"),
        "the key is given at first: CREATE TABLE u (PRIMARY KEY (id)) AS SELECT * FROM t",
    ),
    (("FOREIGN", "KEY"), "references are not checked: a query finds rows without a parent"),
    (("UNIQUE",), "write CREATE UNIQUE INDEX name ON t (columns)"),
)
_DELETED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("USING",),
        "write DELETE … WHERE id IN (SELECT …), or MERGE … WHEN MATCHED THEN DELETE",
    ),
)
_COLUMN_NAMES = "leave IF NOT EXISTS out: SHOW COLUMNS IN t lists them"
_OWNED = f"leave it out; {_USERS}"
_ALTERATIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("CLUSTER", "BY"), _HASHED),
    (
        ("CHANGE",),
        "write RENAME COLUMN a TO b, ALTER COLUMN c TYPE t or ALTER COLUMN c COMMENT 'text'",
    ),
    (("DROP", "COLUMN", "IF", "EXISTS"), "leave IF EXISTS out: SHOW COLUMNS IN t lists them"),
    (("DROP", "COLUMNS", "IF", "EXISTS"), "leave IF EXISTS out: SHOW COLUMNS IN t lists them"),
    (("ADD", "COLUMN", "IF", "NOT", "EXISTS"), _COLUMN_NAMES),
    (("ADD", "COLUMNS", "IF", "NOT", "EXISTS"), _COLUMN_NAMES),
    (("DROP", "FEATURE"), "a store has one format, without features to choose"),
    (("SET", "OWNER"), _OWNED),
    (("OWNER",), _OWNED),
    (("SET", "ROW", "FILTER"), f"{_USERS}; a view WHERE … has some of its rows"),
    (("DROP", "ROW", "FILTER"), _USERS),
    (("SET", "TAGS"), "write SET TBLPROPERTIES ('name' = 'value')"),
    (("UNSET", "TAGS"), "write UNSET TBLPROPERTIES ('name')"),
    (("ADD", "PARTITION"), _HASHED),
    (("ADD", "IF", "NOT", "EXISTS", "PARTITION"), _HASHED),
    (("DROP", "PARTITION"), _HASHED),
    (("DROP", "IF", "EXISTS", "PARTITION"), _HASHED),
    (("PARTITION",), _HASHED),
    (("RECOVER", "PARTITIONS"), _FILES),
    (("SET", "LOCATION"), "the rows of a table are in its store; a store is moved as a folder"),
    (
        ("REPLACE", "COLUMNS"),
        "write ADD COLUMNS, DROP COLUMNS and RENAME COLUMN, which keep the rows",
    ),
)
_COLUMNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("SET", "NOT", "NULL"), _NOT_NULL),
    (("SET", "MASK"), _MASKS),
    (("DROP", "MASK"), _MASKS),
    (("FIRST",), _ORDER),
    (("AFTER",), _ORDER),
)


def check_statement(reader: TokenReader) -> None:
    """UnsupportedStatementError for a statement that has another form in relstate."""
    _check(reader, _STATEMENTS)


def check_form(reader: TokenReader) -> None:
    """UnsupportedStatementError for another form of a statement that there is in relstate."""
    _check(reader, _FORMS)


def check_query(tokens: Sequence[Token]) -> None:
    """UnsupportedStatementError for a FROM that is followed by several INSERT INTO."""
    words = [token.text.upper() for token in tokens]
    if words[0] == "FROM" and ("INSERT", "INTO") in pairwise(words):
        raise errors.UnsupportedStatementError(
            "FROM … INSERT INTO: a statement changes one table; write an INSERT INTO … SELECT for "
            "each"
        )


def check_shown(reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after SHOW and a store does not have."""
    _check(reader, _SHOWN, "SHOW ")


def check_described(name: str) -> None:
    """UnsupportedStatementError for DESCRIBE, this word and more, if a store does not have it."""
    advice = _DESCRIBED.get(name.upper())
    if advice is not None:
        raise errors.UnsupportedStatementError(f"DESCRIBE {name.upper()}: {advice}")


def check_explained(reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after EXPLAIN and is not offered."""
    _check(reader, _EXPLAINED, "EXPLAIN ")


def check_of_described(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after DESCRIBE t and is not offered."""
    _check(reader, _OF_DESCRIBED, f"DESCRIBE {table} ")


def check_dropped(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after DROP TABLE t and is not offered."""
    _check(reader, _DROPPED, f"DROP TABLE {table} ")


def check_truncated(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after TRUNCATE TABLE t and is not offered."""
    _check(reader, _TRUNCATED, f"TRUNCATE TABLE {table} ")


def check_updated(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after UPDATE t SET and is not offered."""
    _check(reader, _UPDATED, f"UPDATE {table} SET ")


def check_merged(action: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after UPDATE SET * or INSERT * of a MERGE."""
    _check(reader, _MERGED, f"{action} * ")


def check_inserted(reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after INSERT and is not offered."""
    _check(reader, _INSERTED, "INSERT ")


def check_inserted_into(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after INSERT INTO t and is not offered."""
    _check(reader, _INSERTED_INTO, f"INSERT INTO {table} ")


def check_alteration(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after ALTER TABLE t and is not offered."""
    _check(reader, _ALTERATIONS, f"ALTER TABLE {table} ")


def check_column(name: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after ALTER COLUMN c and is not offered."""
    _check(reader, _COLUMNS, f"ALTER COLUMN {name} ")


def check_added(column: Sequence[Token], text: str) -> None:
    """UnsupportedStatementError for a column that would be added at a position."""
    words = [
        "" if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING) else token.text.upper()
        for token in column
    ]
    if len(words) > 2 and (words[-1] == "FIRST" or (len(words) > 3 and words[-2] == "AFTER")):
        position = " ".join(token.text for token in column[-1 if words[-1] == "FIRST" else -2 :])
        raise errors.UnsupportedStatementError(
            f"{excerpt(text)}: a column is added as the last one, leave {position} out: a query "
            "names columns in the order that it needs"
        )


def check_constraint(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for a constraint of another kind than CHECK."""
    _check(reader, _CONSTRAINTS, f"ALTER TABLE {table} ADD CONSTRAINT … ")


def check_delete(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after DELETE FROM t and is not offered."""
    _check(reader, _DELETED, f"DELETE FROM {table} ")


def refuse_replace_where(table: str) -> NoReturn:
    """Raise the UnsupportedStatementError of INSERT INTO t REPLACE WHERE."""
    raise errors.UnsupportedStatementError(
        f"INSERT INTO {table} REPLACE WHERE: write MERGE INTO {table} USING … ON … WHEN MATCHED "
        "THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND condition "
        "THEN DELETE, which is one epoch"
    )


def _check(
    reader: TokenReader, refused: tuple[tuple[tuple[str, ...], str], ...], before: str = ""
) -> None:
    for words, advice in refused:
        if reader.accept(*words):
            raise errors.UnsupportedStatementError(f"{before}{' '.join(words)}: {advice}")
