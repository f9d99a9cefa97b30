"""Parts as entries of segments: the keys that continue those of their rows, and the values.

Promises: of the parts of one call that hide one another, only those that count become entries, and
these are in key order: a part before those below it.
Does not know: types.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...codec.ragged import Bytes, Positions, concat, equal_neighbours, lengths_of, sort_order
from ...segment.block import Block
from ...segment.key import Kind
from ..header import NEVER, Headers, encode_part_headers
from .part import Parts
from .visible import counting


def encode_parts(
    row_keys: Bytes, parts: Parts, schema_version: int, expiries: Positions | None = None
) -> tuple[Bytes, Bytes]:
    """Return the (full keys, values) of parts.

    ``row_keys``: the full keys of the owners; of two owners with one key the later is newer.
    ``expiries``: of each owner, int64, `NEVER` for none. ValueRangeError for a path that is too
    long.
    """
    keys = concat([row_keys.take(pa.array(parts.owners)), parts.paths])
    order = sort_order(keys)
    keys = keys.take(pa.array(order))
    counts = counting(
        keys,
        equal_neighbours(keys),
        parts.depths[order],
        parts.owners[order],
        parts.kinds[order] == Kind.LIVENESS,
    )
    written = parts.take(order[counts])
    if expiries is not None:
        expiries = np.where(written.kinds == Kind.DELETE, NEVER, expiries[written.owners])
    headers = encode_part_headers(
        written.kinds, schema_version, lengths_of(written.paths), written.depths, expiries
    )
    return keys.filter(pa.array(counts)), concat([headers, written.bodies])


def fold_written(keys: Bytes, values: Bytes) -> tuple[Bytes, Bytes]:
    """Return those of some entries, given in the order of writing, that count.

    In that order an entry comes after those above it of the same write, and a liveness after what
    is beside it.
    """
    block = Block.over(keys, values)
    headers = Headers(block)
    if not headers.is_part.any():
        return keys, values
    paths = block.key_bytes()
    order = sort_order(paths)
    paths = paths.take(pa.array(order))
    is_liveness = headers.kinds[order] == Kind.LIVENESS
    counts = counting(paths, equal_neighbours(paths), headers.depths[order], order, is_liveness)
    indices = pa.array(order[counts])
    return keys.take(indices), values.take(indices)
