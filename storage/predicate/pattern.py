"""Patterns of LIKE: what they fix, and the regular expression they stand for.

``%`` stands for any text, ``_`` for one character; after the escape character they, and it, stand
for themselves. The rules, and the errors, are Spark's.
Does not know: columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UnsupportedExpressionError

_ANY, _ONE = "(?s:.*)", "(?s:.)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern taken apart: ``parts`` are texts; None stands for any text, 1 for one character."""

    parts: tuple[str | int | None, ...]

    @property
    def prefix(self) -> str:
        """The text with which everything that matches begins."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def is_text(self) -> bool:
        """Whether nothing but the prefix matches."""
        return not self.parts or self.parts == (self.prefix,)

    @property
    def is_prefix(self) -> bool:
        """Whether everything that begins with the prefix matches."""
        return self.parts in ((None,), (self.prefix, None))

    @property
    def regex(self) -> str:
        """The pattern for RE2; it matches from the first character to the last."""
        return r"\A" + "".join(map(_part, self.parts)) + r"\z"


def parse_pattern(text: str, escape: str = "\\") -> Pattern:
    """Return the pattern that a text is. UnsupportedExpressionError for a wrong escape."""
    parts: list[str | int | None] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise UnsupportedExpressionError(
                    f"the pattern {text!r} has the escape character {escape!r} before "
                    f"{'its end' if escaped is None else repr(escaped)}; it must stand before "
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
    """Return the regular expression of RE2 that matches just this text."""
    return "".join(
        character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"
        for character in text
    )


def next_prefix(prefix: str) -> str | None:
    """Return the least text above all that begin with ``prefix``; None if there is none."""
    while prefix:
        last = ord(prefix[-1]) + 1
        # What would be a surrogate is no character.
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
