"""The version of Spark that the tests run on, and the tests that need more of it."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from relstate.connector.spark.capabilities import (
    ASOF_JOIN,
    QUALIFY,
    RECURSIVE_VIEWS,
    SINGLE_PIPES,
    Capability,
)

SPARK = version("pyspark")

# What relstate passes to Spark as it is, and tests have in their queries.
NAMED_PIVOT = Capability("PIVOT (…) AS name", (4, 2))
COUNTER_FUNCTIONS = Capability("collect_union or counter_diff", (4, 3))
UNPIVOTED_GROUPS = Capability("a name of several columns in UNPIVOT", (4, 3))
NULLS_OF_LISTS = Capability("collect_list(…) RESPECT NULLS", (4, 2))
FILTERED_WINDOWS = Capability("FILTER before OVER", (4, 2))
GRAND_TOTALS = Capability("a row of GROUPING SETS (()) over no rows", (4, 2))
PRECISE_TIMES = Capability("TIMESTAMP(6) or TIME(9)", (4, 3))
TIME_FUNCTIONS = Capability("time_from_micros", (4, 2))
LOCAL_SECONDS = Capability("unix_seconds of a TIMESTAMP_NTZ", (4, 3))
CHECKED_TRUNCATION = Capability("the overflow of date_trunc as an error", (4, 2))
EQUAL_RECURSIONS = Capability("a comparison of two plans with a recursion", (4, 2))
EQUAL_VALUES = Capability("corr of equal values in ANSI mode", (4, 3))

# What the text of a query needs, by how it is written.
_SYNTAX = {
    r"\bQUALIFY\b": QUALIFY,
    r"\bASOF JOIN\b": ASOF_JOIN,
    r"\bWITH RECURSIVE\b": RECURSIVE_VIEWS,
    r"\bcorr\(id, x\)": EQUAL_VALUES,
    r"^TABLE \w+ \|": SINGLE_PIPES,
    r"\bUNPIVOT \(\(": UNPIVOTED_GROUPS,
    r"PIVOT \(.*\) AS \w+$": NAMED_PIVOT,
    r"\b(collect_list|array_agg)\(.*(RESPECT|IGNORE) NULLS": NULLS_OF_LISTS,
    r"FILTER \(WHERE [^)]*\) OVER": FILTERED_WINDOWS,
    r"WHERE id > 1000 GROUP BY GROUPING SETS \(\(\)\)$": GRAND_TOTALS,
}


def has(capability: Capability) -> bool:
    """Return whether the Spark of the tests has a capability."""
    return capability.is_in(SPARK)


def needs(capability: Capability) -> pytest.MarkDecorator:
    """Skip a test where Spark lacks what it needs."""
    return pytest.mark.skipif(not has(capability), reason=str(capability.lack(SPARK)))


def skip_without(capability: Capability) -> None:
    """Skip the test that calls it where Spark lacks what it needs."""
    if not has(capability):
        pytest.skip(str(capability.lack(SPARK)))


def skip_if_lacking(query: str) -> None:
    """Skip the test that calls it where Spark lacks what the text of a query needs."""
    for pattern, capability in _SYNTAX.items():
        if re.search(pattern, query):
            skip_without(capability)
