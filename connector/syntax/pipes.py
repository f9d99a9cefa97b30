"""Pipe syntax as SELECTs: ``FROM t |> WHERE a |> EXTEND b AS c`` as the tokens of a SELECT.

Each operator after ``|>`` is a clause of the SELECT before it where that clause may come next, and
a clause of another SELECT around it where not. A table keeps its alias through such a SELECT. Spark
takes ``|`` for the sign too where a word of an operator follows, and never for a bitwise or then.
Promises: the tokens of the text are in the result once, at their places in the text.
Does not know: whether Spark takes the result for what was written; who reads it asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import Token, TokenType
from sqlglot.errors import ParseError

from relstate.storage import syntax

PIPE = "|>"

Tokens: TypeAlias = tuple[Token, ...]

_SETS = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})
_JOINS = frozenset(
    {
        "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "ASOF",
        "LATERAL",
    }
)  # fmt: skip
_ORDERS = frozenset({"ORDER", "SORT", "DISTRIBUTE", "CLUSTER"})
_LIMITS = frozenset({"LIMIT", "OFFSET"})
_AFTER_RELATION = frozenset({"PIVOT", "UNPIVOT", "TABLESAMPLE"})
_AFTER_COLUMNS = frozenset({"GROUP", "WINDOW"})
# What ends the relations of a FROM.
_CLAUSES = _SETS | _ORDERS | _LIMITS | _AFTER_COLUMNS | {"WHERE", "HAVING", "QUALIFY", "SELECT"}
# After ``|`` they are operators to Spark, also where a column has this name (SqlBaseParser.g4).
_AFTER_SINGLE_SIGN = (
    _SETS | _JOINS | _ORDERS | _LIMITS | _AFTER_RELATION
    | {"AGGREGATE", "AS", "BIN", "DROP", "EXTEND", "SELECT", "SET", "WHERE", "WINDOW"}
)  # fmt: skip
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_QUERIES = frozenset({"SELECT", "FROM", "VALUES", "WITH", "("})
_ALL_COLUMNS = "*"


@dataclass(frozen=True)
class _Select:
    """The clauses of a SELECT as tokens; ``source`` is its FROM, empty if it has none.

    ``alias``: of its only table, by which columns may be named; empty if there is none.
    """

    source: Tokens
    alias: Tokens = ()
    columns: Tokens = ()
    where: Tokens = ()
    rest: Tokens = ()
    order: Tokens = ()
    limit: Tokens = ()
    offset: Tokens = ()

    @property
    def is_plain(self) -> bool:
        """Whether it returns all columns of its FROM, and has no clauses but WHERE."""
        return not (self.columns or self.rest or self.order or self.limit or self.offset)

    @property
    def is_joined(self) -> bool:
        """Whether it returns all rows and columns of several tables."""
        return self.is_plain and not (self.where or self.alias or _is_group(self.source))

    @property
    def tokens(self) -> Tokens:
        """All of it."""
        where = (*_made("WHERE"), *self.where) if self.where else ()
        source = (*_made("FROM"), *self.source)
        columns = self.columns or _made(f"SELECT {_ALL_COLUMNS}")
        return (*columns, *source, *where, *self.rest, *self.order, *self.limit, *self.offset)

    def around(self) -> _Select:
        """Return a SELECT of all rows and columns of this one."""
        return _Select((*_parenthesised(self.tokens), *self.alias), self.alias)

    def plain(self) -> _Select:
        """Return a SELECT without clauses but WHERE that returns the same rows."""
        return self if self.is_plain else self.around()

    def bare(self) -> _Select:
        """Return a SELECT without any clause that returns the same rows."""
        return self if self.is_plain and not self.where else self.around()


def with_whole_signs(tokens: Sequence[Token]) -> Tokens:
    """Return the tokens of a query with ``|>`` for each ``|`` that means this to Spark."""
    words = (*map(_word, tokens), "")
    return tuple(
        _whole_sign(token)
        if token.token_type is TokenType.PIPE and word in _AFTER_SINGLE_SIGN
        else token
        for token, word in zip(tokens, words[1:], strict=True)
    )


def _whole_sign(token: Token) -> Token:
    place = token.line, token.col, token.start, token.end
    return Token(TokenType.PIPE_GT, PIPE, *place, token.comments)


def has_pipes(tokens: Sequence[Token]) -> bool:
    """Return whether a query has an operator after ``|>``."""
    return any(token.token_type is TokenType.PIPE_GT for token in tokens)


def without_pipes(tokens: Sequence[Token]) -> Tokens:
    """Return the tokens of a query whose operators after ``|>`` are clauses of SELECTs.

    ParseError for an operator that Spark does not have.
    """
    if not has_pipes(tokens):
        return tuple(tokens)
    return _rewritten(_nested(tokens))


def _nested(tokens: Sequence[Token]) -> Tokens:
    """Return tokens in which no parentheses have an operator after ``|>`` directly in them."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        result.append(token)
        index += 1
        if token.token_type is TokenType.L_PAREN:
            end = _end_of_group(tokens, index - 1)
            result += without_pipes(tokens[index : end - 1])
            index = end - 1
    return tuple(result)


def _end_of_group(tokens: Sequence[Token], start: int) -> int:
    """Return where the parentheses end that begin at ``start``."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].token_type is TokenType.L_PAREN
        depth -= tokens[index].token_type is TokenType.R_PAREN
        if depth == 0:
            return index + 1
    return len(tokens)


def _is_group(tokens: Tokens) -> bool:
    """Return whether tokens are in one pair of parentheses."""
    is_open = bool(tokens) and tokens[0].token_type is TokenType.L_PAREN
    return is_open and _end_of_group(tokens, 0) == len(tokens)


def _rewritten(tokens: Tokens) -> Tokens:
    """Return a query, and what comes before it, of whose operators none is in parentheses."""
    base, *steps = _split_before(tokens, frozenset({PIPE}))
    if not steps:
        return tokens
    start = _start_of_query(base)
    select = _base(base[start:])
    for step in steps:
        # The sign is the first token.
        operator, *following = _split_before(step[1:], _SETS)
        select = _apply(select, operator)
        for operation in following:
            select = _combined(select, operation)
    return (*base[:start], *select.tokens)


def _start_of_query(tokens: Tokens) -> int:
    """Return where the query begins after a WITH."""
    if not tokens or _word(tokens[0]) != "WITH":
        return 0
    for word, position in _outer(tokens):
        is_after_group = position > 0 and tokens[position - 1].token_type is TokenType.R_PAREN
        if is_after_group and word not in (",", "AS", "MAX"):
            return position
    return 0


def _base(tokens: Tokens) -> _Select:
    """Return the query before the first operator."""
    words = [_word(token) for token in tokens]
    source: Tokens = ()
    if words[:1] == ["FROM"]:
        source = tokens[1:]
    elif words[:3] == ["SELECT", _ALL_COLUMNS, "FROM"]:
        source = tokens[3:]
    if not source or any(word in _CLAUSES for word, _ in _outer(source)):
        return _Select(_parenthesised(tokens))
    return _Select(source, _alias_of(source))


def _alias_of(source: Tokens) -> Tokens:
    """Return the name of the only table or subquery of a FROM; empty if there is none."""
    is_open = source[0].token_type is TokenType.L_PAREN
    named = source[_end_of_group(source, 0) :] if is_open else source
    names = tuple(token for token in named if _word(token) != "AS")
    if not all(token.token_type in _NAMES for token in names) or len(names) not in (1, 2):
        return ()
    return names[-1:]


def _apply(select: _Select, operator: Tokens) -> _Select:
    """Return a SELECT after an operator."""
    word = _word(operator[0]) if operator else ""
    rest = operator[1:]
    if word == "WHERE":
        plain, condition = select.plain(), rest
        if plain.where:
            condition = *_parenthesised(plain.where), *_made("AND"), *_parenthesised(rest)
        return replace(plain, where=condition)
    if word == "EXTEND" and select.is_joined and "OVER" not in map(_word, rest):
        # The tables of a join keep their aliases if the columns come as those of one more input.
        return _Select((*select.source, *_made(", LATERAL (SELECT"), *rest, *_made(")")))
    if word == "EXTEND":
        return replace(select.plain(), columns=(*_made("SELECT *,"), *rest))
    if word == "SELECT":
        columns, *clauses = _split_before(operator, _AFTER_COLUMNS)
        rest = tuple(token for clause in clauses for token in clause)
        return replace(select.plain(), columns=columns, rest=rest, alias=())
    if word == "DROP":
        return replace(select.plain(), columns=(*_made("SELECT * EXCEPT ("), *rest, *_made(")")))
    if word == "SET":
        return _assigned(select, rest)
    if word == "AS":
        return _Select((*_parenthesised(select.tokens), *rest), rest)
    if word == "AGGREGATE":
        return _aggregated(select.plain(), rest)
    if word in _JOINS:
        bare = select.bare()
        return _Select((*bare.source, *operator))
    if word in _AFTER_RELATION:
        return _Select((*_parenthesised(select.tokens), *operator))
    if word in _SETS:
        return _combined(select, operator)
    return _organized(select, operator, word)


def _organized(select: _Select, operator: Tokens, word: str) -> _Select:
    """Return a SELECT after an ORDER BY, LIMIT, OFFSET or the like."""
    if word not in _ORDERS | _LIMITS:
        text = word or PIPE
        raise ParseError(f"{PIPE} {text} is not supported; write a SELECT without {PIPE}")
    clauses = {_word(clause[0]): clause for clause in _split_before(operator, _LIMITS)}
    limit, offset = clauses.pop("LIMIT", ()), clauses.pop("OFFSET", ())
    for order in clauses.values():
        select = replace(select.plain(), order=order)
    if select.limit or (select.offset and offset):
        select = select.around()
    return replace(select, limit=limit or select.limit, offset=offset or select.offset)


def _assigned(select: _Select, assignments: Tokens) -> _Select:
    """Return a SELECT in which columns have other values, one after the other."""
    for assignment in _split_by_comma(assignments):
        places = [index for word, index in _outer(assignment) if word == "="]
        if not places:
            raise ParseError(f"{PIPE} SET has a column, = and its value")
        name, value = assignment[: places[0]], assignment[places[0] + 1 :]
        columns = *_made("SELECT * REPLACE ("), *value, *_made("AS"), *name, *_made(")")
        select = replace(select.plain(), columns=columns)
    return select


def _aggregated(select: _Select, lists: Tokens) -> _Select:
    """Return the aggregates of a SELECT, the groups before them."""
    aggregates, *clauses = _split_before(lists, frozenset({"GROUP"}))
    if aggregates and _word(aggregates[0]) == "GROUP":
        aggregates, clauses = (), [aggregates]
    if not clauses:
        return replace(select, columns=(*_made("SELECT"), *aggregates), alias=())
    # GROUP BY is one token.
    groups = clauses[0][1:]
    columns = *_made("SELECT"), *groups, *(_made(",") if aggregates else ()), *aggregates
    count = len(list(_split_by_comma(groups)))
    rest = _made(f"GROUP BY {', '.join(str(number + 1) for number in range(count))}")
    return replace(select, columns=columns, rest=rest, alias=())


def _combined(select: _Select, operation: Tokens) -> _Select:
    """Return a SELECT after UNION and the like, with the query that follows."""
    count = 2 if len(operation) > 1 and _word(operation[1]) in ("ALL", "DISTINCT") else 1
    words, query = operation[:count], operation[count:]
    right = query if _is_group(query) else _parenthesised(query)
    return _Select(_parenthesised((*_parenthesised(select.tokens), *words, *right)))


def _outer(tokens: Sequence[Token]) -> Iterator[tuple[str, int]]:
    """Yield the words of tokens that are not in parentheses, with their places."""
    depth = 0
    for index, token in enumerate(tokens):
        depth -= token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET)
        if depth == 0:
            yield _word(token), index
        depth += token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)


def _split_before(tokens: Tokens, words: frozenset[str]) -> list[Tokens]:
    """Return tokens in parts, of which each but the first begins with one of some words."""
    places = [
        index for word, index in _outer(tokens) if word in words and _begins_clause(tokens, index)
    ]
    starts = [0, *places]
    ends = [*places, len(tokens)]
    return [tokens[start:end] for start, end in zip(starts, ends, strict=True)]


def _begins_clause(tokens: Tokens, index: int) -> bool:
    """Return whether a word is not the name of a column, EXCEPT (…) after a star, WITHIN GROUP."""
    before = tokens[index - 1].token_type if index else TokenType.DOT
    words = [_word(token) for token in tokens[index : index + 3]]
    if before in (TokenType.DOT, TokenType.COMMA):
        return False
    if words[0] == "EXCEPT" and before is TokenType.STAR:
        return words[1:] != ["(", *words[2:]] or words[-1] in _QUERIES
    if words[0] == "GROUP":
        return tokens[index].token_type is TokenType.GROUP_BY
    return words[0] != "WINDOW" or words[2:] == ["AS"]


def _split_by_comma(tokens: Tokens) -> Iterator[Tokens]:
    """Yield the items of a list."""
    first, *others = _split_before(tokens, frozenset({","}))
    yield first
    yield from (item[1:] for item in others)


def _word(token: Token) -> str:
    """Return a key word, or its first word, or a sign, in capitals; "" for a quoted text."""
    is_quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
    return "" if is_quoted else token.text.upper().partition(" ")[0]


def _parenthesised(tokens: Tokens) -> Tokens:
    return (*_made("("), *tokens, *_made(")"))


def _made(text: str) -> Tokens:
    """Return tokens that are not in the text of the query."""
    return tuple(syntax.tokenize(text))
