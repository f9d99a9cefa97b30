"""What remains of document entries when files are merged.

A row is *closed* if nothing older can show through: an entry that counts replaced it as a whole, or
no older file remains. The parts of a closed row that expire with it are folded into it, so that it
is one entry again; in a table that is not packed they stay entries, and deletes are dropped. Of any
other row the entries that count remain, as deletes where they have expired.

Promises: a reader finds the same rows in what remains as in the files, at any later time.
Does not know: which files are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.path import MAX_NUMBER
from ...codec.ragged import Positions
from ...segment.block import Block
from ...segment.key import Kind
from ..header import encode_part_headers
from .documents import Documents
from .rowfold import RowFold
from .visible import are_there, have_above, newest_beside

Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Remains:
    """What remains of the rows of a merge that have entries for parts.

    ``is_bottom``: no older file remains. ``time``: what had expired by then is gone.
    ``is_packed``: whether parts are folded into their rows.
    """

    rows: RowFold
    is_bottom: bool
    is_packed: bool
    time: int

    def __call__(self, entries: Block, versions: Positions) -> Block:
        """Return what remains of some rows' entries: see `window.Merge`."""
        documents = self.rows.documents(entries, versions, lambda: self.time).counted()
        if self.is_packed:
            return self._folded(documents)
        is_needed = np.ones(len(documents.entries), np.bool_)
        if self.is_bottom:
            holds = documents.is_alive & (documents.headers.kinds == Kind.PUT)
            paths = documents.entries.key_bytes()
            is_there = are_there(paths, documents.depths, documents.is_alive, holds)
            is_row = documents.is_alive & (documents.depths == 0)
            is_needed = is_there | is_row | _have_above(documents, holds)
        return self._entries(documents, np.flatnonzero(is_needed))

    def _folded(self, documents: Documents) -> Block:
        """Return closed rows with the parts that expire with them, and the other entries."""
        is_part = documents.depths > 0
        is_closed = np.full(documents.count, self.is_bottom)
        is_closed[documents.rows[~is_part]] = True
        expires_alone = documents.headers.expiries != documents.row_expiries[documents.rows]
        stays = is_part & (~is_closed[documents.rows] | (documents.is_alive & expires_alone))
        # In the row it would be hidden by what stays above it.
        stays |= is_part & _have_above(documents, stays)
        stays |= _are_beside(documents, stays)
        stays |= is_part & self._beside(documents, stays)
        rest = np.flatnonzero(stays)
        rows, numbers = self._closed_rows(documents.without(stays), np.flatnonzero(is_closed))
        owners = np.concatenate([numbers, documents.rows[rest]])
        order = np.argsort(owners, kind="stable")
        return rows.followed_by(self._entries(documents, rest)).take(order)

    def _beside(self, documents: Documents, stays: Flags) -> Flags:
        """Return which entries are in arrays of which a part stays, or beside one in their column.

        Folded into the row, elements get other places, and would lose their order among the rest.
        """
        ids = documents.column_ids
        in_array = np.isin(ids, self.rows.placed_ids)
        columns = documents.rows * (MAX_NUMBER + 1) + ids
        beside: Flags = in_array & np.isin(columns, columns[stays & in_array])
        return beside

    def _closed_rows(self, documents: Documents, numbers: Positions) -> tuple[Block, Positions]:
        """Return the rows with some numbers, and these; deletes only if older files remain."""
        columns = self.rows.columns(documents)
        exists = self.rows.existing(documents, columns)
        values = self.rows.row_values(documents, columns, exists, documents.row_expiries)
        if self.is_bottom:
            numbers = numbers[exists[numbers]]
        indices = pa.array(numbers)
        return Block.over(documents.keys.take(indices), values.take(indices)), numbers

    def _entries(self, documents: Documents, indices: Positions) -> Block:
        """Return some entries, with deletes instead of those that have expired."""
        entries, headers = documents.entries.take(indices), documents.headers
        is_put = headers.kinds[indices] != Kind.DELETE
        expired = np.flatnonzero(~documents.is_alive[indices] & is_put)
        if not len(expired):
            return entries
        chosen = indices[expired]
        deletes = encode_part_headers(
            np.full(len(chosen), Kind.DELETE, np.uint8),
            self.rows.schema_version,
            headers.path_lengths[chosen],
            documents.depths[chosen],
        )
        positions = np.arange(len(indices))
        positions[expired] = len(indices) + np.arange(len(expired))
        values = pa.concat_arrays([entries.value_bytes(), deletes]).take(pa.array(positions))
        return Block.over(entries.key_bytes(), values)


def _have_above(documents: Documents, flags: Flags) -> Flags:
    """Return which entries, all of which count, are below one that is flagged."""
    return have_above(documents.entries.key_bytes(), documents.depths, flags)


def _are_beside(documents: Documents, stays: Flags) -> Flags:
    """Return which entries are a liveness of an object below which an entry stays.

    Folded into the row, it would not outlive what stays.
    """
    is_liveness: Flags = documents.is_alive & (documents.headers.kinds == Kind.LIVENESS)
    if not is_liveness.any() or not stays.any():
        return np.zeros(len(stays), np.bool_)
    paths = documents.entries.key_bytes()
    flags = stays.astype(np.int64)
    is_liveness[is_liveness] = newest_beside(paths, documents.depths, flags, is_liveness) > 0
    return is_liveness
