"""The text of a frame, with the relations that it reads.

Does not know: what the text means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .frame_plan import Plan

_MARK = re.compile("\0([0-9]+)\0")


@dataclass(frozen=True)
class FrameText:
    """A SELECT with a mark in the place of each relation.

    ``relations``: for each its text in FROM, its alias there, and its plan.
    """

    marked: str
    relations: tuple[tuple[str, str, Plan], ...]

    @staticmethod
    def mark(number: int) -> str:
        """Return what is in the place of a relation."""
        return f"\0{number}\0"

    @property
    def query(self) -> str:
        """The SELECT."""
        return _MARK.sub(lambda match: self.relations[int(match[1])][0], self.marked)

    @property
    def template(self) -> str:
        """The SELECT for ``str.format``, in which the relation number n is the field relation_n."""
        text = self.marked.replace("{", "{{").replace("}", "}}")
        return _MARK.sub(self._field, text)

    def _field(self, match: re.Match[str]) -> str:
        _, alias, _ = self.relations[int(match[1])]
        return f"{{relation_{match[1]}}} AS {alias}"
