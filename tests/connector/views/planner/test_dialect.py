"""Expressions are written as they were read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from relstate.connector.syntax.tree import (
    cast_text,
    columns_of,
    comparable_text,
    conjunction,
    conjuncts,
    parse_expression,
    text_of,
)  # fmt: skip
from relstate.storage.schema.ddl import parse_type

if TYPE_CHECKING:
    from relstate.connector.views.plan.materialize import Materialize

# Of many kinds: special syntax, functions with other names in other dialects, literals.
EXPRESSIONS = """
a div 2 / 3 % 4
extract(year FROM ts) + year(ts)
interval '1' month + ts - interval '1 02' day to hour
substr(s FROM 1 FOR 2) || trim(both 'x' FROM s) || left(s, 1)
position('x' in s) + locate('x', s) + instr(s, 'x')
nvl2(a, 1, 2) + nvl(a, ifnull(a, coalesce(a, 1)))
decode(a, 1, 'x', 'y') || decode(cast(s as binary), 'utf-8')
s LIKE 'a!%' ESCAPE '!' OR s RLIKE 'x.*' OR s ILIKE 'X' OR s LIKE ANY ('a', 'b')
date'2020-01-01' + 1 > dt AND ts > timestamp'2020-01-01 00:00:00 UTC'
1L + 1.5D + 1.5BD + 1e3 + 0.5
X'1F' = unhex('1F') OR 'a\\'b' = "dq"
log(2, 8) + log(d) + ln(d) + log10(d) + pow(d, 2) + power(d, 2)
date_add(dt, 1) > date_sub(dt, 1) OR datediff(dt, dt) = 0
date_format(ts, 'yyyy-MM') || date_trunc('hour', ts) || trunc(dt, 'MM')
try_cast(s AS INT) + s::DOUBLE + int('1') + cast(a AS DECIMAL(10,2))
a <=> 1 AND a IS NOT DISTINCT FROM 1 AND NOT b AND !b
array(st)[0].x + arr[0] + m['a'] + st.x + element_at(arr, 1)
transform(arr, x -> x + 1)[0] + aggregate(arr, 0, (x, y) -> x + y)
regexp_replace(s, 'a', 'b') || regexp_extract(s, '(a)', 1) || split(s, ',')[0]
variant_get(parse_json('{}'), '$.a', 'int') + get_json_object(s, '$.a')
from_json(s, 'a INT').a + named_struct('a', a).a + struct(a, d).a
- -a + -(-a) + ~a + (a & 1 | 2 ^ 3) + shiftleft(a, 1)
timestampadd(HOUR, 1, ts) > dateadd(DAY, 1, ts) OR timestampdiff(DAY, ts, ts) > 0
CASE a WHEN 1 THEN 'x' END || CASE WHEN a > 1 THEN 'y' ELSE 'z' END || if(b, 'p', 'q')
s COLLATE utf8_lcase = 'X' OR sha2(s, 256) = md5(s)
round(d, 2) + bround(d) + floor(d) + ceil(d, 1) + mod(a, 2) + pmod(a, 2)
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_an_expression_means_to_spark_what_it_meant(
    expression: str, planned: Callable[[str], Materialize]
) -> None:
    """No function or literal is translated from another dialect: Spark sees no difference."""
    columns = (
        "SELECT id AS k, x AS a, d, g AS s, CAST(ts AS DATE) AS dt, ts, arr, m, "
        "named_struct('x', st.a, 'y', st.b) AS st, x > 1 AS b FROM t"
    )
    plan = planned(f"SELECT k, {expression} AS v FROM ({columns}) q")
    assert [name for name, _ in plan.visible] == ["k", "v"]


TYPES = """
BOOLEAN
TINYINT
SMALLINT
INT
BIGINT
FLOAT
DOUBLE
DECIMAL(10,2)
STRING
BINARY
DATE
TIMESTAMP
TIMESTAMP_NTZ
TIME(6)
TIME(9)
INTERVAL DAY TO SECOND
INTERVAL HOUR
VARIANT
VOID
ARRAY<INT>
MAP<STRING, INT>
STRUCT<date: DATE, `b c`: ARRAY<STRUCT<`order`: TIMESTAMP_NTZ>>>
STRING COLLATE UTF8_LCASE
"""


@pytest.mark.parametrize("named", TYPES.strip().splitlines())
def test_a_cast_to_any_type_is_read_as_it_is_written(named: str) -> None:
    """Plans contain casts to types of all kinds, in Spark's syntax."""
    data_type = parse_type(named)
    text = text_of(parse_expression(cast_text("NULL", data_type)))
    assert text.replace(" ", "") == cast_text("NULL", data_type).replace(" ", "")


def test_parts_of_a_field_read_the_field() -> None:
    """A dot after a field selects a part of a struct: fields have no qualifiers."""
    assert columns_of(parse_expression("st.a.b + `st_2`.c + f(x -> x + d)")) == {"st", "st_2", "d"}


def test_conditions_are_taken_apart_and_put_together() -> None:
    """The conjunction of all parts means what the whole condition did."""
    whole = parse_expression("a AND (b OR c) AND (d AND e)")
    parts = list(conjuncts(whole))
    assert [text_of(part) for part in parts] == ["a", "b OR c", "d", "e"]
    assert text_of(conjunction(parts)) == "a AND (b OR c) AND d AND e"


def test_the_case_of_a_function_means_nothing_and_that_of_a_text_does() -> None:
    """GROUP BY upper(g) equals UPPER(g), but 'a' is not 'A'."""
    assert comparable_text(parse_expression("(upper(g))")) == comparable_text(
        parse_expression("UPPER(g)")
    )
    assert comparable_text(parse_expression("'a'")) != comparable_text(parse_expression("'A'"))
