"""Parts of values: what the entries of document tables say, many at once.

A part is at a path: a column of a row, a field of a struct, an entry of a map, an element of an
array, or anything below these. What is written there replaces everything older at and below it:

    PUT      a value, stored whole: a plain value, or one that has parts itself
    OBJECT   an empty value of a type that has parts: a struct of NULLs, a map or an array of none
    DELETE   nothing

One kind is at a path of its own, below the value that it is about, and replaces nothing else there:

    LIVENESS   the value one step above, in a variant, is an object, of what is below it

Promises: nothing but columns of equal length. Does not know: types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...codec.ragged import NO_BYTES, Bytes, Positions


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of some values.

    ``owners``: the number of the value that each is a part of, int64. ``paths``: bytes, see
    codec/path.py; ``depths``: how many components each has, uint8. ``kinds``: a `Kind` each, uint8.
    ``bodies``: of a PUT the value as a row body of one column, else empty.
    """

    owners: Positions
    paths: Bytes
    depths: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    bodies: Bytes

    @classmethod
    def joined(cls, pieces: Sequence[Parts]) -> Parts:
        """Return the parts of some pieces, one piece after another."""
        if not pieces:
            return NO_PARTS
        if len(pieces) == 1:
            return pieces[0]
        return cls(
            np.concatenate([piece.owners for piece in pieces]),
            pa.concat_arrays([piece.paths for piece in pieces]),
            np.concatenate([piece.depths for piece in pieces]),
            np.concatenate([piece.kinds for piece in pieces]),
            pa.concat_arrays([piece.bodies for piece in pieces]),
        )

    def __len__(self) -> int:
        return len(self.owners)

    def take(self, indices: Positions) -> Parts:
        """Return the parts at some indices, in that order."""
        rows = pa.array(indices)
        return Parts(
            self.owners[indices],
            self.paths.take(rows),
            self.depths[indices],
            self.kinds[indices],
            self.bodies.take(rows),
        )

    def owned_by(self, owners: Positions) -> Parts:
        """Return the parts with other numbers: ``owners[i]`` instead of i."""
        return Parts(owners[self.owners], self.paths, self.depths, self.kinds, self.bodies)


NO_PARTS = Parts(
    np.empty(0, np.int64), NO_BYTES, np.empty(0, np.uint8), np.empty(0, np.uint8), NO_BYTES
)
