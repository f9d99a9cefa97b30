"""The reduction of failing cases of views: what the failure does not need goes."""

from __future__ import annotations

from dataclasses import replace

from support.case_reducer import Reducer
from support.random_tables import Commit, TableSpec
from support.view_cases import Case, Outcome, Step, View

_T = TableSpec("t", (("k", "INT"), ("g", "STRING"), ("n", "INT")), ("k",), ("k",))
_U = TableSpec("u", (("n", "INT"),))
_QUERY = "SELECT g, median(n) AS m, count(*) AS c FROM t WHERE n > 1 GROUP BY g ORDER BY g LIMIT 3"
_MEDIAN = "SELECT MEDIAN(n) AS m FROM t GROUP BY g"


def rows(*keys: int) -> Commit:
    """Return the commit of rows of t with some keys."""
    return Commit("t", tuple(((key,), (key, "a", 2)) for key in keys))


_CASE = Case(
    (replace(_T, ttl=60, index=("n",)), _U),
    (
        Step((rows(1, 2), Commit("u", ((1, (1,)),))), accident="link _log/*"),
        Step((rows(3, 4), replace(rows(5, 6, 7, 8), ttl=5)), seconds=20),
        Step((rows(9),), is_refreshed=False, is_compacted=True),
        Step((Commit("u", ((2, (2,)),)), rows(10))),
    ),
    (
        View("v", "SELECT n FROM u"),
        View("w", _QUERY, 2, (3, 8), accident=7),
        View("x", "SELECT k FROM t", 1),
    ),
    vnode_count=16,
    part_rows=5,
    many_rows=1,
)


def has_row(case: Case, key: int) -> bool:
    """Return whether a row of t is committed."""
    commits = (commit for step in case.steps for commit in step.commits if commit.table == "t")
    return any((key,) in dict(commit.puts) for commit in commits)


def wrong_medians(case: Case) -> Outcome:
    """Return what a made-up fault does: medians are wrong as soon as row 7 is there."""
    wrong = [view.name for view in case.views if "MEDIAN" in view.sql.upper() and has_row(case, 7)]
    return Outcome(dict.fromkeys(wrong, ("differs", "a sentence")), {}, {}, [])


def test_a_case_is_reduced_to_what_its_failure_needs() -> None:
    """One table, one step, one row, one view of one call, and no setting but the usual."""
    reduced = Reducer(wrong_medians, _CASE, "w", "differs").reduce()

    assert reduced == Case((_T,), (Step((rows(7),)),), (View("w", _MEDIAN),))


def test_a_failure_that_needs_other_views_is_not_reduced() -> None:
    """None says that the view alone does not fail."""

    def only_beside_others(case: Case) -> Outcome:
        return wrong_medians(case) if len(case.views) > 1 else Outcome({}, {}, {}, [])

    assert Reducer(only_beside_others, _CASE, "w", "differs").reduce() is None


def test_a_failure_of_another_kind_is_not_taken_for_the_same() -> None:
    """What differs and what raises are two faults, though one query has both."""

    def wrong_with_where(case: Case) -> Outcome:
        failures = {
            view.name: ("differs" if "WHERE" in view.sql else "refresh ValueError", "a sentence")
            for view in case.views
        }
        return Outcome(failures, {}, {}, [])

    reduced = Reducer(wrong_with_where, replace(_CASE, views=_CASE.views[1:2]), "w", "differs")

    case = reduced.reduce()
    assert case is not None
    assert case.views[0].sql == "SELECT g FROM t WHERE n GROUP BY g"


def test_a_reduction_ends_after_its_rounds() -> None:
    """However much there is to reduce, the case that is returned fails."""
    runs = []

    def counted(case: Case) -> Outcome:
        runs.append(case)
        return wrong_medians(case)

    reduced = Reducer(counted, _CASE, "w", "differs", rounds=4).reduce()

    assert reduced is not None
    assert "w" in wrong_medians(reduced).failures
    assert len(runs) <= 5
