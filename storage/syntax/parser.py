"""The parser of Spark's SQL: sqlglot's, corrected where Spark reads a text otherwise.

Promises: of functions it knows the aggregates that views keep, the ranks, and what syntax forces
on it; any other function stays a name and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser

from .node import IS_NOT, LITERAL, MAX_LEVEL, SUFFIX, UNSIGNED, Tree

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


class Parser(SparkParser):
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
        exp.DType.TIME: lambda parser, value, _type: exp.Var(
            this=f"TIME{parser.dialect.generate(value)}"
        ),
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

    def _parse_cte(self) -> Any:
        """Parse a common table; keep the number after MAX RECURSION LEVEL."""
        index = self._index
        alias = self._parse_table_alias(self.ID_VAR_TOKENS)
        if alias is None or not self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            self._retreat(index)
            return super()._parse_cte()
        level = self._parse_number()
        if level is None:
            self.raise_error("Expecting a number")
            return None
        self._match(TokenType.ALIAS)
        common_table = exp.CTE(this=self._parse_wrapped(self._parse_statement), alias=alias)
        common_table.meta[MAX_LEVEL] = level.name
        return common_table

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

    def _parse_derived_table_values(self, *args: Any, **kwargs: Any) -> exp.Values | None:
        """Parse VALUES in FROM; in parentheses it may be the first side of a join within these."""
        index = self._index
        is_first_side = self._match_pair(TokenType.L_PAREN, TokenType.VALUES, advance=False)
        try:
            return super()._parse_derived_table_values(*args, **kwargs)
        except ParseError:
            if not is_first_side:
                raise
            self._retreat(index)
        return None

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
            tree.meta[UNSIGNED] = True
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
