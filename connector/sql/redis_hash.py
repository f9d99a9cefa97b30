"""Hashes of Redis as typed rows: the SELECT of a view over the table of a database of Redis.

    CREATE MATERIALIZED VIEW users (id STRING, name STRING, age INT)
        USING REDIS HASH 'user:*' [DATABASE 3]

The first column has the part of the key that the star matches, the others the fields of their
names. A field that is not there, or is not of the column's type, is NULL: a client that writes such
a one must not stop the refresh.

Does not know: the store, Spark, or whether there is such a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token

from relstate.connector.syntax.tokens import TokenReader, quoted
from relstate.storage import errors

_EXAMPLE = "CREATE MATERIALIZED VIEW users (id STRING, name STRING) USING REDIS HASH 'user:*'"


def read_hash_query(reader: TokenReader, columns: Sequence[Sequence[Token]]) -> str:
    """Read what follows USING and return the SELECT of the view; ``columns``: name and type each.

    UnsupportedStatementError.
    """
    reader.expect("REDIS", "HASH")
    pattern = reader.string("the pattern of the keys, as 'user:*'")
    database = reader.whole_number("a number") if reader.accept("DATABASE") else 0
    reader.finish()
    parts = pattern.split("*")
    if len(parts) != 2:
        raise errors.UnsupportedStatementError(
            f"the pattern {pattern!r} has {len(parts) - 1} stars; write exactly one, whose text "
            f"becomes the first column: {_EXAMPLE}"
        )
    if not columns:
        raise errors.UnsupportedStatementError(
            f"the columns of the hashes are missing; name them with their types: {_EXAMPLE}"
        )
    key, *fields = [_read_column(reader.text, column) for column in columns]
    prefix, suffix = (part.encode() for part in parts)
    items = [_item(_matched(prefix, suffix), *key)]
    items += [_item(f"fields[{_binary(name.encode())}]", name, kind) for name, kind in fields]
    conditions = ["type = 'hash'", *_conditions(prefix, suffix)]
    return f"SELECT {', '.join(items)} FROM redis_{database} WHERE {' AND '.join(conditions)}"


def _read_column(text: str, tokens: Sequence[Token]) -> tuple[str, str]:
    """Return the name and the type of a column."""
    reader = TokenReader(text, tokens)
    name = reader.name("a column's name")
    if reader.token is None or reader.next_is("COMMENT"):
        raise errors.UnsupportedStatementError(
            f"column {name!r} has no type; a field of a hash is text, which is cast to the "
            f"column's type: {_EXAMPLE}"
        )
    kind = reader.source(reader.until("COMMENT"))
    if "<" in kind:
        raise errors.UnsupportedStatementError(
            f"column {name!r} cannot be {kind}, because a field of a hash is one value; make it a "
            "STRING, and parse it in a view over this one: from_json"
        )
    return name, kind


def _item(value: str, name: str, kind: str) -> str:
    """Return an item of the SELECT: bytes as a column of a type."""
    text = f"CAST({value} AS STRING)"
    match kind.upper():
        case "BINARY":
            return f"{value} AS {quoted(name)}"
        case "STRING":
            return f"{text} AS {quoted(name)}"
    return f"TRY_CAST({text} AS {kind}) AS {quoted(name)}"


def _matched(prefix: bytes, suffix: bytes) -> str:
    """Return the expression for what a star between two parts of a key matches."""
    if not suffix:
        return f"substring(key, {len(prefix) + 1})"
    return f"substring(key, {len(prefix) + 1}, octet_length(key) - {len(prefix) + len(suffix)})"


def _conditions(prefix: bytes, suffix: bytes) -> list[str]:
    """Return the conditions that the keys have to meet."""
    conditions = []
    if prefix:
        conditions.append(f"startswith(key, {_binary(prefix)})")
    if suffix:
        conditions.append(f"endswith(key, {_binary(suffix)})")
        conditions.append(f"octet_length(key) >= {len(prefix) + len(suffix)}")
    return conditions


def _binary(data: bytes) -> str:
    """Return a literal of bytes."""
    text = data.decode()
    if text.isascii() and text.isprintable() and not set("'\\") & set(text):
        return f"CAST('{text}' AS BINARY)"
    return f"X'{data.hex()}'"
