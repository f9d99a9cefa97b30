"""What a temporal filter reports besides its output: the moments that its bounds reach next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NextMoments:
    """The first moments of stored rows: of all, and at or after each bound; None: there is none.

    A row that was deleted in the same epoch may count.
    """

    stored: int | None = None
    low: int | None = None
    high: int | None = None

    def to_json(self) -> list[int | None]:
        """Return the moments as JSON values."""
        return [self.stored, self.low, self.high]

    @classmethod
    def from_json(cls, value: Sequence[int | None]) -> NextMoments:
        """Return the moments that `to_json` described."""
        return cls(*value)

    def merged_with(self, parallel: NextMoments) -> NextMoments:
        """Return the first moments of the rows of two units."""
        return NextMoments(
            _first(self.stored, parallel.stored),
            _first(self.low, parallel.low),
            _first(self.high, parallel.high),
        )


def _first(left: int | None, right: int | None) -> int | None:
    return min((value for value in (left, right) if value is not None), default=None)
