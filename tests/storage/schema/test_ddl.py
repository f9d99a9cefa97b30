"""The laws of reading DDL: what is written is read back, and other texts are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relstate.storage import types as t
from relstate.storage.errors import SchemaError, UnsupportedTypeError
from relstate.storage.schema.ddl import MAX_DEPTH, parse_columns, parse_type
from support.datatypes import all_types
from support.examples import examples


def without_element_nullability(data_type: t.DataType) -> t.DataType:
    """Return the type as far as DDL can say it: elements and map values may be NULL."""
    match data_type:
        case t.Array(element, _):
            return t.Array(without_element_nullability(element))
        case t.Map(key, value, _):
            return t.Map(without_element_nullability(key), without_element_nullability(value))
        case t.Struct(fields):
            return t.Struct(
                tuple(
                    t.Field(field.name, without_element_nullability(field.type), field.nullable)
                    for field in fields
                )
            )
    return data_type


@given(all_types())
def test_a_type_is_read_back_as_it_was_written(data_type: t.DataType) -> None:
    """``parse_type(str(type))`` is the type, but for what DDL cannot say."""
    assert parse_type(str(data_type)) == without_element_nullability(data_type)


@given(st.lists(st.builds(t.Field, st.text(min_size=1), all_types(), st.booleans()), min_size=1))
def test_columns_are_read_back_as_they_were_written(fields: list[t.Field]) -> None:
    """A list of columns written as DDL is read back, whatever the names."""
    expected = tuple(
        t.Field(field.name, without_element_nullability(field.type), field.nullable)
        for field in fields
    )

    assert parse_columns(", ".join(map(str, fields))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long", t.BigInt()),
        ("INTEGER", t.Int()),
        ("short", t.SmallInt()),
        ("Byte", t.TinyInt()),
        ("real", t.Float()),
        ("dec", t.Decimal(10, 0)),
        ("numeric(5)", t.Decimal(5, 0)),
        ("DECIMAL ( 12 , 2 )", t.Decimal(12, 2)),
        ("char(5)", t.String()),
        ("varchar(5)", t.String()),
        ("string collate unicode_ai_ci", t.String("UNICODE_CI_AI")),
        ("string collate SR_cyrl_srb_ai", t.String("sr_Cyrl_SRB_AI")),
        ("string collate utf8_binary", t.String()),
        ("timestamp_ltz", t.Timestamp()),
        ("timestamp(6) without time zone", t.TimestampNtz()),
        ("timestamp with local time zone", t.Timestamp()),
        ("time", t.Time(6)),
        ("interval", t.CalendarInterval()),
        ("interval day", t.DayTimeInterval("day", "day")),
        ("interval year to month", t.YearMonthInterval()),
        ("array<array<int>>", t.Array(t.Array(t.Int()))),
        ("struct<>", t.Struct(())),
        ("/* a */ int -- b", t.Int()),
    ],
)
def test_synonyms_and_spellings(text: str, expected: t.DataType) -> None:
    """Every name that Spark has for a type is read, in any case and spacing."""
    assert parse_type(text) == expected


def test_columns_in_all_their_forms() -> None:
    """NOT NULL, comments, colons and odd names are read; texts side by side are one."""
    fields = parse_columns("a BIGINT NOT NULL, b: int COMMENT 'it''s' \"x\", `odd``name` time(3)")

    assert fields == (
        t.Field("a", t.BigInt(), False),
        t.Field("b", t.Int()),
        t.Field("odd`name", t.Time(3)),
    )
    assert [field.comment for field in fields] == [None, "it'sx", None]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "found nothing"),
        ("a", "expected a data type"),
        ("a int,", "expected a name"),
        ("a int b int", "expected the end at position 6"),
        ("a int not", "expected 'NULL'"),
        ("a int comment x", "expected a comment in quotes"),
        ("12 int", "expected a name"),
        ("a-b int", "cannot read '-b int'"),
        ("a array<int", "expected '>'"),
        ("a array int", "expected '<'"),
        ("a decimal(1,2,3)", "at most 2 numbers"),
        ("a decimal(x)", "expected a number"),
        ("a decimal(9999999999)", "expected a number"),
        ("a char", "expected a length"),
        ("a timestamp(3)", "the one precision"),
        ("a interval day to day", "a smaller unit"),
        ("a interval day to week", "expected a unit of time"),
        ("a string collate nowhere_xx", "expected a collation"),
        ("a int default 5", "expected the end"),
        ("a 'text'", "expected a data type"),
    ],
)
def test_other_texts_are_refused(text: str, complaint: str) -> None:
    """An error says what was expected, where, and what is there instead."""
    with pytest.raises(SchemaError, match=complaint):
        parse_columns(text)


@pytest.mark.parametrize(
    "text", ["uuid", "geometry", "decimal(39)", "interval second to day", "array<object>"]
)
def test_unknown_types_are_refused(text: str) -> None:
    """A type that relstate does not know has an error of its own."""
    with pytest.raises(UnsupportedTypeError):
        parse_type(text)


@pytest.mark.parametrize("text", ["serial", "BIGSERIAL"])
def test_a_type_that_assigns_numbers_is_refused_with_what_to_write(text: str) -> None:
    """A value that is unique, or a number of the statement."""
    with pytest.raises(UnsupportedTypeError, match=rf"{text}.* row_number\(\) .* uuid\(\)"):
        parse_type(text)


def test_endless_nesting_is_refused() -> None:
    """A type nested deeper than any table needs is an error, not a stack overflow."""
    deepest = "ARRAY<" * MAX_DEPTH + "INT" + ">" * MAX_DEPTH

    assert str(parse_type(deepest)) == deepest
    with pytest.raises(SchemaError, match="levels deep"):
        parse_type("array<" * 100_000)


@settings(max_examples=examples(200))
@given(st.text("abint<>(),:`'\" 0/*-") | st.text())
def test_any_text_is_a_type_or_an_error(text: str) -> None:
    """No text makes the parser fail in another way than by its own errors."""
    for parse in (parse_type, parse_columns):
        with suppress(SchemaError, UnsupportedTypeError):
            parse(text)
