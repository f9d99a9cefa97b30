"""Statements of Spark and Delta Lake that relstate does not run, each with what to write instead.

Does not know: the statements that it runs.
"""

from __future__ import annotations

from typing import NoReturn

from relstate.connector.syntax.tokens import TokenReader
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

_STATEMENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("CREATE", "VIEW"),
        f"a view of the store is a CREATE MATERIALIZED VIEW; {_SPARK_VIEW}",
    ),
    (
        ("CREATE", "OR", "REPLACE"),
        f"only a TABLE or a MATERIALIZED VIEW is replaced; {_SPARK_VIEW}",
    ),
    (("CREATE", "TEMPORARY", "VIEW"), _SPARK_VIEW),
    (("CREATE", "TEMP", "VIEW"), _SPARK_VIEW),
    (("CREATE", "EXTERNAL", "TABLE"), "the rows of a table are in its store: CREATE TABLE"),
    (("CREATE", "TEMPORARY", "TABLE"), _SPARK_VIEW),
    (("CREATE", "DATABASE"), f"{_NAMESPACE}: relstate.create(path) makes another store"),
    (("CREATE", "SCHEMA"), f"{_NAMESPACE}: relstate.create(path) makes another store"),
    (("DROP", "VIEW"), f"a view of the store is dropped by DROP MATERIALIZED VIEW; {_SPARK_VIEW}"),
    (("ALTER", "VIEW"), f"a view of the store is an ALTER MATERIALIZED VIEW; {_SPARK_VIEW}"),
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
_SHOWN: tuple[tuple[tuple[str, ...], str], ...] = (
    (("PARTITIONS",), _VNODES),
    (("DATABASES",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("SCHEMAS",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("NAMESPACES",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("CATALOGS",), f"{_NAMESPACE}: SHOW TABLES lists its tables"),
    (("GRANTS",), _USERS),
    (("GRANT",), _USERS),
)
_ALTERATIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("CLUSTER", "BY"), _HASHED),
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
    (
        ("FIRST",),
        "the order of columns is not altered: a query names them in the order that it needs",
    ),
    (
        ("AFTER",),
        "the order of columns is not altered: a query names them in the order that it needs",
    ),
)


def check_statement(reader: TokenReader) -> None:
    """UnsupportedStatementError for a statement that has another form in relstate."""
    _check(reader, _STATEMENTS)


def check_shown(reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after SHOW and a store does not have."""
    _check(reader, _SHOWN, "SHOW ")


def check_alteration(table: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after ALTER TABLE t and is not offered."""
    _check(reader, _ALTERATIONS, f"ALTER TABLE {table} ")


def check_column(name: str, reader: TokenReader) -> None:
    """UnsupportedStatementError for what comes after ALTER COLUMN c and is not offered."""
    _check(reader, _COLUMNS, f"ALTER COLUMN {name} ")


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
