"""Patterns of LIKE, and their regular expressions.

``%`` matches any text, ``_`` one character; after the escape character these two, and it, match
themselves. The rules, and the errors, are Spark's.
Does not know: columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UnsupportedExpressionError

_ANY, _ONE = "(?s:.*)", "(?s:.)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """The parts of a pattern: texts; None matches any text, 1 one character."""

    parts: tuple[str | int | None, ...]

    @property
    def prefix(self) -> str:
        """The text with which every match begins."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def is_text(self) -> bool:
        """Whether only the prefix itself matches."""
        return not self.parts or self.parts == (self.prefix,)

    @property
    def is_prefix(self) -> bool:
        """Whether every text that begins with the prefix matches."""
        return self.parts in ((None,), (self.prefix, None))

    @property
    def regex(self) -> str:
        """The regular expression of RE2, which matches whole texts."""
        return r"\A" + "".join(map(_part, self.parts)) + r"\z"


def parse_pattern(text: str, escape: str = "\\") -> Pattern:
    """Return the pattern of a text. UnsupportedExpressionError for a wrong escape."""
    parts: list[str | int | None] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise UnsupportedExpressionError(
                    f"the pattern {text!r} has the escape character {escape!r} before "
                    f"{'its end' if escaped is None else repr(escaped)}; it must be before "
                    f"'%', '_' or itself"
                )
            _append(parts, escaped)
        elif character == "%":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif character == "_":
            parts.append(1)
        else:
            _append(parts, character)
    return Pattern(tuple(parts))


def escape_regex(text: str) -> str:
    """Return the regular expression of RE2 that matches this text only."""
    return "".join(
        character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"
        for character in text
    )


def next_prefix(prefix: str) -> str | None:
    """Return the least text after all that begin with ``prefix``; None if there is none."""
    while prefix:
        last = ord(prefix[-1]) + 1
        # Surrogates are not characters.
        last = 0xE000 if last == 0xD800 else last
        if last <= 0x10FFFF:
            return prefix[:-1] + chr(last)
        prefix = prefix[:-1]
    return None


def _append(parts: list[str | int | None], character: str) -> None:
    last = parts[-1] if parts else None
    if isinstance(last, str):
        parts[-1] = last + character
    else:
        parts.append(character)


def _part(part: str | int | None) -> str:
    if part is None:
        return _ANY
    return escape_regex(part) if isinstance(part, str) else _ONE
