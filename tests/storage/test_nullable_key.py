"""Tables whose key columns may be NULL: NULL is one value of the key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import NullKeyError, SchemaError
from relstate.storage.schema.schema import KeyRange

COLUMNS = "a INT, b STRING NOT NULL, v INT"
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("v", pa.int32())])
Row = tuple[int | None, str | None, int | None]


def rows(*values: Row) -> pa.RecordBatch:
    """Return rows of the table as a batch."""
    columns = [[row[n] for row in values] for n in range(3)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


@pytest.mark.parametrize("order", ["a", "a desc", "a desc nulls first"])
def test_null_is_one_value_of_the_key(order: str, tmp_path: Path) -> None:
    """It is found, replaced, deleted, scanned in its place, and in the change feed."""
    with Store.create(str(tmp_path / "s"), vnode_count=4) as store:
        store.create_table("t", COLUMNS, primary_key=[order, "b"], nullable_key=True)
        store.write("t", rows((None, "x", 1), (1, "x", 2), (None, "y", 3), (2, "x", 4)))
        first = store.write("t", rows((None, "x", 5)))
        table = store.table("t")

        assert table.get(None, "x") == (None, "x", 5)
        assert table.get(None, "z") is None
        assert table.count() == 4
        nulls = pa.Table.from_batches(table.scan(where="a IS NULL"))
        assert sorted(nulls["v"].to_pylist()) == [3, 5]
        assert sum(batch.num_rows for batch in table.scan(where="a = 1")) == 1
        read = [a for batch in table.scan(ordered=True) for a in batch["a"].to_pylist()]
        expected = {"a": [None, None, 1, 2], "a desc": [2, 1, None, None]}
        assert read == expected.get(order, [None, None, 2, 1])
        changed = pa.Table.from_batches(store.changes("t", first))
        assert set(changed["v"].to_pylist()) == {1, 5}

        store.delete("t", rows((None, "y", None)))
        store.compact()
        assert table.get(None, "y") is None
        assert table.get(None, "x") == (None, "x", 5)
        assert store.check().ok


def test_null_bounds_the_key(tmp_path: Path) -> None:
    """IS NULL is a point of the key, alone and beside values; other rows are not read."""
    with Store.create(str(tmp_path / "s"), vnode_count=4) as store:
        columns = COLUMNS.replace(" NOT NULL", "")
        store.create_table("t", columns, primary_key=["a", "b"], nullable_key=True)
        plan = store.read_plan("t")
        for where, expected in (
            ("a IS NULL AND b = 'x'", {KeyRange((None, "x"))}),
            ("b <=> NULL AND a = 1", {KeyRange((1, None))}),
            ("(a IS NULL OR a = 1) AND b = 'x'", {KeyRange((None, "x")), KeyRange((1, "x"))}),
            ("a IS NULL AND a = 1", set()),
        ):
            predicate = plan.filtered(where).where
            assert predicate is not None
            assert set(predicate.ranges() or ()) == expected, where
        store.write("t", rows((None, "x", 1), (1, None, 2), (1, "x", 3), (None, None, 4)))
        for where, values in (
            ("a IS NULL", [1, 4]),
            ("a IS NULL AND b IS NULL", [4]),
            ("a IS NULL OR b = 'x'", [1, 3, 4]),
            ("NOT (a <=> 1)", [1, 4]),
            ("(a IS NULL OR a = 1) AND b = 'x'", [1, 3]),
        ):
            batches = [*store.table("t").scan(["v"], where=where)]
            assert sorted(v for batch in batches for v in batch["v"].to_pylist()) == values, where


def test_key_columns_are_not_null_unless_the_table_says_otherwise(tmp_path: Path) -> None:
    """A key column that is declared NOT NULL stays so; without a key there is nothing to say."""
    with Store.create(str(tmp_path / "s")) as store:
        store.create_table("plain", COLUMNS, primary_key=["a", "b"])
        store.create_table("open", COLUMNS, primary_key=["a", "b"], nullable_key=True)
        for table, row in (("plain", (None, "x", 1)), ("open", (1, None, 1))):
            with pytest.raises(NullKeyError, match="is NULL"):
                store.write(table, rows(row))
        with pytest.raises(SchemaError, match="nullable_key"):
            store.create_table("keyless", COLUMNS, nullable_key=True)
