"""A compaction whose parts run in other processes: values that travel.

Promises: whoever runs the parts, in whatever order and how often, what they wrote is seen once the
job is committed, whole, or never.
Does not know: who runs them, or how what they wrote comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..environment import Environment, environment_of
from ..log.entry import SegmentRecord
from ..log.log import Log
from ..log.state import StoreState
from .compaction import CompactionReport, full_merge, replaced, report_of
from .policy import Merge
from .rewrite import Rewrite


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """The full compaction of a table and of those that share files with it. Picklable.

    ``started``: microseconds since 1970.
    """

    path: str
    started: int
    merge: Merge
    rewrite: Rewrite

    @classmethod
    def planned(
        cls,
        environment: Environment,
        state: StoreState,
        table_id: int,
        *,
        spares_young: bool = False,
    ) -> CompactionJob | None:
        """Return the job for a table at a state; None if there is nothing to do.

        ``spares_young``: as `policy.full` takes it.
        """
        started = environment.now()
        planned = full_merge(environment, state, table_id, spares_young=spares_young)
        if planned is None:
            return None
        _, merge, rewrite = planned
        return cls(environment.location(""), started, merge, rewrite)

    @property
    def inputs(self) -> frozenset[str]:
        """The segments that are merged, by name."""
        return frozenset(file.name for file in self.merge.inputs)

    @property
    def parts(self) -> int:
        """How many parts can be run apart: one a shard, or one in all."""
        return len(self.rewrite.groups)

    def run(
        self, parts: Iterable[int], environment: Environment | None = None
    ) -> tuple[SegmentRecord, ...]:
        """Write the segments of some parts, by their numbers; errors as of `Rewrite.run`."""
        groups = self.rewrite.groups
        return self.rewrite.run(
            environment or environment_of(self.path), [groups[part] for part in parts]
        )

    def commit(
        self, log: Log, state: StoreState, records: Sequence[SegmentRecord]
    ) -> tuple[StoreState, CompactionReport]:
        """Commit what all parts have written; errors as of `compaction.replaced`.

        Nothing is removed where that fails: this may be a second attempt, and the first have
        landed. What no commit names is left to vacuum.
        """
        state = replaced(log, state, self.started, [self.merge], records)
        return state, report_of(state.epoch, [self.merge], records)
