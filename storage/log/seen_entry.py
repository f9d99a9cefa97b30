"""The entry of a log that was seen last, and when.

Where each look is a request to a server, an entry is removed only when it is so much older than the
newest one (log.py, "The delay of removal"). So for half of that time after an entry was seen, no
entry after it has been removed.

Promises: an entry that was not seen for that long, by either clock of the machine, is not recent.
Does not know: which entry is the newest.
"""

from __future__ import annotations

from ..environment import Environment
from .moment import LONG_AGO, Moment


class SeenEntry:
    """The entry of one log that was seen last. Safe between threads."""

    def __init__(self, environment: Environment) -> None:
        """``environment``: that of the store."""
        self._environment = environment
        self._last: tuple[str, Moment] = ("", LONG_AGO)

    def note(self, commit_id: str, moment: Moment) -> None:
        """Remember that an entry was there at a moment, which is one before the look at it."""
        self._last = (commit_id, moment)

    def forget(self) -> None:
        """Let no entry be recent."""
        self._last = ("", LONG_AGO)

    def is_recent(self, commit_id: str) -> bool:
        """Return whether an entry was there so lately that the next cannot have been removed."""
        last, moment = self._last
        if last != commit_id:
            return False
        return moment.is_within(self._environment.removal_delay / 2, Moment.of(self._environment))
