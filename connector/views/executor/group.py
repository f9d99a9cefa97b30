"""Rows grouped by the values of some of their columns.

Promises: groups come in the order of their keys; NULL is a value, as in GROUP BY.
Does not know: what is computed over a group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from relstate.storage import ragged

from .matching import Codes, firsts_of, ranks_of
from .rowkeys import RowKeys
from .state import Positions


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows.

    ``keys``: the key columns, one row per group. ``order``: the rows' positions, group after group.
    ``codes``: the group of every row in that order, ascending.
    """

    keys: pa.RecordBatch
    order: Positions
    codes: Codes

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    @property
    def firsts(self) -> Positions:
        """The first row of each group."""
        return self.order[firsts_of(self.codes)]

    @property
    def code_of_rows(self) -> Codes:
        """The group of every row, in the rows' own order."""
        codes = np.empty_like(self.codes)
        codes[self.order] = self.codes
        return codes


def grouped(rows: pa.RecordBatch, row_keys: RowKeys) -> Groups:
    """Return rows grouped by the values of the key's columns."""
    encoded = row_keys.encode(rows)
    order = ragged.sort_order(encoded)
    codes = ranks_of(encoded.take(pa.array(order)))
    firsts = pa.array(order[firsts_of(codes)])
    keys = row_keys.normal(rows.select(list(row_keys.names)).take(firsts))
    return Groups(keys, order, codes)
