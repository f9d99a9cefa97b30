"""The laws of the fields of a key, read from anywhere in a run of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.codec.key_field import KeyBytes, Tagged, field_of
from relstate.storage.codec.key_part import join
from relstate.storage.codec.ragged import content_of, parts_of
from relstate.storage.errors import SchemaError
from support.datatypes import array_of, key_types, values_of
from support.keys import normal


@settings(max_examples=100, deadline=None)
@given(
    key_types().flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind)))),
    st.sampled_from([0x00, 0x02]),
    st.data(),
)
def test_any_fields_of_a_run_are_read(
    case: tuple[t.DataType, list[Any]], null_tag: int, data: st.DataObject
) -> None:
    """Fields are read from where they start, some of them or all, and say where they end."""
    data_type, values = case
    field = Tagged(field_of(data_type), null_tag)
    array = array_of(data_type, values)
    run = join(field.parts(array), len(array))
    offsets = parts_of(run)[1]
    wanted = np.flatnonzero([data.draw(st.booleans()) for _ in values])

    found, ends = field.read(KeyBytes(content_of(run)), offsets[wanted])

    assert np.array_equal(ends, offsets[wanted + 1])
    assert found.type == array.type
    assert repr(normal(found.to_pylist())) == repr(normal(array.take(wanted).to_pylist()))


def test_text_may_hold_what_looks_like_an_end() -> None:
    """Zeros of a text, and those of what follows it, are not taken for its end."""
    field = Tagged(field_of(t.Binary()))
    values = [b"\x00", b"\x00\x00", b"\x00\x01", b"\x01\x00", b""]
    array = array_of(t.Binary(), values)
    run = join(field.parts(array), len(array))

    found, _ = field.read(KeyBytes(content_of(run)), parts_of(run)[1][:-1])

    assert found.to_pylist() == values


def test_a_type_without_an_order_is_refused_wherever_it_stands() -> None:
    """A variant inside a struct inside an array is as little a key as a variant."""
    nested = t.Array(t.Struct((t.Field("a", t.Variant()),)))

    with pytest.raises(SchemaError, match="VARIANT cannot be in a key"):
        field_of(nested)
