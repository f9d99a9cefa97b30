"""The laws of values of fixed width as unsigned numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.sortable import Sortable, sortable
from support.datatypes import array_of, key_types, values_of
from support.examples import examples
from support.keys import sort_value

FIXED = key_types().filter(lambda data_type: sortable(data_type) is not None)


def form_of(data_type: t.DataType) -> Sortable:
    """Return the form of a type that has one."""
    form = sortable(data_type)
    assert form is not None
    return form


@settings(max_examples=examples(100))
@given(FIXED.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind, False)))))
def test_numbers_sort_as_the_values(case: tuple[t.DataType, list[Any]]) -> None:
    """Numbers compare as the values do and turn back into them, in the sizes that are stated."""
    data_type, values = case
    form = form_of(data_type)
    array = array_of(data_type, values)

    numbers = form.numbers(array)

    rows = list(zip(*[part.tolist() for part in numbers], strict=True))
    expected = [sort_value(data_type, value) for value in array.to_pylist()]
    indices = range(len(values))
    assert sorted(indices, key=rows.__getitem__) == sorted(indices, key=expected.__getitem__)
    assert tuple(part.itemsize for part in numbers) == form.sizes
    again = form.values(numbers)
    assert again.type == array.type
    assert [sort_value(data_type, value) for value in again.to_pylist()] == expected


@pytest.mark.parametrize("data_type", [t.String(), t.Binary(), t.Array(t.Int()), t.Variant()])
def test_other_types_have_no_such_form(data_type: t.DataType) -> None:
    """Values of varying width have no form as numbers."""
    assert sortable(data_type) is None


def test_a_boolean_is_zero_or_one() -> None:
    """Any other byte is reported as damage."""
    form = form_of(t.Boolean())
    numbers = form.numbers(array_of(t.Boolean(), [True]))

    with pytest.raises(ValueError, match="neither 0 nor 1"):
        form.values([numbers[0] + numbers[0]])
