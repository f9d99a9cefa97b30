"""Entries of documents and what they say: which rows they are of, which count, and which are there.

Promises: what an entry says is decided here for reads, merges of files and feeds alike.
Does not know: the types of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.path import load_numbers
from ...codec.ragged import Bytes, Positions, equal_neighbours, gather
from ...segment.block import Block
from ...segment.key import Kind
from ..header import BY_COLUMNS, NEVER, Headers
from .visible import counting

Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Documents:
    """Entries of some rows in key order, and what they say.

    ``rows``: the number of the row of each entry; ``keys``: the full keys of the rows;
    ``is_counted``, ``is_alive``: which entries count, and which of them are there;
    ``column_ids``: 0 for entries that are rows.
    """

    entries: Block
    headers: Headers
    versions: Positions
    rows: Positions
    keys: Bytes
    is_counted: Flags
    is_alive: Flags
    column_ids: Positions

    @classmethod
    def of(
        cls,
        entries: Block,
        versions: Positions,
        column_ids: Sequence[int],
        time: Callable[[], int],
    ) -> Documents:
        """Return what some entries say at a time, which is asked for if one expires.

        ``versions``: int64, greater ones are newer. ``column_ids``: those of the columns that there
        are, and 0; entries of others do not count.
        """
        headers = Headers(entries)
        lengths = headers.path_lengths
        key_ends = entries.key_starts + entries.key_lengths - lengths
        paths = entries.key_bytes()
        repeats = equal_neighbours(paths)
        full_keys = gather(entries.keys, entries.key_starts, entries.key_lengths - lengths)
        is_first = np.append(True, ~equal_neighbours(full_keys))
        parts = np.flatnonzero(lengths)
        ids = np.zeros(len(entries), np.int64)
        ids[parts] = load_numbers(entries.keys, key_ends[parts])
        is_liveness = headers.kinds == Kind.LIVENESS
        is_counted = counting(paths, repeats, headers.depths, versions, is_liveness)
        is_counted &= np.isin(ids, column_ids)
        is_alive = is_counted & headers.are_visible(time() if headers.flags.any() else 0)
        return cls(
            entries,
            headers,
            versions,
            np.cumsum(is_first) - 1,
            full_keys.take(pa.array(np.flatnonzero(is_first))),
            is_counted,
            is_alive,
            ids,
        )

    def counted(self) -> Documents:
        """Return the entries that count, of the same rows."""
        indices = np.flatnonzero(self.is_counted)
        entries = self.entries.take(indices)
        return Documents(
            entries,
            Headers(entries),
            self.versions[indices],
            self.rows[indices],
            self.keys,
            self.is_counted[indices],
            self.is_alive[indices],
            self.column_ids[indices],
        )

    def without(self, flags: Flags) -> Documents:
        """Return the same entries, of which those that are flagged do not count."""
        return replace(self, is_counted=self.is_counted & ~flags, is_alive=self.is_alive & ~flags)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.keys)

    @property
    def depths(self) -> NDArray[np.uint8]:
        """How many components the path of each entry has."""
        return self.headers.depths

    @property
    def bases(self) -> Positions:
        """The rows that count and hold columns."""
        is_row = (self.headers.kinds != Kind.OBJECT) & (self.depths == 0)
        return np.flatnonzero(self.is_alive & is_row)

    @property
    def is_inserted(self) -> Flags:
        """Which rows are there whatever their columns are."""
        is_row = (self.depths == 0) & (self.headers.flags & BY_COLUMNS == 0)
        is_inserted = np.zeros(self.count, np.bool_)
        is_inserted[self.rows[self.is_alive & is_row]] = True
        return is_inserted

    @property
    def has_entries(self) -> Flags:
        """Which rows have entries that are there."""
        has_entries = np.zeros(self.count, np.bool_)
        has_entries[self.rows[self.is_alive]] = True
        return has_entries

    @property
    def expiries(self) -> Positions:
        """When each row changes because something of it expires; `NEVER` if nothing does."""
        expiries = np.full(self.count, NEVER, np.int64)
        alive = np.flatnonzero(self.is_alive)
        np.minimum.at(expiries, self.rows[alive], self.headers.expiries[alive])
        return expiries

    @property
    def row_expiries(self) -> Positions:
        """When each row as a whole expires; `NEVER` if it does not, or was not written whole."""
        expiries = np.full(self.count, NEVER, np.int64)
        rows = np.flatnonzero(self.is_alive & (self.depths == 0))
        expiries[self.rows[rows]] = self.headers.expiries[rows]
        return expiries

    def bodies(self, indices: Positions) -> Bytes:
        """Return the bodies of some entries."""
        headers = self.headers
        starts, lengths = headers.body_starts[indices], headers.body_lengths[indices]
        return gather(self.entries.values, starts, lengths)

    def paths(self, indices: Positions) -> Bytes:
        """Return the paths of some entries."""
        lengths = self.headers.path_lengths[indices]
        ends = (self.entries.key_starts + self.entries.key_lengths)[indices]
        return gather(self.entries.keys, ends - lengths, lengths)
