"""Patterns of keys, fields and channels: ``*``, ``?``, ``[a-z]`` and a backslash before others.

Promises: a comparison is refused if it took too long, whatever the pattern and the names are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from .replies import CommandError

_MOST_PATTERN_BYTES = 1024
# Steps of a comparison that do not count, and how many take about a second.
_FREE_STEPS, _MOST_STEPS = 10_000, 100_000_000
_MOST_CHANNEL_STEPS = 10_000_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern. ``matches`` says whether bytes match; ``steps``: at most for each byte of them."""

    matches: Callable[[bytes], object]
    steps: int

    def is_of_channel(self, name: bytes) -> bool:
        """Return whether the name of a channel matches; False if it takes too long to find out.

        Who publishes waits for it, and has not chosen the pattern.
        """
        return len(name) * self.steps <= _MOST_CHANNEL_STEPS and bool(self.matches(name))

    def filter(self, names: Iterable[bytes]) -> list[bytes]:
        """Return the names that match. CommandError if that takes too long."""
        left, matching = _MOST_STEPS, []
        for name in names:
            steps = len(name) * self.steps
            if steps > _FREE_STEPS:
                left -= steps
                if left < 0:
                    raise CommandError(
                        "ERR the pattern takes too long to be compared with long names: write it "
                        "with fewer characters after a star"
                    )
            if self.matches(name):
                matching.append(name)
        return matching


@lru_cache(maxsize=256)
def glob(pattern: bytes) -> Pattern:
    """Return a pattern. CommandError if it is too long."""
    if len(pattern) > _MOST_PATTERN_BYTES:
        raise CommandError(
            f"ERR a pattern of {len(pattern)} bytes; relstate takes {_MOST_PATTERN_BYTES} at most"
        )
    pieces = _between_stars(pattern)
    steps = max([1, *(len(piece) for piece in pieces[1:])])
    return Pattern(re.compile(_regex_of(pieces), re.DOTALL).fullmatch, steps)


def _regex_of(pieces_between_stars: list[list[bytes]]) -> bytes:
    """Return a regular expression that takes no more than the product of both lengths.

    What is between two stars is matched where it first occurs, and not again elsewhere.
    """
    first, *rest = [b"".join(pieces) for pieces in pieces_between_stars]
    if not rest:
        return first
    *middle, last = rest
    return first + b"".join(b"(?>.*?%b)" % piece for piece in middle if piece) + b".*" + last


def _between_stars(pattern: bytes) -> list[list[bytes]]:
    """Return the regular expressions of the characters before, between and after the stars."""
    pieces: list[bytes] = []
    all_pieces = [pieces]
    index = 0
    while index < len(pattern):
        character = pattern[index : index + 1]
        index += 1
        if character == b"*":
            pieces = []
            all_pieces.append(pieces)
        elif character == b"?":
            pieces.append(b".")
        elif character == b"[":
            piece, index = _class_at(pattern, index)
            pieces.append(piece)
        else:
            if character == b"\\" and index < len(pattern):
                character = pattern[index : index + 1]
                index += 1
            pieces.append(re.escape(character))
    return all_pieces


def _class_at(pattern: bytes, index: int) -> tuple[bytes, int]:
    """Return the regular expression of a class of characters, and the index after it."""
    negation = b"^" if pattern[index : index + 1] == b"^" else b""
    index += len(negation)
    members: list[bytes] = []
    while index < len(pattern) and pattern[index : index + 1] != b"]":
        if pattern[index : index + 1] == b"\\" and index + 1 < len(pattern):
            members.append(re.escape(pattern[index + 1 : index + 2]))
            index += 2
        elif pattern[index + 1 : index + 2] == b"-" and index + 2 < len(pattern):
            low, high = sorted((pattern[index : index + 1], pattern[index + 2 : index + 3]))
            members.append(b"%b-%b" % (re.escape(low), re.escape(high)))
            index += 3
        else:
            members.append(re.escape(pattern[index : index + 1]))
            index += 1
    if not members:
        return (b"." if negation else b"(?!)"), index + 1
    return b"[%b%b]" % (negation, b"".join(members)), index + 1
