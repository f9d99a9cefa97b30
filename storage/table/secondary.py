"""What a table asks of its secondary indexes.

Does not know: how an index stores its entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes
from ..log.sequenced_segment import SequencedSegment
from ..predicate.predicate import Predicate
from ..segment.key import vnodes_in

# An index is used for a condition if it leaves so few rows, or at most one of so many.
_FEW_MATCHES = 1024
_ROWS_A_MATCH = 64


@dataclass(frozen=True, slots=True)
class IndexMatches:
    """The rows of a table that can match a condition, as an index knows them.

    ``index``: its name. ``keys``: the full keys of the rows in the table, distinct and ascending.
    ``rows``: the columns that the index holds, of each of these rows.
    """

    index: str
    keys: Bytes
    rows: pa.RecordBatch

    @property
    def vnodes(self) -> int:
        """How many vnodes of the table the rows are in."""
        return len(np.unique(vnodes_in(self.keys)))

    def within(self, groups: Sequence[range]) -> IndexMatches:
        """Return the rows that are in some vnodes of the table."""
        vnodes = vnodes_in(self.keys)
        flags = np.zeros(len(vnodes), np.bool_)
        for group in groups:
            flags |= (vnodes >= group.start) & (vnodes < group.stop)
        if flags.all():
            return self
        is_inside = pa.array(flags)
        return IndexMatches(self.index, self.keys.filter(is_inside), self.rows.filter(is_inside))


class SecondaryIndex(Protocol):
    """An index of a table at the table's epoch."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def segments(self) -> Sequence[SequencedSegment]:
        """The segments with its entries, the newest first."""

    def matches(self, where: Predicate, most: int) -> IndexMatches | None:
        """Return the rows that can match; None if they may be all, or more than ``most``."""

    def primary_keys(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return the primary keys of the rows with these values in the first indexed columns.

        They come in the order of the index. SchemaMismatchError, ValueRangeError.
        """


def fewest_matches(
    indexes: Sequence[SecondaryIndex], where: Predicate, rows: int
) -> IndexMatches | None:
    """Return the rows that can match, from the index that leaves fewest of them.

    None if every index leaves so many that reading all ``rows`` of the table is better.
    """
    most = max(_FEW_MATCHES, rows // _ROWS_A_MATCH)
    fewest: IndexMatches | None = None
    for index in indexes:
        matches = index.matches(where, most)
        if matches is not None and (fewest is None or len(matches.keys) < len(fewest.keys)):
            fewest, most = matches, len(matches.keys)
    return fewest
