"""The values of all databases, in memory above the tables.

A value is read from its table when a command first asks for it, and stays in memory as long as
there is room. What commands change is collected in the *open batch*; `seal` hands it over to be
committed, while commands go on with the next.

Promises: a command sees what all commands before it did, committed or not, and knows by
``uncommitted`` which batch its reply has to wait for; ``answered`` is the last batch of which a
client got a reply before its commit. Memory is bounded, but for what the open batches changed.
Does not know: sockets, the protocol, when a commit is made.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Iterator
from functools import partial
from typing import Protocol

from relstate.storage import Environment, errors

from .expiries import Expiries
from .rebase import rebase_changes, rebase_value
from .replies import CommandError
from .tables import DATABASES, Batch, DatabaseChanges, StoredTables, WholeDatabases
from .values import Value

_logger = logging.getLogger(__name__)

_DatabaseKey = tuple[int, bytes]
# A key that is known not to be there.
_ABSENT_BYTES = 100


class Watcher(Protocol):
    """A client that watches keys."""

    def note_change(self) -> None:
        """Record that a watched key has changed."""


class Keyspace:
    """All databases of a server. For one thread, but for `StoredTables.commit`."""

    def __init__(self, tables: StoredTables, environment: Environment, most_bytes: int) -> None:
        """``most_bytes``: about how much memory values may take that are not to be committed.

        ``counts``: the number of keys of each database, with those that have expired and are not
        removed yet; None where they were not counted.
        """
        self.tables = tables
        self.environment = environment
        self.most_bytes = most_bytes
        self.counts: list[int | None] = [None] * DATABASES
        self.expiries = Expiries(tables, self.uncommitted_expiries)
        self.uncommitted = 0
        self.answered = 0
        self.changes = 0
        self.watchers: dict[_DatabaseKey, set[Watcher]] = {}
        self.waited: dict[_DatabaseKey, int] = {}
        self.ready: list[_DatabaseKey] = []
        self._values: OrderedDict[_DatabaseKey, Value | None] = OrderedDict()
        self._bytes = 0
        self._number = 1
        self._open: dict[_DatabaseKey, None] = {}
        self._open_whole = WholeDatabases()
        self._sealed: frozenset[_DatabaseKey] | set[_DatabaseKey] = frozenset()
        self._sealed_whole = WholeDatabases()
        self._is_sealed = False

    # Time

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self.environment.now() // 1000

    def random_below(self, limit: int) -> int:
        """Return a random integer from 0 to below a limit."""
        return int(self.environment.random_id()[:16], 16) % limit

    # Values

    def value(self, database_key: _DatabaseKey) -> Value | None:
        """Return what is at a key, expired or not; None if nothing is."""
        values = self._values
        if database_key in values:
            values.move_to_end(database_key)
            value = values[database_key]
        elif self._is_flushed(database_key[0]):
            value = None
            is_open = database_key[0] in self._open_whole.flushed
            self.uncommitted = max(self.uncommitted, self._number - (not is_open))
        else:
            value = self.tables.read(*database_key)
            self._keep(database_key, value)
        if database_key in self._open:
            self.uncommitted = self._number
        elif database_key in self._sealed:
            self.uncommitted = max(self.uncommitted, self._number - 1)
        return value

    def put(self, database_key: _DatabaseKey, value: Value | None) -> None:
        """Let a value, or nothing, be at a key."""
        self._drop(database_key)
        self._keep(database_key, value)
        self.note_change(database_key)

    def recount(self, value: Value) -> None:
        """Record that a value may have another size."""
        self._bytes += value.size - value.counted
        value.counted = value.size

    def _drop(self, database_key: _DatabaseKey) -> None:
        if database_key in self._values:
            value = self._values.pop(database_key)
            self._bytes -= _ABSENT_BYTES if value is None else value.counted

    def note_change(self, database_key: _DatabaseKey) -> None:
        """Take the value at a key into the open batch."""
        self._open[database_key] = None
        self._open_whole.written.add(database_key[0])
        self._open_whole.deleted.discard(database_key[0])
        self.changes += 1
        self.uncommitted = self._number
        for watcher in self.watchers.get(database_key, ()):
            watcher.note_change()
        if database_key in self.waited:
            self.ready.append(database_key)

    def flush(self, number: int) -> None:
        """Remove all keys of a database."""
        for database_key in [
            database_key for database_key in self.watchers if database_key[0] == number
        ]:
            if self.value(database_key) is not None:
                for watcher in self.watchers[database_key]:
                    watcher.note_change()
        for database_key in [
            database_key for database_key in self._values if database_key[0] == number
        ]:
            self._drop(database_key)
            self._open.pop(database_key, None)
        self._open_whole.flushed.add(number)
        self.changes += 1
        self.uncommitted = self._number
        self.counts[number] = 0

    def create(self, number: int) -> None:
        """Create the table of a database."""
        self._open_whole.created.add(number)
        self._open_whole.deleted.discard(number)
        self.changes += 1
        self.uncommitted = self._number

    def delete(self, number: int) -> None:
        """Remove all keys of a database, and its table unless it is written again."""
        self.flush(number)
        self._open_whole.created.discard(number)
        self._open_whole.deleted.add(number)

    def exists(self, number: int) -> bool:
        """Return whether a database has a table, or gets one."""
        self._wait_for_batches()
        for keys, whole in ((self._open, self._open_whole), (self._sealed, self._sealed_whole)):
            if number in whole.created or any(key[0] == number for key in keys):
                return True
            if number in whole.deleted:
                return False
        return self.tables.has_table(number)

    def _is_flushed(self, number: int) -> bool:
        return number in self._open_whole.flushed or number in self._sealed_whole.flushed

    def _keep(self, database_key: _DatabaseKey, value: Value | None) -> None:
        self._values[database_key] = value
        if value is None:
            self._bytes += _ABSENT_BYTES
        else:
            value.counted = 0
            self.recount(value)
        if self._bytes > self.most_bytes:
            self._evict(list(self._values)[:-1])

    def _evict(self, database_keys: list[_DatabaseKey]) -> None:
        """Forget the first of some values until there is room, but none that is to be committed."""
        for database_key in database_keys:
            if self._bytes <= self.most_bytes * 7 // 8:
                return
            if database_key not in self._open and database_key not in self._sealed:
                self._drop(database_key)

    def check_memory(self) -> None:
        """Raise CommandError if what is in memory leaves no room for more."""
        if self._bytes > self.most_bytes:
            self._evict(list(self._values))
            if self._bytes > self.most_bytes:
                raise CommandError("OOM command not allowed when used memory > 'maxmemory'.")

    @property
    def memory(self) -> int:
        """About how much memory the values take."""
        return self._bytes

    def keys(self, number: int, vnode: int | None = None) -> Iterator[bytes]:
        """Yield the keys of a database, or of one vnode, that have not expired."""
        now = self.now()
        for key, expiry in self.entries(number, vnode):
            if expiry is None or expiry > now:
                yield key

    def entries(self, number: int, vnode: int | None = None) -> Iterator[tuple[bytes, int | None]]:
        """Yield the keys of a database, or of one vnode, expired or not, with their expiries."""
        changed = self._uncommitted_keys(number)
        if not self._is_flushed(number):
            for key, expiry in self.tables.keys(number, vnode):
                if key not in changed:
                    yield key, expiry
        for key in changed:
            value = self._values[number, key]
            if value is None:
                continue
            if vnode is None or self._vnode_of(number, key) == vnode:
                yield key, value.expiry

    def count(self, number: int) -> int:
        """Return the number of keys of a database: see ``counts``."""
        count = self.counts[number]
        if count is None:
            count = self.counts[number] = sum(1 for _ in self.entries(number))
        return count

    def uncommitted_expiries(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the expiries that are not committed, with the databases and keys."""
        for database_key in self._open.keys() | self._sealed:
            value = self._values.get(database_key)
            if value is not None and value.expiry is not None:
                yield value.expiry, *database_key

    def _vnode_of(self, number: int, key: bytes) -> int:
        return self.tables.vnode_of(number, key) if self.tables.has_table(number) else 0

    def _uncommitted_keys(self, number: int) -> dict[bytes, None]:
        """Return the keys of a database that are not as its table has them."""
        self._wait_for_batches()
        return {
            database_key[1]: None
            for database_keys in (self._sealed, self._open)
            for database_key in database_keys
            if database_key[0] == number and database_key in self._values
        }

    # Batches

    def _wait_for_batches(self) -> None:
        """Let the reply wait until all changes are committed."""
        if self.has_changes:
            self.uncommitted = self._number
        elif self._is_sealed:
            self.uncommitted = max(self.uncommitted, self._number - 1)

    @property
    def has_changes(self) -> bool:
        """Whether there is something to commit that is not being committed."""
        return bool(self._open or self._open_whole)

    @property
    def is_committing(self) -> bool:
        """Whether a batch was sealed, and is not settled."""
        return self._is_sealed

    @property
    def uncommitted_keys(self) -> int:
        """The number of keys whose changes are not committed."""
        return len(self._open.keys() | self._sealed)

    def seal(self) -> Batch:
        """Return what was changed, to be committed; what is changed from now on is another batch.

        `settle` or `forget` must be called before the next one is sealed.
        """
        assert not self._is_sealed
        databases: dict[int, DatabaseChanges] = {}
        whole = self._open_whole
        for number in whole.created:
            databases[number] = DatabaseChanges()
        for number in whole.flushed:
            if self.tables.has_table(number):
                is_deleted = number in whole.deleted
                databases[number] = DatabaseChanges(is_flushed=True, is_deleted=is_deleted)
        for database_key in self._open:
            number, key = database_key
            changes = databases.setdefault(number, DatabaseChanges())
            _add_change(changes, key, self._values[database_key])
        batch = Batch(self._number, databases)
        self._number += 1
        self._sealed, self._sealed_whole = set(self._open), whole
        self._open, self._open_whole = {}, WholeDatabases()
        self._is_sealed = True
        return batch

    def settle(self) -> None:
        """Record that the batch that was sealed last is committed."""
        self._sealed, self._sealed_whole = frozenset(), WholeDatabases()
        self._is_sealed = False

    def forget(self) -> int:
        """Forget all that is not committed, and all values; return the number of the last batch.

        Called after a commit failed: what the open batch did was based on it.
        """
        self.settle()
        self._open, self._open_whole = {}, WholeDatabases()
        self._number += 1
        self._values.clear()
        self._bytes = 0
        self._note_foreign_changes(range(DATABASES))
        return self._number - 1

    def refresh(self) -> None:
        """Forget the values of databases whose tables another writer changed.

        Databases of which something is to be committed are left out: their commit is refused if
        another writer changed them. Does nothing if the store cannot be looked at: the reads that
        follow say why.
        """
        try:
            changed = self.tables.refresh(self._open_whole.numbers | self._sealed_whole.numbers)
        except errors.RelstateError as error:
            _logger.warning("cannot look for changes of the tables: %s", error)
            return
        if changed:
            for database_key in list(self._values):
                if database_key[0] in changed:
                    self._drop(database_key)
            self._note_foreign_changes(changed)

    def drop_committed(self) -> None:
        """Forget the values that are as the tables had them, and look at the tables again."""
        self.tables.refresh()
        for database_key in list(self._values):
            if database_key not in self._open and database_key not in self._sealed:
                self._drop(database_key)
        self._note_foreign_changes(range(DATABASES))

    def rebase(self, batch: Batch) -> None:
        """Put the sealed batch and the open one over what another writer committed.

        May be called again after an error.
        """
        self.drop_committed()
        for number, changes in batch.databases.items():
            if changes.is_flushed:
                continue
            values = rebase_changes(changes, partial(self.tables.read, number))
            for key, value in values.items():
                self._rebase_open((number, key), value)
        for database_key in list(self._open):
            is_flushed = database_key[0] in self._sealed_whole.flushed
            if not is_flushed and database_key not in self._sealed:
                self._rebase_open(database_key, None)

    def _rebase_open(self, database_key: _DatabaseKey, current: Value | None) -> None:
        """Put a value in memory over another writer's."""
        if database_key not in self._values:  # flushed
            return
        value = self._values[database_key]
        if database_key in self._open:
            if value is None or value.is_whole:
                return
            if database_key not in self._sealed:
                current = self.tables.read(*database_key)
            current = rebase_value(value, current)
        self._drop(database_key)
        self._keep(database_key, current)

    def _note_foreign_changes(self, numbers: Collection[int]) -> None:
        """Forget what is known of the keys of some databases: another writer may have changed any.

        When keys of others expire is forgotten too, and read again.
        """
        self.expiries = Expiries(self.tables, self.uncommitted_expiries)
        for number in numbers:
            self.counts[number] = None
        for database_key, watchers in self.watchers.items():
            if database_key[0] in numbers:
                for watcher in watchers:
                    watcher.note_change()


def _add_change(changes: DatabaseChanges, key: bytes, value: Value | None) -> None:
    """Add what was changed at a key."""
    if value is None:
        changes.deleted.append(key)
        return
    if value.is_whole:
        changes.values.append((key, value.kind, value.expiry, value.content()))
    else:
        if value.expiry_changed:
            changes.expiries.append((key, value.expiry))
        if value.changed:
            changes.parts.setdefault(value.kind, []).append((key, value.changed_parts()))
    value.written()
