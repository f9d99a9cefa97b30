"""The baseline of refreshes: the job of a view with executors that do nothing.

It reads the same feeds, evaluates the same expressions, shuffles the same rows, starts the same
tasks and sends as many messages; nothing is looked up, computed, written, or passed on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from relstate.connector.views.job import ViewJob, message_frame
from relstate.connector.views.operators import Operator, scans
from relstate.connector.views.plan.materialize import Materialize
from relstate.connector.views.refresh import Refresher
from relstate.connector.views.sessions import Sessions
from relstate.connector.views.source import CHANGE_TYPE, ScanRead, columns_of, source_frame
from relstate.connector.views.task import Writers
from relstate.connector.views.wire import chunk_schema
from relstate.storage import CatalogView, Store, StoreState


def run_idle(refresher: Refresher, sessions: Sessions, state: StoreState, name: str) -> None:
    """Run the job that would refresh a view from a state, with executors that do nothing."""
    store, view = refresher.store, state.view(name)
    reads = _reads(store, state, view, refresher.plan_of(view))
    given = refresher.run(state, view.view_id, reads).job
    job = IdleJob(
        given.view_id, given.plan, given.mapping, given.target, given.states, given.is_ansi
    )
    sources = {id(read.scan): read for read in reads}
    session = sessions.of(view.definition.settings)
    units = job.mapping.units
    frame = message_frame(job, lambda scan: source_frame(session, sources[id(scan)], units))
    assert len(frame.collect()) >= units


class IdleJob(ViewJob):
    """The job of a view, but for its executors."""

    def step(self, operator: Operator) -> IdleStep:  # type: ignore[override]
        """Return what stands for an executor."""
        return IdleStep(operator)


@dataclass(frozen=True, slots=True)
class IdleStep:
    """Stands for an executor: drops what comes."""

    operator: Operator

    @property
    def executors(self) -> tuple[int, ...]:
        """The executor's number."""
        return (self.operator.number,)

    def run(self, chunk: pa.RecordBatch, writers: Writers) -> pa.RecordBatch:
        """Return no rows, of the fields of the operator."""
        return pa.RecordBatch.from_pylist([], chunk_schema(self.operator.node.fields))


def _reads(store: Store, state: StoreState, view: CatalogView, plan: Materialize) -> list[ScanRead]:
    """Return what a refresh reads: the feed of each table that has changed."""
    vnodes, found = range(state.settings.vnode_count), []
    for scan in scans(plan):
        seen = view.progress.epoch_of(scan.table_id)
        feed = None
        if state.tables[scan.table_id].data_epoch > seen:
            feed = store.feed_plan(
                scan.table,
                seen + 1,
                state.epoch,
                deduplication="netChanges",
                columns=[*columns_of(scan), CHANGE_TYPE],
            )
        found.append(ScanRead(scan, feed, vnodes))
    return found
