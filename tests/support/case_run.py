"""Runs cases of views, and compares each view with its SELECT after every refresh.

Spark runs the SELECT over the rows that the tables have, kept beside the store, at the time of a
clock that moves only between steps.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa

from relstate.connector.sql import Database
from relstate.connector.syntax.parsed_query import ParsedQuery
from relstate.connector.syntax.present_time import query_at
from relstate.connector.types import struct_of
from relstate.connector.views import backfill, frame, full_refresh, job, refresh, runner
from relstate.connector.views.full_refresh import LEAST_STATE_ROWS, pays_off
from relstate.connector.views.task import FragmentTask
from relstate.storage import Store
from relstate.storage import types as t
from relstate.storage.errors import UnsupportedStatementError
from relstate.storage.segment.registry import registry
from support.clock import ManualClock
from support.commits import quick_environment
from support.faulty_environment import FaultyEnvironment
from support.local import IN_JOB, local_rows
from support.multisets import difference, rows_of_table
from support.random_tables import FIRST_TIME, LiveRows
from support.spark import INTERPRETED
from support.view_cases import FAILING_TASKS, Accident, Case, Outcome, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START = int(FIRST_TIME.timestamp()) * 1_000_000


def run_case(spark: SparkSession, case: Case) -> Outcome:
    """Return what becomes of the views of a case, in a store of its own."""
    folder = tempfile.mkdtemp(prefix="relstate-case-")
    clock = ManualClock(_START)
    environment = quick_environment(f"{folder}/store", clock)
    with _limits(case):
        store = Store.create(
            environment.root, environment=environment, vnode_count=case.vnode_count, shards=1
        )
        try:
            return _Run(spark, store, clock, case).outcome()
        finally:
            store.close()
            # A driver that was ended may have a job that still writes.
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _limits(case: Case) -> Iterator[None]:
    part_rows = case.part_rows or runner.PART_ROWS
    unit_rows = max(case.part_rows // 2, 1) if case.part_rows else job.UNIT_ROWS
    with (
        patch.object(refresh, "PART_ROWS", part_rows),
        patch.object(refresh, "pays_off", (lambda *_: True) if case.is_full else pays_off),
        # With small parts, refreshes also read too much state for their tables, and become full.
        patch.object(full_refresh, "LEAST_STATE_ROWS", 0 if case.part_rows else LEAST_STATE_ROWS),
        patch.object(runner, "PART_ROWS", part_rows),
        patch.object(backfill, "PART_ROWS", part_rows),
        patch.object(frame, "MANY_ROWS", case.many_rows or frame.MANY_ROWS),
        patch.object(job, "UNIT_ROWS", unit_rows),
        local_rows(case.local_rows, may_be_full=True),
    ):
        yield


@contextmanager
def _failing_tasks() -> Iterator[None]:
    """Let the tasks of about every second view fail when they have written everything."""

    # Made here, so that it travels to tasks by value: they cannot import what tests consist of.
    class FailingTask(FragmentTask):
        def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from super().__call__(batches)
            if self.view_id % 4 >= 2:
                raise RuntimeError("an accident")

    with patch.object(frame, "FragmentTask", FailingTask):
        yield


def _session(spark: SparkSession, time_zone: str) -> SparkSession:
    """Return a new session in a time zone."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", time_zone)
    return session


class _Run:
    def __init__(self, spark: SparkSession, store: Store, clock: ManualClock, case: Case) -> None:
        self._store = store
        self._clock = clock
        self._case = case
        self._session = _session(spark, case.time_zone)
        self._db = Database(self._session, store)
        self._batch = _session(spark, case.time_zone)
        for name, value in INTERPRETED.items():
            self._batch.conf.set(name, value)
        self._rows = {table.name: LiveRows(table) for table in case.tables}
        self._outcome = Outcome({}, {}, {}, [])
        self._views: dict[str, View] = {}

    def outcome(self) -> Outcome:
        for table in self._case.tables:
            table.create(self._store)
        for number in range(len(self._case.steps)):
            self._step(number)
        self._check()
        self._outcome.correct = list(self._views)
        return self._outcome

    def _step(self, number: int) -> None:
        specs = {table.name: table for table in self._case.tables}
        step = self._case.steps[number]
        self._clock.advance(step.seconds)
        for commit in step.commits:
            if commit.size:
                commit.write(self._store, specs[commit.table])
                self._rows[commit.table].take(commit, self._clock.now())
        if step.is_compacted:
            self._store.compact()
        self._show()
        created = [view for view in self._case.views if view.step == number]
        for view in created:
            self._create(view)
        self._compare([view.name for view in created])
        for view in list(self._views.values()):
            if view.replacement is not None and view.replacement[0] == number:
                self._replace(view, view.replacement[1])
        self._rescale(number)
        if step.is_refreshed:
            if step.accident is not None:
                self._suffer(step.accident, lambda db: db.refresh())
            self._refresh()
            self._compare(list(self._views))

    def _suffer(self, accident: Accident, act: Callable[[Database], object]) -> None:
        """Begin something in a driver that an accident ends, if it comes so far."""
        if accident == FAILING_TASKS:
            with _failing_tasks(), local_rows(IN_JOB, may_be_full=True):
                try:
                    act(self._db)
                except Exception:
                    self._outcome.accidents.append(accident)
            return
        path = self._store.path
        environment = FaultyEnvironment(path, crash_at=accident, clock=self._clock)
        with environment.crashing(), suppress(Exception):
            act(Database(self._session, Store.open(path, environment=environment)))
        registry.close(path)
        if environment.struck:
            self._outcome.accidents.append(accident)

    # What is right

    def _show(self) -> None:
        """Give the session that says what is right the rows of the tables, and the time."""
        for table in self._case.tables:
            if table.is_merged:  # the laws of the storage say which rows these are
                rows = self._store.table(table.name).to_arrow()
            else:
                live = self._rows[table.name].at(self._clock.now())
                rows = pa.Table.from_batches([table.arrow(self._store, live)])
            schema = self._store.table(table.name).schema
            types = struct_of([t.Field(c.name, c.type, c.nullable) for c in schema.visible_columns])
            # Spark casts no Arrow table of no chunks.
            frame = self._batch.createDataFrame(rows if rows.num_rows else [], types)
            frame.createOrReplaceTempView(table.name)
        for view in self._views.values():
            self._batch.sql(self._text(view)).createOrReplaceTempView(view.name)

    def _text(self, view: View) -> str:
        """Return the SELECT of a view at the time of the clock."""
        try:
            return query_at(ParsedQuery.parse(view.sql), self._clock.now()).text
        except UnsupportedStatementError:
            return view.sql  # CREATE refuses it, too

    def _spark_error(self, view: View) -> str | None:
        """Return the error of Spark's SELECT over the rows there are, or were when it was made."""
        try:
            self._batch.sql(self._text(view)).toArrow()
        except Exception as error:
            return _sentence(error)
        return None

    # Views

    def _create(self, view: View) -> None:
        try:
            self._batch.sql(self._text(view)).createOrReplaceTempView(view.name)
        except Exception as error:
            self._outcome.invalid[view.name] = _sentence(error)
            return
        try:
            self._create_whole(view)
            self._views[view.name] = view
        except UnsupportedStatementError as error:
            if "bug" in str(error):
                self._outcome.failures[view.name] = ("bug", _sentence(error))
            else:
                self._outcome.refused[view.name] = str(error)
        except Exception as error:
            if (reason := self._spark_error(view)) is not None:
                self._outcome.invalid[view.name] = reason
            else:
                self._outcome.failures[view.name] = (f"create {_kind(error)}", _sentence(error))
            self._db.sql(f"DROP MATERIALIZED VIEW IF EXISTS {view.name}")
        if view.name not in self._views:
            self._batch.catalog.dropTempView(view.name)

    def _create_whole(self, view: View) -> None:
        """Create a view, or let a refresh go on with what an accident has left of it."""
        statement = (
            f"CREATE MATERIALIZED VIEW {view.name} TBLPROPERTIES ('parallelism' = "
            f"'{view.units_at(view.step)}') AS {view.sql}"
        )
        if view.cluster:
            cluster = f"{view.name} CLUSTER BY ({', '.join(view.cluster)})"
            statement = statement.replace(view.name, cluster, 1)
        if view.accident is not None:
            self._suffer(view.accident, lambda db: db.sql(statement))
        if view.name in self._store.views():
            self._db.refresh([view.name])
        else:
            self._db.sql(statement)

    def _replace(self, view: View, sql: str) -> None:
        """Give a view another SELECT; it stays as it is if that is refused, or fails in Spark."""
        changed = replace(view, sql=sql, replacement=None)
        try:
            self._batch.sql(self._text(changed)).toArrow()
        except Exception:
            return
        # Every second one by ALTER.
        statement = f"CREATE OR REPLACE MATERIALIZED VIEW {view.name} AS {sql}"
        if len(sql) % 2 and not view.cluster:
            statement = f"ALTER MATERIALIZED VIEW {view.name} AS {sql}"
        try:
            self._db.sql(statement)
        except UnsupportedStatementError:
            return
        except Exception as error:
            self._outcome.failures[view.name] = (f"replace {_kind(error)}", _sentence(error))
            self._drop(view.name)
            return
        self._batch.sql(self._text(changed)).createOrReplaceTempView(view.name)
        self._views[view.name] = changed
        self._outcome.replaced.append(view.name)
        self._compare([view.name])

    def _rescale(self, step: int) -> None:
        for view in self._views.values():
            units = view.units_at(step)
            if step > view.step and units != view.units_at(step - 1):
                self._db.sql(f"ALTER MATERIALIZED VIEW {view.name} SET PARALLELISM {units}")

    def _refresh(self) -> None:
        try:
            self._db.refresh()
        except Exception as error:
            whole = error
            for name in list(self._views):
                if name not in self._views:
                    continue
                try:
                    self._db.refresh([name])
                except Exception as own:
                    whole = own
                    reason = self._spark_error(self._views[name])
                    if reason is not None:
                        self._outcome.invalid[name] = reason
                    else:
                        self._outcome.failures[name] = (f"refresh {_kind(own)}", _sentence(own))
                    self._drop(name)
            if whole is error:
                self._outcome.failures["all"] = (f"refresh {_kind(error)}", _sentence(error))

    def _drop(self, name: str) -> None:
        """Drop a view and those that read it."""
        readers = [view.name for view in self._views.values() if view.reads(name)]
        for reader in readers:
            if reader in self._views:
                self._drop(reader)
                self._outcome.invalid.setdefault(reader, f"reads {name}")
        if self._views.pop(name, None) is not None:
            self._db.sql(f"DROP MATERIALIZED VIEW {name} CASCADE")
            self._batch.catalog.dropTempView(name)

    # Comparisons

    def _compare(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._views:
                continue
            try:
                expected = self._batch.table(name).toArrow()
            except Exception as error:
                self._outcome.invalid[name] = _sentence(error)
                self._drop(name)
                continue
            rows = self._store.table(name).to_arrow().select(expected.column_names)
            surplus, missing = difference(rows_of_table(rows), rows_of_table(expected))
            if surplus or missing:
                text = f"too many: {surplus[:3]}, missing: {missing[:3]}"
                self._outcome.failures[name] = ("differs", text)
                self._drop(name)

    def _check(self) -> None:
        """Check the state of the first and the last view, and the store with its indexes."""
        if self._views and self._case.steps[-1].is_refreshed:
            names = list(self._views)
            for report in self._db.check_views(list({names[0], names[-1]})):
                if not report.ok and report.view in self._views:
                    self._outcome.failures[report.view] = ("state differs", str(report)[:500])
                    self._drop(report.view)
        if problems := self._store.check().problems:
            self._outcome.failures["store"] = ("check", str(problems)[:500])


def _kind(error: Exception) -> str:
    return type(error).__name__


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
