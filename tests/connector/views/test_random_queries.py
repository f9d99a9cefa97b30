"""The law of views for random queries over random tables with random changes.

``RELSTATE_QUERY_SECONDS=7200 RELSTATE_QUERY_SEED=1000 pytest`` of this file searches for hours.
Otherwise one case is tried, always the same, so that no run of all tests fails by chance. A failure
is reduced and printed as a `Case`, which joins tests/support/found_cases.py.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from support.case_reducer import Reducer
from support.found_cases import FOUND
from support.random_cases import random_case
from support.view_cases import Case, run_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = float(os.environ.get("RELSTATE_QUERY_SECONDS", "0"))
_FIRST_SEED = int(os.environ.get("RELSTATE_QUERY_SEED", "0"))
_REFUSED_SHARE = 0.4


@pytest.mark.timeout(_SECONDS + 300)
def test_a_view_of_a_random_query_equals_its_select(spark: SparkSession) -> None:
    """After every refresh a view equals its SELECT over its inputs, whatever both are."""
    counts = {"correct": 0, "refused": 0, "invalid": 0}
    end, seed = monotonic() + _SECONDS, _FIRST_SEED
    while True:
        case = random_case(seed)
        outcome = run_case(spark, case)
        for name, (kind, text) in outcome.failures.items():
            reduced = Reducer(lambda smaller: run_case(spark, smaller), case, name, kind).reduce()
            pytest.fail(f"seed {seed}, {name}: {kind}: {text}\n{reduced or case.only([name])}")
        counts["correct"] += len(outcome.correct)
        counts["refused"] += len(outcome.refused)
        counts["invalid"] += len(outcome.invalid)
        seed += 1
        if monotonic() >= end:
            break
    # A generator whose queries are refused proves nothing.
    assert counts["refused"] < _REFUSED_SHARE * counts["correct"], counts


@pytest.mark.parametrize("name", FOUND)
def test_what_random_queries_found_stays_mended(name: str, spark: SparkSession) -> None:
    """The reduced cases of earlier failures."""
    case: Case = FOUND[name]
    outcome = run_case(spark, case)
    assert (outcome.failures, outcome.invalid, outcome.refused) == ({}, {}, {})
