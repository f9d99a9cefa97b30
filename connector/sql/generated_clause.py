"""The clause of a column whose values are computed: ``GENERATED ALWAYS AS (expression)``.

Does not know: what is done with the expression, or which ones there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType

from relstate.connector.syntax.tokens import TokenReader, excerpt
from relstate.storage import errors

_IDENTITY = (
    "IDENTITY is not offered, because writers do not wait for each other to get numbers: a table "
    "without a primary key has unique ascending ids in its hidden column _row_id; for a key write "
    "uuid(), or number the rows in the statement, INSERT INTO t SELECT coalesce((SELECT max(id) "
    "FROM t), 0) + row_number() OVER (ORDER BY …), … FROM s, which runs again if others insert"
)


@dataclass(frozen=True, slots=True)
class Computed:
    """``definition``: of the column, as written without the clause, whose expression follows."""

    definition: str
    expression: str


def read_generated(reader: TokenReader, item: Sequence[Token]) -> Computed | None:
    """Read a column that is generated; None for another one.

    UnsupportedStatementError for a clause of another form, or one beside a DEFAULT.
    """
    start = generated_position(item)
    if start is None:
        return None
    clause = TokenReader(reader.text, item[start:])
    clause.expect("GENERATED")
    is_always = clause.accept("ALWAYS")
    if not is_always:
        clause.expect("BY", "DEFAULT")
    clause.expect("AS")
    if clause.accept("IDENTITY"):
        raise errors.UnsupportedStatementError(f"{excerpt(reader.source(item))}: {_IDENTITY}")
    if not is_always:
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: write GENERATED ALWAYS AS (expression); for a "
            "column whose value may also be given, write DEFAULT"
        )
    expression = [token for part in clause.parenthesised() for token in part]
    rest = clause.rest()
    remaining = [*item[:start], *rest]
    if "DEFAULT" in map(_word, remaining[2:]):
        raise errors.UnsupportedStatementError(
            f"{excerpt(reader.source(item))}: a column is GENERATED or has a DEFAULT, not both"
        )
    parts = [reader.source(part) for part in (item[:start], rest) if part]
    return Computed(" ".join(parts), reader.source(expression))


def generated_position(item: Sequence[Token]) -> int | None:
    """Return the position of the word GENERATED in the definition of a column; None if none."""
    words = [_word(token) for token in item]
    for index in range(2, len(item)):
        is_field = item[index - 1].text in ("<", ",", "(")
        if words[index] == "GENERATED" and not is_field:
            return index
    return None


def _word(token: Token) -> str:
    """Return a word in upper case; of what is in quotes, nothing."""
    is_quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
    return "" if is_quoted else token.text.upper()
