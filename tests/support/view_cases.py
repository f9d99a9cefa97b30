"""Views over tables that change, as plain data: what random cases find is reduced and printed.

`case_run` runs a case, and compares its views with their SELECTs after every refresh.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from support.local import IN_DRIVER
from support.random_tables import Commit, TableSpec

Accident = int | str
"""What ends a driver: its touch of the disk with this number, or the first that matches a pattern.

`FAILING_TASKS` are tasks that fail instead.
"""
FAILING_TASKS = "tasks fail"


@dataclass(frozen=True)
class View:
    """A view: its SELECT, the step after whose commits it is created, its units by step.

    ``units``: from the step of its creation on, the last number for all steps that follow.
    ``accident``: what happens to the first attempt to create it. ``cluster``: the columns by which
    it is distributed. ``replacement``: the step before whose refresh it gets another SELECT, and
    that SELECT.
    """

    name: str
    sql: str
    step: int = 0
    units: tuple[int, ...] = (1,)
    accident: Accident | None = None
    cluster: tuple[str, ...] = ()
    replacement: tuple[int, str] | None = None

    def reads(self, name: str) -> bool:
        """Return whether a table or view is named in the SELECT, or in the one that replaces it."""
        texts = [self.sql, *(() if self.replacement is None else (self.replacement[1],))]
        return any(re.search(rf"\b{name}\b", text) for text in texts)

    def units_at(self, step: int) -> int:
        """Return the number of units from a step on."""
        return self.units[min(step - self.step, len(self.units) - 1)]


@dataclass(frozen=True)
class Step:
    """Commits; then views are created and rescaled; then they are refreshed, or not yet.

    ``seconds``: how much time passes before. ``is_compacted``: whether the store is compacted after
    the commits. ``accident``: what happens to the first attempt to refresh.
    """

    commits: tuple[Commit, ...] = ()
    is_refreshed: bool = True
    seconds: int = 0
    is_compacted: bool = False
    accident: Accident | None = None


@dataclass(frozen=True)
class Case:
    """Tables, what happens to them, and views.

    ``part_rows``: of a part of a refresh. ``local_rows``: of one in the driver's process at most.
    ``time_zone``: of the session. ``is_full``: refreshes as jobs of Spark are full where they can
    be.
    """

    tables: tuple[TableSpec, ...]
    steps: tuple[Step, ...]
    views: tuple[View, ...]
    vnode_count: int = 1
    part_rows: int | None = None
    many_rows: int | None = None
    local_rows: int = IN_DRIVER
    time_zone: str = "UTC"
    is_full: bool = False

    def only(self, names: Collection[str]) -> Case:
        """Return the case with those views alone, and the views that they read."""
        needed: list[View] = []
        for view in reversed(self.views):
            if view.name in names or any(reader.reads(view.name) for reader in needed):
                needed.append(view)
        return replace(self, views=tuple(reversed(needed)))


@dataclass
class Outcome:
    """What became of the views of a case, by name.

    ``failures`` have a kind, a word, and a sentence. ``invalid`` queries are refused by Spark, or
    fail in Spark over the rows of some step. ``accidents``: those that happened, in order.
    ``replaced``: the views that got another SELECT.
    """

    failures: dict[str, tuple[str, str]]
    refused: dict[str, str]
    invalid: dict[str, str]
    correct: list[str]
    accidents: list[Accident] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
