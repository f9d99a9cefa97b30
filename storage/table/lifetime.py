"""How long what is written lives.

Promises: a row expires so many seconds after the job that wrote it began to: by the table's TTL as
it was then, or by the row's own. A delete of a table with a version column can be forgotten after
the table's tombstone retention, since it must hide rows that arrive late.
Does not know: when commits happen, or who reads.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Positions
from ..errors import OptionError, ValueRangeError
from ..log.entry import TableDefinition
from ..segment.kind import Kind
from .header import NEVER

_SECOND = 1_000_000
_MOST_SECONDS = (int(NEVER) - 1) // _SECOND // 2


class Lifetime:
    """The expiries of what one job writes to one table."""

    def __init__(self, definition: TableDefinition, now: int) -> None:
        """``now``: microseconds since 1970."""
        properties = definition.properties
        self._definition = definition
        self._row = int(NEVER) if properties.ttl is None else now + properties.ttl * _SECOND
        is_versioned = properties.version_column is not None
        tombstone = now + properties.tombstone_retention * _SECOND
        self._delete = tombstone if is_versioned else int(NEVER)
        self._now = now

    def expiries(
        self, rows: int, kinds: NDArray[np.uint8] | None, ttls: pa.Array | None
    ) -> Positions | None:
        """Return when each of some rows expires, int64; None if none does.

        ``kinds``: a `Kind` a row, None if none is a delete; ``ttls``: seconds (int64), NULL for
        the table's TTL. OptionError if the table takes no TTL, ValueRangeError for one below 1.
        """
        found = np.full(rows, self._row, np.int64)
        if ttls is not None:
            given = np.flatnonzero(np.asarray(ttls.is_valid()))
            found[given] = self._now + self._seconds(ttls.take(pa.array(given))) * _SECOND
        if kinds is not None:
            found[kinds == Kind.DELETE] = self._delete
        return found if (found != NEVER).any() else None

    def _seconds(self, ttls: pa.Array) -> Positions:
        properties = self._definition.properties
        if properties.merge != "overwrite":
            raise OptionError(
                f"table {self._definition.name}: rows that are merged ({properties.merge}) cannot "
                "expire one by one; leave out the TTL, or create the table with merge overwrite"
            )
        seconds = np.asarray(ttls.cast(pa.int64()))
        if len(seconds) and not 1 <= pc.min(ttls).as_py() <= pc.max(ttls).as_py() <= _MOST_SECONDS:
            raise ValueRangeError(
                f"table {self._definition.name}: a TTL is in seconds, from 1 to {_MOST_SECONDS}; "
                f"found {pc.min(ttls).as_py()} to {pc.max(ttls).as_py()}"
            )
        return seconds
