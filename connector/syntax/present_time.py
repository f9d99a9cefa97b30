"""The functions of Spark's SQL that give the present time, and a query at another time.

Does not know: Spark.
"""

from __future__ import annotations

from sqlglot import TokenType

from relstate.storage import types

from .parsed_query import ParsedQuery

CLOCK_FUNCTIONS: dict[str, types.DataType | None] = {
    "now": None,
    "current_timestamp": None,
    "localtimestamp": types.TimestampNtz(),
    "current_date": types.Date(),
    "curdate": types.Date(),
    "unix_timestamp": types.BigInt(),
}
"""The functions that give the present time when they have no argument, and what it is cast to.

None for a TIMESTAMP.
"""

_NAMES = (TokenType.CURRENT_DATE, TokenType.CURRENT_TIMESTAMP)
_TEXTS = (TokenType.STRING, TokenType.IDENTIFIER)


def time_text(function: str, time: str) -> str:
    """Return the expression for a function; ``time``: an expression of a TIMESTAMP."""
    data_type = CLOCK_FUNCTIONS[function]
    return time if data_type is None else f"CAST({time} AS {data_type})"


def query_at(query: ParsedQuery, time: int) -> ParsedQuery:
    """Return a query at a time, in microseconds since 1970, in place of the present one.

    Nothing else of its text changes.
    """
    parts: list[str] = []
    end = 0
    for index, token in enumerate(query.tokens):
        name = token.text.lower()
        if name not in CLOCK_FUNCTIONS or token.token_type in _TEXTS:
            continue
        following = query.tokens[index + 1 : index + 3]
        is_call = [t.token_type for t in following] == [TokenType.L_PAREN, TokenType.R_PAREN]
        if is_call or token.token_type in _NAMES:
            parts += [query.text[end : token.start], time_text(name, f"timestamp_micros({time})")]
            end = (following[-1] if is_call else token).end + 1
    return ParsedQuery.parse("".join([*parts, query.text[end:]])) if parts else query
