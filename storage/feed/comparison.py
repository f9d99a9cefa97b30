"""Whether two entries of one key are the same row.

Promises: the answer is that of the rows under the table's present schema, whichever schemas they
were written under; values are the same if their bits are, so NaN is NaN and 0.0 is not -0.0.
Does not know: keys; what is compared has the same.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, gather
from ..segment.block import Block
from ..table.encoding import Encoding
from ..table.header import Headers

Flags: TypeAlias = NDArray[np.bool_]


def same_rows(encoding: Encoding, left: Block, right: Block) -> Flags:
    """Return of every entry of ``left`` whether its row is that of ``right`` at its place.

    None of them deletes. ValueError or IndexError if the bytes are no rows of the table.
    """
    one, other = Headers(left), Headers(right)
    same: Flags = one.body_lengths == other.body_lengths
    rows = np.flatnonzero(same)
    same[rows] = np.asarray(pc.equal(_bodies(one, rows), _bodies(other, rows)))
    # Bytes tell under one schema that rows are the same, and that they differ under the present.
    alike = one.schema_versions == other.schema_versions
    told = alike & (same | (one.schema_versions == encoding.schema.version))
    rest = np.flatnonzero(~told)
    if len(rest):
        values = (
            encoding.reencode_values(left.take(rest)),
            encoding.reencode_values(right.take(rest)),
        )
        same[rest] = np.asarray(pc.equal(*values))
    return same


def _bodies(headers: Headers, rows: NDArray[np.int64]) -> Bytes:
    return gather(headers.block.values, headers.body_starts[rows], headers.body_lengths[rows])
