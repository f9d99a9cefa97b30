"""How the rows of a table are spread over its vnodes.

Promises: visible rows only; memory does not grow with the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..read_plan import ReadPlan
from ..schema.schema import EVERY_KEY
from ..table.encoding import encoding_of
from ..table.pruning import ranges_in

# The vnode comes after the table's id in a key.


@dataclass(frozen=True, slots=True)
class VnodeSizes:
    """The visible rows of a table by vnode, and the bytes of their keys and values."""

    rows: tuple[int, ...]
    stored_bytes: tuple[int, ...]

    @property
    def skew(self) -> float:
        """How many times the average the fullest vnode has; 0 without rows."""
        total = sum(self.rows)
        return max(self.rows) * len(self.rows) / total if total else 0.0


def vnode_sizes(plan: ReadPlan) -> VnodeSizes:
    """Return the sizes of a table's vnodes at the epoch of a plan. Reads all of its keys."""
    table = plan.open()
    encoding = encoding_of(plan.definition, plan.vnode_count)
    rows, sizes = np.zeros(plan.vnode_count, np.int64), np.zeros(plan.vnode_count, np.int64)
    scan = table.scan_of((), None)
    for bounds in ranges_in(encoding, [range(plan.vnode_count)], EVERY_KEY):
        for window in scan.windows(bounds):
            for block in window.blocks:
                vnodes = encoding.prefix.vnodes_at(block.keys, block.key_starts)
                lengths = block.key_lengths + block.value_lengths
                rows += np.bincount(vnodes, minlength=plan.vnode_count)
                sizes += np.bincount(vnodes, lengths, plan.vnode_count).astype(np.int64)
    return VnodeSizes(tuple(rows.tolist()), tuple(sizes.tolist()))
