"""The values of string literals, as Spark reads them."""

from __future__ import annotations

import re

from sqlglot import Token

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {
    "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_",
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")


def unescaped(body: str) -> str:
    """Return the value of what is between the quotes of a string literal, as Spark reads it.

    It is in UTF-16, as in Java: a character may be two surrogates.
    """
    return _ESCAPE.sub(_unescape, body)


def _unescape(escape: re.Match[str]) -> str:
    short, long, octal, character = escape.groups()
    if character is not None:
        return _ESCAPED.get(character, character)
    code = int(octal, 8) if octal is not None else int(short or long, 16)
    if code < 0x10000:
        return chr(code)
    # There are no characters above 0x10FFFF. Spark computes two surrogates, in 16 bits each.
    high, low = divmod(code - 0x10000, 0x400)
    return chr((high + 0xD800) & 0xFFFF) + chr(low + 0xDC00)


def first_surrogate(text: str) -> str | None:
    """Return the first half of a character, a surrogate, that stands in a text."""
    match = _SURROGATE.search(text)
    return None if match is None else match[0]


def without_surrogates(text: str) -> str:
    """Return a text in UTF-16 with its characters whole, and `?` for halves, as Java has it."""
    if _SURROGATE.search(text) is None:
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub("?", whole)


def append_string(first: Token, second: Token, text: str, is_raw: bool) -> None:
    """Make one string of two side by side; two quotes in a row inside a string are one.

    ``is_raw``: the first ends with a raw string, which ends at its first quote.
    """
    is_adjacent = second.start == first.end + 1 and text[second.start] == text[first.end]
    is_quote = is_adjacent and not is_raw
    first.text += (text[first.end] if is_quote else "") + second.text
    first.end = second.end
