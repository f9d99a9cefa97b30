"""The mem table: the changes of one epoch in memory, merged per key.

A change of a row is a *transition*: its value before and its value after, either of which may be
absence. Changes of one key, in their order, merge into one transition, by one of two rules:

- *strict* (executors): what a change says was there before must be what the change before it
  left. This is RisingWave's merge table: a second insert, a delete or update of what is gone, or
  of another value, is an error; an insert and a delete of one key are nothing at all.
- *blind* (users): the last change wins, and a delete is kept even after an insert of the same
  epoch, because an older epoch may hold the row.

Promises: a refused change leaves the mem table as it was; single changes and whole arrays of them
give the same result. Does not know: tables, files, or what was committed before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Bytes, equal_neighbours, sort_order
from ..errors import ConsistencyError

Flags = NDArray[np.bool_]
_NO_BYTES = pa.array([], pa.large_binary())


@dataclass(frozen=True, slots=True)
class Transition:
    """The change of one row: its encoded value before and after, None where there is no row."""

    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Transitions:
    """Changes of many rows: keys, values before and after (empty where there is no row)."""

    keys: Bytes
    before: Bytes
    had: Flags
    after: Bytes
    has: Flags

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: NDArray[np.int64]) -> Transitions:
        """Return some of the changes, in the order of ``rows``."""
        places = pa.array(rows)
        return Transitions(
            self.keys.take(places),
            self.before.take(places),
            self.had[rows],
            self.after.take(places),
            self.has[rows],
        )

    def then(self, later: Transitions) -> Transitions:
        """Return these changes followed by later ones."""
        return Transitions(
            pa.concat_arrays([self.keys, later.keys]),
            pa.concat_arrays([self.before, later.before]),
            np.concatenate([self.had, later.had]),
            pa.concat_arrays([self.after, later.after]),
            np.concatenate([self.has, later.has]),
        )

    def one(self, row: int) -> Transition:
        """Return one change."""
        return Transition(
            self.before[row].as_py() if self.had[row] else None,
            self.after[row].as_py() if self.has[row] else None,
        )


_NOTHING = Transitions(_NO_BYTES, _NO_BYTES, np.zeros(0, bool), _NO_BYTES, np.zeros(0, bool))


def transitions_of(changes: Mapping[bytes, Transition]) -> Transitions:
    """Return single changes as arrays."""
    rows = list(changes.values())
    return Transitions(
        pa.array(list(changes), pa.large_binary()),
        pa.array([row.before or b"" for row in rows], pa.large_binary()),
        np.array([row.before is not None for row in rows], bool),
        pa.array([row.after or b"" for row in rows], pa.large_binary()),
        np.array([row.after is not None for row in rows], bool),
    )


class MergeRule(ABC):
    """How changes of one key become one."""

    @abstractmethod
    def one(self, key: bytes, earlier: Transition, later: Transition) -> Transition:
        """Return the change that two changes of one key make."""

    @abstractmethod
    def check(self, changes: Transitions, follows: NDArray[np.int64]) -> None:
        """Check changes in key order; ``follows`` are those with an earlier one of their key."""

    @abstractmethod
    def is_nothing(self, changes: Transitions) -> Flags:
        """Return which merged changes need not be written."""


class BlindRule(MergeRule):
    """The last change wins; nothing is checked and nothing dropped."""

    def one(self, key: bytes, earlier: Transition, later: Transition) -> Transition:
        """Return the later change."""
        return Transition(earlier.before, later.after)

    def check(self, changes: Transitions, follows: NDArray[np.int64]) -> None:
        """Accept everything."""

    def is_nothing(self, changes: Transitions) -> Flags:
        """Keep everything: a delete hides what an older epoch may hold."""
        return np.zeros(len(changes), bool)


class StrictRule(MergeRule):
    """What a change finds must be what the one before left (RisingWave's merge table)."""

    def __init__(self, describe: Callable[[bytes], str]) -> None:
        """``describe`` names the table and the key of a full key in errors."""
        self._describe = describe

    def one(self, key: bytes, earlier: Transition, later: Transition) -> Transition:
        """Return the merged change. ConsistencyError if the later one does not fit."""
        if earlier.after != later.before:
            raise ConsistencyError(self._message(key, earlier, later))
        return Transition(earlier.before, later.after)

    def check(self, changes: Transitions, follows: NDArray[np.int64]) -> None:
        """ConsistencyError if a change does not fit the one before it."""
        left, found = (
            changes.after.take(pa.array(follows - 1)),
            changes.before.take(pa.array(follows)),
        )
        wrong = changes.has[follows - 1] != changes.had[follows]
        wrong |= changes.had[follows] & np.asarray(pc.not_equal(left, found))
        if wrong.any():
            row = int(follows[np.flatnonzero(wrong)[0]])
            raise ConsistencyError(
                self._message(changes.keys[row].as_py(), changes.one(row - 1), changes.one(row))
            )

    def is_nothing(self, changes: Transitions) -> Flags:
        """Leave out rows that came and went within the epoch."""
        nothing: Flags = ~changes.had & ~changes.has
        return nothing

    def _message(self, key: bytes, earlier: Transition, later: Transition) -> str:
        return (
            f"{self._describe(key)}: {_name(later)} after {_name(earlier)} in one epoch does not "
            "fit: the row it expects is not the row that is there"
        )


def _name(change: Transition) -> str:
    if change.before is None:
        return "insert" if change.after is not None else "insert and delete"
    return "update" if change.after is not None else "delete"


class MemTable:
    """The changes of one epoch. For one thread."""

    def __init__(self, rule: MergeRule) -> None:
        self._rule = rule
        self._run = _NOTHING
        self._single: dict[bytes, Transition] = {}

    def __len__(self) -> int:
        """The number of changes not yet merged into one another, an upper bound of the keys."""
        return len(self._run) + len(self._single)

    def get(self, key: bytes) -> Transition | None:
        """Return the change of a key, None if it was not changed."""
        change = self._single.get(key)
        if change is not None or not len(self._run):
            return change
        keys = self._run.keys
        place = bisect_left(range(len(keys)), key, key=lambda row: keys[row].as_py())
        found = place < len(keys) and keys[place].as_py() == key
        return self._run.one(place) if found else None

    def apply_one(self, key: bytes, change: Transition) -> None:
        """Add the change of one row. ConsistencyError (strict) if it does not fit."""
        earlier = self.get(key)
        self._single[key] = change if earlier is None else self._rule.one(key, earlier, change)

    def apply(self, changes: Transitions) -> None:
        """Add changes in their order. ConsistencyError (strict) if one does not fit."""
        self._settle()
        self._run = self._merged(self._run.then(changes))

    def changes(self) -> Transitions:
        """Return the merged changes, at most one a key, in key order."""
        self._settle()
        nothing = self._rule.is_nothing(self._run)
        return self._run.take(np.flatnonzero(~nothing)) if nothing.any() else self._run

    def _settle(self) -> None:
        """Bring the single changes into the run; each already holds what the run had of its key."""
        if not self._single:
            return
        single = transitions_of(self._single)
        kept = np.asarray(pc.invert(pc.is_in(self._run.keys, value_set=single.keys)))
        self._run = self._merged(self._run.take(np.flatnonzero(kept)).then(single))
        self._single = {}

    def clear(self) -> None:
        """Forget all changes."""
        self._run, self._single = _NOTHING, {}

    def _merged(self, changes: Transitions) -> Transitions:
        if not len(changes):
            return _NOTHING
        placed = changes.take(sort_order(changes.keys))
        same = np.concatenate([np.zeros(1, bool), equal_neighbours(placed.keys)])
        self._rule.check(placed, np.flatnonzero(same))
        firsts, lasts = np.flatnonzero(~same), np.flatnonzero(~np.append(same[1:], False))
        first, last = placed.take(firsts), placed.take(lasts)
        return Transitions(first.keys, first.before, first.had, last.after, last.has)
