"""An aggregate over random rows of many types, maintained over epochs and checked against them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from relstate.connector.views.executor.aggregate import AggregateExecutor
from relstate.connector.views.plan.aggregate import COVARIANCES, Aggregate, Call, Function
from relstate.storage import arrow
from relstate.storage import types as t

from .aggregates import group_of, groups_of, output_type, same, value_of
from .changes import Row, chunk_of, net_changes, scan
from .memory_state import MemoryState

FIELDS = (
    t.Field("k", t.BigInt()),
    t.Field("g", t.String()),
    t.Field("h", t.Double()),
    t.Field("p", t.Boolean()),
    t.Field("q", t.Boolean()),
    t.Field("n", t.TinyInt()),
    t.Field("i", t.BigInt()),
    t.Field("d", t.Decimal(10, 2)),
    t.Field("w", t.Decimal(38, 4)),
    t.Field("f", t.Float()),
    t.Field("x", t.Double()),
    t.Field("s", t.String()),
    t.Field("a", t.Array(t.Int())),
    t.Field("c", t.Struct((t.Field("y", t.Double()), t.Field("x", t.Double())))),
    t.Field("one", t.TinyInt()),
)
WHOLE = ("n", "i", "d", "w")
FLOATS = ("f", "x")
ALL = (*WHOLE, *FLOATS, "s", "a", "p", "g", "k")
VARIANCES = (
    Function.VAR_POP,
    Function.VAR_SAMP,
    Function.STDDEV_POP,
    Function.STDDEV_SAMP,
)
ARGUMENTS = {
    Function.COUNT: ALL,
    Function.SUM: (*WHOLE, *FLOATS),
    Function.AVG: (*WHOLE, *FLOATS),
    Function.MIN: ALL,
    Function.MAX: ALL,
    **dict.fromkeys(VARIANCES, ("x",)),
    **dict.fromkeys(COVARIANCES, ("c",)),
    **dict.fromkeys((Function.BIT_AND, Function.BIT_OR, Function.BIT_XOR), ("n", "i")),
    Function.MODE: ALL,
}
UNIVERSE = [
    (function, argument, is_distinct, condition)
    for function, arguments in ARGUMENTS.items()
    for argument in arguments
    for is_distinct in ((False,) if function is Function.MODE else (False, True))
    for condition in (None, "p", "q")
]
_TYPES = {field.name: field.type for field in FIELDS}
_POOLS: dict[str, Sequence[Any]] = {
    "g": [None, "", "a", "b"],
    "h": [None, 0.0, -0.0, math.nan, 1.5],
    "p": [None, True, False],
    "q": [None, True, True, False],
    "n": [None, -128, 127, 0, 3],
    "i": [None, 2**63 - 1, -(2**63), 0, 7, 2**40],
    "d": [None, Decimal("0.01"), Decimal("-99999999.99"), Decimal("3.33"), Decimal("0.00")],
    "w": [None, Decimal("9" * 34 + ".9999"), Decimal("-" + "9" * 34), Decimal("0.0001")],
    "f": [None, 0.0, -0.0, 0.10000000149011612, -1.5, math.inf, math.nan],
    "x": [None, 0.0, -0.0, 0.1, 1e10, -1e-3, 12345.678, math.inf, -math.inf, math.nan],
    "s": [None, "", "a", "ab", "é"],
    "a": [None, [], [1], [1, None], [2]],
    "c": [
        None,
        *({"y": y, "x": x} for y in (0.1, -3.0, 1e10) for x in (-0.0, 0.7, 12345.678)),
        {"y": math.nan, "x": 1.0},
        {"y": 1.0, "x": math.inf},
    ],
}


def call(
    number: int, function: Function, argument: str | None, is_distinct: bool, condition: str | None
) -> Call:
    """Return a call of the type that Spark gives it."""
    data_type = output_type(function, None if argument is None else _TYPES[argument])
    return Call(function, argument, t.Field(f"o{number}", data_type), is_distinct, condition)


def aggregate(
    calls: Sequence[Call], group: Sequence[str] = ("g",), *, grows_only: bool = False
) -> Aggregate:
    """Return an aggregate over rows with all the fields."""
    child = scan(FIELDS, ["k"], grows_only=grows_only)
    return Aggregate(child, tuple(group) or ("one",), tuple(calls), is_global=not group)


class Keeper:
    """An executor's tables over epochs, and the rows that its output leads to."""

    def __init__(self, node: Aggregate, *, is_ansi: bool = False) -> None:
        self.node = node
        self.is_ansi = is_ansi
        self.states = [MemoryState(spec) for spec in AggregateExecutor.tables(node)]
        self.rows: dict[Any, Row] = {}
        self.live: dict[int, Row] = {}

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Run an epoch; nothing is committed."""
        return AggregateExecutor(self.node, self.states, is_ansi=self.is_ansi).run(chunk)

    def move(self, new: dict[int, Row]) -> pa.RecordBatch:
        """Run and commit the epoch that leads to the live rows ``new``; check its output."""
        chunk = self.run(chunk_of(FIELDS, net_changes(self.live, new)))
        for state in self.states:
            state.commit()
        self.live = dict(new)
        self._apply(chunk)
        return chunk

    def _apply(self, chunk: pa.RecordBatch) -> None:
        assert chunk.schema.names == ["_op", *self.node.names]
        assert chunk.schema.types[1:] == arrow.arrow_schema(self.node.fields).types
        rows = chunk.to_pylist()
        for row in (row for row in rows if row["_op"] == 2):
            old = self.rows.pop(group_of(self.node, row))
            assert repr({**row, "_op": 1}) == repr(old), "a deleted row is not the inserted one"
        for row in (row for row in rows if row["_op"] == 1):
            assert group_of(self.node, row) not in self.rows
            self.rows[group_of(self.node, row)] = row

    def check(self) -> None:
        """Compare the rows with the results over the live rows."""
        expected = groups_of(self.node, self.live.values())
        rows_by_group = {() if self.node.is_global else key: row for key, row in self.rows.items()}
        assert rows_by_group.keys() == expected.keys()
        for key, rows in expected.items():
            for call in self.node.calls:
                expected_value = value_of(self.node, call, rows)
                value = rows_by_group[key][call.output.name]
                case = (call, value, expected_value, rows)
                if call.function in (*VARIANCES, *COVARIANCES):
                    assert _same_variance(*case), case
                else:
                    assert same(value, expected_value, _largest(call, rows)), case

    def check_state(self) -> None:
        """Compare the tables with those that the live rows lead to in one epoch."""
        fresh = Keeper(self.node)
        fresh.move(self.live)
        for state, expected in zip(self.states, fresh.states, strict=True):
            assert len(state.rows) == len(expected.rows)
            for row, expected_row in zip(state.rows, expected.rows, strict=True):
                assert _alike(row, expected_row), (state.spec.role, row, expected_row)


def _alike(left: Row, right: Row) -> bool:
    pairs = [(left[name], right[name]) for name in left if not name.endswith("_rest")]
    return all(_alike_values(*pair) for pair in pairs)


def _alike_values(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return _alike(left, right)
    return _near(left, right) if isinstance(left, float) else bool(left == right)


def _near(left: float, right: float) -> bool:
    # Of the square of 1e10 the last of 106 bits is about 1e-12.
    return same(left, right, max(abs(left), abs(right))) or abs(left - right) < 1e-10


def _largest(call: Call, rows: Sequence[Row]) -> float:
    """Return the magnitude of which a result may be off by a billionth."""
    name = call.argument
    values = [row[name] for row in rows if name and row[name] is not None]
    if call.function in COVARIANCES:
        values = [value for pair in values for value in pair.values()]
    numbers = [abs(float(value)) for value in values if isinstance(value, int | float | Decimal)]
    return max((number for number in numbers if math.isfinite(number)), default=0.0)


def _same_variance(call: Call, value: Any, expected: Any, rows: Sequence[Row]) -> bool:
    """Compare variances; deleted values, up to 1e10, may leave the last of their 106 bits."""
    if call.function in (Function.STDDEV_POP, Function.STDDEV_SAMP) and expected is not None:
        value, expected = value * value, expected * expected
    return same(value, expected, _largest(call, rows) ** 2 + 1e10**2 * 1e-19)


def drawn(source: random.Random, key: int) -> Row:
    """Return a random row."""
    picked = {name: source.choice(pool) for name, pool in _POOLS.items()}
    return {"k": key, **picked, "one": 0}


def next_rows(
    source: random.Random, live: dict[int, Row], *, grows_only: bool = False
) -> dict[int, Row]:
    """Return random rows that the next epoch leads to."""
    start = max(live, default=0) + 1
    added = {key: drawn(source, key) for key in range(start, start + source.randrange(12))}
    if grows_only:
        return {**live, **added}
    share = source.choice([0, 0.2, 0.5, 1])
    remaining = {key: row for key, row in live.items() if source.random() >= share}
    for key in remaining:
        if source.random() < 0.2:
            new = drawn(source, key)
            names = source.sample(sorted(new), source.randrange(1, len(new)))
            remaining[key] = {**remaining[key], **{name: new[name] for name in names}}
    if source.random() < 0.3:
        # Deleted rows come back under their old keys.
        added |= {key: live[key] for key in live if key not in remaining and source.random() < 0.5}
    return {**remaining, **added}
