"""Columns of the data that say something of its rows.

Does not know: what they say.
"""

from __future__ import annotations

import pyarrow as pa

from relstate.storage import errors


def place_of(schema: pa.Schema, name: str, role: str) -> int:
    """Return where the column of this name stands, whatever its case.

    SchemaMismatchError, which calls it by its role, if there is none.
    """
    for place, found in enumerate(schema.names):
        if found.lower() == name.lower():
            return place
    raise errors.SchemaMismatchError(
        f"the data has no {role} {name!r}; it has {', '.join(schema.names)}"
    )
