"""The position of a backfill, as the progress of its view has it.

Promises: a position that is read from JSON, which may be damaged, is valid or an error.
Does not know: how a backfill is run (backfill).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relstate.storage import errors

from .plan.node import read_list, read_number, require

_MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Position:
    """The progress of a backfill: the next vnode is ``vnode`` of the source ``order[index]``.

    ``order``: the sources, by their numbers in the plan, in the order in which they are read.
    ``rows`` of about ``total`` have been read.
    """

    order: tuple[int, ...]
    index: int = 0
    vnode: int = 0
    rows: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """The share of the rows that has been read, from 0 to 1."""
        return min(self.rows / self.total, 1.0) if self.total else 0.0

    @property
    def is_end(self) -> bool:
        """Whether all has been read."""
        return self.index == len(self.order)

    def to_json(self) -> dict[str, Any]:
        """Return the position as JSON values. On disk, in the log: never change a name."""
        return {
            "order": list(self.order),
            "place": self.index,
            "vnode": self.vnode,
            "rows": self.rows,
            "total": self.total,
        }

    @classmethod
    def from_json(cls, value: Any) -> Position:
        """Return the position that `to_json` described. CorruptionError for an invalid value."""
        try:
            order = tuple(read_number(number, _MAX_NUMBER) for number in read_list(value["order"]))
            require(sorted(order) == list(range(len(order))), "its order leaves out a source")
            names = ("place", "vnode", "rows", "total")
            index, vnode, rows, total = (read_number(value[name], _MAX_NUMBER) for name in names)
            require(index < len(order), "it is after the last source")
            return cls(order, index, vnode, rows, total)
        except (KeyError, TypeError, ValueError) as error:
            raise errors.CorruptionError(
                f"the position of a view's backfill in the log is damaged: {error}; drop the view "
                "and create it again"
            ) from None
