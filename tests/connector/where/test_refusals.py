"""What `where` refuses: what Spark refuses too, and what is left to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from relstate.storage.errors import SchemaMismatchError, UnsupportedExpressionError
from relstate.storage.predicate.predicate import Predicate
from support.where_rows import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEFT_TO_SPARK = r"""
i = 5.0D
i > 1e0
i = '5'
i = ' 5 '
i IN ('5', 1)
i IN (1, 5D)
i BETWEEN '1' AND '3'
l = 9007199254740993D
l > 9007199254740992D
l >= 9.2233720368547758E18
l < 9.3e18
l = 5F
l < 9223372036854775808
ti >= -9223372036854775808.5
NOT i > 99999999999999999999
i BETWEEN 1 AND 99999999999999999999
i = 16777217F
f = 'NaN'
f > 'Infinity'
f >= '-inf'
d = '0'
n = '1.5'
n > 1.5D
n = 0.1D
n = 0.1F
n >= 0.1F
n IN ('1.5', 5)
w = 1.5D
w < 1e17
b = 'a'
CAST(s AS BINARY) = X'C3A9'
s = b
b < s
bo = 'yes'
1 = 1.0
dt = TIMESTAMP '2020-02-29 00:00:00'
dt < TIMESTAMP '2020-02-29 12:00:00'
dt >= TIMESTAMP '2020-02-29 12:00:00'
dt = TIMESTAMP_NTZ '2020-02-29 00:00:00'
ts = TIMESTAMP_NTZ '2020-02-29 12:00:00'
z > TIMESTAMP '2020-02-29 12:00:00'
CAST('5' AS INT) = i
i >= l
l > d
i = d
ti < si
f < d
f = d
n = w
n > i
l < w
""".strip().split("\n")


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_what_another_family_is_compared_with_is_left_to_spark(text: str) -> None:
    """Casts of columns and constants of other families are refused; Spark evaluates them."""
    with pytest.raises(UnsupportedExpressionError):
        Predicate.parse(text, SCHEMA)


# What Spark refuses, or what fails in it for the rows at hand.
REFUSED = r"""
bo = 1
i = 'x'
i = '5.0'
l = '9223372036854775808'
m = m
dt = 5
i = b
s LIKE 'a\\c'
s LIKE 'a\\'
x = 1
st.q = 1
i.x = 1
count(i) > 1
i IS TRUE
s = 5
i
'a'
nothing(i)
ts = '2020-02-30'
d = 1e400
i = 1_000
(i, j) IN ((1, 2, 3))
""".strip().split("\n")


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_refuses_is_refused(rows: DataFrame, text: str) -> None:
    """The error is relstate's, not one of Python's or of the parser's."""
    with pytest.raises(PySparkException):
        rows.where(text).count()
    with pytest.raises((UnsupportedExpressionError, SchemaMismatchError)):
        Predicate.parse(text, SCHEMA)
