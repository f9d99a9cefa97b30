"""A full refresh: a view is computed from all rows of its inputs, and what differs is written.

After changes of many rows this takes less than to process the changes one by one. So it does where
a few affect most rows, as an early row of a running sum: then executors give up when they have read
as much state. In a full refresh they run over empty state tables, as when the view was created, and
the last one compares the rows that it gets with those that the view has. The commit replaces the
state, and has of the view's rows only those that differ: who follows the view gets no more changes
than from another refresh.

Promises: a decision from the plan and from how many rows there are.
Does not know: how executors run (runner, materialize), what is committed (refresh).
"""

from __future__ import annotations

from collections.abc import Sequence

from .job import ViewJob
from .plan.asof_join import AsofJoin
from .plan.broadcast_join import BroadcastJoin
from .plan.join import Join
from .plan.node import walk
from .plan.window import OrderedWindow
from .viewplan import ViewPlan

# For how many rows of the inputs a full refresh takes as long as another one for a change. The
# workload view-sizes measures both. A window reads and computes what follows a change in its
# partition; others read and write the state of the rows that change, old and new.
_ROWS_OF_A_WINDOW, _ROWS_OF_OTHERS = 20, 3
# A task reads at most so many times its share of the rows of the inputs, of its state; but half of
# all at least, as few groups may have most rows. Where all rows come to one task, which then works
# alone and may read the same rows again and again, an eighth of them.
_STATE_OF_SHARE, _LEAST_STATE, _STATE_ALONE = 2, 1 / 2, 1 / 8
LEAST_STATE_ROWS = 65_536
"""Rows of state that a task may read, however few its share is: they take a tenth of a second."""


def pays_off(job: ViewJob, rows: Sequence[int], most_of_a_task: int) -> bool:
    """Return whether a view with so many changes should be computed from all rows of its inputs.

    ``rows``: how many each source has; ``most_of_a_task``: how many of them one task may get.
    """
    if sum(rows) > most_of_a_task and _has_one_unit(job.plan):
        return False
    return _share_of_changes(job, rows) * rows_of_a_change(job.plan) > 1


def most_state_rows(job: ViewJob, rows: int, most_of_a_task: int) -> int | None:
    """Return how many rows of state a task may read before a full refresh takes less; None: any.

    ``rows``: of all inputs; ``most_of_a_task``: how many of them one task may get.
    """
    if not _has_one_unit(job.plan):
        share = max(_STATE_OF_SHARE / job.mapping.units, _LEAST_STATE)
    elif rows <= most_of_a_task:
        share = _STATE_ALONE
    else:
        return None
    return max(round(rows * share), LEAST_STATE_ROWS)


def _has_one_unit(plan: ViewPlan) -> bool:
    """Return whether all rows of a plan come to one task, as without a GROUP BY."""
    return any(not fragment.distribution for fragment in plan.fragments)


def _share_of_changes(job: ViewJob, rows: Sequence[int]) -> float:
    """Return which share of what a view is computed from changes; ``rows``: of each source.

    A change of an input of a join changes the pairs of that row: so it counts as what share of that
    input it is.
    """
    if not joins_rows(job.plan):
        return job.rows / max(sum(rows), 1)
    return max(read.rows / max(count, 1) for read, count in zip(job.reads, rows, strict=True))


def rows_of_a_change(plan: ViewPlan) -> int:
    """Return for how many rows a full refresh takes as long as another one for a change."""
    has_window = any(isinstance(node, OrderedWindow) for node in walk(plan.root))
    return _ROWS_OF_A_WINDOW if has_window else _ROWS_OF_OTHERS


def joins_rows(plan: ViewPlan) -> bool:
    """Return whether a plan has a join."""
    return any(isinstance(node, Join | AsofJoin | BroadcastJoin) for node in walk(plan.root))


def can_be_full(plan: ViewPlan, *, has_quarantine: bool) -> bool:
    """Return whether a view can be computed from all rows of its inputs in a refresh.

    Not if it has no state to replace, or its state has more than the rows give: of the present
    time, or of rows that the view leaves out.
    """
    has_state = any(not operator.is_root for operator in plan.operators)
    return has_state and not plan.reads_clock and not has_quarantine
