"""The law of views over a script that others wrote: its SELECTs as views, over its own rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

import relstate
from relstate.storage import Store, types
from relstate.storage.errors import UnsupportedStatementError
from relstate.storage.schema.ddl import parse_columns
from support.plans import FakeTables
from support.random_tables import Commit, Row, TableSpec
from support.workload_law import Oracle, result_difference
from workloads.scripts import Script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLE_NAME = re.compile(r"[a-z]\w*")


@dataclass
class Plans:
    """The SELECTs of a script by number: texts of those that can be views, and reasons."""

    kept: dict[int, str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    """Errors that are no refusals."""


class ScriptLaw:
    """A script: its tables, and the rows that Spark gives them."""

    def __init__(self, spark: SparkSession, script: Script) -> None:
        """Tables of types that no table of ours can have are left out, with what reads them."""
        self._spark = spark
        self._script = script
        self.oracle = Oracle(spark)
        self._specs: dict[str, TableSpec] = {}
        self._rows: dict[str, list[Row]] = {}
        for name, definition in script.tables.items():
            self._add(name, definition)

    def _add(self, name: str, definition: str) -> None:
        try:
            frame = self.oracle.session.sql(definition)
            frame.createOrReplaceTempView(name)
            rows = frame.toArrow()
            parse_columns(
                ", ".join(f"{types.quoted(n)} {kind}" for n, kind in _types_of(frame.schema))
            )
        except Exception:
            return
        if _TABLE_NAME.fullmatch(name):
            self._specs[name] = TableSpec(name, tuple(_types_of(frame.schema)))
            columns = [column.to_pylist() for column in rows.columns]
            self._rows[name] = list(zip(*columns, strict=True))

    def plan(self) -> Plans:
        """Plan each SELECT that Spark can read, and that reads a table of the script."""
        from relstate.connector.views.planner.view import plan_view

        tables = FakeTables(**{name: (spec.ddl, "") for name, spec in self._specs.items()})
        plans = Plans()
        for number, query in self._script.readable(set(self._specs)):
            try:
                columns = self.oracle.column_names(query)
            except Exception:
                continue
            try:
                plan_view(self._spark, tables, query, columns)
                plans.kept[number] = query
            except UnsupportedStatementError as error:
                plans.refused[number] = str(error)
            except Exception as error:
                if self._can_run(query):
                    plans.errors[number] = f"{type(error).__name__}: {error}"
        return plans

    def _can_run(self, query: str) -> bool:
        try:
            self.oracle.rows(query)
        except Exception:
            return False
        return True

    def follow(self, store: Store, queries: Mapping[int, str]) -> dict[int, str]:
        """Return what is wrong with the views of some SELECTs, before rows come and after changes.

        Of two SELECTs one is a view before there are rows, the other when the first are there.
        """
        self._store, self._db = store, relstate.connect(self._spark, store.path)
        self._problems: dict[int, str] = {}
        self._views: dict[int, str] = {}
        for spec in self._specs.values():
            spec.create(store)
        self._show({name: [] for name in self._specs})
        self._create({number: query for number, query in queries.items() if number % 2})
        live = self._commit({}, 0)
        self._create({number: query for number, query in queries.items() if not number % 2})
        self._refresh()
        self._compare()
        self._commit(live, 1)
        self._refresh()
        self._compare()
        return self._problems

    def _commit(self, live: dict[str, dict[int, Row]], step: int) -> dict[str, dict[int, Row]]:
        """Write every second row, or the others while a third of those there are go."""
        for name, spec in self._specs.items():
            rows = list(enumerate(self._rows[name], start=1))
            puts = tuple(rows[step::2])
            there = live.setdefault(name, {})
            deletes = tuple(list(there.items())[::3])
            commit = Commit(name, puts, deletes)
            commit.write(self._store, spec)
            commit.apply(there)
        # For a LIMIT without ORDER BY Spark takes the first of these, a view the first by row id.
        self._show({name: [row for _, row in sorted(rows.items())] for name, rows in live.items()})
        return live

    def _show(self, rows: Mapping[str, Sequence[Row]]) -> None:
        for name, spec in self._specs.items():
            self.oracle.show(name, pa.Table.from_batches([spec.arrow(self._store, rows[name])]))

    def _create(self, queries: Mapping[int, str]) -> None:
        for number, query in queries.items():
            columns = self.oracle.column_names(query)
            listed = f" ({', '.join(columns)})" if columns else ""
            try:
                self._db.sql(f"CREATE MATERIALIZED VIEW query_{number}{listed} AS {query}")
                self._views[number] = query
            except Exception as error:
                self._fail(number, query, error)

    def _refresh(self) -> None:
        try:
            self._db.refresh()
        except Exception:
            for number, query in list(self._views.items()):
                try:
                    self._db.refresh(f"query_{number}")
                except Exception as error:
                    del self._views[number]
                    self._fail(number, query, error)
                    self._db.sql(f"DROP MATERIALIZED VIEW query_{number}")

    def _fail(self, number: int, query: str, error: Exception) -> None:
        """Note an error, unless Spark's SELECT has one, too."""
        if self._can_run(query):
            self._problems[number] = f"{type(error).__name__}: {error}"

    def _compare(self) -> None:
        for number, query in list(self._views.items()):
            view = self._store.table(f"query_{number}")
            names = [column.name for column in view.schema.visible_columns]
            try:
                expected = self.oracle.rows(query)
            except Exception:
                continue
            rows = view.to_arrow().select(names)
            if problem := result_difference(self.oracle, query, rows, expected):
                self._problems.setdefault(number, problem)


def _types_of(schema: object) -> list[tuple[str, str]]:
    """Return the names and the types in SQL of the columns of a schema of Spark."""
    return [(part.name, part.dataType.simpleString()) for part in schema.fields]  # type: ignore[attr-defined]
