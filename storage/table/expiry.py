"""When a row, or a part of it, is gone because it expires.

Does not know: what a row is made of; it asks whether it is there at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..segment.block import Block
from .header import NEVER, Headers


def first_absence(blocks: Sequence[Block], is_there: Callable[[int], bool], now: int) -> int | None:
    """Return the first time at which something is not there any more; None if there is none.

    Times are microseconds since 1970. ``blocks``: the entries that it is made of. What is not there
    at one time is not there at a later one, so the times at which entries expire are halved.
    None, too, if it is not there now.
    """
    if not is_there(now):
        return None
    times = np.unique(np.concatenate([Headers(block).expiries for block in blocks]))
    times = times[(times > now) & (times != NEVER)]
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        if is_there(int(times[middle])):
            low = middle + 1
        else:
            high = middle
    return int(times[low]) if low < len(times) else None
