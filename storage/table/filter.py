"""Rows of batches that a predicate wants.

Promises: the order of rows; batches that are neither empty nor, as far as others follow, tiny: a
scan of many small ranges, or one that keeps few rows, does not hand out a batch for each.
Does not know: where the batches come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from ..predicate.predicate import Predicate

# What is handed out holds so many rows at least, but for the last.
_LEAST_ROWS = 8192


def filtered(
    batches: Iterable[pa.RecordBatch], where: Predicate, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``names`` of the rows wanted."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        kept = batch.filter(where.mask(batch)).select(names) if batch.num_rows else batch
        if not kept.num_rows:
            continue
        held.append(kept)
        rows += kept.num_rows
        if rows >= _LEAST_ROWS:
            yield _joined(held)
            held, rows = [], 0
    if held:
        yield _joined(held)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
