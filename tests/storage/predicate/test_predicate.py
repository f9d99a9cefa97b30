"""A predicate is sent to other processes, which need no parser."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyarrow as pa

from relstate.storage import TableSchema
from relstate.storage.predicate.predicate import Predicate
from relstate.storage.schema.ddl import parse_columns

SCHEMA = TableSchema.build(parse_columns("k INT, v STRING, w DOUBLE"), ["k"])
BATCH = pa.record_batch(
    {"k": pa.array([1, 2, 3], pa.int32()), "v": ["a", None, "b"], "w": [1.0, 2.0, None]}
)

_TASK = """
import pickle, sys
predicate, batch = pickle.load(sys.stdin.buffer)
mask = predicate.mask(batch).to_pylist()
assert predicate.ranges() is not None
sys.stdout.buffer.write(pickle.dumps((mask, "sqlglot" in sys.modules)))
"""


def test_a_mask_says_true_or_false() -> None:
    """An unknown condition is false, never NULL."""
    assert Predicate.parse("v < 'b'", SCHEMA).mask(BATCH).to_pylist() == [True, False, False]
    assert Predicate.parse("NOT v < 'b'", SCHEMA).mask(BATCH).to_pylist() == [False, False, True]
    assert Predicate.parse("NULL", SCHEMA).mask(BATCH).to_pylist() == [False] * 3
    assert Predicate.parse("TRUE", SCHEMA).mask(BATCH.slice(0, 0)).to_pylist() == []


def test_columns_are_those_that_are_read() -> None:
    """In the table's order, each once; a condition may read none."""
    assert Predicate.parse("w > 1 AND k = 1 OR w < 0", SCHEMA).columns == ("k", "w")
    assert Predicate.parse("1 = 1", SCHEMA).columns == ()


def test_a_predicate_is_evaluated_elsewhere_without_the_parser() -> None:
    """A task gets the condition that was parsed on the driver."""
    predicate = Predicate.parse("k IN (1, 3) AND (v LIKE 'a%' OR w IS NULL)", SCHEMA)
    done = subprocess.run(
        [sys.executable, "-c", _TASK],
        input=pickle.dumps((predicate, BATCH)),
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr.decode()
    assert pickle.loads(done.stdout) == ([True, False, True], False)
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_a_predicate_of_values_is_true_where_each_column_has_one_of_them() -> None:
    """Each column by itself, NULL never; of a collated text no order is known."""
    values = {"k": pa.array([3, 2], pa.int32()), "v": pa.array(["b", None, "b"])}
    predicate = Predicate.of_values(values, SCHEMA)
    assert predicate is not None
    assert predicate.mask(BATCH).to_pylist() == [False, False, True]
    assert [key_range.prefix for key_range in predicate.ranges() or ()] == [(2,), (3,)]

    nothing = Predicate.of_values({"k": values["k"].slice(0, 0)}, SCHEMA)
    assert nothing is not None
    assert nothing.mask(BATCH).to_pylist() == [False] * 3
    collated = TableSchema.build(parse_columns("k INT, v STRING COLLATE UTF8_LCASE"), ["k"])
    assert Predicate.of_values(values, collated) is None
