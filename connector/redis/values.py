"""What is at a key, of whatever type, in memory, and what changed of it.

A value notes which of its parts were changed since it was last written, so that a commit writes
these alone. The parts of a list are known by positions: integers without gaps, ascending.

Promises: a sorted set is in the order of (score, member) at every time.
Does not know: keys, tables.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, TypeAlias

from .journal import Journal

Parts: TypeAlias = list[tuple[Any, Any]]
"""Names of parts and what is there now; None: nothing."""
SeriesEntry: TypeAlias = tuple[bytes, int | None]
"""A value of a time series, and when it expires."""

# As measured with CPython 3.11: of a value with its key, and beside their bytes of a part that is
# in a dictionary, of a score in an order, and of an item of a list.
_VALUE_BYTES = 450
_PART_BYTES = 120
_SCORE_BYTES = 90
_ITEM_BYTES = 50
_NO_PARTS: set[Any] = set()
"""The changed parts of every string. Nothing is added."""


class Value:
    """What is at a key. ``expiry``: in milliseconds since 1970, None for never.

    ``is_whole``: it is to be written as a whole, because what the table has at the key is another
    value; ``expiry_changed``: the expiry is to be written. ``size``: about how many bytes of memory
    it takes, of which ``counted`` are in the sum of the keyspace. ``journal``: where changes of its
    parts are noted, None for nowhere. ``used``: about when it was used last, in milliseconds.
    """

    kind: ClassVar[str]
    __slots__ = (
        "changed",
        "counted",
        "expiry",
        "expiry_changed",
        "is_whole",
        "journal",
        "size",
        "used",
    )

    def __init__(self) -> None:
        self.expiry: int | None = None
        self.expiry_changed = False
        self.is_whole = False
        self.changed: set[Any] = set()
        self.size = _VALUE_BYTES
        self.counted = 0
        self.journal: Journal | None = None
        self.used = 0

    def __len__(self) -> int:
        raise NotImplementedError

    def content(self) -> Any:
        """Return all of it as the table's column of its type takes it."""
        raise NotImplementedError

    def changed_parts(self) -> Parts:
        """Return the parts that were changed."""
        raise NotImplementedError

    @classmethod
    def of_parts(cls, parts: Mapping[Any, Any]) -> Value:
        """Return a collection with parts by their names."""
        raise NotImplementedError

    def copy(self) -> Value:
        """Return an equal value, which is to be written as a whole."""
        raise NotImplementedError

    def take_expiry(self, expiry: int | None) -> None:
        """Expire when another value of the key did, or was to."""
        self.expiry = expiry

    def drop_expired(self, now: int) -> bool:
        """Drop what has expired by a time, and return whether anything is left.

        Called once the expiry is over. What is left has a new expiry, which is to be written.
        """
        return False

    def written(self) -> None:
        """Forget what was changed."""
        self.is_whole = self.expiry_changed = False
        if self.changed:
            self.changed = set()

    def _copied(self, copy: Value) -> Value:
        copy.expiry = self.expiry
        copy.is_whole = True
        return copy


class StringValue(Value):
    """A string. It is never changed, only replaced."""

    kind = "string"
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.changed = _NO_PARTS
        self.data = data
        self.size += len(data)

    def __len__(self) -> int:
        return len(self.data)

    def content(self) -> bytes:
        """Return the bytes."""
        return self.data

    def changed_parts(self) -> Parts:
        """Return nothing: a string has no parts."""
        return []

    def copy(self) -> Value:
        """Return an equal string."""
        return self._copied(StringValue(self.data))


class MappedValue(Value):
    """A value whose parts are known by byte strings."""

    __slots__ = ("items",)

    def __init__(self, items: Mapping[bytes, Any] | None = None) -> None:
        super().__init__()
        self.items: dict[bytes, Any] = dict(items or {})
        self.size += sum(
            _PART_BYTES + len(name) + _size_of(item) for name, item in self.items.items()
        )

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, name: bytes) -> bool:
        return name in self.items

    def put(self, name: bytes, item: Any) -> bool:
        """Set a part and return whether it is new."""
        previous = self.items.get(name)
        self.items[name] = item
        self.changed.add(name)
        if self.journal is not None:
            self.journal.add(
                partial(self.remove, name)
                if previous is None
                else partial(self.put, name, previous)
            )
        self.size += _size_of(item)
        if previous is None:
            self.size += _PART_BYTES + len(name)
            return True
        self.size -= _size_of(previous)
        return False

    def remove(self, name: bytes) -> bool:
        """Remove a part and return whether it was there."""
        item = self.items.pop(name, None)
        if item is None:
            return False
        self.size -= _PART_BYTES + len(name) + _size_of(item)
        self.changed.add(name)
        if self.journal is not None:
            self.journal.add(partial(self.put, name, item))
        return True

    def content(self) -> Any:
        """Return all parts, in the order in which the table returns them once one was changed."""
        return sorted(self.items.items())

    def changed_parts(self) -> Parts:
        """Return the parts that were changed."""
        return [(name, self.items.get(name)) for name in self.changed]

    @classmethod
    def of_parts(cls, parts: Mapping[Any, Any]) -> Value:
        """Return a collection with parts by their names."""
        return cls(parts)

    def copy(self) -> Value:
        """Return an equal value."""
        return self._copied(type(self)(self.items))


class HashValue(MappedValue):
    """A hash: fields and their values."""

    kind = "hash"
    __slots__ = ()


class SetValue(MappedValue):
    """A set: members, each with True."""

    kind = "set"
    __slots__ = ()

    @classmethod
    def of(cls, members: Iterable[bytes]) -> SetValue:
        """Return a set of these members."""
        return cls(dict.fromkeys(members, True))


class SortedSetValue(MappedValue):
    """A sorted set: members and their scores, and ``order``, the (score, member) pairs sorted."""

    kind = "zset"
    __slots__ = ("order",)

    def __init__(self, items: Mapping[bytes, float] | None = None) -> None:
        super().__init__(items)
        self.order = sorted((score, member) for member, score in self.items.items())
        self.size += _SCORE_BYTES * len(self.order)

    def put(self, name: bytes, item: Any) -> bool:
        """Set the score of a member and return whether the member is new."""
        previous = self.items.get(name)
        if previous is not None:
            del self.order[bisect_left(self.order, (previous, name))]
        else:
            self.size += _SCORE_BYTES
        insort(self.order, (item, name))
        return super().put(name, item)

    def remove(self, name: bytes) -> bool:
        """Remove a member and return whether it was there."""
        score = self.items.get(name)
        if score is not None:
            del self.order[bisect_left(self.order, (score, name))]
            self.size -= _SCORE_BYTES
        return super().remove(name)

    def rank(self, member: bytes) -> int:
        """Return the position of a member in the order."""
        return bisect_left(self.order, (self.items[member], member))


class ListValue(Value):
    """A list. ``first``: the position of its first item."""

    kind = "list"
    __slots__ = ("first", "items")

    def __init__(self, items: Iterable[bytes] = (), first: int = 0) -> None:
        super().__init__()
        self.items: deque[bytes] = deque(items)
        self.first = first
        self.size += sum(_ITEM_BYTES + len(item) for item in self.items)

    @classmethod
    def of_parts(cls, parts: Mapping[Any, Any]) -> Value:
        """Return a list of items by their positions.

        One with gaps, which another writer made, is closed up and is to be written as a whole.
        """
        positions = sorted(parts)
        first = positions[0] if positions else 0
        result = cls([parts[position] for position in positions], first)
        if positions and positions[-1] - first + 1 != len(positions):
            result.replace(result.items)
        return result

    def __len__(self) -> int:
        return len(self.items)

    def push(self, item: bytes, *, at_head: bool) -> None:
        """Add an item at one end."""
        if at_head:
            self.first -= 1
            self.items.appendleft(item)
        else:
            self.items.append(item)
        if self.journal is not None:
            self.journal.add(partial(self.pop, at_head=at_head))
        self.size += _ITEM_BYTES + len(item)
        self.changed.add(self.first if at_head else self.first + len(self.items) - 1)

    def pop(self, *, at_head: bool) -> bytes:
        """Remove the item at one end and return it."""
        self.changed.add(self.first if at_head else self.first + len(self.items) - 1)
        item = self.items.popleft() if at_head else self.items.pop()
        if at_head:
            self.first += 1
        if self.journal is not None:
            self.journal.add(partial(self.push, item, at_head=at_head))
        self.size -= _ITEM_BYTES + len(item)
        return item

    def set_item(self, index: int, item: bytes) -> None:
        """Replace the item at an index from 0."""
        if self.journal is not None:
            self.journal.add(partial(self.set_item, index, self.items[index]))
        self.size += len(item) - len(self.items[index])
        self.items[index] = item
        self.changed.add(self.first + index)

    def replace(self, items: Iterable[bytes]) -> None:
        """Replace all items; the list is to be written as a whole."""
        if self.journal is not None:
            self.journal.add(
                partial(self._restore, self.items, self.first, self.size, self.is_whole)
            )
        self.items = deque(items)
        self.first = 0
        self.is_whole = True
        self.size = _VALUE_BYTES + sum(_ITEM_BYTES + len(item) for item in self.items)

    def _restore(self, items: deque[bytes], first: int, size: int, is_whole: bool) -> None:
        self.items, self.first, self.size, self.is_whole = items, first, size, is_whole

    def slice(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the items from one index to before another."""
        items = self.items
        if start > len(items) // 2:
            return iter([items[index] for index in range(start - len(items), stop - len(items))])
        return (item for item, _ in zip(_after(items, start), range(start, stop), strict=False))

    def content(self) -> Any:
        """Return all items with their positions."""
        return list(enumerate(self.items, self.first))

    def changed_parts(self) -> Parts:
        """Return the items at the positions that were changed; None where none is any more."""
        last = self.first + len(self.items)
        return [
            (position, self.items[position - self.first] if self.first <= position < last else None)
            for position in self.changed
        ]

    def copy(self) -> Value:
        """Return an equal list."""
        return self._copied(ListValue(self.items))


class SeriesValue(Value):
    """A time series: entries by ascending timestamps, integers of 64 bits.

    Entries may expire, each at its time; the expiry of the series is the next one of an entry.
    """

    kind = "timeseries"
    __slots__ = ("expiries", "items", "order")

    def __init__(self, entries: Mapping[int, SeriesEntry] | None = None) -> None:
        super().__init__()
        entries = entries or {}
        self.items = {timestamp: data for timestamp, (data, _) in entries.items()}
        self.expiries = {
            timestamp: expiry for timestamp, (_, expiry) in entries.items() if expiry is not None
        }
        self.order = sorted(self.items)
        self.size += sum(_PART_BYTES + len(data) for data in self.items.values())
        self.expiry = self._next_expiry

    @classmethod
    def of_parts(cls, parts: Mapping[Any, Any]) -> Value:
        """Return a series of entries by their timestamps."""
        return cls(parts)

    def __len__(self) -> int:
        return len(self.items)

    def put(self, entries: Mapping[int, bytes], expiry: int | None) -> None:
        """Set the entries at some timestamps, which expire at the same time; None for never."""
        self._note(entries)
        for timestamp, data in entries.items():
            previous = self.items.get(timestamp)
            if previous is None:
                insort(self.order, timestamp)
                self.size += _PART_BYTES
            else:
                self.size -= len(previous)
            self.items[timestamp] = data
            self.size += len(data)
        self.changed.update(entries)
        self._set_expiries(dict.fromkeys(entries, expiry))

    def remove(self, timestamps: Iterable[int]) -> None:
        """Remove the entries at some timestamps, where there are any."""
        removed = [timestamp for timestamp in set(timestamps) if timestamp in self.items]
        self._note(removed)
        for timestamp in removed:
            self.size -= _PART_BYTES + len(self.items.pop(timestamp))
        if len(removed) == 1:
            del self.order[bisect_left(self.order, removed[0])]
        elif removed:
            self.order = [timestamp for timestamp in self.order if timestamp in self.items]
        self.changed.update(removed)
        self._set_expiries(dict.fromkeys(removed))

    def _note(self, timestamps: Iterable[int]) -> None:
        """Note how to undo a change of the entries at some timestamps."""
        if self.journal is None:
            return
        entries = {
            timestamp: self._entry(timestamp) if timestamp in self.items else None
            for timestamp in timestamps
        }
        self.journal.add(partial(self._restore, entries))

    def _restore(self, entries: Mapping[int, SeriesEntry | None]) -> None:
        self.remove(timestamp for timestamp, entry in entries.items() if entry is None)
        for timestamp, entry in entries.items():
            if entry is not None:
                self.put({timestamp: entry[0]}, entry[1])

    @property
    def _next_expiry(self) -> int | None:
        return min(self.expiries.values(), default=None)

    def _set_expiries(self, expiries: Mapping[int, int | None]) -> None:
        """Set when some entries expire, and from that when the series does."""
        has_removed_next = False
        next_expiry = self.expiry
        for timestamp, expiry in expiries.items():
            previous = self.expiries.pop(timestamp, None)
            has_removed_next |= previous is not None and previous == self.expiry
            if expiry is not None:
                self.expiries[timestamp] = expiry
                next_expiry = expiry if next_expiry is None else min(next_expiry, expiry)
        # Looking through all expiries costs as much as the series is long: once for all entries.
        if has_removed_next and next_expiry not in self.expiries.values():
            next_expiry = self._next_expiry
        self.expiry_changed |= next_expiry != self.expiry
        self.expiry = next_expiry

    def drop_expired(self, now: int) -> bool:
        """Drop the entries that have expired by a time, and return whether any is left."""
        self.remove([timestamp for timestamp, expiry in self.expiries.items() if expiry <= now])
        return bool(self.items)

    def take_expiry(self, expiry: int | None) -> None:
        """Do nothing: the entries have expiries of their own."""

    def between(self, low: int, high: int) -> list[int]:
        """Return the timestamps from one to another, both included, ascending."""
        return self.order[bisect_left(self.order, low) : bisect_right(self.order, high)]

    def content(self) -> list[tuple[int, SeriesEntry]]:
        """Return all entries with their timestamps."""
        return [(timestamp, self._entry(timestamp)) for timestamp in self.order]

    def changed_parts(self) -> Parts:
        """Return the entries at the timestamps that were changed; None where none is any more."""
        return [
            (timestamp, self._entry(timestamp) if timestamp in self.items else None)
            for timestamp in self.changed
        ]

    def _entry(self, timestamp: int) -> SeriesEntry:
        return self.items[timestamp], self.expiries.get(timestamp)

    def copy(self) -> Value:
        """Return an equal series."""
        return self._copied(SeriesValue(dict(self.content())))


def _after(items: deque[bytes], start: int) -> Iterator[bytes]:
    iterator = iter(items)
    for _ in range(start):
        next(iterator)
    return iterator


def _size_of(item: Any) -> int:
    return len(item) if isinstance(item, bytes) else 0


KINDS: dict[str, type[Value]] = {
    kind.kind: kind
    for kind in (StringValue, HashValue, SetValue, SortedSetValue, ListValue, SeriesValue)
}
"""The types of values by the names that TYPE replies."""
