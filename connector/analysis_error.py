"""What Spark finds wrong with a query, in the names of the query.

A query reaches Spark with a temporary name for each of its tables and with only the columns that it
may need; what Spark says of unknown names would show both.

Promises: an AnalysisException stays one, with Spark's condition; for an unknown table or column it
names all tables, or all columns of the query's tables, that there are.
Does not know: how a query is planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from relstate.connector.failure import without_context_log

TABLE_NOT_FOUND = ("TABLE_OR_VIEW_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")
"""Spark's conditions for a table that it does not know."""
# What they call the name.
_NAMES = ("relationName", "identifier")
_NAME_PART = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
_COLUMN_NOT_FOUND = ("UNRESOLVED_COLUMN", "UNRESOLVED_USING_COLUMN_FOR_JOIN")
_FUNCTION_NOT_FOUND = ("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")
_ROUTINES = ("routineName", "name")
_TABLE_FUNCTIONS = ("variant_explode", "variant_explode_outer")
_TEMPORARY = re.compile(r"`?_(?:pyspark|relstate)_[0-9a-f]+`?")
# The plan, the text and the stack that Spark appends to its sentence.
_APPENDIX = re.compile(
    r"; line \d+ pos \d+;?\n.*|;\n.*|\n\n?== SQL.*|\n\n?JVM stacktrace.*", re.DOTALL
)
_PLACE = re.compile(r"; line (\d+) pos (\d+)$| \(line (\d+), pos (\d+)\)\s*$")
_CONDITION = re.compile(r"\[[A-Z_.]+\] ")


@contextmanager
def in_names_of_query(
    columns: Mapping[str, Sequence[str]],
    tables: Sequence[str],
    beginning: str = "",
    *,
    functions: Callable[[], Sequence[str]] = tuple,
) -> Iterator[None]:
    """Raise what Spark finds wrong with a query without the names that relstate gave it.

    ``columns``: of each table of the query; ``tables``: all of the store that a user made;
    ``beginning``: the text of the query that Spark has as it was written. ``functions``: returns
    the names of those that Spark has. Spark's plan, text and stack are left out, and places after
    that beginning.
    """
    try:
        with without_context_log():
            yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        parameters = error.getMessageParameters() or {}
        sentence = _sentence(condition, parameters, columns, tables)
        if sentence is None:
            sentence = _TEMPORARY.sub("a table", _APPENDIX.sub("", str(error)))
            place = _PLACE.search(sentence)
            if place is not None and not _is_within(place, beginning):
                sentence = sentence[: place.start()]
            sentence = _CONDITION.sub("", sentence, count=1)
            if condition in _FUNCTION_NOT_FOUND:
                name = next((parameters[key] for key in _ROUTINES if key in parameters), "")
                place = _PLACE.search(sentence)
                sentence = f"there is no function {name}{suggestion(name, functions())}"
                sentence += "" if place is None else place[0]
        # Its text begins with the condition.
        raise AnalysisException(sentence, condition or None, parameters) from None


def _is_within(place: re.Match[str], text: str) -> bool:
    """Return whether a line and a column of it, which count from 1 and 0, are in a text."""
    line, column = int(place[1] or place[3]), int(place[2] or place[4])
    lines = text.split("\n")
    return line < len(lines) or (line == len(lines) and column < len(lines[-1]))


def _sentence(
    condition: str,
    parameters: Mapping[str, str],
    columns: Mapping[str, Sequence[str]],
    tables: Sequence[str],
) -> str | None:
    """Return what an unknown name is and what names there are; None if it is another error."""
    if condition in TABLE_NOT_FOUND:
        name = next((parameters[key] for key in _NAMES if key in parameters), "of this name")
        plain = _plain_name(name, tables)
        if plain is not None:
            return (
                f"{name} is in a catalog or schema of Spark, where no table of the store is: a "
                f"table of the store has a name of one part, write {plain}"
            )
        table_names = ", ".join(sorted(tables)) or "none"
        return (
            f"there is no table or view {name}{suggestion(name, tables)}; the tables of the store "
            f"are: {table_names}"
        )
    if condition == "UNBOUND_SQL_PARAMETER":
        return _unbound_parameter(parameters.get("name", ""))
    routine = parameters.get("routineName", "").rpartition(".")[2].strip("`")
    if (
        condition in ("ROUTINE_NOT_FOUND", "UNRESOLVED_ROUTINE")
        and routine.lower() in _TABLE_FUNCTIONS
    ):
        return (
            f"{routine} is a function of FROM, not of LATERAL VIEW or SELECT: write FROM t, "
            f"LATERAL {routine}(…) AS e"
        )
    if condition.split(".")[0] in _COLUMN_NOT_FOUND and columns:
        name = parameters.get("objectName") or parameters.get("colName", "")
        all_columns = [column for names in columns.values() for column in names]
        if _last_part(name) in map(str.lower, all_columns):
            # The column is there, and this clause cannot read it: Spark says what it can read.
            return None
        column_lists = "; ".join(
            f"{table} ({', '.join(names)})" for table, names in columns.items()
        )
        return (
            f"there is no column {name}{suggestion(name, all_columns)}; the tables of the query "
            f"have: {column_lists}"
        )
    return None


def _unbound_parameter(name: str) -> str:
    """Return what to do about a parameter without a value; Spark names a ``?`` by its place."""
    if name.startswith("_") and name[1:].isdecimal():
        return "a parameter ? has no value: pass the values of all ? as a list, db.sql(text, [...])"
    return f"the parameter :{name} has no value: pass it in a dict, db.sql(text, {{{name!r}: ...}})"


def _plain_name(name: str, tables: Sequence[str]) -> str | None:
    """Return the table that the last part of a name of several parts names, or None."""
    parts = _NAME_PART.findall(name)
    by_lower_case = {table.lower(): table for table in tables}
    return by_lower_case.get(parts[-1].strip("`").lower()) if len(parts) > 1 else None


def _last_part(name: str) -> str:
    """Return the last part of a name of several parts, in lower case."""
    return name.rpartition(".")[2].strip("`").lower()


def function_names(spark: SparkSession) -> list[str]:
    """Return the names of all functions that a session has."""
    return [row[0] for row in spark.sql("SHOW FUNCTIONS").collect()]


def suggestion(name: str, candidates: Sequence[str]) -> str:
    """Return ``, did you mean a or b?`` for a name that is not there; nothing if none is near."""
    last = _last_part(name)
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    near = get_close_matches(last, by_lower_case, n=2)
    if not near:
        return ""
    return f", did you mean {' or '.join(by_lower_case[candidate] for candidate in near)}?"
