"""Reading the statements that relstate defines, word by word.

Promises: positions are those of the text, so that parts of it can be used as written.
Does not know: what any statement means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from relstate.storage import errors, syntax

_PUNCTUATION = re.compile(r"\W+")

excerpt = syntax.excerpt


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of one statement, without a closing semicolon.

    UnsupportedStatementError if it is not a text, not SQL, empty, or several statements.
    """
    if not isinstance(text, str):
        raise errors.UnsupportedStatementError(
            f"a statement is SQL in a str, and {text!r} is not text"
        )
    try:
        text.encode()
        tokens = syntax.tokenize(text)
    except UnicodeEncodeError as error:
        raise errors.UnsupportedStatementError(
            f"cannot read {excerpt(text)}: {text[error.start]!r} is a lone surrogate, half of a "
            "character; leave it out"
        ) from None
    except SqlglotError as error:
        raise unreadable_error(text, error) from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise errors.UnsupportedStatementError("the statement is empty")
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise errors.UnsupportedStatementError(
            "there is a ';' within the text; run one statement at a time"
        )
    return tokens


def unreadable_error(text: str, error: SqlglotError) -> errors.UnsupportedStatementError:
    """Return the error for a statement that sqlglot did not read."""
    reason = syntax.describe_read_error(error)
    return errors.UnsupportedStatementError(f"cannot read {excerpt(text)}: {reason}")


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL, in backticks."""
    return "`" + name.replace("`", "``") + "`"


class TokenReader:
    """Reads the tokens of a statement from the first to the last. For one thread."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._next = 0

    @property
    def token(self) -> Token | None:
        """The next token; None at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def next_is(self, *words: str) -> bool:
        """Return whether these words (or signs) come next, in any case."""
        return self._words_ahead(words) is not None

    def accept(self, *words: str) -> bool:
        """Read these words if they come next, and return whether they did."""
        count = self._words_ahead(words)
        self._next += count or 0
        return count is not None

    def expect(self, *words: str) -> None:
        """Read these words. UnsupportedStatementError if something else comes next."""
        if not self.accept(*words):
            raise self.unexpected(" ".join(words))

    def name(self, description: str) -> str:
        """Read an identifier of one part and return it without its quotes."""
        token = self.token
        if self.next_is("IF"):
            self._check_existence_words()
        name = self.part(description)
        if token is not None and self.next_is("."):
            raise errors.UnsupportedStatementError(
                f"{description} has one part, as a store has no catalogs or schemas; found "
                f"{excerpt(self.text[token.start :])}"
            )
        return name

    def _check_existence_words(self) -> None:
        """UnsupportedStatementError for IF EXISTS or IF NOT EXISTS that is misspelt."""
        words = [token.text.upper() for token in self._tokens[self._next + 1 : self._next + 3]]
        if words and (words[0].startswith("NOT") or words[0].startswith("EXIST")):
            correct = "IF NOT EXISTS" if words[0].startswith("NOT") else "IF EXISTS"
            raise self.unexpected(correct)

    def part(self, description: str) -> str:
        """Read one part of an identifier and return it without its quotes."""
        token = self.token
        is_quoted = token is not None and token.token_type is TokenType.IDENTIFIER
        if token is None or not (is_quoted or _is_word(token)):
            raise self.unexpected(description)
        self._next += 1
        return token.text

    def skip(self) -> None:
        """Skip one token."""
        self._next += 1

    def string(self, description: str) -> str:
        """Read a string literal and return its value."""
        token = self.token
        if token is None or token.token_type is not TokenType.STRING:
            raise self.unexpected(description)
        self._next += 1
        return token.text

    def whole_number(self, description: str) -> int:
        """Read a whole number of at most 18 digits and return it."""
        token = self.token
        if token is None or token.token_type is not TokenType.NUMBER:
            raise self.unexpected(description)
        if not token.text.isdecimal() or len(token.text) > _MOST_DIGITS:
            raise self.unexpected(description)
        self._next += 1
        return int(token.text)

    def constant(self, description: str) -> tuple[str, int]:
        """Read one value, and return (its text, where that ends).

        A number, a text, a text with its type (``DATE'2026-03-01'``), a call of a function, or an
        expression in parentheses.
        """
        token = self.token
        if token is None:
            raise self.unexpected(description)
        if token.token_type in (TokenType.STRING, TokenType.NUMBER):
            self._next += 1
        elif self.next_is("("):
            self._in_parentheses()
        else:
            self.part(description)
            argument = self.token
            if argument is not None and argument.token_type is TokenType.STRING:
                self._next += 1
            elif self.next_is("("):
                self._in_parentheses()
            else:
                raise self.unexpected("a text in quotes, or (")
        end = self._tokens[self._next - 1].end + 1
        return self.text[token.start : end], end

    def bracketed(self) -> Sequence[Token]:
        """Read ``[ … ]`` and return the tokens within."""
        self.expect("[")
        start, depth = self._next, 1
        while (token := self.token) is not None:
            self._next += 1
            depth += _BRACKETS.get(token.token_type, 0)
            if depth == 0:
                return self._tokens[start : self._next - 1]
        raise self.unexpected("']'")

    def parenthesised(self) -> list[Sequence[Token]]:
        """Read ``( … , … )`` and return the tokens between its commas."""
        return _between_commas(self._in_parentheses())

    def separated(self, *stops: str) -> list[Sequence[Token]]:
        """Read up to one of some words, or the end, and return the tokens between commas."""
        return _between_commas(self.until(*stops))

    def definitions(self) -> list[Sequence[Token]]:
        """Read the definitions of columns, in parentheses or up to the end; return their tokens.

        A comma in a type, as in ``STRUCT<a: INT, b: INT>``, does not separate columns.
        """
        tokens = self._in_parentheses() if self.next_is("(") else self.rest()
        return _between_commas(tokens, has_types=True)

    def _in_parentheses(self) -> Sequence[Token]:
        self.expect("(")
        start, depth = self._next, 1
        while (token := self.token) is not None:
            self._next += 1
            depth += _DEPTH.get(token.token_type, 0)
            if depth == 0:
                return self._tokens[start : self._next - 1]
        raise self.unexpected("')'")

    def until(self, *stops: str) -> Sequence[Token]:
        """Read up to one of some words, or the end, and return the tokens.

        Words within parentheses, or between CASE and END, do not count, nor does the FROM of
        ``IS DISTINCT FROM``.
        """
        start, depth, cases = self._next, 0, 0
        while (token := self.token) is not None:
            is_outside = depth == cases == 0 and not self._is_distinct_from(start)
            if is_outside and any(self.next_is(*stop.split()) for stop in stops):
                break
            depth += _DEPTH.get(token.token_type, 0)
            cases = max(0, cases + _CASE_DEPTH.get(token.token_type, 0))
            self._next += 1
        return self._tokens[start : self._next]

    def _is_distinct_from(self, start: int) -> bool:
        """Return whether the next token is the last of the operator ``IS DISTINCT FROM``."""
        is_after = self._next > start and self.next_is("FROM")
        return is_after and self._tokens[self._next - 1].text.upper() == "DISTINCT"

    def rest(self) -> Sequence[Token]:
        """Read to the end and return the tokens."""
        return self.until()

    def source(self, tokens: Sequence[Token]) -> str:
        """Return the text of some tokens; there must be one."""
        if not tokens:
            raise errors.UnsupportedStatementError(
                f"incomplete list or missing expression in {excerpt(self.text)}"
            )
        return self.text[tokens[0].start : tokens[-1].end + 1]

    def finish(self) -> None:
        """UnsupportedStatementError unless the statement ends here."""
        if self.token is not None:
            raise self.unexpected("the end of the statement")

    def unexpected(self, expected: str) -> errors.UnsupportedStatementError:
        """Return the error that says what was expected here, and what comes instead."""
        token = self.token
        actual = "the end of the statement" if token is None else excerpt(self.text[token.start :])
        return errors.UnsupportedStatementError(
            f"expected {expected} but found {actual} in {excerpt(self.text)}"
        )

    def _words_ahead(self, words: Sequence[str]) -> int | None:
        """Return how many tokens these words are, None if they do not come next.

        The tokenizer makes one token of some pairs, such as NOT NULL.
        """
        position, left = self._next, list(words)
        while left:
            if position >= len(self._tokens):
                return None
            token = self._tokens[position]
            if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
                return None
            for word in token.text.upper().split():
                if not left or left.pop(0) != word:
                    return None
            position += 1
        return position - self._next


# So that it fits 64 bits.
_MOST_DIGITS = 18
_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_TYPES_WITH_PARTS = (TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT)
_BRACKETS = {TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}
_CASE_DEPTH = {TokenType.CASE: 1, TokenType.END: -1}


def _between_commas(tokens: Sequence[Token], *, has_types: bool = False) -> list[Sequence[Token]]:
    """Return the tokens between commas that are in no parentheses.

    ``has_types``: nor in the angle brackets of a type.
    """
    items: list[list[Token]] = [[]]
    depth = type_depth = 0
    before = None
    for token in tokens:
        kind = token.token_type
        depth += _DEPTH.get(kind, 0)
        if has_types and kind is TokenType.LT and before in _TYPES_WITH_PARTS:
            type_depth += 1
        elif type_depth and kind is TokenType.GT:
            type_depth -= 1
        if depth == type_depth == 0 and kind is TokenType.COMMA:
            items.append([])
        else:
            items[-1].append(token)
        before = kind
    return list(items)


def _is_word(token: Token) -> bool:
    return token.token_type not in (TokenType.STRING, TokenType.NUMBER) and not (
        _PUNCTUATION.fullmatch(token.text)
    )
