"""The baseline of refreshes: the job of a view with executors that do nothing.

It reads the same feeds, evaluates the same expressions, shuffles the same rows, starts the same
tasks and sends as many messages; nothing is looked up, computed, written, or passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pyarrow as pa

from relstate.connector.views.executor.changes import chunk_schema, empty_chunk
from relstate.connector.views.frame import report_frame
from relstate.connector.views.job import ViewJob
from relstate.connector.views.runner import JobRunner
from relstate.connector.views.scans import SourceRead
from relstate.connector.views.sessions import Sessions
from relstate.connector.views.task import ExecutorStep, Writers
from relstate.connector.views.viewplan import Operator, ViewPlan
from relstate.storage import CHANGE_TYPE, CatalogView, Store, StoreState


def run_idle(runner: JobRunner, sessions: Sessions, state: StoreState, name: str) -> None:
    """Run the job that would refresh a view from a state, with executors that do nothing."""
    store, view = runner.store, state.view(name)
    reads = _reads(store, state, view, runner.plan_of(state, view.view_id))
    real_job = runner.job(state, view.view_id, reads)
    job = IdleJob(**{field.name: getattr(real_job, field.name) for field in fields(real_job)})
    frame = report_frame(job, sessions.of(view.definition.settings))
    assert len(frame.collect()) >= job.mapping.units


class IdleJob(ViewJob):
    """The job of a view, but for its executors."""

    def combiner(self, operator: Operator) -> None:
        """Return None: to combine rows is an executor's work, wherever it is done."""

    def step(self, operator: Operator) -> ExecutorStep:
        """Return the replacement of an executor."""
        return IdleStep(operator, (), self.is_ansi)


class IdleStep(ExecutorStep):
    """Stands for an executor: drops what comes."""

    def run(self, chunk: pa.RecordBatch, writers: Writers) -> pa.RecordBatch:
        """Return no rows, of the fields of the operator."""
        return empty_chunk(chunk_schema(self.operator.node.fields))

    def batches(self, chunk: pa.RecordBatch, writers: Writers) -> Iterator[pa.RecordBatch]:
        """Yield what `run` returns."""
        yield self.run(chunk, writers)


def _reads(store: Store, state: StoreState, view: CatalogView, plan: ViewPlan) -> list[SourceRead]:
    """Return what a refresh reads: the feed of each table that has changed."""
    vnodes, reads = range(state.settings.vnode_count), []
    for scan in plan.scans:
        seen = view.progress.epoch_of(scan.table_id)
        feed = None
        if state.tables[scan.table_id].data_epoch > seen:
            feed = store.jobs.feed_plan(
                scan.table,
                seen + 1,
                state.epoch,
                deduplication="netChanges",
                columns=[*scan.column_names, CHANGE_TYPE],
            )
        reads.append(SourceRead(scan, feed, vnodes))
    return reads
