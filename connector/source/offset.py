"""How far a stream of changes has come.

Promises: `FeedOffset.from_json(offset.to_json()) == offset`, and one offset has one JSON text.
Does not know: what lies between two offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from relstate.storage import errors


@dataclass(frozen=True, slots=True)
class FeedOffset:
    """All changes of a table up to ``epoch``, since the stream ``began``, are handed over.

    ``began``: the epoch behind which changes are told; with ``snapshot`` all rows that were there
    are told first, and ``is_whole`` says that they are yet to be. ``table_id`` tells this table
    from a later one of its name.
    """

    table_id: int
    began: int
    snapshot: bool
    epoch: int
    is_whole: bool = False

    @classmethod
    def whole(cls, table_id: int, epoch: int) -> FeedOffset:
        """Return the beginning of a stream that tells of all rows at an epoch first."""
        return cls(table_id, epoch, True, epoch, True)

    @classmethod
    def behind(cls, table_id: int, epoch: int) -> FeedOffset:
        """Return the beginning of a stream that tells of what changed behind an epoch."""
        return cls(table_id, epoch, False, epoch)

    def beginning(self) -> FeedOffset:
        """Return where the stream that came to this offset began."""
        begin = FeedOffset.whole if self.snapshot else FeedOffset.behind
        return begin(self.table_id, self.began)

    def behind_snapshot(self) -> FeedOffset:
        """Return the offset at which all rows are told."""
        return replace(self, is_whole=False)

    def at(self, epoch: int) -> FeedOffset:
        """Return the offset of the same stream at an epoch."""
        return replace(self, epoch=epoch)

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON values. In checkpoints: never change a name, nor the order."""
        return {
            "table": self.table_id,
            "began": self.began,
            "snapshot": self.snapshot,
            "epoch": self.epoch,
            "whole": self.is_whole,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FeedOffset:
        """Return the offset that `to_json` described. OptionError if it is none."""
        try:
            return cls(
                value["table"], value["began"], value["snapshot"], value["epoch"], value["whole"]
            )
        except (KeyError, TypeError):
            raise errors.OptionError(
                f"{value!r} in the query's checkpoint is no offset of a change feed: the "
                "checkpoint is another query's"
            ) from None
