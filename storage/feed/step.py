"""The steps of a feed: what the commits of a range of epochs did to one table.

Promises: every commit that may have changed a row of the table is a step, upkeep never is.
Does not know: rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..log.entry import Entry
from ..log.state import PlacedSegment, placed_in


@dataclass(frozen=True, slots=True)
class FeedStep:
    """What one commit did to a table.

    ``time``: the commit's, microseconds since 1970. ``segments``: those with rows of the table
    that it added, the newest first. ``is_based``: it removed all rows that were there before.
    ``basis``: the segments right before it, where upkeep may have dropped since the step before
    what else decides how its rows are merged; None where nothing was.
    """

    epoch: int
    time: int
    segments: tuple[PlacedSegment, ...]
    is_based: bool
    basis: tuple[PlacedSegment, ...] | None = None


def steps_of(entries: Iterable[Entry], table_id: int) -> Iterator[FeedStep]:
    """Yield the steps of some commits, in their order."""
    for entry in entries:
        is_based = table_id in entry.based_tables
        segments = placed_in(entry.added, entry.epoch, table_id)
        if entry.data_change and (is_based or segments):
            yield FeedStep(entry.epoch, entry.time, segments, is_based)
