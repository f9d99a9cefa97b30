"""Patterns mean what LIKE means."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import UnsupportedExpressionError
from relstate.storage.predicate.pattern import escape_regex, next_prefix, parse_pattern

texts = st.text(st.sampled_from("ab%_\n.é😀\\"), max_size=6)


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches, by definition, for patterns without escapes."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(matches(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and matches(pattern[1:], text[1:])


@given(pattern=st.text(st.sampled_from("ab%_\n.é😀"), max_size=5), text=texts)
def test_a_pattern_matches_by_its_definition(pattern: str, text: str) -> None:
    """``%`` is any text, ``_`` one character, and any other character is itself."""
    is_match = pc.match_substring_regex(pa.array([text]), parse_pattern(pattern).regex)[0].as_py()

    assert is_match == matches(pattern, text)
    assert not is_match or text.startswith(parse_pattern(pattern).prefix)


@given(text=texts)
def test_an_escaped_text_is_that_text(text: str) -> None:
    """Whatever characters it has."""
    escaped = "".join(f"/{character}" if character in "%_/" else character for character in text)
    pattern = parse_pattern(escaped, "/")

    assert pattern.is_text
    assert pattern.prefix == text
    assert pc.match_substring_regex(pa.array([text]), rf"\A{escape_regex(text)}\z")[0].as_py()


def test_prefixes_are_known() -> None:
    """A pattern of a text and a final ``%`` is a range of texts."""
    assert parse_pattern("ab%").is_prefix
    assert parse_pattern("%").is_prefix
    assert parse_pattern("ab%%").is_prefix
    assert not parse_pattern("ab%c").is_prefix
    assert parse_pattern("ab_").prefix == "ab"


@pytest.mark.parametrize("pattern", ["a\\b", "a\\", "\\"])
def test_an_escape_before_anything_else_is_refused(pattern: str) -> None:
    """As Spark refuses it."""
    with pytest.raises(UnsupportedExpressionError, match="escape character"):
        parse_pattern(pattern)


@given(prefix=st.text(max_size=3), text=st.text(max_size=4))
def test_texts_with_a_prefix_are_below_its_successor(prefix: str, text: str) -> None:
    """In the order of bytes; and no other text is between the two."""
    stop = next_prefix(prefix)
    inside = prefix.encode() <= text.encode() and (stop is None or text.encode() < stop.encode())

    assert inside == text.startswith(prefix)
