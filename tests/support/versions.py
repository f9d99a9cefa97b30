"""The version of Spark that the tests run on, and the tests that need more of it."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from relstate.connector.spark.capabilities import Capability

SPARK = version("pyspark")

# What relstate passes to Spark as it is, and tests have in their queries.
NAMED_PIVOT = Capability("PIVOT (…) AS name", (4, 2))
COUNTER_FUNCTIONS = Capability("collect_union or counter_diff", (4, 3))


def has(capability: Capability) -> bool:
    """Return whether the Spark of the tests has a capability."""
    return capability.is_in(SPARK)


def needs(capability: Capability) -> pytest.MarkDecorator:
    """Skip a test where Spark lacks what it needs."""
    return pytest.mark.skipif(not has(capability), reason=str(capability.lack(SPARK)))
