"""The keys of rows as bytes, as values of groups, as numbers, and the pairs of rows."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from relstate.connector.views.executor.rowkeys import (
    Matches,
    RowKeys,
    first_positions,
    first_row_per_code,
    mark_codes,
    number_keys,
    number_sorted_keys,
)
from relstate.connector.views.plan.node import Order
from relstate.storage import arrow, types
from support.examples import examples

NAN = float("nan")
POINT = types.Struct((types.Field("x", types.Float()),))
FIELDS = (
    types.Field("d", types.Date()),
    types.Field("f", types.Double()),
    types.Field("a", types.Array(types.Double())),
    types.Field("p", POINT),
    types.Field("v", types.Double()),
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"d": None, "f": -0.0, "a": [-0.0, None], "p": {"x": -0.0}, "v": -0.0},
        {"d": None, "f": 0.0, "a": [0.0, None], "p": {"x": 0.0}, "v": 1.0},
        {"d": None, "f": None, "a": None, "p": None, "v": NAN},
    ],
    arrow.arrow_schema(FIELDS),
)


def test_equal_keys_are_equal_bytes() -> None:
    """-0 and 0 are one key, NULL is another, whatever the values are."""
    keys = RowKeys(FIELDS, [Order("f"), Order("a"), Order("p")]).encode(ROWS)

    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_normalized_rows_have_one_value_for_equal_keys() -> None:
    """Floats of the key, also in arrays and structs, lose what the key loses; values do not."""
    normalize = RowKeys(FIELDS, [Order("f", True), Order("a"), Order("p")]).normalize(ROWS)

    assert normalize.schema == ROWS.schema
    assert "-0.0" not in repr(normalize.select(["f", "a", "p"]).to_pylist())
    assert repr(normalize.column("v").to_pylist()) == repr(ROWS.column("v").to_pylist())
    assert normalize.column("f").to_pylist() == [0.0, 0.0, None]


def test_a_key_is_described_whatever_it_holds() -> None:
    """An error can name a date that Python cannot represent."""
    late = pa.array([5_000_000], pa.int32()).cast(pa.date32())
    rows = pa.RecordBatch.from_arrays([late], names=["d"])

    assert RowKeys(FIELDS, [Order("d")]).describe(rows, 0).startswith("d = ")


@pytest.mark.parametrize("seed", range(examples(50)))
def test_codes_are_those_of_the_sorted_keys(seed: int) -> None:
    """Equal keys have one code, across arrays, and codes sort as the keys do."""
    chance = random.Random(seed)
    arrays = [
        [chance.choice([b"a", b"bc", b"bd", b"zzzzzzzzzzz"]) for _ in range(chance.randint(0, 9))]
        for _ in range(3)
    ]
    different = sorted({key for array in arrays for key in array})

    codes, count = number_keys([pa.array(array, pa.large_binary()) for array in arrays])

    assert count == len(different)
    assert [c.tolist() for c in codes] == [[*map(different.index, keys)] for keys in arrays]
    ranked = sorted(arrays[0])
    ranks = number_sorted_keys(pa.array(ranked, pa.large_binary()))
    assert [ranked[first] for first in first_positions(ranks)] == sorted(set(ranked))


def test_codes_are_marked() -> None:
    """Codes are marked, and the first row of each is returned."""
    codes = np.array([3, 1, 3])

    assert mark_codes(codes, 5).tolist() == [False, True, False, True, False]
    assert first_row_per_code(codes, np.array([7, 8, 9]), 5).tolist() == [-1, 8, -1, 7, -1]


@pytest.mark.parametrize("seed", range(examples(50)))
def test_every_pair_comes_once(seed: int) -> None:
    """However the pairs are sliced, they are those of a nested loop."""
    chance = random.Random(seed)
    lefts, rights = ([chance.randrange(4) for _ in range(chance.randint(0, 9))] for _ in range(2))
    left_rows, right_rows = np.arange(len(lefts)) + 100, np.arange(len(rights)) + 200
    matches = Matches.of(
        left_rows, np.array(lefts, np.int64), right_rows, np.array(rights, np.int64), 4
    )
    step = chance.randint(1, 5)
    pairs = []
    for start in range(0, matches.total, step):
        sides = matches.pairs(start, min(start + step, matches.total))
        pairs += list(zip(*(side.tolist() for side in sides), strict=True))

    expected = [
        (x + 100, y + 200) for x, a in enumerate(lefts) for y, b in enumerate(rights) if a == b
    ]
    assert pairs == expected
