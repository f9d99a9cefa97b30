"""The kinds of entries.

Promises: a number stands for one kind for ever.
Does not know: how an entry of a kind is merged with others of its key.
"""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What an entry says of its key; the first byte of every value."""

    # On disk: never change or reuse. 3 and 4 are kept for partial and ignore.
    PUT = 1
    DELETE = 2
