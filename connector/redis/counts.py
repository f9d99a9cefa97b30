"""How many keys the databases have, where they were counted.

Promises: a count stays right while keys come and go; also one that is being made meanwhile.
Does not know: keys, tables.
"""

from __future__ import annotations

from collections.abc import Iterable

_KNOWN = object()


class KeyCounts:
    """The numbers of keys of databases, with those that have expired and are not removed yet.

    A database is known, or is being counted by the holder of a token, or neither.
    """

    def __init__(self, databases: int) -> None:
        self._states: list[object | None] = [None] * databases
        self._keys = [0] * databases
        """Of a database that is being counted: how many more since that began."""

    def copy(self) -> KeyCounts:
        """Return the same counts, which change by themselves."""
        result = KeyCounts(0)
        result._states, result._keys = list(self._states), list(self._keys)
        return result

    def follows(self, number: int) -> bool:
        """Return whether it matters how many keys come and go."""
        return self._states[number] is not None

    def add(self, number: int, keys: int) -> None:
        """Record that so many keys came; negative: that they went."""
        self._keys[number] += keys

    def known(self, number: int) -> int | None:
        """Return the number of keys of a database; None if it was not counted."""
        return self._keys[number] if self._states[number] is _KNOWN else None

    def empty(self, number: int) -> None:
        """Record that a database has no keys."""
        self._states[number], self._keys[number] = _KNOWN, 0

    def forget(self, numbers: Iterable[int]) -> None:
        """Know nothing of some databases: another writer may have changed them."""
        for number in numbers:
            self._states[number] = None

    def begin(self, number: int) -> object:
        """Return a token for who begins to count the keys that a database has now."""
        token = self._states[number] = object()
        self._keys[number] = 0
        return token

    def finish(self, number: int, token: object, keys: int) -> None:
        """Record how many keys there were when a token was given, unless it is too old."""
        if self._states[number] is token:
            self._states[number] = _KNOWN
            self._keys[number] += keys
