"""The history of documents that expire: each row as it was after each step, by the step's clock.

A part of a row may expire at a time of its own. So the entries are held as they were written, and a
row is made of them again by each step that wrote to it, and by the first one that is not before the
expiry of anything in it.

Promises: the row after a step is the one that a reader of its epoch sees.
Does not know: where entries come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, constant, sort_order
from ..segment.block import Block
from ..segment.key import Kind
from ..table.encoding import Encoding
from ..table.header import Headers
from ..table.resolve import keep_all
from .key_history import KeyHistory
from .source import NOTHING, FeedStep, joined, keys_in, newest

# Each block is searched for the rows of each step.
_MOST_BLOCKS = 16


def document_history(
    encoding: Encoding,
    before: Sequence[Block],
    time: int,
    steps: Sequence[FeedStep],
    written: Sequence[Sequence[Block]],
) -> KeyHistory:
    """Return the history of some rows.

    ``before``: all of their entries from before the steps, the newest block first, each in key
    order; ``time``: that of the epoch before the steps, microseconds since 1970. ``written``: what
    each step wrote, in the same order; the entries are of these rows.
    """
    entries = list(before)
    rows_before = current = _rows_at(encoding, entries, time)
    history: list[tuple[int, Block]] = []
    for number, (step, blocks) in enumerate(zip(steps, written, strict=True)):
        removed = NOTHING
        if step.is_based:
            removed = _deletes(encoding, current.key_bytes())
            entries, current = [], NOTHING
        entries = [*blocks, *entries]
        if len(entries) > _MOST_BLOCKS:
            entries = [_merged(encoding, entries)]
        expired = current.take(np.flatnonzero(_have_expired(current, step.time)))
        changed = keys_in([*blocks, expired] if len(expired) else blocks, encoding)
        rows = NOTHING
        if len(changed):
            rows = _rows_at(encoding, _entries_of(encoding, entries, changed), step.time)
            # What was removed may have left no entry.
            rows = newest([rows, _deletes(encoding, changed)])
            current = newest([rows, current])
        if len(rows) or len(removed):
            history.append((number, newest([rows, removed])))
    return KeyHistory.of(rows_before, history)


def _merged(encoding: Encoding, blocks: Iterable[Block]) -> Block:
    """Return a block of which the same rows are made at any time, in key order."""
    resolver = encoding.remains_resolver(keep_all, is_bottom=True, time=0)
    remaining = resolver.resolve([block for block in blocks if len(block)])
    return remaining.take(sort_order(remaining.key_bytes()))


def _rows_at(encoding: Encoding, blocks: Iterable[Block], time: int) -> Block:
    """Return one entry for each row of some blocks, as of a time: a delete if it is not there."""
    blocks = [block for block in blocks if len(block)]
    if not blocks:
        return NOTHING
    rows = encoding.resolver(keep_all, lambda: time).resolve(blocks)
    is_expired = _have_expired(rows, time)
    if not is_expired.any():
        return rows
    expired, rest = np.flatnonzero(is_expired), np.flatnonzero(~is_expired)
    return joined([rows.take(rest), _deletes(encoding, rows.take(expired).key_bytes())])


def _entries_of(encoding: Encoding, blocks: Sequence[Block], keys: Bytes) -> list[Block]:
    """Return the entries of the rows with some full keys."""
    chosen = (np.asarray(pc.is_in(encoding.row_keys(block), value_set=keys)) for block in blocks)
    return [block.take(np.flatnonzero(flags)) for block, flags in zip(blocks, chosen, strict=True)]


def _have_expired(rows: Block, time: int) -> NDArray[np.bool_]:
    """Return which rows are no longer what they were, because something of them has expired."""
    headers = Headers(rows)
    have_expired: NDArray[np.bool_] = (headers.kinds != Kind.DELETE) & (headers.expiries <= time)
    return have_expired


def _deletes(encoding: Encoding, keys: Bytes) -> Block:
    return Block.over(keys, constant(encoding.encode_delete(), len(keys)))
