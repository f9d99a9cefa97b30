"""The law of views over a workload: its kept queries as views, compared with their SELECTs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot
from sqlglot import exp

import relstate
from relstate.storage import Store
from support.multisets import difference, rows_of_table
from support.plans import FakeTables
from support.spark import INTERPRETED
from workloads.workload import (
    Workload,
    create_tables,
    fill_tables,
    write_changes,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from relstate.connector.sql import Database

_LIMIT = re.compile(r"(\|>\s*)?\b(LIMIT\s+\d+(\s+OFFSET\s+\d+)?|OFFSET\s+\d+)\s*$", re.IGNORECASE)
_NAME = re.compile(r"[a-z_]\w*")


def fake_tables(workload: Workload) -> FakeTables:
    """Return the tables of a workload for plans that no store runs."""
    columns = {table.name: (table.columns, " ".join(table.key)) for table in workload.tables}
    return FakeTables(**columns)


class Oracle:
    """Spark's answers to queries over the tables of a workload, in a session of its own."""

    def __init__(self, spark: SparkSession, workload: Workload | None = None) -> None:
        """Show the tables without rows."""
        self.session = spark.newSession()
        for name, value in INTERPRETED.items():
            self.session.conf.set(name, value)
        for table in workload.tables if workload else ():
            self.show(table.name, table.schema.empty_table())

    def show(self, name: str, rows: pa.Table) -> None:
        """Make rows those of a table."""
        self.session.createDataFrame(rows).createOrReplaceTempView(name)

    def rows(self, query: str) -> pa.Table:
        """Return the result of a query."""
        return self.session.sql(query).toArrow()

    def column_names(self, query: str) -> list[str]:
        """Return names for the columns of a view, none if those of its query will do."""
        columns = self.session.sql(query).columns
        lowered = [column.lower() for column in columns]
        is_named = len(set(lowered)) == len(lowered) and all(map(_NAME.fullmatch, lowered))
        return [] if is_named else [f"c{number}" for number in range(1, len(columns) + 1)]


class WorkloadLaw:
    """Views of some kept queries of a workload over its changing tables."""

    def __init__(
        self, spark: SparkSession, store: Store, workload: Workload, names: Sequence[str]
    ) -> None:
        """``names``: of the queries."""
        kept = workload.kept_over_few_rows()
        self._queries = {name: kept[name] for name in names}
        self._store = store
        self._workload = workload
        self._db: Database = relstate.connect(spark, store.path)
        self._oracle = Oracle(spark, workload)
        self._has_rows = False
        self.nonempty: set[str] = set()
        """The queries that had rows at some time."""
        self.never_empty = set(names)
        """The queries that had rows whenever the tables had."""

    def hold(
        self, scale: float, share: float, steps: int, *, early: Sequence[str], late: Sequence[str]
    ) -> None:
        """Check the law after every step.

        ``early``: queries whose views are created before the first row; ``late``: after them.
        """
        create_tables(self._store, self._workload)
        self._create("early", early)
        self._compare({"early": early})
        rows = self._workload.generate(scale)
        fill_tables(self._store, rows)
        self._has_rows = True
        self._db.refresh()
        self._create("late", late)
        self._compare({"early": early, "late": late})
        changes = self._workload.changes(rows, share)
        for _ in range(steps):
            write_changes(self._store, next(changes))
            self._db.refresh()
            self._compare({"early": early, "late": late})

    def _create(self, prefix: str, names: Sequence[str]) -> None:
        for number, name in enumerate(names):
            query = self._queries[name]
            columns = self._oracle.column_names(query)
            listed = f" ({', '.join(columns)})" if columns else ""
            self._db.sql(
                f"CREATE MATERIALIZED VIEW {prefix}_{name}{listed} "
                f"TBLPROPERTIES ('parallelism' = '{1 + number % 3}') AS {query}"
            )

    def _compare(self, views: Mapping[str, Sequence[str]]) -> None:
        for table in self._workload.tables:
            self._oracle.show(table.name, self._store.table(table.name).to_arrow())
        for name, query in self._queries.items():
            prefixes = [prefix for prefix, names in views.items() if name in names]
            expected = self._oracle.rows(query) if prefixes else None
            for prefix in prefixes:
                view = self._store.table(f"{prefix}_{name}")
                visible = [column.name for column in view.schema.visible_columns]
                rows = view.to_arrow().select(visible)
                problem = result_difference(self._oracle, query, rows, expected)
                assert not problem, f"epoch {self._store.epoch}, {prefix}_{name}: {problem}"
                if rows.num_rows:
                    self.nonempty.add(name)
                elif self._has_rows:
                    self.never_empty.discard(name)


def result_difference(oracle: Oracle, query: str, rows: pa.Table, expected: pa.Table) -> str:
    """Return how rows differ from the result of a query, empty if only ties at a LIMIT do.

    All rows tie at a LIMIT without ORDER BY.
    """
    surplus, missing = difference(rows_of_table(rows), rows_of_table(expected))
    if not surplus and not missing:
        return ""
    if rows.num_rows == expected.num_rows and _LIMIT.search(query):
        every = oracle.rows(_LIMIT.sub("", query))
        unknown, _ = difference(rows_of_table(rows), rows_of_table(every))
        order = order_columns(query, expected.column_names)
        by_order = [
            table.select(order) for table in (rows.rename_columns(expected.column_names), expected)
        ]
        if not unknown and difference(*map(rows_of_table, by_order)) == ([], []):
            return ""
    return f"too many: {surplus[:3]}, missing: {missing[:3]}"


def order_columns(query: str, columns: Sequence[str]) -> list[int]:
    """Return the positions of the columns of a result by which a query orders it.

    Up to the first one of its order that is no column.
    """
    order = sqlglot.parse_one(query, dialect="spark").args.get("order")
    lowered = [column.lower() for column in columns]
    positions: list[int] = []
    for ordered in order.expressions if order else ():
        key = ordered.this
        text = key.name.lower() if isinstance(key, exp.Column) else key.sql("spark").lower()
        if text not in lowered:
            break
        positions.append(lowered.index(text))
    return positions
