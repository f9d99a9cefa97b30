"""Spark's DDL for data types and columns, read into types.

Promises: a text means what it means to Spark 4.3: case-insensitive names with all their synonyms,
backticks, both ``name type`` and ``name: type``, NOT NULL and COMMENT.
CHAR(n) and VARCHAR(n) are read as STRING: relstate checks no lengths.
Does not know: statements, keys, tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from ..errors import SchemaError, UnsupportedTypeError
from . import types as t

MAX_DEPTH = 100

_Item = TypeVar("_Item")

_PLAIN: dict[str, t.DataType] = {
    "BOOLEAN": t.Boolean(),
    "TINYINT": t.TinyInt(),
    "BYTE": t.TinyInt(),
    "SMALLINT": t.SmallInt(),
    "SHORT": t.SmallInt(),
    "INT": t.Int(),
    "INTEGER": t.Int(),
    "BIGINT": t.BigInt(),
    "LONG": t.BigInt(),
    "FLOAT": t.Float(),
    "REAL": t.Float(),
    "DOUBLE": t.Double(),
    "BINARY": t.Binary(),
    "DATE": t.Date(),
    "VARIANT": t.Variant(),
    "VOID": t.Void(),
}

_TOKEN = re.compile(
    r"""(?:\s|--[^\n]*|/\*.*?\*/)*(?:
      (?P<quoted>`(?:[^`]|``)*`)
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<word>[A-Za-z0-9_]+)
    | (?P<sign>[<>(),:])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def parse_type(text: str) -> t.DataType:
    """Return the data type that ``text`` names in Spark's DDL.

    SchemaError if the text is not DDL, UnsupportedTypeError for a type that is not known here.
    """
    t.check_text("a data type", text)
    parser = _Parser(text)
    data_type = parser.data_type()
    parser.expect_end()
    return data_type


def parse_columns(text: str) -> tuple[t.Field, ...]:
    """Return the columns of a list like ``id BIGINT NOT NULL, `odd name` STRING COMMENT 'x'``.

    SchemaError if the text is not a list of columns, UnsupportedTypeError for an unknown type.
    """
    t.check_text("a list of columns", text)
    parser = _Parser(text)
    fields = parser.separated(parser.field)
    parser.expect_end()
    return fields


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def data_type(self) -> t.DataType:
        """Read one type."""
        token = self._take()
        if token.kind != "word":
            self._fail(token, "a data type")
        name = token.text.upper()
        if name in _PLAIN:
            return _PLAIN[name]
        special = _SPECIAL.get(name)
        if name in _SERIAL:
            raise UnsupportedTypeError(f"{token.text!r} in {self._text!r}: {_NO_NUMBERS}")
        if special is None:
            raise UnsupportedTypeError(
                f"{token.text!r} in {self._text!r} is not a data type that relstate stores"
            )
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SchemaError(f"a data type is nested more than {MAX_DEPTH} levels deep")
        data_type = special(self)
        self._depth -= 1
        return data_type

    def field(self) -> t.Field:
        """Read ``name[:] type [NOT NULL] [COMMENT 'text']``."""
        name = self._name()
        self._skip(":")
        data_type = self.data_type()
        nullable = True
        if self._skip("NOT"):
            self._expect("NULL")
            nullable = False
        comment = self._comment() if self._skip("COMMENT") else None
        return t.Field(name, data_type, nullable, comment)

    def separated(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        """Read one or more of what ``item`` reads, with commas between."""
        items = [item()]
        while self._skip(","):
            items.append(item())
        return tuple(items)

    def expect_end(self) -> None:
        """SchemaError unless everything has been read."""
        token = self._take()
        if token.kind != "end":
            self._fail(token, "the end")

    def decimal(self) -> t.DataType:
        """Read what follows DECIMAL."""
        return t.Decimal(*self._numbers(most=2))

    def time(self) -> t.DataType:
        """Read what follows TIME."""
        data_type = t.Time(*self._numbers(most=1))
        self._skip_words("WITHOUT", "TIME", "ZONE")
        return data_type

    def timestamp(self) -> t.DataType:
        """Read what follows TIMESTAMP."""
        self.timestamp_ltz()
        if self._skip_words("WITHOUT", "TIME", "ZONE"):
            return t.TimestampNtz()
        self._skip_words("WITH", "LOCAL", "TIME", "ZONE")
        return t.Timestamp()

    def timestamp_ltz(self) -> t.DataType:
        """Read what follows TIMESTAMP_LTZ."""
        self._microseconds()
        return t.Timestamp()

    def timestamp_ntz(self) -> t.DataType:
        """Read what follows TIMESTAMP_NTZ."""
        self._microseconds()
        return t.TimestampNtz()

    def string(self) -> t.DataType:
        """Read what follows STRING."""
        if not self._skip("COLLATE"):
            return t.String()
        token = self._peek()
        return t.String(_collation(self._name()) or self._fail(token, "a collation"))

    def limited_string(self) -> t.DataType:
        """Read what follows CHAR or VARCHAR: a length, which is not kept."""
        if not self._numbers(most=1):
            self._fail(self._peek(), "a length in parentheses")
        return t.String()

    def interval(self) -> t.DataType:
        """Read what follows INTERVAL."""
        start = self._unit()
        if start is None:
            return t.CalendarInterval()
        end = start
        if self._skip("TO"):
            token = self._peek()
            end = self._unit() or self._fail(token, "a unit of time")
            if end == start:
                self._fail(token, "a smaller unit of time")
        if start in t.YEAR_MONTH_UNITS:
            return t.YearMonthInterval(start, end)
        return t.DayTimeInterval(start, end)

    def array(self) -> t.DataType:
        """Read what follows ARRAY."""
        self._expect("<")
        element = self.data_type()
        self._expect(">")
        return t.Array(element)

    def map(self) -> t.DataType:
        """Read what follows MAP."""
        self._expect("<")
        key = self.data_type()
        self._expect(",")
        value = self.data_type()
        self._expect(">")
        return t.Map(key, value)

    def struct(self) -> t.DataType:
        """Read what follows STRUCT."""
        self._expect("<")
        if self._skip(">"):
            return t.Struct(())
        fields = self.separated(self.field)
        self._expect(">")
        return t.Struct(fields)

    def _microseconds(self) -> None:
        """Skip the precision of a timestamp; Spark has only one."""
        opening = self._peek()
        if self._numbers(most=1) not in ((), (6,)):
            self._fail(opening, "(6), the one precision of timestamps")

    def _numbers(self, most: int) -> tuple[int, ...]:
        if not self._skip("("):
            return ()
        opening = self._peek()
        numbers = self.separated(self._number)
        self._expect(")")
        if len(numbers) > most:
            self._fail(opening, f"at most {most} numbers")
        return numbers

    def _number(self) -> int:
        token = self._take()
        if not (token.text.isascii() and token.text.isdigit()) or len(token.text) > 9:
            self._fail(token, "a number")
        return int(token.text)

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word" or token.text.isdigit():
            self._fail(token, "a name")
        return token.text

    def _unit(self) -> str | None:
        unit = self._peek().text.lower()
        if unit not in t.YEAR_MONTH_UNITS + t.DAY_TIME_UNITS:
            return None
        self._take()
        return unit

    def _comment(self) -> str:
        """Read a string literal; several side by side are one."""
        # The parser of SQL is loaded by those who need it: most columns have no comment.
        from ..syntax import tokenize

        first = last = self._take()
        if first.kind != "text":
            self._fail(first, "a comment in quotes")
        while self._peek().kind == "text":
            last = self._take()
        (literal,) = tokenize(self._text[first.start : last.start + len(last.text)])
        value: str = literal.text
        return value

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _skip(self, text: str) -> bool:
        token = self._peek()
        if token.kind not in ("word", "sign") or token.text.upper() != text:
            return False
        self._take()
        return True

    def _skip_words(self, first: str, *rest: str) -> bool:
        """Skip several words if the first is next; then the others must follow."""
        if not self._skip(first):
            return False
        for word in rest:
            self._expect(word)
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            self._fail(self._peek(), repr(text))

    def _fail(self, token: _Token, expected: str) -> NoReturn:
        token_text = repr(token.text) if token.text else "nothing"
        raise SchemaError(
            f"expected {expected} at position {token.start} of {self._text!r}, found {token_text}"
        )


_SERIAL = ("SERIAL", "SERIAL4", "SERIAL8", "BIGSERIAL", "SMALLSERIAL")
_NO_NUMBERS = (
    "numbers are not assigned, because writers do not wait for each other: declare BIGINT and "
    "number the rows in the statement, INSERT INTO t SELECT coalesce((SELECT max(id) FROM t), 0) + "
    "row_number() OVER (ORDER BY …), … FROM s; or declare STRING and write uuid(); a table without "
    "a primary key has unique ascending ids in its hidden column _row_id"
)

_SPECIAL: dict[str, Callable[[_Parser], t.DataType]] = {
    "DECIMAL": _Parser.decimal,
    "DEC": _Parser.decimal,
    "NUMERIC": _Parser.decimal,
    "TIME": _Parser.time,
    "TIMESTAMP": _Parser.timestamp,
    "TIMESTAMP_LTZ": _Parser.timestamp_ltz,
    "TIMESTAMP_NTZ": _Parser.timestamp_ntz,
    "STRING": _Parser.string,
    "CHAR": _Parser.limited_string,
    "CHARACTER": _Parser.limited_string,
    "VARCHAR": _Parser.limited_string,
    "INTERVAL": _Parser.interval,
    "ARRAY": _Parser.array,
    "MAP": _Parser.map,
    "STRUCT": _Parser.struct,
}


_COLLATION = re.compile(
    r"(?P<base>UTF8_BINARY|UTF8_LCASE|UNICODE|[A-Z]{2,3}(?:_[A-Z]{4})?(?:_[A-Z]{3})?)"
    r"(?P<rules>(?:_(?:CS|CI|AS|AI|RTRIM))*)"
)
_LOCALE_CASES: dict[int, Callable[[str], str]] = {3: str.upper, 4: str.title}


def _collation(name: str) -> str | None:
    """Return the name of a collation as Spark spells it; None for another text."""
    match = _COLLATION.fullmatch(name.upper())
    if match is None:
        return None
    base, rules = match["base"], match["rules"].split("_")
    if base not in ("UTF8_BINARY", "UTF8_LCASE", "UNICODE"):
        language, *parts = base.split("_")
        base = "_".join([language.lower(), *(_LOCALE_CASES[len(part)](part) for part in parts)])
    return "_".join([base, *(rule for rule in ("CI", "AI", "RTRIM") if rule in rules)])


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise SchemaError(f"cannot read {text[position:].strip()[:20]!r} in {text!r}")
        kind = match.lastgroup
        tokens.append(_Token(kind, match.group(kind), match.start(kind)))
        position = match.end()
    return tokens
