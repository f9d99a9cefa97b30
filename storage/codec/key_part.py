"""Pieces of keys, and how they are put together row by row.

A *part* is one piece of every row of a batch: a constant, one unsigned number per row (written
big endian), or one run of bytes per row. Numbers stay numbers until the end, because copying them
into place is ten times as fast as moving their bytes.
Does not know: what a piece means.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from .ragged import Bytes, concat, content_of, from_matrix, from_parts, parts_of
from .sortable import Numbers

Part: TypeAlias = bytes | Numbers | Bytes


def inverted(part: Part) -> Part:
    """Return the part with every bit flipped: what sorted first sorts last."""
    if isinstance(part, bytes):
        return bytes(byte ^ 0xFF for byte in part)
    if isinstance(part, np.ndarray):
        return ~part
    offsets = parts_of(part)[1]
    return from_parts(~content_of(part), offsets - offsets[0])


def join(parts: Sequence[Part], rows: int) -> Bytes:
    """Return, row by row, the concatenation of the parts, of which there is at least one."""
    joined: list[Bytes] = []
    for is_bytes_array, group in groupby(parts, lambda part: isinstance(part, pa.Array)):
        neighbours = list(group)
        joined += neighbours if is_bytes_array else [_side_by_side(neighbours, rows)]
    return joined[0] if len(joined) == 1 else concat(joined)


def _side_by_side(parts: Sequence[bytes | Numbers], rows: int) -> Bytes:
    formats = [
        f"S{len(part)}" if isinstance(part, bytes) else f">u{part.itemsize}" for part in parts
    ]
    table = np.empty(
        rows, np.dtype([(f"part{number}", kind) for number, kind in enumerate(formats)])
    )
    for name, part in zip(table.dtype.names or (), parts, strict=True):
        table[name] = part
    return from_matrix(table.view(np.uint8).reshape(rows, table.dtype.itemsize))
