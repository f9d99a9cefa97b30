"""TPC-H: rows of ``tpchgen-cli``, and refresh streams of inserts, deletes and updates.

RF1 inserts orders with their lines, RF2 deletes others. Updates beyond the specification change
lines, orders, customers, parts, suppliers and what they supply: no change alters a key.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from ..workload import FOLDER as _ROOT
from ..workload import (
    Change,
    Picks,
    Rows,
    Workload,
    exchange_columns,
    read_queries,
    read_tables,
)

_SEED = 22
_TABLES = read_tables("tpch")
# The columns that an update takes from other rows of the table.
_UPDATED: Mapping[str, Sequence[str]] = {
    "nation": ("n_regionkey",),
    "supplier": ("s_nationkey", "s_acctbal", "s_comment"),
    "customer": ("c_nationkey", "c_acctbal", "c_mktsegment", "c_phone"),
    "part": ("p_brand", "p_type", "p_size", "p_container", "p_name"),
    "partsupp": ("ps_availqty", "ps_supplycost"),
}
_REDUCED = {"sum(l_quantity) > 300": "sum(l_quantity) > 200"}
_UPDATED_LINES = ("l_quantity", "l_discount", "l_extendedprice", "l_shipmode", "l_shipinstruct")
_UPDATED_ORDERS = ("o_orderdate", "o_orderpriority", "o_custkey", "o_comment")


def workload() -> Workload:
    """Return TPC-H; its scale is the scale factor."""
    queries = read_queries(_ROOT / "tpch" / "queries")
    return Workload("TPC-H", _TABLES, queries, _generate, _changes, reduced=_REDUCED)


def _generate(scale: float) -> Rows:
    program = Path(sys.executable).parent / "tpchgen-cli"
    with tempfile.TemporaryDirectory() as folder:
        options = ["-s", f"{scale:g}", "--quiet", "--output-dir", folder]
        subprocess.run([program, "parquet", *options], check=True, capture_output=True)
        return {
            table.name: _read(Path(folder) / f"{table.name}.parquet", table.schema)
            for table in _TABLES
        }


def _read(file: Path, schema: pa.Schema) -> pa.Table:
    return parquet.read_table(file, memory_map=False).select(schema.names).cast(schema)


def _changes(rows: Rows, share: float) -> Iterator[Sequence[Change]]:
    """Yield steps: half of the changed orders are new or deleted, the others are updated."""
    orders, lines = rows["orders"], rows["lineitem"]
    next_key = pc.max(orders["o_orderkey"]).as_py() + 1
    first_lines = _first_lines(orders, lines)
    picks = {name: Picks(rows[name].num_rows, _SEED) for name in (*_UPDATED, "orders")}
    for step in range(1, 1 << 30):
        random = np.random.default_rng((_SEED, step))
        count = max(round(orders.num_rows * share / 4), 1)
        deleted, updated = (np.sort(picks["orders"].take(number)) for number in (count, 2 * count))
        models = random.choice(orders.num_rows, count, replace=False)
        keys = next_key + np.arange(count)
        next_key += count
        new_orders, new_lines = _with_keys(orders, lines, first_lines, models, keys)
        updated_lines = lines.take(_lines_of(first_lines, updated))
        yield [
            Change(
                "orders",
                pa.concat_tables(
                    [
                        exchange_columns(new_orders, _UPDATED_ORDERS, orders, random),
                        exchange_columns(orders.take(updated), _UPDATED_ORDERS, orders, random),
                    ]
                ),
                orders.take(deleted),
            ),
            Change(
                "lineitem",
                pa.concat_tables(
                    [new_lines, exchange_columns(updated_lines, _UPDATED_LINES, lines, random)]
                ),
                lines.take(_lines_of(first_lines, deleted)),
            ),
            *_updates(rows, picks, share, random),
        ]


def _updates(
    rows: Rows, picks: Mapping[str, Picks], share: float, random: np.random.Generator
) -> Iterator[Change]:
    for name, columns in _UPDATED.items():
        table = rows[name]
        old = table.take(picks[name].take(round(table.num_rows * share)))
        if old.num_rows:
            yield Change(name, exchange_columns(old, columns, table, random), old.slice(0, 0))


def _first_lines(orders: pa.Table, lines: pa.Table) -> np.ndarray:
    """Return where the lines of each order begin, and their number at the end.

    Orders and lines are sorted by the key of the order.
    """
    starts = np.searchsorted(lines["l_orderkey"].to_numpy(), orders["o_orderkey"].to_numpy())
    return np.append(starts, lines.num_rows)


def _lines_of(first_lines: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the positions of the lines of some orders."""
    starts, counts = first_lines[orders], first_lines[orders + 1] - first_lines[orders]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    positions: np.ndarray = np.repeat(starts, counts) + offsets
    return positions


def _with_keys(
    orders: pa.Table,
    lines: pa.Table,
    first_lines: np.ndarray,
    models: np.ndarray,
    keys: np.ndarray,
) -> tuple[pa.Table, pa.Table]:
    """Return copies of orders and of their lines, with new keys."""
    counts = first_lines[models + 1] - first_lines[models]
    copies = lines.take(_lines_of(first_lines, models))
    return (
        orders.take(models).set_column(0, orders.field(0), pa.array(keys)),
        copies.set_column(0, lines.field(0), pa.array(np.repeat(keys, counts))),
    )
