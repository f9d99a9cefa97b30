"""Spark's SQL, read as tokens and trees and written again: the one dialect of relstate.

sqlglot knows functions of many dialects and translates between them: what it translates it may
change. So the parser here knows the aggregates that views keep, the ranks, and what syntax forces
on it; any other function stays a name and its arguments.

Promises: string literals have the values that Spark gives them; what is parsed and written again
means to Spark what it meant before, except where the connector's analysis of a view refuses it.
Does not know: which names are columns, or their types. Importing it loads sqlglot: lookups and
tasks never do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import DialectType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from .errors import UnsupportedExpressionError

Tree: TypeAlias = exp.Expr

_SHOWN = 60
_STRINGS = (TokenType.STRING, TokenType.RAW_STRING)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_",
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")
_FUNCTIONS = (
    "ARRAY", "AVG", "COUNT", "DENSE_RANK", "MAX", "MIN", "RANK", "ROW_NUMBER", "STDDEV",
    "STDDEV_POP", "STDDEV_SAMP", "SUM", "VARIANCE", "VAR_POP", "VAR_SAMP",
)  # fmt: skip
_AGGREGATES_AS_NAMES = frozenset(
    {
        "APPROX_PERCENTILE", "LISTAGG", "MAX_BY", "MIN_BY", "PERCENTILE", "PERCENTILE_APPROX",
        "STRING_AGG",
    }
)  # fmt: skip
# Spark takes IGNORE NULLS between the parentheses of these only.
_CHOOSING = frozenset({"any_value", "first", "last"})
_FUNCTIONS_OF_UNITS = frozenset(
    {"timestampadd", "timestampdiff", "dateadd", "datediff", "date_add", "date_diff"}
)


_NEGATED_SIGNS = {TokenType.GT: TokenType.LTE, TokenType.LT: TokenType.GTE}
_INTERVAL_UNITS = frozenset(
    {
        "YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND",
        "NANOSECOND",
    }
)  # fmt: skip
_MOMENTS = {
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
    exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
}
_JOIN_PARTS = ("method", "side", "kind", "on", "using")
IS_NOT = "is_not"
"""Marks, in the ``meta`` of a NOT, that it is written as ``x IS NOT y``."""
LITERAL = "literal"
"""Marks, in the ``meta`` of a cast, that it is a literal after this word: ``DATE'2026-01-01'``."""
# Marks, in the ``meta`` of the second operand of ``>>``, that the operator is ``>>>``.
_UNSIGNED = "unsigned"
SUFFIX = "suffix"
"""Marks, in the ``meta`` of a cast, that it is a number with this suffix, as ``1.5D``."""


class _Parser(SparkParser):
    """Spark's, with few functions; a comma in FROM binds weaker than JOIN."""

    JOINS_HAVE_EQUAL_PRECEDENCE = False
    # Spark takes a join without ON and one ON TRUE for different plans.
    ADD_JOIN_ON_TRUE = False
    COLON_IS_VARIANT_EXTRACT = True
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: SparkParser.FUNCTIONS[name] for name in _FUNCTIONS},
        "MEAN": exp.Avg.from_arg_list,
        "STD": exp.Stddev.from_arg_list,
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: parse
        for name, parse in SparkParser.FUNCTION_PARSERS.items()
        if name not in _AGGREGATES_AS_NAMES
    }
    # As a CAST, it would not be the literal that Spark reads.
    TYPE_LITERAL_PARSERS: ClassVar[dict[exp.DType, Callable[..., Any]]] = {
        **SparkParser.TYPE_LITERAL_PARSERS,
        **{
            kind: lambda parser, value, kind: _literal_cast(parser, value, kind)
            for kind in _MOMENTS
        },
        exp.DType.TIME: lambda _parser, value, _type: exp.Var(this=f"TIME{text_of(value)}"),
    }
    # sqlglot leaves out a +, which casts a string to a number.
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda parser: _positive(parser._parse_unary()),
    }
    # Spark has no list comprehension: FOR comes after the aggregates of a PIVOT.
    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        kind: parse
        for kind, parse in SparkParser.RANGE_PARSERS.items()
        if kind is not TokenType.FOR
    }

    def build_cast(self, strict: bool, **kwargs: Any) -> Any:
        """Return a cast; mark that of a number with a suffix, whose tokens are one in the text."""
        kind = self._prev
        cast = super().build_cast(strict, **kwargs)
        if self._index > 1 and self._tokens[self._index - 2].start == kind.start:
            cast.meta[SUFFIX] = kind.text.upper()
        return cast

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        """Parse a join; JOIN alone is an INNER JOIN: without a kind it would be a comma."""
        is_comma = self._match(TokenType.COMMA, advance=False)
        join = super()._parse_join(*args, **kwargs)
        if join is not None and not is_comma and not any(join.args.get(p) for p in _JOIN_PARTS):
            join.set("kind", "INNER")
        return join

    def _parse_join_parts(self) -> Any:
        """Parse the words before JOIN: in Spark, ASOF comes after the side and the kind."""
        method, side, kind = super()._parse_join_parts()
        if method is None and self._match(TokenType.ASOF):
            method = self._prev
        return method, side, kind

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> Any:
        """Parse an interval; one of several units, as ``INTERVAL 1 DAY 2 HOURS``, stays a text."""
        start = self._curr
        tree: Tree | None = super()._parse_interval(require_interval, parse_function_unit)
        if isinstance(tree, exp.Interval) and _is_positive(tree.this):
            tree.set("this", tree.this.expressions[0])
        if isinstance(tree, exp.Interval | exp.Add):
            is_longer = isinstance(tree, exp.Add)
            while self._match_part_of_interval():
                is_longer = True
            if is_longer:
                return exp.Var(this=self._find_sql(start, self._prev))
        return tree

    def _match_part_of_interval(self) -> bool:
        """Read one more value of an interval and its unit, if they are next."""
        index = self._index
        self._match_set((TokenType.PLUS, TokenType.DASH))
        if self._match_set((TokenType.NUMBER, TokenType.STRING)):
            unit = self._curr
            if unit.text.upper().removesuffix("S") in _INTERVAL_UNITS:
                self._advance()
                return True
        self._retreat(index)
        return False

    def _parse_colon_as_variant_extract(self, this: Tree | None) -> Tree | None:
        """Parse the path into a VARIANT after a colon, which stays a text, and what follows it."""
        if this is None or not self._match(TokenType.COLON):
            return this
        start = self._curr
        if not self._match(TokenType.L_BRACKET, advance=False):
            self._parse_id_var(any_token=True)
        while True:
            if self._match(TokenType.L_BRACKET):
                self._advance()
                if not self._match(TokenType.R_BRACKET):
                    self.raise_error("Expecting ]")
            elif self._match(TokenType.DOT):
                self._parse_id_var(any_token=True)
            else:
                break
        path = exp.Var(this=self._find_sql(start, self._prev))
        extract = self._parse_column_ops(exp.Slice(this=this, expression=path))
        return self._parse_colon_as_variant_extract(extract)

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
        """Parse CUBE or ROLLUP, over conditions, too."""
        tree = super()._parse_cube_or_rollup(with_prefix=True)
        if tree is not None and not with_prefix:
            tree.set("expressions", self._parse_wrapped_csv(self._parse_disjunction))
        return tree

    def _parse_grouping_set(self) -> Tree | None:
        """Parse one of the GROUPING SETS, which may be a condition."""
        tree: Tree | None = (
            self._parse_grouping_sets() or self._parse_cube_or_rollup() or self._parse_disjunction()
        )
        return tree

    def _parse_term(self, *args: Any, **kwargs: Any) -> Tree | None:
        """Parse a sum; mark one after ``>>>``, of which sqlglot has read ``>>``."""
        is_unsigned = self._is_third_sign() and self._match(TokenType.GT)
        tree: Tree | None = super()._parse_term(*args, **kwargs)
        if tree is not None and is_unsigned:
            tree.meta[_UNSIGNED] = True
        return tree

    def _is_third_sign(self) -> bool:
        """Return whether the next token is the third one of ``>>>``."""
        signs = self._tokens[max(self._index - 2, 0) : self._index + 1]
        are_signs = len(signs) == 3 and all(sign.token_type is TokenType.GT for sign in signs)
        return are_signs and signs[2].start == signs[0].start + 2

    def _parse_types(self, *args: Any, **kwargs: Any) -> Tree | None:
        """A collation after STRING is a name, and not a column."""
        data_type = super()._parse_types(*args, **kwargs)
        for part in () if data_type is None else data_type.find_all(exp.DataType):
            collation = part.args.get("collate")
            if isinstance(collation, exp.Column):
                part.set("collate", exp.var(collation.name))
        return data_type

    def _parse_pivot_aggregation(self) -> Tree | None:
        """Parse an aggregate of a PIVOT, which is an expression in Spark."""
        tree: Tree | None = self._parse_expression()
        return tree

    def _parse_is(self, this: Tree | None) -> Tree | None:
        """Parse what follows IS; mark IS NOT, of which the tree is that of NOT … IS."""
        tree: Tree | None = super()._parse_is(this)
        if isinstance(tree, exp.Not):
            tree.meta[IS_NOT] = True
        return tree


def _literal_cast(parser: SparkParser, value: Tree, data_type: exp.DataType) -> Tree:
    """Return a date or a time in quotes after its type as a marked cast."""
    cast: Tree = parser.expression(exp.Cast(this=value, to=data_type))
    if isinstance(value, exp.Literal):
        cast.meta[LITERAL] = _MOMENTS[data_type.this]
    return cast


def _positive(operand: Tree | None) -> Tree | None:
    """Return an expression after a +; that of a number is the number."""
    number = operand
    while isinstance(number, exp.Paren | exp.Neg):
        number = number.this
    is_number = isinstance(number, exp.Literal) and number.is_number
    if number is None or is_number or SUFFIX in number.meta:
        return operand
    return exp.Anonymous(this="positive", expressions=[operand])


def _is_positive(tree: Tree | None) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name == "positive"


def _values_of_star(select: exp.Select) -> list[Tree]:
    """Return the values after REPLACE of a SELECT of one star; empty for any other SELECT."""
    columns = select.expressions
    is_star = len(columns) == 1 and isinstance(columns[0], exp.Star)
    return list(columns[0].args.get("replace") or ()) if is_star else []


def _variant_path_sql(generator: SparkGenerator, tree: Tree) -> str:
    return f"{generator.sql(tree, 'this')}:{generator.sql(tree, 'expression')}"


class _Generator(SparkGenerator):
    """Spark's, which writes a query as it was read."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[Tree]]] = set()
    SUPPORTS_TEMPORAL_PRECISION = True
    TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
        kind: name for kind, name in SparkGenerator.TYPE_MAPPING.items() if kind != exp.DType.TIME
    }
    TRANSFORMS: ClassVar[dict[type[Tree], Callable[..., str]]] = {
        kind: write
        for kind, write in SparkGenerator.TRANSFORMS.items()
        if kind not in (exp.Select, exp.From, exp.Pivot)
    } | {exp.Slice: _variant_path_sql}

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """Return the text of a cast; a number with a suffix is what Spark takes for a literal."""
        suffix = expression.meta.get(SUFFIX)
        return f"{expression.name}{suffix}" if suffix else super().cast_sql(expression, safe_prefix)

    def select_sql(self, expression: exp.Select) -> str:
        """Return the text of a SELECT; one that gives columns other values has them after |>."""
        values = _values_of_star(expression)
        if not values:
            return super().select_sql(expression)
        all_columns = expression.copy()
        all_columns.set("expressions", [exp.Star()])
        assignments = (f"{self.sql(v, 'alias')} = {self.sql(v, 'this')}" for v in values)
        return f"{super().select_sql(all_columns)} |> SET {', '.join(assignments)}"

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        """Return the text of a join, ASOF after its side and its kind."""
        if expression.method == "ASOF":
            words = expression.side, expression.kind, "ASOF JOIN"
            join_op = " ".join(filter(None, words))
        return super().join_sql(expression, join_op)


class Dialect(Spark):
    """Spark's, with no function known that need not be."""

    Parser = _Parser
    Generator = _Generator

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """Return the tokens of a text, each string literal as one of them, with its value."""
        surrogate = _SURROGATE.search(sql)
        if surrogate is not None:
            raise TokenError(f"U+{ord(surrogate[0]):X} is half of a character, a surrogate")
        tokens: list[Token] = []
        is_raw = False
        try:
            read_tokens = super().tokenize(sql, dialect)
        except TokenError as error:
            raise TokenError(_unclosed(sql) or str(error)) from None
        for token in read_tokens:
            source = sql[token.start : token.end + 1]
            if token.token_type is TokenType.STRING and "\\" in source:
                token.text = _unescaped(source[1:-1])
            if tokens and token.token_type in _STRINGS and tokens[-1].token_type in _STRINGS:
                _append_string(tokens[-1], token, sql, is_raw)
            else:
                tokens.append(token)
            is_raw = token.token_type is TokenType.RAW_STRING
        has_asof = any(token.token_type is TokenType.ASOF for token in tokens)
        for token, following in pairwise(tokens):
            if following.token_type is not TokenType.L_PAREN:
                continue
            # The clause names a window first; what has arguments is the function.
            if token.token_type is TokenType.WINDOW:
                token.token_type = TokenType.VAR
            elif has_asof and token.text.upper() == "MATCH_CONDITION":
                token.token_type = TokenType.MATCH_CONDITION
        for token in tokens:
            if token.token_type is TokenType.RAW_STRING:
                token.token_type = TokenType.STRING
            elif token.token_type is TokenType.STRING and _SURROGATE.search(token.text):
                token.text = _without_surrogates(token.text)
        return tokens


_CLOSED = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
    r"""|--[^\n]*|/\*.*?\*/|(?P<open>['"`]|/\*)|.""",
    re.DOTALL,
)


def _unclosed(sql: str) -> str | None:
    """Return which quote or comment has no end, and where it begins; None if all have one."""
    for match in _CLOSED.finditer(sql):
        if match["open"]:
            before = sql[: match.start()].split("\n")
            return (
                f"what begins with {match['open']} at line {len(before)}, column "
                f"{len(before[-1]) + 1}, has no end"
            )
    return None


def _unescaped(body: str) -> str:
    """Return the value of what is between the quotes of a string literal, as Spark reads it.

    It is in UTF-16, as in Java: a character may be two surrogates.
    """
    return _ESCAPE.sub(_unescape, body)


def _unescape(escape: re.Match[str]) -> str:
    short, long, octal, character = escape.groups()
    if character is not None:
        return _ESCAPED.get(character, character)
    code = int(octal, 8) if octal is not None else int(short or long, 16)
    if code < 0x10000:
        return chr(code)
    # There are no characters above 0x10FFFF. Spark computes two surrogates, in 16 bits each.
    high, low = divmod(code - 0x10000, 0x400)
    return chr((high + 0xD800) & 0xFFFF) + chr(low + 0xDC00)


def _without_surrogates(text: str) -> str:
    """Return a text in UTF-16 with its characters whole, and `?` for halves, as Java has it."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub("?", whole)


def _append_string(first: Token, second: Token, text: str, is_raw: bool) -> None:
    """Make one string of two side by side; two quotes in a row inside a string are one.

    ``is_raw``: the first ends with a raw string, which ends at its first quote.
    """
    is_adjacent = second.start == first.end + 1 and text[second.start] == text[first.end]
    is_quote = is_adjacent and not is_raw
    first.text += (text[first.end] if is_quote else "") + second.text
    first.end = second.end


_DIALECT = Dialect()


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text. SqlglotError where it has none."""
    return _with_negated_signs(_DIALECT.tokenize(text))


def _with_negated_signs(tokens: list[Token]) -> list[Token]:
    """Return tokens of which ``!>`` and ``!<`` are one each: Spark's ``<=`` and ``>=``."""
    result: list[Token] = []
    for token in tokens:
        sign, last = _NEGATED_SIGNS.get(token.token_type), result[-1] if result else token
        if sign is None or last.text != "!" or last.end + 1 != token.start:
            result.append(token)
            continue
        place = last.line, last.col, last.start, token.end
        result[-1] = Token(sign, f"!{token.text}", *place, token.comments)
    return result


def parse_tokens(tokens: Sequence[Token], text: str) -> Tree:
    """Return the tree of the one statement that the tokens of a text are. SqlglotError if none.

    It is without hints (``/*+ … */``): sqlglot takes the names in them for tables of their own.
    """
    without_hints = [token for token in tokens if token.token_type is not TokenType.HINT]
    parsed = _DIALECT.parser().parse(without_hints, text)
    trees = [tree for tree in parsed if tree is not None]
    if len(trees) != 1:
        raise ParseError(f"there are {len(trees)} statements where one was expected")
    return _with_plain_arguments(trees[0])


def parse_condition(text: str) -> Tree:
    """Return the tree of one expression. UnsupportedExpressionError for any other text."""
    try:
        tokens = tokenize(text)
        if any(token.token_type is TokenType.SEMICOLON for token in tokens):
            raise UnsupportedExpressionError(f"{excerpt(text)} has a ';': write one expression")
        trees = _DIALECT.parser().parse_into(exp.Condition, tokens, text)
    except SqlglotError as error:
        reason = describe_read_error(error)
        raise UnsupportedExpressionError(f"cannot read {excerpt(text)}: {reason}") from None
    except RecursionError:
        raise UnsupportedExpressionError(
            f"{excerpt(text)} is nested too deeply; use IN for many values"
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise UnsupportedExpressionError(f"cannot read {excerpt(text)}: it is not an expression")
    return _with_plain_arguments(trees[0])


def without_outer_comments(text: str) -> str:
    """Return a text of SQL, which is not empty, from its first word to its last."""
    tokens = tokenize(text)
    return text[tokens[0].start : tokens[-1].end + 1]


def text_of(tree: Tree) -> str:
    """Return the SQL of a tree."""
    return tree.sql(dialect=Dialect, comments=False)


def describe_read_error(error: SqlglotError) -> str:
    """Return what is wrong with a text, and where, in words that are not sqlglot's own."""
    errors = getattr(error, "errors", None)
    if not errors:
        return str(error).rstrip(". ")
    first = errors[0]
    reason = str(first["description"]).partition(" but got ")[0].rstrip(". ")
    if reason.startswith("Required keyword"):
        reason = "incomplete expression"
    word = str(first["highlight"])
    column = first["col"] - len(word) + 1
    return f"{reason} at line {first['line']}, column {column}, near {word!r}"


def excerpt(text: str) -> str:
    """Return the beginning of a text of SQL, on one line and in quotes, for a message."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


def operands(tree: Tree, kind: type[exp.And] | type[exp.Or]) -> Iterator[Tree]:
    """Yield the operands of nested ANDs, or of nested ORs, in their order; there may be thousands.

    Parentheses are not opened.
    """
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            pending += [node.expression, node.this]
        else:
            yield node


def _with_plain_arguments(tree: Tree) -> Tree:
    """Return a tree whose calls have expressions as arguments.

    A unit of time, as in ``timestampadd(DAY, 1, t)``, is not a column; IGNORE NULLS, as in
    ``first(a IGNORE NULLS)``, is the second argument that Spark has for it; ``a >>> b`` is a call.
    """
    for shift in list(tree.find_all(exp.BitwiseRightShift)):
        if shift.expression.meta.get(_UNSIGNED):
            arguments = [shift.this, shift.expression]
            call = exp.Anonymous(this="shiftrightunsigned", expressions=arguments)
            tree = call if shift is tree else tree
            shift.replace(call)
    for call in list(tree.find_all(exp.Anonymous)):
        name, arguments = str(call.this).lower(), call.expressions
        if name in _CHOOSING and len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls):
            call.set("expressions", [arguments[0].this, exp.true()])
        if name in _FUNCTIONS_OF_UNITS and len(arguments) == 3:
            unit = arguments[0]
            if isinstance(unit, exp.Column):
                unit.replace(exp.Var(this=unit.name))
    return tree
