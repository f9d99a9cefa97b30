"""The check that every task of a refresh reported once.

Promises: a refresh in which an executor of a unit did not report, or reported twice with different
content, is never committed.
Does not know: how reports travel (wire).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from relstate.connector.task_report import TaskReport
from relstate.storage import errors


def checked(
    view: str, reports: Iterable[TaskReport], units: Sequence[tuple[int, int]]
) -> tuple[TaskReport, ...]:
    """Return the reports of a view, each once, in the order of executors and units.

    ``units``: for each executor its number and in how many units it ran. LostMessageError unless
    every executor of every unit was heard of in exactly one distinct report.
    """
    found = tuple(dict.fromkeys(reports))
    heard = Counter((number, one.unit) for one in found for number in one.parts)
    wanted = {(number, unit) for number, count in units for unit in range(count)}
    wrong = sorted(place for place in heard.keys() | wanted if heard[place] != (place in wanted))
    if wrong:
        number, unit = wrong[0]
        raise errors.LostMessageError(
            f"view {view!r}: executor {number} in unit {unit} was heard of {heard[number, unit]} "
            f"times instead of {int((number, unit) in wanted)}, and so {len(wrong)} in all: Spark "
            "lost a task or ran one twice; nothing was committed: refresh again"
        )
    return tuple(sorted(found, key=lambda one: (one.parts, one.unit)))
