"""Laws of conditional reads: the rows that match, whatever share of them does."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from relstate.storage import Store
from relstate.storage.schema.schema import Column
from relstate.storage.table.scan import Piece
from relstate.storage.table.table_entries import TableEntries
from support.stores import upsert

_ROWS = 2000


@pytest.fixture
def table(store: Store) -> Store:
    """A store with table ``t``, half of whose rows were written again; ``v`` is below 100."""
    store.create_table("t", "k INT, v INT, w STRING, x DOUBLE", primary_key=["k"])
    upsert(store, "t", [(key, 0, "old", 0.0) for key in range(_ROWS)])
    upsert(store, "t", [(key, key % 100, f"new {key}", key / 4) for key in range(0, _ROWS, 2)])
    upsert(store, "t", [(key, key % 100, None, key / 4) for key in range(1, _ROWS, 2)])
    return store


def matching(store: Store, columns: Sequence[str] | None, where: str) -> pa.Table:
    """Return some columns of the rows of ``t`` that match, as a task reads them."""
    plan = store.read_plan("t", columns=columns).filtered(where)
    batches = plan.read((range(plan.vnode_count),))
    return pa.Table.from_batches(batches, plan.arrow_schema())


@pytest.mark.parametrize("columns", [None, ["w", "k"], ["v"], ["x", "v"], ["k"]])
@pytest.mark.parametrize("most", [-1, 0, 30, 75, 90, 100])
def test_a_condition_leaves_the_rows_that_match(
    table: Store, columns: list[str] | None, most: int
) -> None:
    """None, few, most or all of them, of any columns, with or without that of the condition."""
    everything = table.table("t").to_arrow()
    expected = everything.filter(pc.less_equal(everything["v"], most))

    rows = matching(table, columns, f"v <= {most}")

    names = rows.schema.names
    assert names == (columns or ["k", "v", "w", "x"])
    key = [(name, "ascending") for name in names]
    assert rows.sort_by(key).equals(expected.select(names).sort_by(key))


def test_of_few_matches_other_columns_are_decoded_for_these_alone(
    table: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the condition reads are decoded for all rows, the others for 1% of them."""
    decoded: dict[str, int] = {}
    decode = TableEntries.decode

    def counted(self: TableEntries, piece: Piece, columns: Sequence[Column]) -> pa.RecordBatch:
        for column in columns:
            decoded[column.name] = decoded.get(column.name, 0) + sum(map(len, piece.blocks))
        return decode(self, piece, columns)

    monkeypatch.setattr(TableEntries, "decode", counted)
    rows = matching(table, ["w", "x"], "v = 7")

    assert rows.num_rows == _ROWS // 100
    assert decoded == {"v": _ROWS, "w": _ROWS // 100, "x": _ROWS // 100}
