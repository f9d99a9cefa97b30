"""Views over tables that change, compared with their SELECTs after every refresh.

A `Case` is plain data: what is found by random cases is reduced, printed, and joins the tests.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

import relstate
from relstate.connector.views import backfill, frame, runner
from relstate.storage import Store
from relstate.storage.errors import UnsupportedStatementError
from support.multisets import difference, rows_of_table
from support.random_tables import Commit, Rows, TableSpec
from support.spark import INTERPRETED
from support.stores import unsynced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database


@dataclass(frozen=True)
class View:
    """A view: its SELECT, the step after whose commits it is created, its units by step.

    ``units``: from the step of its creation on, the last number for all steps that follow.
    """

    name: str
    sql: str
    step: int = 0
    units: tuple[int, ...] = (1,)

    def reads(self, name: str) -> bool:
        """Return whether a table or view is named in the SELECT."""
        return re.search(rf"\b{name}\b", self.sql) is not None

    def units_at(self, step: int) -> int:
        """Return the number of units from a step on."""
        return self.units[min(step - self.step, len(self.units) - 1)]


@dataclass(frozen=True)
class Step:
    """Commits; then views are created and rescaled; then they are refreshed, or not yet."""

    commits: tuple[Commit, ...] = ()
    is_refreshed: bool = True


@dataclass(frozen=True)
class Case:
    """Tables, what happens to them, and views. ``part_rows``: of a part of a refresh."""

    tables: tuple[TableSpec, ...]
    steps: tuple[Step, ...]
    views: tuple[View, ...]
    vnode_count: int = 1
    part_rows: int | None = None
    many_rows: int | None = None

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
    fail in Spark over the rows of some step.
    """

    failures: dict[str, tuple[str, str]]
    refused: dict[str, str]
    invalid: dict[str, str]
    correct: list[str]


def run_case(spark: SparkSession, case: Case) -> Outcome:
    """Return what becomes of the views of a case, in a store of its own."""
    folder = tempfile.mkdtemp(prefix="relstate-case-")
    with _limits(case):
        path = f"{folder}/store"
        store = Store.create(
            path, environment=unsynced(path), vnode_count=case.vnode_count, shards=1
        )
        try:
            return _Run(spark, store, case).outcome()
        finally:
            store.close()
            shutil.rmtree(folder)


@contextmanager
def _limits(case: Case) -> Iterator[None]:
    before = runner.PART_ROWS, frame.MANY_ROWS
    part_rows, many_rows = case.part_rows or before[0], case.many_rows or before[1]
    runner.PART_ROWS = backfill.PART_ROWS = part_rows
    frame.MANY_ROWS = many_rows
    try:
        yield
    finally:
        runner.PART_ROWS = backfill.PART_ROWS = before[0]
        frame.MANY_ROWS = before[1]


class _Run:
    def __init__(self, spark: SparkSession, store: Store, case: Case) -> None:
        self._store = store
        self._case = case
        self._db: Database = relstate.connect(spark, store.path)
        self._batch = spark.newSession()
        for name, value in INTERPRETED.items():
            self._batch.conf.set(name, value)
        self._rows: dict[str, Rows] = {table.name: {} for table in case.tables}
        self._outcome = Outcome({}, {}, {}, [])
        self._views: dict[str, View] = {}

    def outcome(self) -> Outcome:
        specs = {table.name: table for table in self._case.tables}
        for table in self._case.tables:
            table.create(self._store)
        for number, step in enumerate(self._case.steps):
            for commit in step.commits:
                if commit.size:
                    commit.write(self._store, specs[commit.table])
                    commit.apply(self._rows[commit.table])
            self._show()
            created = [view for view in self._case.views if view.step == number]
            for view in created:
                self._create(view)
            self._compare([view.name for view in created])
            self._rescale(number)
            if step.is_refreshed:
                self._refresh()
                self._compare(list(self._views))
        self._check()
        self._outcome.correct = list(self._views)
        return self._outcome

    def _show(self) -> None:
        """Give the session that says what is right the rows of the tables."""
        for table in self._case.tables:
            batch = table.arrow(self._store, list(self._rows[table.name].values()))
            rows = self._batch.createDataFrame(pa.Table.from_batches([batch]))
            rows.createOrReplaceTempView(table.name)
        for view in self._views.values():
            self._batch.sql(view.sql).createOrReplaceTempView(view.name)

    def _create(self, view: View) -> None:
        try:
            self._batch.sql(view.sql).createOrReplaceTempView(view.name)
        except Exception as error:
            self._outcome.invalid[view.name] = _sentence(error)
            return
        try:
            self._db.sql(
                f"CREATE MATERIALIZED VIEW {view.name} TBLPROPERTIES ('parallelism' = "
                f"'{view.units_at(view.step)}') AS {view.sql}"
            )
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
        if view.name not in self._views:
            self._batch.catalog.dropTempView(view.name)

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

    def _spark_error(self, view: View) -> str | None:
        """Return the error of Spark's SELECT over the rows there are, or were when it was made."""
        try:
            self._batch.sql(view.sql).toArrow()
        except Exception as error:
            return _sentence(error)
        return None

    def _drop(self, name: str) -> None:
        """Drop a view and those that read it."""
        readers = [view.name for view in self._case.views if view.reads(name)]
        for reader in readers:
            if reader in self._views:
                self._drop(reader)
                self._outcome.invalid.setdefault(reader, f"reads {name}")
        if self._views.pop(name, None) is not None:
            self._db.sql(f"DROP MATERIALIZED VIEW {name} CASCADE")
            self._batch.catalog.dropTempView(name)

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
        """Compare the state of one view with what its inputs make of it."""
        if self._views and self._case.steps[-1].is_refreshed:
            name = list(self._views)[-1]
            for report in self._db.check_views(name):
                if not report.ok and report.view == name and name in self._views:
                    self._outcome.failures[name] = ("state differs", str(report)[:500])
                    self._drop(name)


def _kind(error: Exception) -> str:
    return type(error).__name__


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:600]
