"""A replacement takes the place of its view, once it is populated.

It is refreshed to the latest epoch. If the view keeps its id, the rows of the replacement are
written again under that id, and then what has changed in them meanwhile; one commit exchanges both.
Readers of the view see its old rows until that commit, and its new ones after it; views that read
it take in the difference.

Promises: the view exists at every epoch, with its old SELECT or its new one. The commit conflicts
if either was refreshed or altered since it was prepared; what was written is then used again.
Does not know: how a replacement is planned or populated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from relstate.storage import (
    CHANGE_TYPE,
    Kind,
    ReadPlan,
    Replacement,
    SegmentRecord,
    Store,
    StoreState,
    WriteTarget,
    adds_row,
    errors,
)

from .lineage import upstream
from .refresh import Round
from .row_copy import copied_rows
from .runner import VIEW_CHANGED, JobRunner

_ATTEMPTS = 100


def finish_replacement(runner: JobRunner, view_id: int) -> None:
    """Let a populated replacement take the place of its view; do nothing if it was dropped.

    ConflictError if others keep changing the views; DependentViewsError if a view was created
    meanwhile that reads what the replacement does not have; the errors of a refresh.
    """
    exchange = _Exchange(runner, view_id)
    try:
        for _ in range(_ATTEMPTS):
            try:
                with runner.store.one_look(again=True):
                    if exchange.attempt():
                        return
            except VIEW_CHANGED:
                continue
        raise errors.ConflictError(
            f"{runner.store.path}: other processes changed the view or its replacement {_ATTEMPTS} "
            "times; it was not replaced: refresh again"
        )
    except errors.UnknownOutcomeError:
        raise
    except Exception:
        exchange.discard()
        raise


class _Exchange:
    """The attempts to let a replacement take the place of its view. Used once."""

    def __init__(self, runner: JobRunner, view_id: int) -> None:
        self._runner = runner
        self._store = runner.store
        self._view_id = view_id
        self._copy: _Copy | None = None

    def attempt(self) -> bool:
        """Return whether there is nothing left to do. ConflictError, TableNotFoundError."""
        state = self._store.state
        if not _is_replacement(state, self._view_id):
            self.discard()
            return True
        refreshed = Round(self._runner, state, upstream(state, [self._view_id])).run()
        state = self._store.state_at(refreshed.epoch)
        planned = Replacement.of(state, state.views[self._view_id])
        started = self._store.environment.now()
        segments: tuple[SegmentRecord, ...] = ()
        if planned.table is not None:
            self._copy = _Copy.of(self._runner, state, planned, self._copy)
            started, segments = self._copy.started, self._copy.segments
        if planned.view.progress.reflects > refreshed.reflects:
            return False
        self._store.jobs.commit(planned.proposal(state, started, refreshed.reflects, segments))
        return True

    def discard(self) -> None:
        """Remove what was written: no commit names it."""
        if self._copy is not None:
            self._store.jobs.discard(self._copy.segments)


def _is_replacement(state: StoreState, view_id: int) -> bool:
    view = state.views.get(view_id)
    return view is not None and view.definition.replaces is not None


@dataclass(frozen=True, slots=True)
class _Copy:
    """The rows of a replacement at ``epoch``, written under the id of the view that it replaces.

    ``target``: the table as which they were written; ``started``: when that began.
    """

    target: WriteTarget
    epoch: int
    started: int
    segments: tuple[SegmentRecord, ...]

    @classmethod
    def of(
        cls, runner: JobRunner, state: StoreState, planned: Replacement, earlier: _Copy | None
    ) -> _Copy:
        """Return the copy as of a state: the earlier one with what has changed since, if any."""
        assert planned.table is not None
        store, settings = runner.store, state.settings
        target = WriteTarget(store.path, planned.table, settings.vnode_count, settings.shards)
        rows = _rows_of(store, state, planned)
        if earlier is not None and earlier.target == target:
            return earlier.advanced(store, rows, state.epoch)
        if earlier is not None:
            store.jobs.discard(earlier.segments)
        started = store.environment.now()
        return cls(target, state.epoch, started, copied_rows(runner.spark, rows, target))

    def advanced(self, store: Store, rows: ReadPlan, epoch: int) -> _Copy:
        """Return the copy with the changes of the replacement up to an epoch."""
        assert rows.columns is not None
        feed = store.jobs.feed_plan(
            rows.definition.name,
            self.epoch + 1,
            epoch,
            deduplication="netChanges",
            update_images=False,
            columns=[*rows.columns, CHANGE_TYPE],
        )
        with self.target.open(store.environment) as writer:
            for batch in feed.read(environment=store.environment):
                *columns, change_types = batch.columns
                changed = pa.RecordBatch.from_arrays(columns, list(rows.columns))
                kinds = np.where(adds_row(change_types), Kind.PUT, Kind.DELETE).astype(np.uint8)
                writer.write(changed, kinds)
            segments = writer.finish()
        return replace(self, epoch=epoch, segments=self.segments + segments)


def _rows_of(store: Store, state: StoreState, planned: Replacement) -> ReadPlan:
    """Return the plan of reading all columns of a replacement, hidden ones too."""
    name = state.name_of(planned.replacement.view_id)
    columns = [column.name for column in state.table(name).definition.schema.columns]
    return ReadPlan.of(store.path, state, name, columns)
