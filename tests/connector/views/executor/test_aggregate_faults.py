"""What an aggregate refuses: changes that do not fit its state, and sums that do not fit."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from relstate.connector.views.executor.aggregate import AggregateExecutor
from relstate.connector.views.plan.aggregate import Aggregate, Call, Function
from relstate.storage import Op
from relstate.storage import types as t
from relstate.storage.errors import ConsistencyError, UnsupportedTypeError, ValueRangeError
from support.changes import Change, chunk_of, scan
from support.memory_state import MemoryState

FIELDS = (
    t.Field("k", t.Int()),
    t.Field("g", t.String()),
    t.Field("i", t.BigInt()),
    t.Field("d", t.Decimal(38, 0)),
    t.Field("s", t.String()),
    t.Field("e", t.DayTimeInterval()),
)
BIGGEST = {"i": Decimal(2**63 - 1), "d": Decimal("9" * 38)}


def node_of(function: Function, argument: str, output: t.DataType, **options: Any) -> Aggregate:
    """Return an aggregate of one call by g."""
    call = Call(function, argument, t.Field("result", output), **options)
    return Aggregate(scan(FIELDS, ["k"]), ("g",), (call,))


def run(node: Aggregate, states: list[MemoryState], *changes: Change, is_ansi: bool = True) -> Any:
    """Run and commit an epoch; return the output."""
    chunk = chunk_of(FIELDS, changes)
    output = AggregateExecutor(node, states, is_ansi=is_ansi).run(chunk).to_pylist()
    for state in states:
        state.commit()
    return output


def states_of(node: Aggregate) -> list[MemoryState]:
    """Return empty tables."""
    return [MemoryState(spec) for spec in AggregateExecutor.tables(node)]


def row(key: int, **values: Any) -> dict[str, Any]:
    """Return a row of group a."""
    return {"k": key, "g": "a", **dict.fromkeys(("i", "d", "s", "e")), **values}


COUNTS = node_of(Function.COUNT, "i", t.BigInt())


def test_a_delete_from_a_missing_group() -> None:
    """The error names the group and the table."""
    with pytest.raises(
        ConsistencyError, match=r"table groups .* g = 'a' has 0 rows, but 1 are del"
    ):
        run(COUNTS, states_of(COUNTS), (Op.DELETE, row(1)))


def test_a_delete_needs_a_row_of_an_earlier_epoch() -> None:
    """A row that is inserted in the same epoch does not make up for it."""
    with pytest.raises(ConsistencyError, match="has 0 rows, but 1 are deleted"):
        run(COUNTS, states_of(COUNTS), (Op.INSERT, row(1)), (Op.DELETE, row(2)))


def test_more_values_are_deleted_than_exist() -> None:
    """A count that would fall below 0 is an error though there are enough rows."""
    states = states_of(COUNTS)
    run(COUNTS, states, (Op.INSERT, row(1)), (Op.INSERT, row(2)))
    with pytest.raises(ConsistencyError, match="has 1 rows, but result_count is -1"):
        run(COUNTS, states, (Op.DELETE, row(1, i=5)))


def test_more_values_remain_than_rows() -> None:
    """A count of values above that of rows is an error."""
    states = states_of(COUNTS)
    run(COUNTS, states, (Op.INSERT, row(1, i=5)), (Op.INSERT, row(2, i=5)))
    with pytest.raises(ConsistencyError, match="has 1 rows, but result_count is 2"):
        run(COUNTS, states, (Op.DELETE, row(1)))


def test_deleting_a_missing_distinct_value() -> None:
    """The error names the value and the table."""
    node = node_of(Function.COUNT, "s", t.BigInt(), is_distinct=True)
    states = states_of(node)
    run(node, states, (Op.INSERT, row(1, s="x")))
    with pytest.raises(ConsistencyError, match=r"distinct_s .* 1 more rows with g = 'a', s = 'y'"):
        run(node, states, (Op.DELETE, row(1, s="y")))


@pytest.mark.parametrize("stored", [5, None])
def test_deleting_a_value_below_the_least(stored: int | None) -> None:
    """Deleting a value that is less than the stored least one is an error."""
    node = node_of(Function.MIN, "i", t.BigInt())
    states = states_of(node)
    run(node, states, (Op.INSERT, row(1, i=stored)))
    with pytest.raises(ConsistencyError, match=r"min_i .* g = 'a' loses a value"):
        run(node, states, (Op.DELETE, row(1, i=4)))


@pytest.mark.parametrize(
    ("function", "argument", "output", "without_ansi"),
    [
        (Function.SUM, "i", t.BigInt(), -2),
        (Function.SUM, "d", t.Decimal(38, 0), None),
        (Function.AVG, "d", t.Decimal(38, 4), None),
    ],
)
def test_a_sum_that_does_not_fit(
    function: Function, argument: str, output: t.DataType, without_ansi: int | None
) -> None:
    """In ANSI mode it is an error, otherwise Spark's result; it is right again once it fits."""
    node = node_of(function, argument, output)
    changes = [(Op.INSERT, row(key, **{argument: BIGGEST[argument]})) for key in range(2)]
    message = rf"^{function}\({argument}\) overflows {re.escape(str(output))} in .* g = 'a'; "
    with pytest.raises(ValueRangeError, match=message):
        run(node, states_of(node), *changes)

    states = states_of(node)
    assert run(node, states, *changes, is_ansi=False)[0]["result"] == without_ansi
    small = (Op.INSERT, row(3, **{argument: 6}))
    deletes = [(Op.DELETE, deleted) for _, deleted in changes]
    (_, inserted) = run(node, states, *deletes, small)
    assert inserted["result"] == 6


def test_the_one_group_of_a_global_aggregate_has_no_name() -> None:
    """Errors do not show its constant, which no user knows."""
    node = replace(node_of(Function.SUM, "i", t.BigInt(), is_distinct=True), is_global=True)
    changes = [(Op.INSERT, row(key, i=2**63 - key)) for key in (1, 2)]
    with pytest.raises(ValueRangeError, match=r"^sum\(DISTINCT i\) overflows BIGINT; "):
        run(node, states_of(node), *changes)
    node = replace(COUNTS, is_global=True)
    with pytest.raises(ConsistencyError, match="the group has 0 rows, but 1 are deleted"):
        run(node, states_of(node), (Op.DELETE, row(1)))


def test_sums_of_decimals_keep_more_digits_than_38() -> None:
    """Deleting many values leaves the exact sum, however large it was in between."""
    node = node_of(Function.SUM, "d", t.Decimal(38, 0))
    states = states_of(node)
    least = BIGGEST["d"].copy_negate()
    rows = [row(key, d=least) for key in range(1000)]
    run(node, states, *((Op.INSERT, inserted) for inserted in rows), is_ansi=False)
    assert states[0].rows[0]["result_sum_high"] == -1000
    output = run(node, states, *((Op.DELETE, deleted) for deleted in rows[1:]), is_ansi=False)
    assert [change["result"] for change in output] == [None, least]


def test_intervals() -> None:
    """Sums of intervals are intervals; they overflow with an error in any mode, as in Spark."""
    whole = t.DayTimeInterval()
    for function, expected in ((Function.SUM, -5), (Function.AVG, -3)):
        node = node_of(function, "e", whole)
        changes = [
            (Op.INSERT, row(key, e=np.timedelta64(us, "us"))) for key, us in enumerate((-2, -3))
        ]
        (inserted,) = run(node, states_of(node), *changes)
        assert inserted["result"] == np.timedelta64(expected, "us").item()
    node = node_of(Function.SUM, "e", whole)
    huge = np.timedelta64(2**62, "us")
    changes = [(Op.INSERT, row(key, e=huge)) for key in range(2)]
    with pytest.raises(ValueRangeError, match="overflows INTERVAL"):
        run(node, states_of(node), *changes, is_ansi=False)


def test_a_function_over_a_type_that_is_not_summed() -> None:
    """It is refused when the tables are laid out, before any state exists."""
    with pytest.raises(UnsupportedTypeError, match="sum of s, which is STRING"):
        AggregateExecutor.tables(node_of(Function.SUM, "s", t.Double()))
