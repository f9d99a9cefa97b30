"""The laws of what not every supported version of Spark can do."""

from __future__ import annotations

import pytest

from relstate.connector.spark import capabilities
from relstate.connector.spark.capabilities import QUALIFY, Capability
from relstate.connector.spark.version import BELOW_SPARK, LEAST_SPARK

_ALL = [value for value in vars(capabilities).values() if isinstance(value, Capability)]


@pytest.mark.parametrize(
    ("version", "has_it"),
    [("4.1.9", False), ("4.2.0", True), ("4.2.0.dev1", True), ("4.10.0", True), ("5.0", True)],
)
def test_a_version_has_a_capability_from_one_on(version: str, has_it: bool) -> None:
    """Its numbers are compared, not its text."""
    assert QUALIFY.is_in(version) == has_it


def test_a_lack_is_a_sentence_with_the_version_that_has_it() -> None:
    """There is none where nothing is lacking."""
    assert QUALIFY.lack("4.1.4") == "QUALIFY needs Spark 4.2 or newer, and this is Spark 4.1.4"
    assert QUALIFY.lack("4.3.0") is None


def test_a_capability_is_lacking_in_a_supported_version() -> None:
    """One that all of them have, or none, is no question to ask."""
    assert len(_ALL) > 3
    for capability in _ALL:
        assert LEAST_SPARK < capability.since < BELOW_SPARK, capability
