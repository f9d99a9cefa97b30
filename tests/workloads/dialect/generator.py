"""Spark's dialect: SELECTs of every family that Spark's own SQL tests have, over small tables.

They are written for this project, in the manner of the files of Spark's ``sql-tests``: subqueries,
joins, lateral joins, windows, grouping sets, aggregates and set operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from ..synthetic import find_literals, random_changes, random_rows
from ..workload import FOLDER as _ROOT
from ..workload import Change, Rows, Workload, read_tables

ROWS = 10_000
"""Rows of each table at scale 1."""

_SEED = 17
_TABLES = read_tables("dialect")
# The columns by which tables are joined have the keys of few rows.
_KEYS = {("emp", "dept"): 5, ("emp", "boss"): 12}
_FAMILIES = (
    "exists", "in", "scalar", "joins", "lateral", "windows", "grouping", "groups", "sets",
)  # fmt: skip


def workload() -> Workload:
    """Return the SELECTs; scale 1 has ten thousand rows in each table."""
    return Workload("Spark's dialect", _TABLES, _queries(), _generate, _changes, _REFUSED)


def _queries() -> dict[str, str]:
    """Return the queries of all files, numbered from 1 on in each: exists1, exists2, ..."""
    queries = {}
    for family in _FAMILIES:
        text = (_ROOT / "dialect" / "queries" / f"{family}.sql").read_text("utf-8")
        for number, query in enumerate(text.removesuffix(";\n").split(";\n"), 1):
            queries[f"{family}{number}"] = query
    return queries


# Spark takes no two of them for equal, and so has no row.
_REFUSED: Mapping[str, str] = {"sets13": "a NULL without a type in INTERSECT"}


def _generate(scale: float) -> Rows:
    random = np.random.default_rng(_SEED)
    literals = find_literals(_queries().values())
    rows = {}
    for table in _TABLES:
        rows[table.name] = random_rows(table, max(round(ROWS * scale), 1), literals, random)
        for (name, column), count in _KEYS.items():
            if name == table.name:
                keys = random.integers(1, count + 1, size=rows[name].num_rows)
                is_null = random.random(len(keys)) < 0.1
                index = rows[name].schema.get_field_index(column)
                values = pa.array(keys, pa.int32(), mask=is_null)
                rows[name] = rows[name].set_column(index, rows[name].field(index), values)
    return rows


def _changes(rows: Rows, share: float) -> Iterator[Sequence[Change]]:
    return random_changes(_TABLES, rows, share, _SEED)
