"""The entries of a table in some of its segments, as they stand there, deletes included.

Does not know: what a change is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from ..codec.ragged import Bytes, first_of_each
from ..environment import Environment
from ..errors import CorruptionError
from ..log.state import PlacedSegment
from ..segment import longkey
from ..segment.block import Block
from ..segment.key import PREFIX_BYTES
from ..segment.registry import registry
from ..table.fold import Fold
from ..table.resolve import folded_by_key
from ..table.scan import Bounds

_LEAVES = 2048
NOTHING = Block.of_pairs([])


class EntrySource:
    """Reads segments of one table. Safe between threads."""

    def __init__(self, environment: Environment, table_id: int, verify: str) -> None:
        """``verify``: as `SegmentRegistry.open` takes it."""
        self._environment = environment
        self._table_id = table_id
        self._verify = verify

    def read(self, segments: Iterable[PlacedSegment], bounds: Bounds) -> list[Block]:
        """Return the entries of each segment within bounds, in key order; empty ones are left out.

        CorruptionError, naming the file, for damage.
        """
        found = (self._read(one, bounds) for one in segments if self._overlaps(one, bounds))
        return [block for block in found if len(block)]

    def _overlaps(self, placed: PlacedSegment, bounds: Bounds) -> bool:
        low, high = bounds
        return any(
            table.table_id == self._table_id
            and table.last_key >= low
            and (high is None or table.first_key < high)
            for table in placed.record.tables
        )

    def _read(self, placed: PlacedSegment, bounds: Bounds) -> Block:
        file = registry.open(self._environment, placed.record, self._verify)
        around = longkey.entry_bounds(*bounds)
        try:
            blocks = [longkey.unpack(block) for block in file.blocks(*around, _LEAVES)]
            found = joined(blocks)
            if (found.key_lengths < PREFIX_BYTES).any():
                raise ValueError("a key is too short to be a row's")
        except (ValueError, IndexError) as error:
            raise CorruptionError(f"{file.path}: {error}") from error
        return found if around == bounds else found.between(*bounds)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the entries of some blocks, one block after another."""
    return Block.joined(blocks) if blocks else NOTHING


def resolved(blocks: Sequence[Block], fold: Fold | None) -> Block:
    """Return one entry a key of some blocks, the newest block first, in key order.

    ``fold``: that of the table, None where the newest entry of a key is all there is to know.
    """
    entries = joined(blocks)
    if not len(entries):
        return NOTHING
    keys = entries.key_bytes()
    if fold is None:
        return entries.take(first_of_each(keys))
    return folded_by_key(fold, entries, keys)


def keys_in(blocks: Sequence[Block]) -> Bytes:
    """Return the full keys of some blocks, each once, in their order."""
    keys = [block.key_bytes() for block in blocks]
    if not keys:
        return NOTHING.key_bytes()
    every = pa.concat_arrays(keys)
    return every.take(pa.array(first_of_each(every)))
