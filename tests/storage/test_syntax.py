"""String literals have Spark's values; a text that is not an expression is refused."""

from __future__ import annotations

import pytest
from sqlglot import exp
from sqlglot.errors import TokenError

from relstate.storage.errors import UnsupportedExpressionError
from relstate.storage.syntax import parse_condition, parse_tokens, text_of, tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"'plain'", "plain"),
        (r"'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r'"a""b"', 'a"b'),
        (r"'a' 'b'", "ab"),
        (r"'a' " + '"b"', "ab"),
        (r"'\n\t\r\b\0\Z\\'", "\n\t\r\b\0\x1a\\"),
        (r"'\%\_'", r"\%\_"),
        (r"'\q'", "q"),
        (r"'\u00e9\141\U0001F600'", "éa😀"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\ud83d' '\U0000de00'", "😀"),
        (r"'\ud83d'", "?"),
        (r"'a\U00110000b'", "a??b"),
        (r"'\\U00110000'", r"\U00110000"),
        (r"r'\n'", r"\n"),
        (r'R"\d"', r"\d"),
        ("r'a''b'", "ab"),
        ("'x'r'a''b''c'", "xab'c"),
        ("''", ""),
        ("'a\nb'", "a\nb"),
        ("'-- no comment'", "-- no comment"),
    ],
)
def test_a_string_is_what_spark_reads(text: str, expected: str) -> None:
    """Escapes, doubled quotes, strings side by side, raw ones."""
    literal = parse_condition(f"a = {text} /* 'x' */").find(exp.Literal)

    assert literal is not None
    assert literal.is_string
    assert literal.this == expected


@pytest.mark.parametrize(
    "text", ["0D", "1.5D", "2BD", "1E3BD", "3F", "4L", "-5S", "-128Y", "CAST(4L AS INT)"]
)
def test_a_number_with_a_suffix_is_written_as_it_was_read(text: str) -> None:
    """Spark takes it for a literal, as it does not take a cast, in a copy of the tree too."""
    assert text_of(parse_condition(f"a = {text}").copy()) == f"a = {text}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("+ '1'", "POSITIVE('1')"), ("+b", "POSITIVE(b)"), ("+1", "1"), ("+ -(2L)", "-(2L)")],
)
def test_a_plus_before_a_value_is_the_function_that_spark_has_for_it(
    text: str, expected: str
) -> None:
    """A string becomes a number by it; a number is itself."""
    assert text_of(parse_condition(f"a = {text}")) == f"a = {expected}"


def test_values_may_be_the_first_side_of_a_join_in_parentheses() -> None:
    """With parentheses of their own, and without."""
    text = "SELECT * FROM t JOIN (VALUES (1) AS v(x) JOIN u ON v.x = u.x) ON t.x = u.x"
    for written in (text, text.replace("VALUES (1)", "(VALUES (1))")):
        assert text_of(parse_tokens(tokenize(written), written)) == text


def test_ignore_nulls_within_a_call_is_its_second_argument() -> None:
    """Within the parentheses it is syntax, after them a clause."""
    text = "first(a IGNORE NULLS) = LAST(b) IGNORE NULLS"
    assert text_of(parse_condition(text)) == "FIRST(a, TRUE) = LAST(b) IGNORE NULLS"
    text = "ARRAY_SIZE(ARRAY_AGG(c) IGNORE NULLS) = 1"
    assert text_of(parse_condition(text)) == text


def test_the_plus_of_an_interval_is_part_of_it() -> None:
    """Spark has no function there."""
    assert text_of(parse_condition("a > INTERVAL +'1' DAY")) == "a > INTERVAL '1' DAY"


def test_a_cast_of_a_number_stays_a_cast() -> None:
    """``4 :: BIGINT`` has the tokens of ``4L``, and is none."""
    assert text_of(parse_condition("a = 4 :: BIGINT")) == "a = CAST(4 AS BIGINT)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a =",
        "a = 1 b",
        "a = 1; b = 2",
        "a = 'x",
        "a = 1)",
        "SELEC",
        "a = `b",
        "a = '\ud83d'",
    ],
)
def test_a_text_that_is_not_an_expression_is_refused(text: str) -> None:
    """With the position of the error; SELEC is read as the name of a column."""
    if text == "SELEC":
        assert isinstance(parse_condition(text), exp.Column)
        return
    with pytest.raises(UnsupportedExpressionError):
        parse_condition(text)


def test_nesting_without_end_is_refused() -> None:
    """Thousands of ORs are not nesting."""
    with pytest.raises(UnsupportedExpressionError, match="nested too deeply"):
        parse_condition("(" * 5000 + "a" + ")" * 5000)
    parse_condition(" OR ".join(f"a = {number}" for number in range(5000)))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 'x", "' at line 1, column 5,"),
        ("a = 'it''s", "' at line 1, column 9,"),
        ("a = 'x' AND b =\n \"c", '" at line 2, column 2,'),
        (r"a = '\'", "' at line 1, column 5,"),
        ("`a = 1", "` at line 1, column 1,"),
        ("a = 1 /* 'x'", "/\\* at line 1, column 7,"),
        ("a = '/*' -- 'x\n AND b = 'c", "' at line 2, column 10,"),
    ],
)
def test_a_quote_without_end_is_named(text: str, place: str) -> None:
    """The error says which quote or comment is open, and where it begins."""
    with pytest.raises(TokenError, match=f"^what begins with {place} has no end$"):
        tokenize(text)


def test_negated_signs_are_those_of_spark() -> None:
    """``!>`` is ``<=`` and ``!<`` is ``>=`` where nothing is between the two; ``!`` is NOT."""
    tree = parse_condition("a !> 2 AND b !<3 OR ! (c != 1)")
    assert text_of(tree) == "a <= 2 AND b >= 3 OR NOT (c <> 1)"
    with pytest.raises(UnsupportedExpressionError):
        parse_condition("a ! > 2")
