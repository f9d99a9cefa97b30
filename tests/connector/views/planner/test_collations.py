"""Keys of collated strings, compared with the order that Spark gives the strings themselves."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from relstate.connector.views.planner.collations import collation_key
from relstate.storage import types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Characters whose lower case is another number of them, or depends on those around.
_SPECIAL = (
    "aAsS\u00df\u1e9e\u0130iI\u0131\u0307\u03a3\u03c3\u03c2\u0391\u03b1 \u01c5\u01c6K\u212a\u0345'1"
)


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UTF8_LCASE_RTRIM", "UTF8_BINARY_RTRIM"])
def test_keys_are_equal_and_ordered_as_their_strings(spark: SparkSession, collation: str) -> None:
    """Of neighbours in Spark's order the keys are equal if and only if they are, else rising."""
    chance = random.Random(5)
    words = ["".join(chance.choices(_SPECIAL, k=chance.randint(0, 4))) for _ in range(800)]
    letters = [chr(code) for code in range(1, 0x2200)]
    key = collation_key("s", types.String(collation))
    strings = spark.createDataFrame([(word,) for word in words + letters], "s STRING")
    strings.createOrReplaceTempView("strings")
    query = f"""
        SELECT count(*) FROM (
            SELECT s, k, lag(k) OVER (ORDER BY s) AS before, lag(s) OVER (ORDER BY s) AS last
            FROM (SELECT s, {key} AS k FROM (SELECT s COLLATE {collation} AS s FROM strings)))
        WHERE before > k OR (before = k) <> (last = s)"""
    assert spark.sql(query).collect() == [(0,)]


def test_other_strings_have_no_key_of_their_own() -> None:
    """The bytes of a plain string are its key; those of ICU's collations tell nothing."""
    assert collation_key("s", types.String()) is None
    assert collation_key("s", types.String("UNICODE_CI")) is None
    assert collation_key("s", types.Int()) is None
