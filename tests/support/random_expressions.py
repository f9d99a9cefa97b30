"""Random expressions, conditions, aggregates and window functions with one result each.

Where Spark's result depends on the order of rows, the order is total, or the function is sorted.
Columns of kind INEXACT are doubles that may be computed in another order: nothing is grouped,
ordered, joined or chosen by them. Of maps and variants only parts are. Of strings in which the case
does not matter (``w``) the lower case is (``l``), which is the same for equal ones; where these are
only compared, the strings themselves take its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

INEXACT = "inexact"
Typed = tuple[str, str]  # An expression or a name, and its kind.
UNORDERED = frozenset({INEXACT, "p", "j", "w"})
"""The kinds by which no rows are chosen: inexact doubles, maps, variants, collated strings."""
_NUMBERS = "imx"
# Parts of values by which rows are chosen as by columns.
_PARTS: Mapping[str, Sequence[Typed]] = {
    "r": (("{0}.u", "i"), ("{0}.w", "s")),
    "p": (("{0}['a']", "i"), ("element_at({0}, 'b')", "i"), ("size({0})", "i"),
          ("map_contains_key({0}, 'c')", "b"), ("map_values({0})", "a"),
          ("array_join(map_keys({0}), ',')", "s")),
    "j": (("{0}:n::int", "i"), ("variant_get({0}, '$.g', 'string')", "s"),
          ("try_variant_get({0}, '$.list[0]', 'int')", "i"), ("{0}:sub.n::bigint", "i"),
          ("to_json({0})", "s"), ("schema_of_variant({0})", "s"),
          ("is_variant_null({0}:n)", "b"), ("try_variant_get({0}, '$.list', 'array<int>')", "a")),
    "w": (("lower({0})", "l"), ("({0} COLLATE UTF8_BINARY)", "s")),
}  # fmt: skip

_EXPRESSIONS: Mapping[str, Sequence[str]] = {
    "i": (
        "{0} + 1", "{0} % 3", "coalesce({0}, 0)", "CASE WHEN {0} > 1 THEN {0} END", "-{0}",
        "abs({0})", "nullif({0}, 1)", "if({0} IS NULL, 7, {0})", "greatest({0}, 1)", "{0} * 2",
        "CASE {0} WHEN 1 THEN 10 WHEN 2 THEN NULL ELSE {0} END",
        "{0} DIV 2", "pmod({0}, 3)", "{0} & 1", "round({0}, -1)",
    ),
    "s": (
        "upper({0})", "concat({0}, '!')", "coalesce({0}, '?')", "nullif({0}, 'a')", "trim({0})",
        "{0} || 'x'", "substring({0}, 1, 1)", "CASE WHEN {0} = 'a' THEN 'b' ELSE {0} END",
        "regexp_replace({0}, '[ab]', '')", "rpad({0}, 2, ' ')", "split_part({0}, 'a', 1)",
    ),
    "m": ("coalesce({0}, 0)", "CAST({0} AS DECIMAL(10,1))", "-{0}", "abs({0})", "floor({0})",
          "round({0}, 1)", "{0} * 1.5", "{0} / 4", "{0} % 2"),
    "x": ("coalesce({0}, 1.5D)", "abs({0})", "{0} * 2", "nanvl({0}, 0D)", "-{0}"),
    "d": ("date_add({0}, 1)", "coalesce({0}, DATE'2024-03-01')", "last_day({0})"),
    "t": ("date_trunc('HOUR', {0})", "{0} + INTERVAL 1 HOUR"),
    "b": ("NOT {0}", "coalesce({0}, true)", "{0} <=> true"),
    # Names of columns are names of variables, too.
    "a": ("sort_array({0})", "array_distinct({0})", "filter({0}, e -> e > 0)",
          "coalesce({0}, array(9))", "filter({0}, n -> n > 0)", "transform({0}, (k, g) -> k + g)",
          "array_sort({0}, (l, r) -> CASE WHEN l > r THEN -1 WHEN l < r THEN 1 ELSE 0 END)",
          "array_union({0}, array(1))", "slice({0}, 1, 2)"),
    "z": ("date_trunc('HOUR', {0})::TIMESTAMP_NTZ", "{0} + INTERVAL '40' MINUTE",
          "{0} + INTERVAL 1 MONTH", "coalesce({0}, TIMESTAMP_NTZ'2024-02-28 23:00:00')"),
    "c": ("coalesce({0}, TIME'12:00:00')", "nullif({0}, TIME'09:00:00')",
          "{0} + INTERVAL '10' MINUTE", "time_trunc('HOUR', {0})"),
    "y": ("-{0}", "{0} * 2", "abs({0})", "coalesce({0}, INTERVAL '0 01:00:00' DAY TO SECOND)",
          "{0} + INTERVAL '30' MINUTE", "{0} / 2"),
    "o": ("coalesce({0}, X'00')", "{0} || X'61'", "substring({0}, 1, 1)", "nullif({0}, X'61')",
          "unhex(hex({0}))", "encode(decode({0}, 'ISO-8859-1'), 'UTF-8')"),
    "r": ("coalesce({0}, named_struct('u', 1, 'w', 'a'))",
          "nullif({0}, named_struct('u', 1, 'w', 'a'))"),
    "p": ("coalesce({0}, map('a', 1))", "map_filter({0}, (k, v) -> v > 1)",
          "transform_values({0}, (k, v) -> v + 1)", "map_from_entries(map_entries({0}))"),
    "j": ("coalesce({0}, parse_json('{{\"n\": 7}}'))", "{0}:sub", "{0}:list[0]"),
    "w": ("coalesce({0}, 'B')", "upper({0})"),
    "l": ("coalesce({0}, 'b')", "nullif({0}, 'A')", "concat({0}, 'x')"),
    INEXACT: ("{0}",),
}  # fmt: skip
_CONVERSIONS: Mapping[str, Sequence[Typed]] = {
    "i": (("CAST({0} AS STRING)", "s"), ("{0} > 1", "b"), ("array({0}, 1)", "a"),
          ("CAST({0} AS DECIMAL(10,1))", "m"), ("CAST({0} AS DOUBLE)", "x"), ("{0} / 4", "x"),
          ("CASE WHEN {0} > 1 THEN 'big' WHEN {0} IS NULL THEN 'none' ELSE 'small' END", "s")),
    "s": (("length({0})", "i"), ("{0} IS NULL", "b"), ("ascii({0})", "i")),
    "m": (("CAST({0} AS INT)", "i"), ("CAST({0} AS STRING)", "s")),
    "x": (("isnan({0})", "b"),),
    "d": (("day({0})", "i"), ("datediff({0}, DATE'2024-02-28')", "i"),
          ("CAST({0} AS TIMESTAMP)", "t"), ("CAST({0} AS STRING)", "s")),
    "t": (("hour({0})", "i"), ("CAST({0} AS DATE)", "d")),
    "b": (("CAST({0} AS INT)", "i"), ("if({0}, 'yes', 'no')", "s")),
    "a": (("size({0})", "i"), ("try_element_at({0}, 1)", "i"), ("array_contains({0}, 2)", "b"),
          ("array_max({0})", "i"), ("forall({0}, n -> n > 0)", "b"), ("array_join({0}, ',')", "s"),
          ("CAST(aggregate({0}, 0L, (n, e) -> n + coalesce(e, 0)) AS INT)", "i")),
    "z": (("hour({0})", "i"), ("CAST({0} AS DATE)", "d"), ("CAST({0} AS TIMESTAMP)", "t"),
          ("{0} - TIMESTAMP_NTZ'2024-02-28 23:00:00'", "y"), ("CAST({0} AS TIME)", "c")),
    "c": (("hour({0})", "i"), ("CAST({0} AS STRING)", "s"), ("{0} - TIME'09:00:00'", "y")),
    "y": (("CAST({0} AS STRING)", "s"), ("extract(HOUR FROM {0})", "i"),
          ("TIMESTAMP_NTZ'2024-02-28 23:00:00' + {0}", "z"),
          ("TIMESTAMP'2024-02-28 23:00:00' + {0}", "t")),
    "o": (("hex({0})", "s"), ("length({0})", "i"), ("base64({0})", "s"), ("crc32({0})", "i")),
    "r": _PARTS["r"],
    "p": (*_PARTS["p"], ("map_entries({0})[0].value", "i")),
    "j": _PARTS["j"],
    "w": _PARTS["w"],
    "l": (("length({0})", "i"), ("({0} COLLATE UTF8_BINARY)", "s"), ("{0} = 'A'", "b")),
}  # fmt: skip
_CONDITIONS: Mapping[str, Sequence[str]] = {
    "i": ("{0} > 0", "{0} % 2 = 0", "{0} IS NULL OR {0} < 3", "{0} IN (0, 1, 2)",
          "{0} NOT IN (1, 3)", "{0} BETWEEN 0 AND 2", "{0} <> 1", "{0} <=> NULL", "{0} = 1"),
    "s": ("{0} <> 'a'", "{0} LIKE 'a%'", "{0} IS NOT NULL", "length({0}) < 2", "{0} = 'b'",
          "{0} IN ('a', 'b', '')", "{0} RLIKE '^[ab]'", "{0} ILIKE 'A_'",
          "{0} LIKE ANY ('a%', 'b')",
          "{0} = 'a '", "trim({0}) = ''"),
    "m": ("{0} > 0", "{0} <= 2.5"),
    "x": ("{0} > 0", "isnan({0}) OR {0} IS NULL OR {0} < 1", "{0} = 1.5"),
    "d": ("{0} > DATE'2024-02-28'", "month({0}) = 2"),
    "t": ("hour({0}) > 22", "{0} IS NOT NULL"),
    "b": ("{0}", "{0} IS NULL", "NOT {0}"),
    "a": ("size({0}) > 1", "{0} IS NOT NULL", "exists({0}, e -> e = 2)"),
    "z": ("{0} > TIMESTAMP_NTZ'2024-02-28 23:00:00'", "hour({0}) > 22"),
    "c": ("{0} >= TIME'09:00:00'", "{0} IN (TIME'09:00:00', TIME'23:59:00')", "{0} IS NULL"),
    "y": ("{0} > INTERVAL '0' MINUTE", "{0} = INTERVAL '40' MINUTE", "{0} IS NOT NULL"),
    "o": ("{0} = X'61'", "{0} > X'00'", "length({0}) < 2"),
    "r": ("{0} = named_struct('u', 1, 'w', 'a')", "{0}.u = 1", "{0} IS NULL", "{0}.w <=> NULL"),
    "l": ("{0} = 'A'", "{0} IN ('A', 'b')", "{0} LIKE 'A%'", "{0} < 'B'", "{0} IS NULL",
          "contains({0}, 'B')", "{0} <> 'Ä'"),
}  # fmt: skip
LITERALS: Mapping[str, Sequence[str]] = {
    "i": ("0", "1", "2", "NULL"), "s": ("'a'", "'b'", "''", "NULL"), "m": ("1.5", "0.0"),
    "x": ("1.5D", "0D"), "d": ("DATE'2024-02-29'",), "t": ("TIMESTAMP'2024-02-28 23:00:00'",),
    "b": ("true", "NULL"), "a": ("array(1, 2)",), "z": ("TIMESTAMP_NTZ'2024-02-28 23:20:00'",),
    "c": ("TIME'09:00:00'",), "y": ("INTERVAL '0 00:40:00' DAY TO SECOND",), "o": ("X'61'",),
    "r": ("named_struct('u', 1, 'w', 'a')",), "p": ("map('a', 1)",),
    "j": ("parse_json('{\"n\": 2}')",),
    "w": ("'B' COLLATE UTF8_LCASE",), "l": ("'b' COLLATE UTF8_LCASE",), INEXACT: ("0.1D",),
}  # fmt: skip
# What is compared with the present time, by the kind of {0}.
_CLOCK_CONDITIONS: Mapping[str, Sequence[str]] = {
    "t": ("{0} > now() - INTERVAL 1 HOUR", "{0} <= current_timestamp()", "now() < {0}",
          "{0} BETWEEN now() - INTERVAL 2 HOURS AND now()", "{0} >= date_trunc('HOUR', now())",
          "{0} + INTERVAL 80 MINUTES > now()", "CAST({0} AS DATE) = current_date()",
          "{0} BETWEEN TIMESTAMP'2024-02-28 23:00:00' AND now()"),
    "d": ("{0} = current_date()", "{0} >= current_date() - 1", "{0} < now()",
          "date_add({0}, 1) <= curdate()",
          "{0} BETWEEN date_sub(current_date(), 2) AND current_date()"),
    "z": ("{0} > localtimestamp() - INTERVAL 1 HOUR", "{0} <= localtimestamp()",
          "{0} BETWEEN now() - INTERVAL 2 HOURS AND now()"),
}  # fmt: skip
TIMED = frozenset(_CLOCK_CONDITIONS)
"""The kinds of what is compared with the present time."""
# Functions of aggregates, which take no FILTER.
_FUNCTIONS = ("sort_array(", "transform(", "CAST(")
# Of strings in which the case does not matter, what is the same for equal ones.
_LOWER = re.compile(r"lower\(([\w.]+)\)")
_FRAMES = (
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING",
    " ROWS BETWEEN 1001 PRECEDING AND CURRENT ROW",
    " ROWS UNBOUNDED PRECEDING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING",
    " RANGE UNBOUNDED PRECEDING",
    " RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)
# Frames of values, by the kind of the order.
_RANGES: Mapping[str, Sequence[str]] = {
    "i": ("1 PRECEDING AND CURRENT ROW", "1 PRECEDING AND 1 FOLLOWING",
          "1 FOLLOWING AND 2 FOLLOWING", "UNBOUNDED PRECEDING AND 1 PRECEDING",
          "CURRENT ROW AND 2 FOLLOWING", "1 PRECEDING AND UNBOUNDED FOLLOWING",
          "UNBOUNDED PRECEDING AND 1 FOLLOWING"),
    "m": ("0.5 PRECEDING AND 1 FOLLOWING", "CURRENT ROW AND 2 FOLLOWING"),
    "x": ("1 PRECEDING AND 0.5 FOLLOWING", "2 PRECEDING AND 1 PRECEDING"),
    "d": ("1 PRECEDING AND 1 FOLLOWING", "INTERVAL 1 MONTH PRECEDING AND CURRENT ROW"),
    "t": ("INTERVAL 1 HOUR PRECEDING AND CURRENT ROW", "INTERVAL 1 DAY PRECEDING AND CURRENT ROW",
          "UNBOUNDED PRECEDING AND INTERVAL 40 MINUTES FOLLOWING"),
    "z": ("INTERVAL 1 HOUR PRECEDING AND CURRENT ROW", "INTERVAL 1 MONTH PRECEDING AND CURRENT ROW",
          "INTERVAL 40 MINUTES PRECEDING AND INTERVAL 40 MINUTES FOLLOWING"),
    "y": ("INTERVAL '0 00:40:00' DAY TO SECOND PRECEDING AND CURRENT ROW",),
}  # fmt: skip


def exact_of(columns: Sequence[Typed]) -> list[Typed]:
    """Return the columns by which rows may be chosen, and parts of all columns."""
    plain = [column for column in columns if column[1] not in UNORDERED]
    for text, kind in columns:
        plain += [(form.format(text), part) for form, part in _PARTS.get(kind, ())]
    return plain


class ExpressionMaker:
    """Makes expressions over columns, each given as its text and its kind."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0

    # Small choices

    def _name(self, prefix: str = "c") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _flip(self, chance: float) -> bool:
        return self._random.random() < chance

    def _some(self, columns: Sequence[Typed], least: int, most: int) -> list[Typed]:
        most = min(most, len(columns))
        return self._random.sample(list(columns), self._random.randint(min(least, most), most))

    # Expressions

    def _value(self, columns: Sequence[Typed], kind: str | None = None) -> Typed:
        """Return an expression over columns: mostly a column."""
        random = self._random
        candidates = [column for column in columns if kind in (None, column[1])]
        if not candidates:
            assert kind is not None
            return random.choice(LITERALS[kind]), kind
        text, own = random.choice(candidates)
        chance = random.random()
        if chance < 0.6 or own == INEXACT:
            return text, own
        if chance < 0.85 or kind is not None:
            return random.choice(_EXPRESSIONS[own]).format(text), own
        if chance < 0.92:
            same = [other for other, other_kind in columns if other_kind == own]
            return f"coalesce({text}, {random.choice(same)})", own
        form, result = random.choice(_CONVERSIONS[own])
        return form.format(text), result

    def _condition(self, columns: Sequence[Typed]) -> str:
        """Return a condition without a subquery."""
        random = self._random
        text, kind = random.choice(list(columns))
        condition = random.choice(_CONDITIONS[kind]).format(self._compared(text))
        chance = random.random()
        if chance < 0.15:
            return f"NOT ({condition})"
        if chance < 0.3:
            return f"({condition} {random.choice(['OR', 'AND'])} {self._condition(columns)})"
        if chance < 0.4 and (pair := self._pair(columns, columns)):
            return self._comparison(*pair)
        return f"({condition})" if " OR " in condition else condition

    def _clock_condition(self, columns: Sequence[Typed]) -> str | None:
        """Return a comparison with the present time; None if no column is a time."""
        times = [column for column in columns if column[1] in TIMED]
        if not times:
            return None
        text, kind = self._random.choice(times)
        return self._random.choice(_CLOCK_CONDITIONS[kind]).format(text)

    def _pair(self, left: Sequence[Typed], right: Sequence[Typed]) -> tuple[str, str] | None:
        """Return two expressions that can be compared."""
        mixed = self._flip(0.15)
        pairs = [
            (a, b) for a, x in left for b, y in right
            if a != b and (x == y or (mixed and x in _NUMBERS and y in _NUMBERS))
        ]  # fmt: skip
        if not pairs:
            return None
        first, second = self._random.choice(pairs)
        if self._flip(0.1):
            kind = next(kind for text, kind in left if text == first)
            first, _ = self._value([(first, kind)], kind)
        return first, second

    def _comparison(self, left: str, right: str) -> str:
        form = self._random.choice(
            ["{0} < {1}", "{0} <> {1}", "{0} >= {1}", "{0} <=> {1}", "coalesce({0} > {1}, true)"]
        )
        return form.format(self._compared(left), self._compared(right))

    def _order(self, columns: Sequence[Typed]) -> str:
        """Return an order by all of some columns, so that only equal rows are tied."""
        forms = ("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST")
        return ", ".join(
            self._compared(name) + self._random.choice(forms)
            for name, _ in self._random.sample(list(columns), len(columns))
        )

    def _equality(self, left: str, right: str) -> str:
        left, right = self._compared(left), self._compared(right)
        return f"{left} {'<=>' if self._flip(0.2) else '='} {right}"

    def _compared(self, text: str) -> str:
        """Return an expression, or for the lower case of a string often the string itself."""
        match = _LOWER.fullmatch(text)
        return match[1] if match and self._flip(0.7) else text

    # Calls

    def _call(self, exact: Sequence[Typed]) -> Typed:
        """Return an aggregate with one result, whatever the order of rows."""
        text, kind = self._value(exact)
        forms: list[Typed] = [("count(*)", "i"), ("count({0})", "i"), ("count(DISTINCT {0})", "i")]
        forms += [("min({0})", kind), ("max({0})", kind)]
        if kind in _NUMBERS:
            forms += [("sum({0})", kind), ("sum({0})", kind), ("avg({0})", INEXACT)]
            forms += [("sum(DISTINCT {0})", kind)] * (kind != "x") + [("median({0})", INEXACT)]
        if kind == "y":
            forms += [("sum({0})", "y"), ("avg({0})", "y"), ("median({0})", "y")]
        if kind in "im":
            forms += [("stddev({0})", INEXACT), ("var_pop({0})", INEXACT)]
            forms += [("percentile_cont(0.25) WITHIN GROUP (ORDER BY {0})", INEXACT)]
            forms += [("percentile_disc(0.5) WITHIN GROUP (ORDER BY {0} DESC)", INEXACT)]
        if kind == "i":
            forms += [self._of_two_numbers(exact)]
            forms += [
                ("sort_array(collect_list({0}))", "a"), ("sort_array(collect_set({0}))", "a"),
                ("bit_xor({0})", "i"), ("try_sum({0})", "i"), ("approx_count_distinct({0})", "i"),
                ("sort_array(array_agg(DISTINCT {0}))", "a"), ("mode({0}, true)", "i"),
                ("bit_and({0})", "i"), ("bit_or({0})", "i"), ("skewness({0})", INEXACT),
                ("mode() WITHIN GROUP (ORDER BY {0} DESC)", "i"), ("try_avg({0})", INEXACT),
                ("approx_percentile({0}, 0.5)", "i"),
                ("transform(histogram_numeric({0}, 1000), e -> CAST(e.y AS INT))", "a"),
                ("CAST(sum(make_ym_interval(0, {0})) AS STRING)", "s"),
                ("CAST(max(make_ym_interval(0, {0})) AS STRING)", "s"),
                ("count_min_sketch({0}, 0.1D, 0.9D, 1)", "o"),
            ]  # fmt: skip
        if kind == "s":
            forms += [
                ("listagg({0}, ',') WITHIN GROUP (ORDER BY {0})", "s"), ("mode({0}, true)", "s"),
                ("listagg(DISTINCT {0}) WITHIN GROUP (ORDER BY {0} DESC)", "s"),
            ]  # fmt: skip
        if kind == "b":
            forms += [("bool_or({0})", "b"), ("bool_and({0})", "b"), ("count_if({0})", "i")]
        orders = [name for name, order_kind in self._some(exact, 1, 2) if order_kind != "a"]
        if orders and kind != "a" and text not in orders:
            order = f"struct({', '.join([*orders, text])})"
            forms += [(f"max_by({{0}}, {order})", kind), (f"min_by({{0}}, {order})", kind)]
        if self._flip(0.08):
            second, _ = self._value(exact)
            forms = [(f"count(DISTINCT {{0}}, {second})", "i")]
        elif self._flip(0.08):
            forms = self._more_calls(exact, kind)
        form, result = self._random.choice(forms)
        call = form.format(self._compared(text) if form.startswith("count(") else text)
        if self._flip(0.04) and (clock := self._clock_condition(exact)) is not None:
            return f"count(*) FILTER (WHERE {clock})", "i"
        if self._flip(0.2) and form.endswith(")") and not form.startswith(_FUNCTIONS):
            call += f" FILTER (WHERE {self._condition(exact)})"
        return call, result

    def _more_calls(self, exact: Sequence[Typed], kind: str) -> list[Typed]:
        """Return aggregates with a condition in their argument, and of structs."""
        condition, (second, _) = self._condition(exact), self._value(exact)
        condition = condition.replace("{", "{{").replace("}", "}}")
        pair = f"named_struct('p', {{0}}, 'q', {second})"
        forms: list[Typed] = [
            (f"count(CASE WHEN {condition} THEN {{0}} END)", "i"),
            (f"count(DISTINCT CASE WHEN {condition} THEN {{0}} END)", "i"),
            (f"sum(if({condition}, 1, 0))", "i"),
            (f"max(CASE WHEN {condition} THEN {{0}} END)", kind),
            (f"max({pair}).p", kind), (f"min({pair}).p", kind), (f"count(DISTINCT {pair})", "i"),
            (f"element_at(sort_array(collect_list({pair})), -1).p", kind),
        ]  # fmt: skip
        if kind in _NUMBERS:
            forms += [(f"sum(CASE WHEN {condition} THEN {{0}} ELSE 0 END)", kind)] * 2
        return forms

    def _over_call(self, call: Typed) -> Typed:
        """Return an expression over a call, sometimes the call alone."""
        text, kind = call
        return self._value([(f"({text})", kind)]) if self._flip(0.3) else call

    def _of_two_numbers(self, exact: Sequence[Typed]) -> Typed:
        """Return an aggregate of pairs of whole numbers, whose sums are exact in Spark, too."""
        second, _ = self._value(exact, "i")
        name = self._random.choice(
            ["corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2",
             "regr_avgx", "regr_avgy", "regr_sxx", "regr_sxy", "regr_syy", "regr_count"]
        )  # fmt: skip
        return f"{name}({{0}}, {second})", "i" if name == "regr_count" else INEXACT

    def _window_call(self, chosen: Sequence[Typed], by: str, window: str) -> Typed:
        """Return a window function with one result; ``window`` orders rows by all of ``chosen``."""
        random = self._random
        if self._flip(0.45):
            form, result = random.choice(self._functions_of_order(chosen))
            return f"{form} OVER {window}", result
        text, kind = self._value(chosen)
        calls: list[Typed] = [("count(*)", "i"), (f"count({text})", "i")]
        calls += [(f"max({text})", kind), (f"min({text})", kind)]
        calls += [(f"sum({text})", kind)] * 2 if kind in _NUMBERS else []
        calls += [(f"avg({text})", INEXACT)] if kind in "im" else []
        calls += [(f"bool_or({text})", "b")] if kind == "b" else []
        if self._flip(0.1):
            condition = self._condition(chosen)
            calls = [(f"{form} FILTER (WHERE {condition})", result) for form, result in calls]
        chance = random.random()
        if chance < 0.35:
            calls += [(f"{name}({text})", kind) for name in ("first_value", "last_value")]
            calls += [(f"nth_value({text}, 2)", kind), (f"any_value({text})", kind)]
            form, result = random.choice(calls)
            return f"{form} OVER {window[:-1]}{random.choice(_FRAMES)})", result
        form, result = random.choice(calls)
        order, order_kind = random.choice(list(chosen))
        direction = random.choice(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
        if chance < 0.5:
            return f"{form} OVER ({by.strip()})", result
        if chance < 0.75 and order_kind in _RANGES:
            frame = random.choice(_RANGES[order_kind])
            return f"{form} OVER ({by}ORDER BY {order}{direction} RANGE BETWEEN {frame})", result
        ranks: list[Typed] = [("rank()", "i"), ("dense_rank()", "i")]
        ranks += [("cume_dist()", INEXACT), ("percent_rank()", INEXACT)]
        form, result = random.choice([*ranks, (form, result), (form, result)])
        return f"{form} OVER ({by}ORDER BY {order}{direction})", result

    def _functions_of_order(self, chosen: Sequence[Typed]) -> list[Typed]:
        """Return functions that only a window has, over a window that orders all rows."""
        text, kind = self._value(chosen)
        default, _ = self._value(chosen, kind)
        return [
            ("row_number()", "i"), ("ntile(2)", "i"), (f"lag({text})", kind),
            (f"lead({text}, 2)", kind), (f"first_value({text})", kind),
            (f"lag({text}, 1, {default})", kind), (f"lag({text}) IGNORE NULLS", kind),
            (f"lead({text}, -1)", kind), (f"nth_value({text}, 2)", kind),
            (f"last_value({text}) IGNORE NULLS", kind),
            (f"lead({text}, 2) IGNORE NULLS", kind), (f"nth_value({text}, 2) IGNORE NULLS", kind),
        ]  # fmt: skip
