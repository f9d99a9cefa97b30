"""What a table asks of its secondary indexes, and which of them a read uses.

Does not know: how an index stores its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from ..codec.ragged import Bytes, Positions, first_of_equal
from ..log.sequenced_segment import SequencedSegment
from ..segment.key import KeyPrefix
from .encoding import Encoding
from .pointget import RowFinder
from .prefixget import PrefixGet
from .record import Row

if TYPE_CHECKING:
    from ..predicate.condition import Condition
    from ..predicate.predicate import Predicate

# An index is used for a condition if it leaves so few rows, or at most one of so many.
_FEW_MATCHES = 1024
_ROWS_A_MATCH = 64
# Every part of an OR is looked up by itself.
_MOST_PARTS = 64


@dataclass(frozen=True, slots=True)
class IndexMatches:
    """The rows of a table that can match a condition, as its indexes know them.

    ``prefix``: of the keys of the table's rows. ``index``: the name of the index, or the names of
    several. ``keys``: the full keys of the rows in the table, distinct and ascending. ``rows``: the
    columns that the index holds, of each of these rows; None if they have to be looked up.
    """

    prefix: KeyPrefix
    index: str
    keys: Bytes
    rows: pa.RecordBatch | None

    @property
    def vnodes(self) -> int:
        """How many vnodes of the table the rows are in."""
        return len(np.unique(self.prefix.vnodes_in(self.keys)))

    def within(self, groups: Sequence[range]) -> IndexMatches:
        """Return the rows that are in some vnodes of the table."""
        vnodes = self.prefix.vnodes_in(self.keys)
        flags = np.zeros(len(vnodes), np.bool_)
        for group in groups:
            flags |= (vnodes >= group.start) & (vnodes < group.stop)
        if flags.all():
            return self
        is_inside = pa.array(flags)
        rows = None if self.rows is None else self.rows.filter(is_inside)
        return IndexMatches(self.prefix, self.index, self.keys.filter(is_inside), rows)


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

    def keys(self, values: Sequence[Any]) -> list[tuple[Sequence[Any], bytes]]:
        """Return (primary key, full key) of the rows with these values in the first columns.

        They come in the order of the index. SchemaMismatchError, ValueRangeError.
        """

    def find(self, values: pa.RecordBatch) -> tuple[Positions, Bytes]:
        """Return (indices, full keys) of the rows with each of some values in the first columns.

        ``indices`` (int64, ascending) name the values of each key. Errors as of `keys`.
        """

    def rows(self, values: Sequence[Any], names: tuple[str, ...] | None) -> list[Row] | None:
        """Return columns of the rows that `keys` names; None if the index does not hold them.

        ``names``: None for the visible columns of the table.
        """

    def prefix_get(self, names: tuple[str, ...] | None, find: RowFinder | None) -> PrefixGet | None:
        """Return the quickest function from values of all columns to what `get_by` returns.

        None if there is none. ``names``: as of `rows`; ``find``: what finds the rows with these
        columns in the table.
        """


class TableIndexes:
    """The indexes of a table at an epoch. Safe between threads."""

    def __init__(self, encoding: Encoding, indexes: Sequence[SecondaryIndex]) -> None:
        """``encoding``: that of the table."""
        self._encoding = encoding
        self._indexes = indexes
        self._by_name = {index.name: index for index in indexes}

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._indexes

    @property
    def segments(self) -> list[Sequence[SequencedSegment]]:
        """The segments with the entries of each index."""
        return [index.segments for index in self._indexes]

    def named(self, name: str) -> SecondaryIndex:
        """Return an index by its name, in any case. IndexNotFoundError."""
        index = self._by_name.get(name)
        return index or self._by_name[self._encoding.definition.index(name).name]

    def matches(self, where: Predicate, rows: int) -> IndexMatches | None:
        """Return the rows that can match, from the index that leaves fewest of them.

        If none is of use, several may be: one for each part of an OR. None if so many rows are left
        that reading all ``rows`` of the table is better.
        """
        return self._matches(where, max(_FEW_MATCHES, rows // _ROWS_A_MATCH))

    def _matches(self, where: Predicate, most: int) -> IndexMatches | None:
        fewest: IndexMatches | None = None
        for index in self._indexes:
            matches = index.matches(where, most)
            if matches is not None and (fewest is None or len(matches.keys) < len(fewest.keys)):
                fewest, most = matches, len(matches.keys)
        if fewest is not None:
            return fewest
        unions = (self._union(where, parts, most) for parts in _alternatives(where.condition))
        return next((union for union in unions if union is not None), None)

    def _union(
        self, where: Predicate, parts: Sequence[Condition], most: int
    ) -> IndexMatches | None:
        """Return the rows that can match any of some conditions; None if an index is missing."""
        if len(parts) > _MOST_PARTS:
            return None
        by_part: list[IndexMatches] = []
        for part in parts:
            predicate = replace(where, condition=part)
            matches = self._points(predicate) or self._matches(predicate, most)
            if matches is None:
                return None
            by_part.append(matches)
        keys = pa.concat_arrays([matches.keys for matches in by_part])
        keys = keys.take(pa.array(first_of_equal(keys)))
        names = dict.fromkeys(matches.index for matches in by_part if matches.index)
        return (
            None
            if len(keys) > most
            else IndexMatches(self._encoding.prefix, ", ".join(names), keys, None)
        )

    def _points(self, where: Predicate) -> IndexMatches | None:
        """Return the rows of the primary keys that a condition names; None if it leaves others."""
        ranges = where.ranges()
        width = len(self._encoding.key_names)
        if ranges is None or any(len(key_range.prefix) < width for key_range in ranges):
            return None
        keys = [self._encoding.encode_key(key_range.prefix) for key_range in ranges]
        return IndexMatches(self._encoding.prefix, "", pa.array(keys, pa.large_binary()), None)


def _alternatives(condition: Condition) -> Iterator[Sequence[Condition]]:
    """Yield the parts of each OR one of whose parts must be true if a condition is."""
    from ..predicate.condition import And, Or

    for part in condition.parts if isinstance(condition, And) else (condition,):
        if isinstance(part, Or):
            yield part.parts
