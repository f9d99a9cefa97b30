"""SQL scripts that others wrote to test their systems: tables with rows, and SELECTs over them.

No text of them is copied here. Spark's come with the archive of tests that Spark publishes to
Maven's central repository; those of sqllogictest are read from a folder of the user.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SPARK_TESTS = "org.apache.spark:spark-sql_2.13:4.2.0:jar:tests"
"""The archive with Spark's own scripts: the newest that is published."""

SPARK_FOLDER = "sql-tests/inputs/"
SPARK_SCRIPTS = re.compile(r"(?!nonansi/|timestampNTZ/|typeCoercion/|ud(f|af|tf)/).*\.sql")
"""Those but for functions of users, conversions of every type to every other, and old settings."""

_CREATE_VIEW = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+)?(?:TEMPORARY|TEMP)\s+VIEW\s+`?(\w+)`?\s*"
    r"(?:\(([\w\s,]+)\))?\s*AS\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
_CREATE_TABLE = re.compile(
    r"CREATE\s+TABLE\s+(\w+)\s*\((.*?)\)\s*(?:USING\s+\w+)?\s*$", re.IGNORECASE | re.DOTALL
)
_INSERT = re.compile(
    r"INSERT\s+INTO\s+(?:TABLE\s+)?(\w+)\s*(?:\(([\w\s,]+)\))?\s*VALUES\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_QUERY = re.compile(r"\(*\s*(SELECT|WITH|VALUES|FROM|TABLE)\b", re.IGNORECASE)
_COLUMN = re.compile(r"(?:^|,)\s*(\w+)\s+(\w+(?:\s*\([\d\s,]+\))?)[^,]*", re.DOTALL)
_SQLITE_TYPES = {"integer": "INT", "text": "STRING", "varchar": "STRING"}


@dataclass(frozen=True)
class Script:
    """A script: the SELECT that has the rows of each table, and its own SELECTs in their order."""

    name: str
    tables: Mapping[str, str]
    queries: tuple[str, ...]

    def readable(self, names: set[str]) -> Iterator[tuple[int, str]]:
        """Yield the SELECTs that name one of some tables, with their numbers from 1 on."""
        for number, query in enumerate(self.queries, start=1):
            if names & set(re.findall(r"\w+", query.lower())):
                yield number, query


class _Maker:
    """Makes a script of its statements."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tables: dict[str, str] = {}
        self._columns: dict[str, dict[str, str]] = {}
        self._rows: dict[str, list[tuple[list[str], str]]] = {}
        self._queries: list[str] = []

    def take(self, statement: str) -> None:
        """Take a statement; what is no table, no row and no query changes nothing."""
        if match := _CREATE_VIEW.match(statement):
            name, columns, query = match.groups()
            named = f" ({columns})" if columns else ""
            self._tables[name.lower()] = f"SELECT * FROM ({query}) AS rows_{name}{named}"
        elif match := _CREATE_TABLE.match(statement):
            name, columns = match.groups()
            self._columns[name.lower()] = {
                column: _SQLITE_TYPES.get(kind.split("(")[0].strip().lower(), kind)
                for column, kind in _COLUMN.findall(columns)
                if column.upper() not in ("PRIMARY", "UNIQUE", "CONSTRAINT")
            }
        elif match := _INSERT.match(statement):
            name, columns, values = match.groups()
            every = list(self._columns.get(name.lower(), {}))
            named_columns = re.findall(r"\w+", columns) if columns else every
            self._rows.setdefault(name.lower(), []).append((named_columns, values))
        elif _QUERY.match(statement):
            self._queries.append(statement)

    def script(self) -> Script:
        """Return the script."""
        tables = dict(self._tables)
        for name, columns in self._columns.items():
            tables[name] = " UNION ALL ".join(
                [
                    _typed(columns, f"VALUES {', '.join(self._empty(columns))}") + " WHERE false",
                    *(
                        _typed(columns, f"VALUES {values}", named)
                        for named, values in self._rows.get(name, [])
                    ),
                ]
            )
        return Script(self._name, tables, tuple(self._queries))

    @staticmethod
    def _empty(columns: Mapping[str, str]) -> list[str]:
        return [f"({', '.join(['NULL'] * len(columns))})"]


def _typed(columns: Mapping[str, str], values: str, named: list[str] | None = None) -> str:
    """Return a SELECT of values with the names and types of the columns of a table."""
    lowered = [name.lower() for name in named or columns]
    outputs = []
    for name, kind in columns.items():
        position = lowered.index(name.lower()) + 1 if name.lower() in lowered else 0
        value = f"col{position}" if position else "NULL"
        outputs.append(f"CAST({value} AS {kind}) AS {name}")
    return f"SELECT {', '.join(outputs)} FROM {values}"


def parse_spark(name: str, text: str) -> Script:
    """Return a script of Spark."""
    maker = _Maker(name)
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    for statement in re.split(r";\s*(?:--[^\n]*)?(?:\n|$)", "\n".join(lines)):
        maker.take(statement.strip())
    return maker.script()


def parse_sqllogictest(name: str, text: str) -> Script:
    """Return a script of sqllogictest; its results are those of another dialect, and left out."""
    maker = _Maker(name)
    for record in re.split(r"\n\s*\n", text):
        lines = [line for line in record.splitlines() if line and not line.startswith("#")]
        while lines and re.match(r"(skipif|onlyif|hash-threshold|halt)\b", lines[0]):
            lines = [] if lines[0].startswith("onlyif") else lines[1:]
        if lines and re.match(r"(statement ok|query)\b", lines[0]):
            maker.take("\n".join(lines[1:]).split("\n----")[0].strip())
    return maker.script()


def spark_archive(folder: Path) -> Path | None:
    """Return Spark's archive of tests in a folder; None if it cannot be had."""
    _, artifact, version, *_ = SPARK_TESTS.split(":")
    archive = folder / f"{artifact}-{version}-tests.jar"
    if not archive.exists() and shutil.which("mvn"):
        copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={SPARK_TESTS}"]
        subprocess.run([*copy, f"-DoutputDirectory={folder}"], capture_output=True, timeout=300)
    return archive if archive.exists() else None


def spark_scripts(archive: Path) -> dict[str, Script]:
    """Return the scripts of an archive by name."""
    scripts = {}
    with zipfile.ZipFile(archive) as files:
        for path in sorted(files.namelist()):
            name = path.removeprefix(SPARK_FOLDER)
            if path.startswith(SPARK_FOLDER) and SPARK_SCRIPTS.fullmatch(name):
                scripts[name] = parse_spark(name, files.read(path).decode())
    return scripts
