"""A chunk: an Arrow record batch of changes, an op column and the row's columns.

Does not know: tables.
"""

from __future__ import annotations

from enum import IntEnum

OP_COLUMN = "_op"


class Op(IntEnum):
    """What a row of a chunk does. An update is a delete of the old row and an insert of the new."""

    INSERT = 1
    DELETE = 2
