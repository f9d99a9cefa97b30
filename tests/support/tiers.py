"""The tiers of the tests, which decide what `make test-unit`, `make test` and `make test-slow` run.

A test that uses Spark is marked `spark`, one that takes long is marked `slow`, one that tries
random cases is marked `law`. All are derived: `spark` from the fixtures that a test asks for,
`slow` from the durations that `make durations` has recorded, `law` from hypothesis, or from a seed
among its arguments. A test without a recorded duration is not slow, unless it needs a timeout.
A law is run in its own tier with few cases, and again in `make test-slow` with many.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from support.sources import ROOT

DURATIONS = ROOT / "tests" / "durations.json"

# Seconds from which a test is slow: tests without Spark have to run in an instant, because
# developers run them after every edit.
SLOW = 1.0
SLOW_WITH_SPARK = 4.0
# What starts Spark in processes of its own: a cluster, and drivers.
CLUSTER_FIXTURES = {"cluster", "cluster_driver", "make_driver"}
# Fixtures that take long, which the durations of calls leave out: a year of flights with all their
# changes, the history of a store that eight processes wrote to, and drivers of clusters.
SLOW_FIXTURES = {"year", "stream", "raced", *CLUSTER_FIXTURES}
# Arguments of tests that try random cases without hypothesis.
RANDOM_FIXTURES = {"seed", "seeds"}


def recorded_durations() -> dict[str, float]:
    """Return the seconds of every test that took longer than an instant, by its node id."""
    durations: dict[str, float] = json.loads(DURATIONS.read_text("utf-8"))
    return durations


def markers_of(
    node_id: str,
    fixtures: Collection[str],
    durations: Mapping[str, float],
    *,
    has_timeout: bool = False,
    is_random: bool = False,
) -> tuple[str, ...]:
    """Return the names of a test's markers: some of `spark`, `slow` and `law`."""
    uses_spark = "spark" in fixtures or not CLUSTER_FIXTURES.isdisjoint(fixtures)
    seconds = durations.get(node_id, 0.0)
    is_long = seconds > (SLOW_WITH_SPARK if uses_spark else SLOW)
    is_slow = is_long or has_timeout or not SLOW_FIXTURES.isdisjoint(fixtures)
    is_law = is_random or not RANDOM_FIXTURES.isdisjoint(fixtures)
    return ("spark",) * uses_spark + ("slow",) * is_slow + ("law",) * is_law
