"""The ends of arrays: places for elements that are added without reading what is there.

The elements of an array that is written whole are at the places from 0 on. What is appended comes
far above these, what is prepended far below, at a place that says which epoch its writer had seen:
so it comes after, or before, all that was added by commits which the writer could have read.
Elements of one place are ordered by a number, of which one half is the writer's, drawn by chance,
and the other counts the elements of the writer. So no two writers take one place, and none waits.

Promises: of one writer later elements are nearer to the end. On disk: never change.
Does not know: arrays, or which elements there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...codec.path import place_components
from ...codec.ragged import Bytes, Positions
from ...errors import ValueRangeError

# Above the length of any array that is written whole.
_FAR = 1 << 40
_COUNT_BITS = 32
_MOST = (1 << _COUNT_BITS) - 1


class Ends:
    """Gives places at both ends of arrays. For one writer, in one thread."""

    def __init__(self, epoch: int, writer: int) -> None:
        """``epoch``: the last that the writer knows; ``writer``: a random number of 32 bits."""
        self._place = _FAR + epoch
        self._writer = np.uint64(writer << _COUNT_BITS)
        self._count = 0

    def after(self, owners: Positions) -> Bytes:
        """Return components for elements that are appended, in their order.

        ``owners``: the number of the change that each is added by; ascending.
        """
        return self._components(self._place, self._count + np.arange(len(owners)))

    def before(self, owners: Positions) -> Bytes:
        """Return components for elements that are prepended.

        The elements of one change keep their order; a later change comes before an earlier one.
        """
        count = len(owners)
        starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])[:count])
        lengths = np.diff(np.append(starts, count))
        # How many elements of later changes there are, for each change.
        later = count - starts - lengths
        ranks = np.repeat(later - starts, lengths) + np.arange(count)
        return self._components(-self._place, _MOST + 1 - self._count - count + ranks)

    def _components(self, place: int, numbers: Positions) -> Bytes:
        self._count += len(numbers)
        if self._count > _MOST:
            raise ValueRangeError(
                f"one commit adds at most {_MOST} elements to the ends of arrays; write fewer at "
                "once"
            )
        writers: NDArray[np.uint64] = numbers.astype(np.uint64) | self._writer
        return place_components(np.full(len(numbers), place, np.int64), writers)
