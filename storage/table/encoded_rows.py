"""Rows as they are stored, which are decoded when they are asked for.

Who reads many rows to find a few of them compares their keys as bytes and decodes the few.
Does not know: where the rows come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..codec.ragged import Bytes, Positions
from ..segment.block import Block
from .encoding import Encoding

Decode = Callable[[Block, Sequence[str]], pa.RecordBatch]
"""Takes entries and the names of columns; returns these columns of the rows."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Visible rows of a table. ``decode``: CorruptionError if the bytes are not rows."""

    block: Block
    encoding: Encoding
    decode: Decode

    def __len__(self) -> int:
        return len(self.block)

    @property
    def keys(self) -> Bytes:
        """The primary keys, as bytes that compare as the keys do."""
        return self.encoding.primary_keys_in(self.block)

    def take(self, rows: Positions, columns: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of the rows at some positions, in that order."""
        return self.decode(self.block.take(rows), columns)
