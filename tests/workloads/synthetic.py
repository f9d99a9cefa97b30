"""Rows for queries whose own generator makes too many, or does not exist.

The values of a column are those that the queries compare it with, and some others of its type. So
few rows are enough for most conditions to hold for some of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from .workload import Change, Picks, Rows, Table, exchange_columns

Literals = Mapping[str, Sequence[str]]

_NULLS = 0.06
_FAVOURED = 0.85
_DAY = date(2000, 6, 30)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.In, exp.Between)


def find_literals(queries: Iterable[str]) -> Literals:
    """Return the literals with which queries compare a column, by the column's name."""
    literals: dict[str, dict[str, None]] = defaultdict(dict)
    for query in queries:
        # Spark reads some calls that sqlglot rejects; their literals are read all the same.
        tree = sqlglot.parse_one(query, dialect="spark", error_level=sqlglot.ErrorLevel.IGNORE)
        for node in tree.find_all(*_COMPARISONS):
            column = next(node.find_all(exp.Column), None)
            if column is None:
                continue
            for literal in node.find_all(exp.Literal):
                text = literal.this
                if isinstance(literal.parent, exp.Neg):
                    text = f"-{text}"
                literals[column.name.lower()][text.replace("%", "")] = None
    return {name: list(texts) for name, texts in literals.items()}


def random_rows(
    table: Table, count: int, literals: Literals, random: np.random.Generator
) -> pa.Table:
    """Return rows of a table; columns of the key are the row's number from 1 on."""
    columns = []
    for field in table.schema:
        if field.name in table.key:
            columns.append(pa.array(np.arange(1, count + 1)).cast(field.type))
            continue
        values = pa.array(domain(field, literals.get(field.name.lower(), ())), field.type)
        indices = random.integers(len(values), size=count)
        is_null = random.random(count) < _NULLS
        columns.append(values.take(pa.array(indices, mask=is_null)))
    return pa.Table.from_arrays(columns, schema=table.schema)


def domain(field: pa.Field, texts: Sequence[str]) -> list[Any]:
    """Return the values of a column: the literals, their neighbours, and some of its type."""
    values = dict.fromkeys(value for text in texts for value in _values(field.type, text))
    others = _OTHERS[_kind(field.type)]
    if len(values) < len(others):
        values |= dict.fromkeys(others)
    return list(values)


def favour_literals(
    rows: pa.Table,
    key: Sequence[str],
    literals: Sequence[Literals],
    owners: NDArray[np.int64],
    random: np.random.Generator,
) -> pa.Table:
    """Return rows whose values are mostly those that one query names.

    ``literals``: of each query. ``owners``: the number of the query of each row. So all conditions
    of a query hold together for some rows, however many queries there are.
    """
    for index, field in enumerate(rows.schema):
        if field.name in key:
            continue
        column = rows.column(index).combine_chunks()
        is_favoured = random.random(len(column)) < _FAVOURED
        for query, texts_by_name in enumerate(literals):
            texts = texts_by_name.get(field.name.lower(), ())
            values = [value for text in texts for value in _values(field.type, text)]
            mask = is_favoured & (owners == query)
            if values and mask.any():
                choices = random.integers(len(values), size=int(mask.sum()))
                replacements = pa.array(values, field.type).take(pa.array(choices))
                column = pc.replace_with_mask(column, pa.array(mask), replacements)
        rows = rows.set_column(index, field, column)
    return rows


def random_changes(
    tables: Sequence[Table], rows: Rows, share: float, seed: int
) -> Iterator[Sequence[Change]]:
    """Yield steps that insert, update and delete a share of the rows of the tables."""
    picks = {table.name: Picks(rows[table.name].num_rows, seed) for table in tables}
    for step in range(1, 1 << 30):
        random = np.random.default_rng((seed, step))
        yield [
            _changed(table, rows[table.name], picks[table.name], share, step, random)
            for table in tables
        ]


def _changed(
    table: Table,
    rows: pa.Table,
    picks: Picks,
    share: float,
    step: int,
    random: np.random.Generator,
) -> Change:
    """Return a change: half updates, a quarter inserts with the key of no row, a quarter deletes.

    What ends the key counts rows, so that of an inserted row goes on after all others.
    """
    count = max(round(rows.num_rows * share / 4), 1)
    columns = [name for name in rows.schema.names if name not in table.key]
    updated = rows.take(picks.take(2 * count))
    some = random.permutation(columns)[: max(len(columns) // 4, 1)].tolist()
    models = rows.take(random.integers(rows.num_rows, size=count))
    inserted = exchange_columns(models, columns, rows, random)
    number = rows.num_rows + step * count + np.arange(count)
    last = rows.schema.get_field_index(table.key[-1])
    inserted = inserted.set_column(
        last, rows.field(last), pa.array(number + 1).cast(rows.field(last).type)
    )
    puts = pa.concat_tables([exchange_columns(updated, some, rows, random), inserted])
    return Change(table.name, puts, rows.take(picks.take(count)))


def _kind(data_type: pa.DataType) -> str:
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_decimal(data_type):
        return "decimal"
    if pa.types.is_date(data_type):
        return "date"
    return "timestamp" if pa.types.is_timestamp(data_type) else "text"


def _values(data_type: pa.DataType, text: str) -> list[Any]:
    """Return the values that a literal gives a column; none if it is not of its type."""
    try:
        match _kind(data_type):
            case "integer":
                number = int(text)
                pa.scalar(number, data_type)
                return [number]
            case "decimal":
                value = Decimal(text).quantize(Decimal("0.01"))
                pa.scalar(value, data_type)
                return [value, value + 1]
            case "date":
                day = date.fromisoformat(text)
                return [day, day + timedelta(days=7)]
            case "timestamp":
                return [datetime.fromisoformat(text)]
            case _:
                return [text]
    except (ValueError, ArithmeticError, pa.ArrowInvalid):
        return []


_OTHERS: Mapping[str, Sequence[Any]] = {
    "integer": (0, 1, 2, 3),
    "decimal": tuple(Decimal(number) / 4 for number in (10, 42, 150, 399)),
    "date": tuple(_DAY + timedelta(days=number) for number in (-1, 0, 1)),
    "timestamp": tuple(datetime(2013, 7, day, 12, day) for day in (14, 15, 16)),
    "text": ("", "a", "Able", "ought"),
}
