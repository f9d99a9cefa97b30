"""The laws of computed values: they are Spark's, or it is known that Spark raises an error."""

from __future__ import annotations

import json
import operator
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage import Predicate, TableSchema, errors
from relstate.storage.aggregate.measure import Function
from relstate.storage.aggregate.partial import PartialAggregate
from relstate.storage.expression.arithmetic import arithmetic
from relstate.storage.expression.boolean import ConditionValue
from relstate.storage.expression.choice import Choice, choice
from relstate.storage.expression.column import ColumnValue
from relstate.storage.expression.expression_json import value_from_json, value_to_json
from relstate.storage.expression.literal import literal
from relstate.storage.expression.value import Value
from relstate.storage.schema import types as t
from relstate.storage.schema.ddl import parse_columns

SCHEMA = TableSchema.build(
    parse_columns(
        "id BIGINT, i INT, s SMALLINT, b TINYINT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(12,2), "
        "w DECIMAL(30,2), t STRING"
    ),
    ["id"],
)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
BITS = {"b": 8, "s": 16, "i": 32, "l": 64}


def column(name: str) -> ColumnValue:
    """Return a column of the schema."""
    return ColumnValue.named(name, SCHEMA)


ONE, HALF = literal(1, t.Int()), literal(Decimal("0.5"), t.Decimal(1, 1))
POSITIVE = ConditionValue(Predicate.parse("i > 0", SCHEMA).condition)


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("sign", OPERATORS)
def test_whole_numbers_are_exact_or_overflow(name: str, sign: str) -> None:
    """Every pair of values at and around the bounds of a type, and random ones."""
    chance, limit = random.Random(1), 1 << BITS[name] - 1
    edges = [-limit, 1 - limit, -2, -1, 0, 1, 2, limit // 2, limit - 1]
    edges += [chance.randrange(-limit, limit) >> chance.randrange(BITS[name]) for _ in range(20)]
    other = {"b": "s", "s": "b", "i": "l", "l": "i"}[name]
    pairs: list[tuple[int | None, int | None]] = [(None, 1)]
    pairs += [(left, right) for left in edges for right in [*edges, None]]
    kind = SCHEMA.arrow_schema.field(name).type
    rows = pa.record_batch(
        {name: pa.array([a for a, _ in pairs], kind), other: pa.array([b for _, b in pairs], kind)}
    )
    value = arithmetic(sign, column(name), ColumnValue(other, column(name).type))

    flags = value.failures(rows).astype(bool).tolist()
    for (left, right), flag, actual in zip(pairs, flags, value.of(rows).to_pylist(), strict=True):
        expected = None if left is None or right is None else OPERATORS[sign](left, right)
        assert flag == (expected is not None and not -limit <= expected < limit)
        assert flag or actual == expected


def types_of(*values: Value) -> list[str]:
    """Return the types of values as SQL."""
    return [str(value.type) for value in values]


def test_results_have_the_types_of_spark() -> None:
    """The wider of two whole numbers; of decimals all digits, beside literals few."""
    n = column("n")

    assert types_of(
        arithmetic("+", column("b"), column("s")),
        arithmetic("*", column("i"), ONE),
        arithmetic("-", column("l"), column("d")),
        arithmetic("*", column("d"), HALF),
        arithmetic("-", ONE, n),
        arithmetic("*", n, arithmetic("-", ONE, n)),
        arithmetic("+", n, column("i")),
        choice(((POSITIVE, n),), ONE),
        choice(((POSITIVE, column("b")),), column("l")),
        choice(((POSITIVE, HALF),), column("d")),
    ) == [
        "SMALLINT", "INT", "DOUBLE", "DOUBLE", "DECIMAL(13,2)", "DECIMAL(26,4)", "DECIMAL(13,2)",
        "DECIMAL(12,2)", "BIGINT", "DOUBLE",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right"), [("f", "i"), ("w", "d"), ("w", "w"), ("t", "i"), ("f", "f")]
)
def test_what_may_be_rounded_otherwise_is_refused(left: str, right: str) -> None:
    """Other floats than DOUBLE, decimals as floats, decimals of too many digits, texts."""
    with pytest.raises(errors.UnsupportedTypeError):
        arithmetic("*", column(left), column(right))


def test_a_choice_computes_only_what_it_chooses() -> None:
    """The first condition that is true; unknown is not true. Overflows elsewhere do not count."""
    square = arithmetic("*", column("i"), column("i"))
    value = choice(((POSITIVE, ONE),), square)
    rows = pa.record_batch({"i": pa.array([5, -3, None, -(2**31)], pa.int32())})

    assert value.of(rows).to_pylist()[:3] == [1, 9, None]
    assert value.failures(rows).astype(bool).tolist() == [False, False, False, True]
    assert choice(((POSITIVE, ONE),), None).of(rows).to_pylist() == [1, None, None, None]


def test_what_is_right_of_null_is_not_computed() -> None:
    """What is left of it is, as in Spark."""
    square = arithmetic("*", column("l"), column("l"))
    rows = pa.record_batch({"l": pa.array([2**62], pa.int64()), "i": pa.array([None], pa.int32())})

    assert arithmetic("+", column("i"), square).failures(rows).astype(bool).tolist() == [False]
    assert arithmetic("+", square, column("i")).failures(rows).astype(bool).tolist() == [True]


def test_decimals_keep_all_digits() -> None:
    """Beside literals and whole numbers of every width."""
    rows = pa.record_batch(
        {
            "n": pa.array([Decimal("12.34"), None], pa.decimal128(12, 2)),
            **{name: pa.array([-7, 1], SCHEMA.arrow_schema.field(name).type) for name in BITS},
        }
    )
    n = column("n")
    many = literal(3 * 10**9, t.BigInt())

    for value, expected in (
        (arithmetic("*", n, arithmetic("-", ONE, n)), Decimal("-139.9356")),
        (arithmetic("*", many, n), Decimal("37020000000.00")),
        (choice(((POSITIVE, n),), ONE), Decimal("1.00")),
        *((arithmetic("+", n, column(name)), Decimal("5.34")) for name in BITS),
    ):
        assert value.of(rows).to_pylist()[0] == expected
        assert isinstance(value.type, t.Decimal)
        assert value.of(rows).type == pa.decimal128(value.type.precision, value.type.scale)


def test_values_travel_as_json() -> None:
    """With the conditions and numbers in them."""
    product = arithmetic("*", column("n"), arithmetic("-", ONE, column("n")))
    values = [
        product,
        choice(((POSITIVE, product), (POSITIVE, ONE)), HALF),
        choice(((POSITIVE, column("t")),), None),
        arithmetic("+", column("d"), literal(1e300, t.Double())),
        literal(-(2**40), t.BigInt()),
    ]
    aggregate = PartialAggregate.of(SCHEMA, [], [(Function.COUNT, value) for value in values])

    assert [value_from_json(value_to_json(value), SCHEMA) for value in values] == values
    assert PartialAggregate.from_json(aggregate.json, SCHEMA) == aggregate
    assert aggregate.columns == ("n", "i", "t", "d")
    assert isinstance(values[1], Choice)


@pytest.mark.parametrize(
    "value",
    [
        1,
        None,
        {"kind": "literal", "value": "1.5", "type": "INT"},
        {"kind": "literal", "value": "99999999999", "type": "INT"},
        {"kind": "literal", "value": "x", "type": "DECIMAL(3,2)"},
        {"kind": "literal", "value": "NaN", "type": "DECIMAL(3,2)"},
        {"kind": "literal", "value": "x", "type": "BINARY"},
        {"kind": "operator", "operator": "^", "of": ["i", "i"]},
        {"kind": "operator", "operator": "+", "of": ["i"]},
        {"kind": "operator", "operator": "+", "of": ["i", "t"]},
        {"kind": "choice", "has_otherwise": True, "of": ["i"]},
        {"kind": "choice", "has_otherwise": False, "of": ["i", "i"]},
        {"kind": "date_part", "part": "year", "offset": None, "of": ["i"]},
        {"kind": "junction", "operator": "xor", "of": ["i", "i"]},
        {"kind": "not", "of": ["i"]},
        {"kind": "length", "unit": "words", "of": ["t"]},
        {"kind": "nothing", "of": []},
        {},
    ],
)
def test_other_json_of_values_is_refused(value: Any) -> None:
    """As of any aggregate that comes from outside."""
    text = PartialAggregate.of(SCHEMA, [], [(Function.COUNT, "i")]).json
    changed = json.loads(text)
    changed["measures"][0][1] = value
    with pytest.raises(errors.OptionError, match="partial aggregate is not one"):
        PartialAggregate.from_json(json.dumps(changed), SCHEMA)
