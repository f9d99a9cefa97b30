"""The laws of keys on the command line: output can be read back, wrong words are refused."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.connector.key_words import parse_key
from relstate.connector.row_json import json_values
from relstate.storage import KeyColumn, types
from relstate.storage.codec.memcomparable import KeyCodec
from relstate.storage.errors import SchemaMismatchError, ValueRangeError
from relstate.storage.schema.ddl import parse_type
from support.datatypes import array_of, key_types, values_of


@given(
    key_types().flatmap(lambda types: st.tuples(st.just(types), values_of(types, nullable=False)))
)
def test_what_is_shown_is_read_back(case: tuple[types.DataType, Any]) -> None:
    """A value of any key type, written as in the JSON output, is read back as the same key."""
    data_type, value = case
    (shown,) = json_values(array_of(data_type, [value]), data_type)
    word = shown if isinstance(shown, str) else json.dumps(shown)
    codec = KeyCodec([data_type], [KeyColumn(1)])

    read = parse_key([word], [types.Field("k", data_type)])

    assert codec.encode_key(read) == codec.encode_key([value])


@pytest.mark.parametrize(
    ("ddl", "word"),
    [
        ("BIGINT", "x"),
        ("BIGINT", "1.0"),
        ("BIGINT", ""),
        ("BOOLEAN", "1"),
        ("DOUBLE", "one"),
        ("DECIMAL(12,2)", "1,5"),
        ("BINARY", "not base64!"),
        ("DATE", "31.1.2026"),
        ("DATE", "2026-02-30"),
        ("TIMESTAMP", "noon"),
        ("TIMESTAMP", "2026-01-31T12:00:00.0000001Z"),
        ("TIMESTAMP_NTZ", "2026-01-31T12:00:00Z"),
        ("TIME(6)", "12:00:00+01:00"),
        ("TIME(9)", "12:00:00.123456789"),
        ("INTERVAL DAY TO SECOND", "1 day"),
        ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", "[true]"),
        ("ARRAY<INT>", "[1"),
        ("STRUCT<a: INT>", '{"b": 1}'),
        ("STRUCT<a: INT>", '{"a": 1, "b": 2}'),
        ("STRUCT<a: INT>", "[1, 2]"),
    ],
)
def test_a_word_that_is_no_value_is_refused(ddl: str, word: str) -> None:
    """The error has the word, the column and its type."""
    with pytest.raises(ValueRangeError, match="the key's column 'k'") as raised:
        parse_key([word], [types.Field("k", parse_type(ddl))])

    assert repr(word) in str(raised.value)


def test_a_key_has_as_many_words_as_columns() -> None:
    """The error of too few or too many words names the columns of the key."""
    key = [types.Field("a", types.Int()), types.Field("b", types.String())]

    assert parse_key(["-1", "x"], key) == (-1, "x")
    with pytest.raises(SchemaMismatchError, match=r"\(a INT, b STRING\): it takes 2 values, not 1"):
        parse_key(["1"], key)
    with pytest.raises(SchemaMismatchError, match="not 4; '--epoch' is not an option"):
        parse_key(["1", "x", "--epoch", "9"], key)


def test_a_moment_without_a_zone_is_in_utc() -> None:
    """A timestamp may be shorter than it is displayed, and in any zone."""
    key = [types.Field("k", types.Timestamp())]
    shown = parse_key(["2026-01-31T12:00:00.000000Z"], key)

    assert parse_key(["2026-01-31 12:00"], key) == shown
    assert parse_key(["2026-01-31T13:00:00+01:00"], key) == shown


def test_a_decimal_may_be_shorter_than_its_scale() -> None:
    """``63`` is the key ``63.00``."""
    key = [types.Field("k", types.Decimal(12, 2))]

    assert parse_key(["63"], key) == (Decimal("63.00"),)
