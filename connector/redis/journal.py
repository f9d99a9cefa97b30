"""How to undo what a script changed, step by step.

Promises: after `undo` every value, its expiry and what is to be committed are as before.
Does not know: values, where they are held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

MOST_STEPS = 1_000_000


class Journaled(Protocol):
    """A value that notes changes of its parts in ``journal``, unless that is None."""

    journal: Journal | None


class Journal:
    """The steps that undo changes, in the order in which the changes were made.

    ``moment``: the time, in microseconds since 1970, which stands still while the journal is kept.
    """

    def __init__(self, moment: int) -> None:
        self.moment = moment
        self._steps: list[Callable[[], object]] = []
        self._followed: list[Journaled] = []

    def add(self, step: Callable[[], object]) -> None:
        """Note how to undo a change."""
        self._steps.append(step)

    def follow(self, value: Journaled, undone: Callable[[], object]) -> None:
        """Let a value note the changes of its parts; ``undone`` is called after they are undone."""
        if value.journal is None:
            value.journal = self
            self._followed.append(value)
            self._steps.append(undone)

    @property
    def is_full(self) -> bool:
        """Whether more steps would take too much memory."""
        return len(self._steps) > MOST_STEPS

    def end(self) -> None:
        """Let values note nothing any more."""
        for value in self._followed:
            value.journal = None
        self._followed.clear()

    def undo(self) -> None:
        """Undo all changes, the last first. The journal must have ended before."""
        while self._steps:
            self._steps.pop()()
