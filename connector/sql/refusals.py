"""Statements of Spark and Delta Lake that relstate does not run, each with what to write instead.

Does not know: the statements that it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class RefusedForms:
    """What may come next in a statement and is not offered, each with what to write instead.

    ``start``: the statement before it, with ``{}`` for the name of a table, a column or an action.
    """

    start: str
    advice: Mapping[str, str]

    def check(self, reader: TokenReader, name: str = "") -> None:
        """UnsupportedStatementError if one of the forms comes next."""
        for form, advice in self.advice.items():
            if reader.accept(*form.split()):
                raise errors.UnsupportedStatementError(f"{self.start.format(name)}{form}: {advice}")


STATEMENTS = RefusedForms(
    "",
    {
        "CREATE VIEW": f"a view of the store is a CREATE MATERIALIZED VIEW; {_SPARK_VIEW}",
        "CREATE OR REPLACE": f"only a TABLE or a MATERIALIZED VIEW is replaced; {_SPARK_VIEW}",
        "CREATE GLOBAL": _TEMPORARY,
        "CREATE OR REFRESH": _STREAMED,
        "CREATE STREAMING": _STREAMED,
        "CREATE LIVE": _STREAMED,
        "CREATE FLOW": _CDC,
        "CREATE CATALOG": _NAMESPACE,
        "CREATE FUNCTION": _FUNCTIONS,
        "CREATE TEMPORARY FUNCTION": _FUNCTIONS,
        "CREATE BLOOMFILTER": "write CREATE INDEX name ON t (columns)",
        "CREATE TEMPORARY VIEW": _SPARK_VIEW,
        "CREATE TEMP VIEW": _SPARK_VIEW,
        "CREATE EXTERNAL TABLE": "the rows of a table are in its store: CREATE TABLE",
        "CREATE TEMPORARY TABLE": _SPARK_VIEW,
        "CREATE DATABASE": f"{_NAMESPACE}: relstate.create(path) makes another store",
        "CREATE SCHEMA": f"{_NAMESPACE}: relstate.create(path) makes another store",
        "DROP DATABASE": f"{_NAMESPACE}: a store is removed as a folder",
        "DROP SCHEMA": f"{_NAMESPACE}: a store is removed as a folder",
        "DROP FUNCTION": _FUNCTIONS,
        "DROP TEMPORARY": _SPARK_VIEW,
        "ALTER DATABASE": _NAMESPACE,
        "ALTER SCHEMA": _NAMESPACE,
        "DROP VIEW": f"a view of the store is dropped by DROP MATERIALIZED VIEW; {_SPARK_VIEW}",
        "ALTER VIEW": f"a view of the store is an ALTER MATERIALIZED VIEW; {_SPARK_VIEW}",
        "APPLY CHANGES": _CDC,
        "BEGIN": _TRANSACTIONS,
        "START TRANSACTION": _TRANSACTIONS,
        "COMMIT": _TRANSACTIONS,
        "ROLLBACK": _TRANSACTIONS,
        "LOCK": _TRANSACTIONS,
        "CALL": "a store has no procedures: OPTIMIZE, VACUUM and RESTORE are statements",
        "DECLARE": _SCRIPTS,
        "EXECUTE": _SCRIPTS,
        "EXPORT": "write relstate export STORE t FILE, or db.table('t').write",
        "IMPORT": _COPY,
        "LOAD": "write relstate load STORE t FILES, or db.write(spark.read.parquet(path), 't')",
        "GENERATE": f"{_FILES}, which are not Parquet: relstate export STORE t FILE writes such",
        "REPLACE": _UPSERT,
        "UPSERT": _UPSERT,
        "REPAIR": f"{_FILES}, so there is nothing to find; relstate check STORE verifies them",
        "CLEAR": _CACHE,
        "CREATE VOLUME": _VOLUMES,
        "ALTER VOLUME": _VOLUMES,
        "DROP VOLUME": _VOLUMES,
        "ADD JAR": _RESOURCES,
        "ADD FILE": _RESOURCES,
        "LIST": _RESOURCES,
        "KILL": "a statement ends with the program that runs it, which Ctrl-C stops",
        "REFRESH TABLE": "a table needs none; a view, REFRESH MATERIALIZED VIEW",
        "REFRESH": "write REFRESH MATERIALIZED VIEW and the view's name",
        "COPY": (
            "COPY INTO is db.write(spark.read.parquet(path), 't'), or relstate load STORE t FILES"
        ),
        "CONVERT": _COPY,
        "REORG": "OPTIMIZE t compacts a table",
        "UNDROP": _EARLIER,
        "MSCK REPAIR": f"{_FILES}, so there is nothing to find; relstate check STORE verifies them",
        "FSCK": f"{_FILES}, so there is nothing to find; relstate check STORE verifies them",
        "GRANT": _USERS,
        "REVOKE": _USERS,
        "USE": _NAMESPACE,
        "SET": _SETTINGS,
        "RESET": _SETTINGS,
        "CACHE": _CACHE,
        "UNCACHE": _CACHE,
    },
)
# Forms of statements that are offered.
FORMS = RefusedForms(
    "",
    {
        "ALTER TABLE IF EXISTS": "leave IF EXISTS out: SHOW TABLES lists the tables",
        "COMMENT ON DATABASE": _NAMESPACE,
        "COMMENT ON SCHEMA": _NAMESPACE,
        "MERGE WITH SCHEMA EVOLUTION": (
            "write ALTER TABLE t ADD COLUMNS first; a MERGE does not add columns"
        ),
        "ANALYZE TABLES": "write ANALYZE TABLE t; the log of a store has the sizes of all",
    },
)
SHOWN = RefusedForms(
    "SHOW ",
    {
        "PARTITIONS": _VNODES,
        "DATABASES": f"{_NAMESPACE}: SHOW TABLES lists its tables",
        "SCHEMAS": f"{_NAMESPACE}: SHOW TABLES lists its tables",
        "NAMESPACES": f"{_NAMESPACE}: SHOW TABLES lists its tables",
        "CATALOGS": f"{_NAMESPACE}: SHOW TABLES lists its tables",
        "CURRENT": _NAMESPACE,
        "FUNCTIONS": _FUNCTIONS,
        "USER FUNCTIONS": _FUNCTIONS,
        "SYSTEM FUNCTIONS": _FUNCTIONS,
        "ALL FUNCTIONS": _FUNCTIONS,
        "HISTORY": "write DESCRIBE HISTORY t",
        "TABLE EXTENDED": "write SHOW TABLES, and DESCRIBE EXTENDED t or DESCRIBE DETAIL t",
        "TABLES IN": f"{_NAMESPACE}: write SHOW TABLES",
        "TABLES FROM": f"{_NAMESPACE}: write SHOW TABLES",
        "GRANTS": _USERS,
        "GRANT": _USERS,
        "LOCKS": (
            "tables are not locked: of two commits that change the same rows the second runs "
            "again, or fails with a ConflictError; DESCRIBE HISTORY t has the commits"
        ),
        "VOLUMES": _VOLUMES,
        "VARIABLES": _SCRIPTS,
        "PROCEDURES": "a store has no procedures: OPTIMIZE, VACUUM and RESTORE are statements",
    },
)
EXPLAINED = RefusedForms(
    "EXPLAIN ",
    {
        "ANALYZE": (
            "leave ANALYZE out: EXPLAIN does not run the query and shows what it would read; "
            "Spark's UI measures the queries that ran"
        ),
    },
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
OF_DESCRIBED = RefusedForms(
    "DESCRIBE {} ",
    {
        "AS JSON": (
            "DESCRIBE EXTENDED t has the same as rows; the command relstate describe STORE t "
            "--json prints JSON, without Spark"
        ),
    },
)
DROPPED = RefusedForms(
    "DROP TABLE {} ",
    {
        "PURGE": (
            "leave it out: earlier epochs have the table until they expire, then VACUUM removes "
            "its files"
        ),
    },
)
TRUNCATED = RefusedForms(
    "TRUNCATE TABLE {} ",
    {
        "PARTITION": "a table has no partitions: write DELETE FROM t WHERE and their condition",
    },
)
_SET_ALL = "name the columns: UPDATE t SET a = s.a, b = s.b FROM s WHERE t.id = s.id"
UPDATED = RefusedForms(
    "UPDATE {} SET ",
    {
        "*": f"{_SET_ALL}; MERGE … WHEN MATCHED THEN UPDATE SET * sets all",
    },
)
MERGED = RefusedForms(
    "{} * ",
    {
        "EXCEPT": "name the columns: UPDATE SET a = s.a, INSERT (a) VALUES (s.a)",
    },
)
INSERTED = RefusedForms(
    "INSERT ",
    {
        "IGNORE": "to keep rows that are there, write MERGE … WHEN NOT MATCHED THEN INSERT *",
        "OVERWRITE DIRECTORY": "write relstate export STORE t FILE, or db.sql(query).write",
        "WITH SCHEMA EVOLUTION": (
            "write ALTER TABLE t ADD COLUMNS, or the option mergeSchema of a write"
        ),
    },
)
INSERTED_INTO = RefusedForms(
    "INSERT INTO {} ",
    {
        "PARTITION": f"leave it out; {_HASHED}",
        "REPLACE USING": "INSERT INTO t overwrites the rows that have the keys: leave it out",
        "REPLACE ON": "write MERGE INTO t USING … ON … WHEN MATCHED THEN UPDATE SET *",
    },
)
CONSTRAINTS = RefusedForms(
    "ALTER TABLE {} ADD CONSTRAINT … ",
    {
        "PRIMARY KEY": (
            "the key is given at first: CREATE TABLE u (PRIMARY KEY (id)) AS SELECT * FROM t"
        ),
        "FOREIGN KEY": "references are not checked: a query finds rows without a parent",
        "UNIQUE": "write CREATE UNIQUE INDEX name ON t (columns)",
    },
)
DELETED = RefusedForms(
    "DELETE FROM {} ",
    {
        "USING": "write DELETE … WHERE id IN (SELECT …), or MERGE … WHEN MATCHED THEN DELETE",
    },
)
_COLUMN_NAMES = "leave IF NOT EXISTS out: SHOW COLUMNS IN t lists them"
_OWNED = f"leave it out; {_USERS}"
ALTERATIONS = RefusedForms(
    "ALTER TABLE {} ",
    {
        "CLUSTER BY": _HASHED,
        "CHANGE": (
            "write RENAME COLUMN a TO b, ALTER COLUMN c TYPE t or ALTER COLUMN c COMMENT 'text'"
        ),
        "DROP COLUMN IF EXISTS": "leave IF EXISTS out: SHOW COLUMNS IN t lists them",
        "DROP COLUMNS IF EXISTS": "leave IF EXISTS out: SHOW COLUMNS IN t lists them",
        "ADD COLUMN IF NOT EXISTS": _COLUMN_NAMES,
        "ADD COLUMNS IF NOT EXISTS": _COLUMN_NAMES,
        "DROP FEATURE": "a store has one format, without features to choose",
        "SET OWNER": _OWNED,
        "OWNER": _OWNED,
        "SET ROW FILTER": f"{_USERS}; a view WHERE … has some of its rows",
        "DROP ROW FILTER": _USERS,
        "SET TAGS": "write SET TBLPROPERTIES ('name' = 'value')",
        "UNSET TAGS": "write UNSET TBLPROPERTIES ('name')",
        "ADD PARTITION": _HASHED,
        "ADD IF NOT EXISTS PARTITION": _HASHED,
        "DROP PARTITION": _HASHED,
        "DROP IF EXISTS PARTITION": _HASHED,
        "PARTITION": _HASHED,
        "RECOVER PARTITIONS": _FILES,
        "SET LOCATION": "the rows of a table are in its store; a store is moved as a folder",
        "REPLACE COLUMNS": "write ADD COLUMNS, DROP COLUMNS and RENAME COLUMN, which keep the rows",
    },
)
COLUMNS = RefusedForms(
    "ALTER COLUMN {} ",
    {
        "SET NOT NULL": _NOT_NULL,
        "SET MASK": _MASKS,
        "DROP MASK": _MASKS,
        "FIRST": _ORDER,
        "AFTER": _ORDER,
    },
)
_WITH_BEFORE = {
    "INSERT": "write INSERT INTO t WITH … SELECT …",
    "UPDATE": "write WITH in the subquery: UPDATE t SET … WHERE id IN (WITH … SELECT …)",
    "DELETE": "write WITH in the subquery: DELETE FROM t WHERE id IN (WITH … SELECT …)",
    "MERGE": "write WITH in the source: MERGE INTO t USING (WITH … SELECT …) s ON …",
}
_CHANGED = (["CHANGES", "FROM", "VERSION"], ["CHANGES", "FROM", "TIMESTAMP"])
_NUMBERED = (
    "a table without a primary key has unique ascending ids in its hidden column _row_id; for a "
    "key write uuid()"
)
_COLUMN_WORDS = {
    "UNIQUE": "create the table without it, then CREATE UNIQUE INDEX name ON t (column)",
    "REFERENCES": "references are not checked: a query finds rows without a parent",
    "AUTO_INCREMENT": _NUMBERED,
    "AUTOINCREMENT": _NUMBERED,
    "MASK": _MASKS,
}


def check_query(tokens: Sequence[Token]) -> None:
    """UnsupportedStatementError for what begins as a query and is another statement of Spark."""
    words = [token.text.upper() for token in tokens]
    if any(words[start : start + 3] in _CHANGED for start in range(len(words))):
        raise errors.UnsupportedStatementError(
            "CHANGES FROM: write FROM table_changes('t', first_epoch, last_epoch)"
        )
    if words[0] == "FROM" and ("INSERT", "INTO") in pairwise(words):
        raise errors.UnsupportedStatementError(
            "FROM … INSERT INTO: a statement changes one table; write an INSERT INTO … SELECT for "
            "each"
        )
    change = _change_after_with(tokens) if words[0] == "WITH" else None
    if change is not None:
        raise errors.UnsupportedStatementError(f"WITH … {change}: {_WITH_BEFORE[change]}")


def _change_after_with(tokens: Sequence[Token]) -> str | None:
    """Return the word of the statement that follows the common tables; None if it is a query."""
    depth = 0
    for token, following in pairwise(tokens):
        depth += (token.text == "(") - (token.text == ")")
        word = following.text.upper()
        if depth == 0 and token.text == ")" and word not in (",", "AS"):
            return word if word in _WITH_BEFORE else None
    return None


def check_described(name: str) -> None:
    """UnsupportedStatementError for DESCRIBE, this word and more, if a store does not have it."""
    advice = _DESCRIBED.get(name.upper())
    if advice is not None:
        raise errors.UnsupportedStatementError(f"DESCRIBE {name.upper()}: {advice}")


def check_column(column: Sequence[Token], text: str) -> None:
    """UnsupportedStatementError for a word in the definition of a column that is not offered."""
    depth = 0
    for token in column[2:]:
        depth += (token.text in "<(") - (token.text in ">)")
        is_name = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        advice = None if is_name or depth else _COLUMN_WORDS.get(token.text.upper())
        if advice is not None:
            raise errors.UnsupportedStatementError(
                f"{excerpt(text)}: {token.text.upper()} is not offered: {advice}"
            )


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


def refuse_replace_where(table: str) -> NoReturn:
    """Raise the UnsupportedStatementError of INSERT INTO t REPLACE WHERE."""
    raise errors.UnsupportedStatementError(
        f"INSERT INTO {table} REPLACE WHERE: write MERGE INTO {table} USING … ON … WHEN MATCHED "
        "THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND condition "
        "THEN DELETE, which is one epoch"
    )
