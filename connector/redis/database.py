"""One database, as commands see it: keys that have expired are not there.

Does not know: where values are held, commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from .keyspace import Keyspace
from .notifications import class_of
from .replies import CommandError
from .tables import MOST_NAME_BYTES
from .values import MappedValue, StringValue, Value

_Kind = TypeVar("_Kind", bound=Value)
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
# Of an item in the memory of a reply, beside its bytes.
_ITEM_BYTES = 100
_MOST_CHOSEN_BYTES = 256 << 20


class Database:
    """One database."""

    def __init__(self, keyspace: Keyspace, number: int) -> None:
        self.keyspace = keyspace
        self.number = number

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self.keyspace.now()

    def get(self, key: bytes) -> Value | None:
        """Return what is at a key, which is thereby used; None if nothing is.

        What has expired is removed.
        """
        value = self.look_at(key)
        if value is not None:
            value.used = self.keyspace.tick
        return value

    def look_at(self, key: bytes) -> Value | None:
        """Do as `get`, but do not count as a use of the value."""
        value = self.keyspace.value((self.number, key))
        if value is not None and value.expiry is not None and value.expiry <= self.now():
            if not value.drop_expired(self.now()):
                self.remove(key, None)
                self.notify("x", b"expired", key)
                return None
            self.save(key, value, b"tsrem")
        return value

    def find(self, key: bytes, kind: type[_Kind]) -> _Kind | None:
        """Return the value of a type that is at a key; None if nothing is. WRONGTYPE."""
        value = self.get(key)
        if value is None or isinstance(value, kind):
            return value
        raise CommandError(WRONG_TYPE)

    def remove_items(
        self, key: bytes, value: MappedValue | None, names: list[bytes], event: bytes
    ) -> int:
        """Remove items of the collection at a key, and return how many were there."""
        removed = 0 if value is None else sum(map(value.remove, names))
        if value is not None and removed:
            self.save(key, value, event)
        return removed

    def string(self, key: bytes) -> bytes | None:
        """Return the string at a key; None if nothing is. WRONGTYPE."""
        value = self.find(key, StringValue)
        return None if value is None else value.data

    def put(self, key: bytes, value: Value, event: bytes | None) -> None:
        """Let a new value be at a key, whatever was there; its expiry comes with it.

        ``event``: of the value's type; None if the command tells what happened.
        """
        is_new = "n" in self.keyspace.notifications.flags and self.look_at(key) is None
        self.place(key, value)
        if is_new:
            self.notify("n", b"new", key)
        if event is not None:
            self.notify(class_of(value.kind), event, key)

    def place(self, key: bytes, value: Value) -> None:
        """Do as `put`, and tell nobody."""
        value.is_whole = True
        if self.keyspace.counts.follows(self.number) and self.look_at(key) is None:
            self.keyspace.counts.add(self.number, 1)
        self.keyspace.put((self.number, key), value)
        if value.expiry is not None:
            self.keyspace.expiries.add(value.expiry, self.number, key)

    def remove(self, key: bytes, event: bytes | None = b"del") -> None:
        """Remove a key that is there. ``event``: None if the command tells what happened."""
        self.keyspace.counts.add(self.number, -1)
        self.keyspace.put((self.number, key), None)
        if event is not None:
            self.notify("g", event, key)

    def notify(self, letter: str, event: bytes, key: bytes) -> None:
        """Tell subscribers what happened to a key; ``letter``: the class of the event."""
        if self.keyspace.notifications.flags:
            self.keyspace.notifications.send(letter, event, self.number, key)

    def note_misses(self, keys: Iterable[bytes]) -> None:
        """Tell subscribers which of some keys that were read are not there."""
        if "m" in self.keyspace.notifications.flags:
            for key in keys:
                if self.look_at(key) is None:
                    self.notify("m", b"keymiss", key)

    def expire(self, key: bytes, value: Value, expiry: int | None) -> None:
        """Set when the value at a key expires."""
        self.keyspace.set_expiry(value, expiry)
        self.keyspace.note_change((self.number, key))
        if expiry is not None:
            self.keyspace.expiries.add(expiry, self.number, key)
        self.notify("g", b"persist" if expiry is None else b"expire", key)

    def save(self, key: bytes, value: Value, event: bytes) -> None:
        """Record that the collection at a key, or a new one, was changed by an event of its type.

        An empty one is removed. One that left memory while the command read another is put back.
        """
        database_key = (self.number, key)
        current = self.keyspace.value(database_key)
        if not len(value):
            if current is not None:
                self.notify(class_of(value.kind), event, key)
                self.remove(key)
        elif current is not value:
            self.put(key, value, event)
        else:
            self.keyspace.recount(value)
            self.keyspace.note_change(database_key)
            if value.expiry_changed and value.expiry is not None:
                self.keyspace.expiries.add(value.expiry, *database_key)
            self.notify(class_of(value.kind), event, key)

    def choose(self, items: Sequence[bytes], count: int) -> list[bytes]:
        """Return some of the items at random: distinct ones, or ``-count`` ones with repetition.

        CommandError if these would take too much memory.
        """
        random_below = self.keyspace.random_below
        if not items:
            return []
        if count < 0:
            if -count * (_ITEM_BYTES + max(map(len, items))) > _MOST_CHOSEN_BYTES:
                raise CommandError(
                    f"ERR value is out of range: {-count} elements take more than "
                    f"{_MOST_CHOSEN_BYTES} bytes"
                )
            return [items[random_below(len(items))] for _ in range(-count)]
        rest = list(items)
        count = min(count, len(rest))
        for index in range(count):
            chosen = index + random_below(len(rest) - index)
            rest[index], rest[chosen] = rest[chosen], rest[index]
        return rest[:count]


def check_name(name: bytes) -> None:
    """Raise CommandError for a field or member that is too long for a document table."""
    if len(name) > MOST_NAME_BYTES:
        raise CommandError(
            f"ERR a field or member of {len(name)} bytes; relstate takes {MOST_NAME_BYTES} at most"
        )
