"""The part of a keyed recompute that Spark runs: the calls, over all rows of the changed keys.

The rows come from the first of the two executors and go to the second. Both run in the unit that
owns the key. Spark needs one shuffle between them, which moves no row to another unit: only then it
evaluates the calls partition by partition.

Promises: within a key Spark gets the rows in the order of the input's key, so that a call whose
value depends on the order of rows has one value. Control rows pass; markers have a result of their
own. Neither is among the rows of a call.
Does not know: what the calls mean.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relstate.storage import OP_COLUMN, types

from .executor.keyed_rows import GROUP_COLUMN, ROW_COLUMN, first_column
from .plan.node import Order
from .plan.recompute import GroupCall, GroupRecompute, KeyedRecompute, WindowRecompute
from .wire import MESSAGE, TARGET

# Each control row, and the rows of each key, are evaluated on their own.
_KEY = (TARGET, MESSAGE, GROUP_COLUMN)


def evaluated(node: KeyedRecompute, rows: DataFrame) -> DataFrame:
    """Return the output for the changed keys, as rows of the wire with the fields of the node.

    ``rows``: those of the first executor; each partition has the rows of one `TARGET`.
    """
    if isinstance(node, GroupRecompute):
        result = _aggregated(node, rows)
    else:
        assert isinstance(node, WindowRecompute)
        result = _windowed(node, rows)
    target = f"CASE WHEN {MESSAGE} IS NOT NULL THEN {TARGET} END AS {TARGET}"
    return result.selectExpr(OP_COLUMN, *map(types.quoted, node.names), target, MESSAGE)


def _aggregated(node: GroupRecompute, rows: DataFrame) -> DataFrame:
    passed = [f.first(types.quoted(name)).alias(name) for name in (OP_COLUMN, *node.group)]
    calls = [f.expr(_call(node, call)).alias(call.output.name) for call in node.calls]
    return _sorted(rows).groupBy(*_KEY).agg(*passed, *calls)


def _call(node: GroupRecompute, call: GroupCall) -> str:
    conditions = [f"{ROW_COLUMN} IS NOT NULL"]
    if call.distinct_set is not None:
        conditions.append(first_column(node.distinct_sets.index(call.distinct_set)))
    elif call.filter is not None:
        conditions.append(types.quoted(call.filter))
    return call.sql(" AND ".join(conditions))


def _windowed(node: WindowRecompute, rows: DataFrame) -> DataFrame:
    for order in dict.fromkeys(call.order for call in node.calls):
        functions = [
            f.expr(call.sql(_KEY)).alias(call.output.name)
            for call in node.calls
            if call.order == order
        ]
        rows = _sorted(rows, order).select("*", *functions)
    return rows


def _sorted(rows: DataFrame, order: tuple[Order, ...] = ()) -> DataFrame:
    return rows.sortWithinPartitions(*_KEY, *map(_sort_key, order), ROW_COLUMN)


def _sort_key(order: Order) -> Column:
    column = f.col(types.quoted(order.name))
    if order.descending:
        return column.desc_nulls_first() if order.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if order.nulls_first else column.asc_nulls_last()
