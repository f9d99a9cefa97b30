"""The law of views for random queries over random tables with random changes.

``RELSTATE_QUERY_SECONDS=7200 RELSTATE_QUERY_SEED=1000 pytest`` of this file searches for hours.
Otherwise the same few cases are tried each time, so that no run of all tests fails by chance. A
failure is reduced and printed as a `Case`, which joins tests/support/found_cases.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from support.case_reducer import Reducer
from support.case_run import run_case
from support.found_cases import FOUND
from support.random_cases import random_case
from support.random_tables import Commit, TableSpec
from support.view_cases import FAILING_TASKS, Accident, Case, Step, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.examples import Seeds

_SECONDS = float(os.environ.get("RELSTATE_QUERY_SECONDS", "0"))
_FIRST_SEED = int(os.environ.get("RELSTATE_QUERY_SEED", "0"))
_REFUSED_SHARE = 0.4


@pytest.mark.timeout(_SECONDS + 3600)
def test_a_view_of_a_random_query_equals_its_select(spark: SparkSession, seeds: Seeds) -> None:
    """After every refresh a view equals its SELECT over its inputs, whatever both are.

    Time passes, rows expire, drivers are ended and tasks fail before a refresh is repeated.
    """
    counts = {"correct": 0, "refused": 0, "invalid": 0}
    for seed in seeds_to_try(seeds):
        case = random_case(seed)
        outcome = run_case(spark, case)
        for name, (kind, text) in outcome.failures.items():
            reduced = Reducer(lambda smaller: run_case(spark, smaller), case, name, kind).reduce()
            pytest.fail(f"seed {seed}, {name}: {kind}: {text}\n{reduced or case}")
        counts["correct"] += len(outcome.correct)
        counts["refused"] += len(outcome.refused)
        counts["invalid"] += len(outcome.invalid)
    # A generator whose queries are refused proves nothing.
    assert counts["refused"] < _REFUSED_SHARE * counts["correct"], counts


def seeds_to_try(seeds: Seeds) -> Iterator[int]:
    """Yield the seeds of this run, at least one."""
    if not _SECONDS:
        yield from seeds(2)
        return
    end = monotonic() + _SECONDS
    for seed in count(_FIRST_SEED):
        yield seed
        if monotonic() >= end:
            return


_ROWS = TableSpec("t", (("k", "INT"), ("g", "STRING"), ("n", "INT")), ("k",), ("k",))
_LAST = "SELECT g, max_by(n, k) AS k FROM t GROUP BY g"
_VIEWS = (
    View("sums", "SELECT g, count(*) AS c, sum(n) AS s FROM t GROUP BY g", accident="link _log/*"),
    View("counts", "SELECT c, count(*) AS n FROM sums GROUP BY c", units=(3,)),
    View("firsts", "SELECT g, min(k) AS k FROM t GROUP BY g", 1, accident="sync _log"),
    View(
        "lasts", "SELECT g, max(k) AS k FROM t GROUP BY g", cluster=("k",), replacement=(2, _LAST)
    ),
    View("odd", "SELECT k, g FROM t", replacement=(3, "SELECT k, n FROM t WHERE k % 2 = 1")),
)
_ACCIDENTS: tuple[Accident, ...] = ("write _log/*", "link _log/*", "sync _log", FAILING_TASKS, 5)


def rows_of_t(number: int) -> Commit:
    """Return a commit of so many rows, all with their number as a value."""
    return Commit("t", tuple(((k,), (k, "ab"[k % 2], number)) for k in range(number)))


# Half a dozen refreshes and as many accidents take ten seconds; a test with a timeout is slow.
@pytest.mark.timeout(600)
def test_what_an_accident_ends_is_right_when_it_is_repeated(spark: SparkSession) -> None:
    """Each accident of random cases happens, to a refresh or to a CREATE; views are replaced."""
    # The views of the first step are up to date when it ends: its refresh would not touch the disk.
    steps = [Step((rows_of_t(2),))]
    for size, accident in enumerate(_ACCIDENTS, start=3):
        steps.append(Step((rows_of_t(size),), accident=accident))
    outcome = run_case(spark, Case((_ROWS,), tuple(steps), _VIEWS, vnode_count=8))

    assert (outcome.failures, outcome.invalid, outcome.refused) == ({}, {}, {})
    created = [view.accident for view in _VIEWS if view.accident is not None]
    assert sorted(map(str, outcome.accidents)) == sorted(map(str, [*_ACCIDENTS, *created]))
    assert outcome.replaced == ["lasts", "odd"]


@pytest.mark.parametrize("name", FOUND)
def test_what_random_queries_found_stays_mended(name: str, spark: SparkSession) -> None:
    """The reduced cases of earlier failures."""
    case: Case = FOUND[name]
    outcome = run_case(spark, case)
    assert (outcome.failures, outcome.invalid, outcome.refused) == ({}, {}, {})
