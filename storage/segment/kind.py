"""The kinds of entries, and the flag of those that expire.

Promises: a number means one kind for ever.
Does not know: how entries of one key are merged.
"""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What an entry does to the row of its key; the first byte of every value.

    A put replaces the row that is there, a delete removes it. A partial row gives it the columns
    that are not NULL, or becomes the row if there is none; a row of kind ignore does only that.
    """

    # On disk: never change or reuse.
    PUT = 1
    DELETE = 2
    PARTIAL = 3
    IGNORE = 4


# On disk, a flag in the second byte of every value: it has an expiry.
EXPIRES = 1
