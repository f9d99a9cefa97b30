"""Rows that are hard to compute with, expressions over them, and random expressions."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from relstate.storage import TableSchema
from relstate.storage.schema.ddl import parse_columns

COLUMNS = (
    "k BIGINT, i INT, j INT, s SMALLINT, b TINYINT, l BIGINT, f FLOAT, d DOUBLE, e DOUBLE, "
    "n DECIMAL(12,2), w DECIMAL(30,2), q DECIMAL(38,0), t STRING, u STRING, bo BOOLEAN, dt DATE, "
    "du DATE, ts TIMESTAMP, z TIMESTAMP_NTZ, bi BINARY, nn INT NOT NULL"
)
SCHEMA = TableSchema.build(parse_columns(COLUMNS), ["k"])

EXPRESSIONS = """
i + j; l - i; b * s; d + i; n * 3; n - i; n * (1 - n); -i; -d; -n; -b; abs(i); abs(l); abs(n);
abs(d); abs(f); -f; i / j; l / i; d / e; d / i; i / d; n / d; d / n; i div j; l div b; b div s;
i % j; l % i; b % s; d % e; d % i; mod(i, 7); pmod(i, j); pmod(b, s); pmod(l, -3); pmod(s, b);
pmod(d, e); pmod(i, 10); d * -0D; pmod(-0D, e); pmod(l, i); l % -1; l div -1; l div 3; l + 1;
l * l; i * 2; s + 1; s + 1S;
b - 1Y; n + n; n - w; n * n; w * 10; i * n; l + n; q % 3; -q; abs(q); nn + 1; nn / 2; n + 1.5;
i + 1.5; i * 0.5; d * 0.1; d + n; d - 1; 2 - d; 10 / i; n = 0.1; nn + i;
coalesce(i, j); coalesce(i, j, 0); coalesce(b, l, n); ifnull(t, 'x'); nvl(d, 1); nullif(i, j);
nullif(i, 0); nullif(t, u); nullif(d, 0); nullif(i, l); if(i > j, i, l); if(bo, t, u);
if(i + j > 0, 1, 2.5); if(bo, i, NULL); greatest(i, l); least(i, j, 3); greatest(d, e);
least(d, e); greatest(t, u); least(dt, du); greatest(n, i); least(ts, ts); greatest(bo, i > j);
least(d, i); greatest(s, b, i); coalesce(s, 1); coalesce(d, n, i); coalesce(nn, i);
length(t); char_length(t); octet_length(t); bit_length(t); length(bi); octet_length(bi); trim(t);
ltrim(t); rtrim(t); substring(t, 1, 2); substring(t, 0, 2); substring(t, -2, 1);
upper('aB') || lcase('C'); t = ucase('ab');
substring(t, -5, 3); substring(t, -3); substring(t, 2); substring(t, 3, 0); substring(t, -2, 5);
substr(t, 2, -1); substring(t, 0); substring(t, 2147483647, 2147483647);
substring(t, -2147483648, 2147483647); substring(t, -7, 6); substring(t FROM 2 FOR 1);
concat(t, u); concat(t); t || 'x' || u; concat(t, ''); concat(trim(t), CAST(i AS STRING));
year(dt); month(dt); day(dt); dayofmonth(dt); quarter(dt); dayofweek(dt); weekday(dt);
dayofyear(dt); year(ts); month(ts); day(ts); hour(ts); minute(ts); second(ts); dayofweek(ts);
year(z); hour(z); second(z); day(z); dayofyear(z); weekday(ts); extract(year FROM dt);
extract(HOUR FROM ts); extract(dayofweek FROM dt); extract(minute FROM z); extract(quarter FROM ts);
date_trunc('year', ts); date_trunc('QUARTER', ts); date_trunc('month', ts); date_trunc('week', ts);
date_trunc('day', ts); date_trunc('hour', ts); date_trunc('MINUTE', ts); date_trunc('second', ts);
date_trunc('millisecond', ts); date_trunc('microsecond', ts); date_trunc('yy', ts);
date_trunc('mon', ts); date_trunc('DD', ts); trunc(dt, 'year'); trunc(dt, 'quarter');
trunc(dt, 'MM'); trunc(dt, 'week'); unix_micros(ts); unix_millis(ts); unix_seconds(ts);
date_add(dt, i); date_add(dt, 3); date_sub(dt, s); date_sub(dt, i); datediff(dt, du);
CAST(ts AS DATE); CAST(z AS DATE); to_date(ts); date(ts); CAST(dt AS TIMESTAMP);
CAST(dt AS TIMESTAMP_NTZ); CAST(i AS BIGINT); CAST(l AS INT); CAST(i AS TINYINT);
CAST(l AS SMALLINT); CAST(i AS DOUBLE); CAST(l AS DOUBLE); CAST(f AS DOUBLE); CAST(n AS DOUBLE);
CAST(i AS DECIMAL(12,2)); CAST(i AS DECIMAL(5,2)); CAST(n AS DECIMAL(20,4));
CAST(n AS DECIMAL(8,3)); CAST(l AS DECIMAL(20,0)); CAST(w AS DECIMAL(12,2));
CAST(l AS DECIMAL(38,18)); CAST(q AS DECIMAL(20,0)); CAST(w AS DECIMAL(38,12));
CAST(q AS DECIMAL(38,10)); CAST(b AS DECIMAL(3,0)); CAST(b AS DECIMAL(2,0)); CAST(i AS STRING);
CAST(l AS STRING); CAST(b AS STRING); CAST(dt AS STRING); CAST(bo AS STRING); CAST(bo AS INT);
CAST(bo AS TINYINT); CAST(bo AS BIGINT);
i + 1 > j; i < l + 1; d < e + 1; -d = e; -d < 0; n * 2 > i; n + 0 = 0.01; length(t) = length(u);
length(t) IN (1, 2, i % 5); i % 3 IN (1, NULL); i % 10 BETWEEN 2 AND 5; NOT (i % 3 = 1);
i % 3 = 1 AND i / j > 1; j <> 0 AND i / j > 1; j = 0 OR i % j = 1; length(t) IS NULL;
(i % 3) IS NOT NULL; length(t) > 2 AND t LIKE 'a%'; bo AND i % 2 = 0; bo OR length(t) > 3;
bo AND i / j > 0; i / j > 0 AND bo; bo OR i % j = 0; NOT bo OR i div j = 1; i % 3 NOT IN (1, j);
i + 0 NOT BETWEEN j AND 5; i % 3 <=> NULL; i % 3 <=> j % 3; length(t) <=> NULL; n + 0 > 1.005;
i + 0 = 2.5; i + 0 < 2.5; -b < 200; b + 0 > 127; d + 0 = 0; -d IN (0, 1.5); trim(t) > 'a';
trim(t) LIKE 'a%'; concat(t, u) = 'aa'; trim(t) BETWEEN 'a' AND 'b'; trim(t) IN ('a', NULL);
l + 0 = d; i / 2 = 1.5; -n = i; n * 2 > w; date_add(dt, 1) > '2020-01-01'; date_add(dt, 1) = ts;
CASE WHEN length(t) > 2 THEN i WHEN bo THEN j ELSE l END; CASE WHEN bo THEN i END;
CASE WHEN j = 0 THEN 0 ELSE i div j END; CASE WHEN i / j > 1 THEN 1 WHEN bo THEN i % j END;
CASE WHEN i > 0 THEN n WHEN i < 0 THEN w END; CASE WHEN bo THEN 1 ELSE d END;
CASE WHEN bo THEN 'a' ELSE t END; CASE WHEN bo THEN NULL ELSE t END; CASE i WHEN 1 THEN 2 END;
CASE WHEN i IS NULL THEN 0 WHEN j IS NULL THEN 1 ELSE nn END; CASE WHEN bo THEN 1 ELSE 2 END;
date_add(dt, 1) > du; CAST(ts AS DATE) >= '2020-01-01'; date_trunc('day', ts) = '2023-11-14';
year(ts) = 2023; coalesce(bo, i % 2 = 0); coalesce(i, i div 0); coalesce(i, j div 0);
CAST(z AS DATE) = dt; trim(t) = 'ab'; i % 10 + 1; CAST(i AS DECIMAL(12,2)) * n;
greatest(i div j, 1); greatest(NULL, i); i * (1 / j); nullif(i div j, 0); coalesce(nullif(j, 0), 1);
i / nullif(j, 0); i % nullif(j, 0); abs(i - j); (i + j) * (i - j); coalesce(i, 0) + coalesce(j, 0);
sum(i); upper(t); CAST(d AS INT); CAST(w AS DOUBLE); n / 3; f + f; TRY_CAST(l AS INT);
CAST(t AS INT); i = t; t + 1; i + t; dt = ts; dt > z; ts = z; i AND bo; i + bo; t * 2; dt + 1;
dt - du; coalesce(i, t); coalesce(dt, ts); greatest(i, t); CAST(t AS DATE); CAST(f AS STRING);
CAST(ts AS STRING); trim('a' FROM t); trim(i); length(i); concat(i, t); substring(t, i, 1);
substring(bi, 1, 1); round(n, 1); w * w; w + q; date_trunc('decade', ts); trunc(ts, 'year');
extract(second FROM ts); extract(week FROM dt); CAST(i AS BOOLEAN); CAST(n AS INT); f = 0.1 + d;
dt = '2020-13-01' AND i + 0 > 1
"""
"""Every kind of expression, and others that are refused, separated by semicolons."""

Random: TypeAlias = random.Random
_SECOND_OF_YEAR_1, _DAY_OF_YEAR_1, _LAST_DAY = -62_135_596_800, -719_162, 2_932_896
_ALPHABET = "ab é😀 日"
_COLUMN = re.compile(r"\b(?:i|j|s|b|l|nn|n|w|q|d|e|t|u|bo|dt|du|ts)\b")


def expressions() -> list[str]:
    """Return the expressions of `EXPRESSIONS`."""
    return [" ".join(text.split()) for text in EXPRESSIONS.split(";")]


def random_rows(chance: Random, count: int) -> pa.RecordBatch:
    """Return rows of extremes, values that are special, random ones and NULL."""
    columns = {"k": pa.array(range(count), pa.int64())}
    for name, draw in _DRAWS.items():
        field = SCHEMA.arrow_schema.field(name)
        values = [
            None if field.nullable and chance.random() < 0.15 else draw(chance)
            for _ in range(count)
        ]
        columns[name] = _array(values, field.type)
    return pa.record_batch(columns, schema=SCHEMA.arrow_schema)


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_date(data_type):
        return pa.array(values, pa.int32()).cast(data_type)
    if pa.types.is_timestamp(data_type):
        return pa.array(values, pa.int64()).cast(data_type)
    return pa.array(values, data_type)


def _whole(bits: int) -> Callable[[Random], int]:
    limit = 1 << bits - 1

    def draw(chance: Random) -> int:
        if chance.random() < 0.5:
            return chance.choice((-limit, 1 - limit, -7, -3, -1, 0, 0, 1, 2, 3, 7, limit - 1))
        return chance.randrange(-limit, limit) >> chance.randrange(bits)

    return draw


def _decimal(precision: int, scale: int) -> Callable[[Random], Decimal]:
    limit, exact = 10**precision, Context(prec=precision)

    def draw(chance: Random) -> Decimal:
        number = chance.choice((0, 1, -1, 735, 1 - limit, limit - 1, 0))
        if chance.random() < 0.5:
            number = chance.randrange(1 - limit, limit) // 10 ** chance.randrange(precision)
        return Decimal(number).scaleb(-scale, exact)

    return draw


def _choice(values: Sequence[Any]) -> Callable[[Random], Any]:
    return lambda chance: chance.choice(values)


def _double(chance: Random) -> float:
    special = (0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 5e-324, 1.7e308, 3.0)
    return chance.choice((*special, chance.uniform(-1e6, 1e6), chance.gauss(0, 10)))


def _text(chance: Random) -> str:
    words = ("", " ", "a", "  ab ", "é😀x", "ß", "日本語テ", "abc", "\tq ", "x" * 20)
    return chance.choice((*words, "".join(chance.choices(_ALPHABET, k=chance.randrange(8)))))


def _day(chance: Random) -> int:
    edges = (_DAY_OF_YEAR_1, _LAST_DAY, 0, -1, 1, 19_000, -25_567, 3_000_000, -(2**31), 2**31 - 1)
    return chance.choice((*edges, *(chance.randrange(-800_000, 3_500_000) for _ in range(8))))


def _micros(chance: Random) -> int:
    # In 2023 the clocks of Berlin change at 1:00 UTC on March 26 and October 29.
    changes = (1_679_792_400, 1_679_792_399, 1_698_541_200, 1_698_537_600, _SECOND_OF_YEAR_1)
    seconds = chance.choice((0, -1, chance.randrange(-(2 * 10**10), 10**11), *changes))
    edges = (-(2**63), 2**63 - 1, -(2**62), 253_402_300_799_999_999, -1)
    return chance.choice((*edges, seconds * 10**6, seconds * 10**6 + chance.randrange(10**6)))


_DRAWS: dict[str, Callable[[Random], Any]] = {
    "i": _whole(32), "j": _whole(32), "s": _whole(16), "b": _whole(8), "l": _whole(64),
    "f": _choice((0.25, -0.0, 0.0, math.nan, math.inf, 1e30)), "d": _double, "e": _double,
    "n": _decimal(12, 2), "w": _decimal(30, 2), "q": _decimal(38, 0), "t": _text, "u": _text,
    "bo": _choice((True, False)), "dt": _day, "du": _day, "ts": _micros, "z": _micros,
    "bi": _choice((b"", b"\x00\xff", b"abc")), "nn": _whole(32),
}  # fmt: skip

# Random expressions: what makes a value of each kind of values of kinds, which braces name.
_LEAVES: dict[str, Sequence[str]] = {
    "w": ("i", "j", "s", "b", "l", "nn", "0", "1", "-3", "7", "2147483647"),
    "n": ("n", "n", "w", "0.5", "1.25", "-7.35", "CAST(i AS DECIMAL(10,0))", "q"),
    "d": ("d", "e", "d", "1.5D", "0D", "CAST(i AS DOUBLE)"),
    "t": ("t", "u", "''", "'a'", "'é😀'"),
    "b": ("bo", "i > 0", "t LIKE 'a%'", "d = 0", "l IS NULL", "true", "j IN (0, 1, NULL)"),
    "a": ("dt", "du", "DATE'2020-02-29'"),
    "m": ("ts", "ts", "TIMESTAMP'2023-03-26 02:30:00'"),
}
_COMPOSED: dict[str, Sequence[str]] = {
    "w": (
        "{w} + {w}", "{w} - {w}", "{w} * {w}", "-{w}", "abs({w})", "{w} % {w}", "{w} div {w}",
        "pmod({w}, {w})", "length({t})", "octet_length({t})", "year({a})", "dayofweek({a})",
        "quarter({a})", "datediff({a}, {a})", "CAST({w} AS INT)", "CAST({w} AS SMALLINT)",
        "CAST({w} AS BIGINT)", "CAST({b} AS INT)", "hour({m})", "unix_seconds({m})",
    ),
    "n": (
        "{n} + {n}", "{n} - {n}", "{n} * {n}", "{n} + {w}", "{w} * {n}", "-{n}", "abs({n})",
        "CAST({n} AS DECIMAL(20,6))", "CAST({w} AS DECIMAL(12,2))", "CAST({n} AS DECIMAL(5,3))",
    ),
    "d": (
        "{d} + {d}", "{d} - {w}", "{d} * {n}", "{w} / {w}", "{d} / {w}", "-{d}", "abs({d})",
        "{d} % {d}", "CAST({w} AS DOUBLE)", "pmod({d}, {d})", "{d} * 0.1",
    ),
    "t": (
        "trim({t})", "concat({t}, {t})", "{t} || {t}", "substring({t}, 2, 2)", "ltrim({t})",
        "substring({t}, -3, 2)", "CAST({w} AS STRING)", "CAST({b} AS STRING)",
        "CAST({a} AS STRING)",
    ),
    "b": (
        "{w} < {w}", "{w} = {n}", "{d} >= {w}", "{t} = {t}", "{a} > {a}", "{m} <= {m}", "{d} = {d}",
        "{n} <> {n}", "{b} AND {b}", "{b} OR {b}", "NOT {b}", "({w}) IS NULL", "({d}) IS NOT NULL",
        "{w} IN ({w}, {w})", "{w} BETWEEN {w} AND {w}", "{b} = {b}", "{t} IN ({t}, 'a')",
        "{n} NOT BETWEEN {w} AND {n}", "{w} <=> {w}",
    ),
    "a": ("date_add({a}, {w})", "date_sub({a}, 3)", "trunc({a}, 'month')", "CAST({m} AS DATE)"),
    "m": ("date_trunc('hour', {m})", "date_trunc('month', {m})", "CAST({a} AS TIMESTAMP)"),
}  # fmt: skip
_CHOICES = (
    "coalesce({0}, {0})", "if({b}, {0}, {0})", "CASE WHEN {b} THEN {0} WHEN {b} THEN {0} END",
    "CASE WHEN {b} THEN {0} ELSE {0} END", "nullif({0}, {0})", "greatest({0}, {0})",
    "least({0}, {0}, {0})",
)  # fmt: skip


def random_expression(chance: Random) -> str:
    """Return a random expression of any type."""
    return _composed(chance, chance.choice(list(_LEAVES)), chance.choice((1, 2, 2, 3)))


def _composed(chance: Random, kind: str, depth: int) -> str:
    if depth == 0 or chance.random() < 0.1:
        return chance.choice(_LEAVES[kind])
    text = ""
    while not _COLUMN.search(text):
        # Spark computes what has no column while it plans a query.
        text = _shaped(chance, kind, depth)
    return text


def _shaped(chance: Random, kind: str, depth: int) -> str:
    shape = chance.choice(_COMPOSED[kind])
    if chance.random() < 0.25:
        shape = chance.choice(_CHOICES).replace("{0}", f"{{{kind}}}")
    parts = shape.split("{")
    text = parts[0]
    for part in parts[1:]:
        inner = _composed(chance, part[0], depth - 1)
        text += f"({inner}){part[2:]}" if " " in inner else inner + part[2:]
    return text
