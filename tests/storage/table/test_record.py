"""Laws of the row that a point lookup returns."""

from __future__ import annotations

import gc
import pickle

import pytest

from relstate.storage.table.record import Row, row_type

_ROW: Row = row_type(["id", "the name", "count"])((7, "x", None))


def test_a_value_is_found_by_position_name_and_attribute() -> None:
    """All three give the same value; a slice is a plain tuple."""
    assert (_ROW[0], _ROW["id"], _ROW.id) == (7, 7, 7)
    assert (_ROW[-1], _ROW["count"]) == (None, None)
    assert _ROW["the name"] == "x"
    assert _ROW[:2] == (7, "x")


def test_a_row_is_the_tuple_of_its_values() -> None:
    """It equals, hashes and unpacks as the plain tuple does."""
    identifier, name, _ = _ROW

    assert (identifier, name) == (7, "x")
    assert [_ROW] == [(7, "x", None)]
    assert hash(_ROW) == hash((7, "x", None))
    assert _ROW.asDict() == _ROW.as_dict() == {"id": 7, "the name": "x", "count": None}
    assert repr(_ROW) == "Row(id=7, the name='x', count=None)"


def test_attributes_of_rows_stay_methods() -> None:
    """Columns with names of methods are found by name; all others are attributes, however named."""
    names = ["columns", "count", "as_dict", "__del__", "__len__", "_x", "class", "größe"]
    row = row_type(names)(range(len(names)))

    assert row.columns == tuple(names)
    assert row.count(3) == 1
    assert row.as_dict() == {name: index for index, name in enumerate(names)}
    assert len(row) == len(names)
    assert [row[name] for name in names] == list(range(len(names)))
    assert [getattr(row, name) for name in names[5:]] == [5, 6, 7]
    assert getattr(row, "__del__") == 3  # noqa: B009
    with pytest.raises(AttributeError):
        row._x = 1  # type: ignore[attr-defined]


def test_an_unknown_column_is_an_error() -> None:
    """The error names the columns of the row."""
    with pytest.raises(KeyError, match="id, the name, count"):
        _ROW["nothing"]
    with pytest.raises(AttributeError, match="id, the name, count"):
        _ROW.nothing  # noqa: B018
    with pytest.raises(IndexError):
        _ROW[3]


def test_a_row_pickles() -> None:
    """A pickled row keeps its column names."""
    copy = pickle.loads(pickle.dumps(_ROW))

    assert isinstance(copy, Row)
    assert copy == _ROW
    assert copy.columns == _ROW.columns


def test_attributes_are_read_whenever_memory_is_collected() -> None:
    """A collection in the middle of `row_type` removes nothing that it needs."""
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for count in range(100, 300):
            row = row_type([f"c{index}" for index in range(count)])(range(count))
            assert row.c99 == 99
    finally:
        gc.set_threshold(*threshold)
