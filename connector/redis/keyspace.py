"""The values of all databases, in memory above the tables.

A value is read from its table when a command first asks for it, and stays in memory as long as
there is room. What commands change is collected in the *open batch*; `seal` hands it over to be
committed, while commands go on with the next.

Promises: a command sees what all commands before it did, committed or not, and knows by
``uncommitted`` which batch its reply has to wait for; ``answered`` is the last batch of which a
client got a reply before its commit; ``changes`` and ``changed_bytes`` are those of the open batch,
the latter of values that are written as a whole; ``forgotten`` counts how often what was not
committed was forgotten, after a commit failed. Memory is bounded, but for what the open batches
changed.
Does not know: sockets, the protocol, when a commit is made.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from relstate.storage import Environment, errors

from .batches import Batch, DatabaseChanges, WholeDatabases
from .counts import KeyCounts
from .expiries import Expiries
from .journal import Journal
from .listing import KeyListing, TableRead
from .notifications import Notifications
from .rebase import rebase_changes, rebase_value
from .replies import CommandError, Reply
from .tables import DATABASES, StoredTables
from .values import Value

_logger = logging.getLogger(__name__)

_DatabaseKey = tuple[int, bytes]
# A key that is known not to be there.
ABSENT_BYTES = 350


class Watcher(Protocol):
    """A client that watches keys."""

    def note_change(self) -> None:
        """Record that a watched key has changed."""


class Keyspace:
    """All databases of a server. For one thread, but for `StoredTables.commit`."""

    def __init__(
        self,
        tables: StoredTables,
        environment: Environment,
        most_bytes: int,
        most_string_bytes: int,
    ) -> None:
        """``most_bytes``: about how much memory values may take that are not to be committed.

        ``most_string_bytes``: of one string that commands make of others.
        """
        self.tables = tables
        self.environment = environment
        self.most_bytes = most_bytes
        self.most_string_bytes = most_string_bytes
        self.counts = KeyCounts(DATABASES)
        self.expiries = Expiries(tables, self.uncommitted_expiries)
        self.uncommitted = 0
        self.answered = 0
        self.changes = self.changed_bytes = 0
        self.forgotten = 0
        self.notifications = Notifications()
        self.watchers: dict[_DatabaseKey, set[Watcher]] = {}
        self.waited: Container[_DatabaseKey] = ()
        self.ready: list[_DatabaseKey] = []
        self._values: OrderedDict[_DatabaseKey, Value | None] = OrderedDict()
        self._bytes = self._uncommitted_bytes = 0
        self._number = 1
        self._open: dict[_DatabaseKey, None] = {}
        self._open_whole = WholeDatabases()
        self._sealed: frozenset[_DatabaseKey] | set[_DatabaseKey] = frozenset()
        self._sealed_whole = WholeDatabases()
        self._is_sealed = False
        self._journal: Journal | None = None
        self.tick = self.now()

    # Time

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self.microseconds() // 1000

    def microseconds(self) -> int:
        """Return the time since 1970. It stands still while a script runs."""
        return self.environment.now() if self._journal is None else self._journal.moment

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
        if self._journal is not None and value is not None:
            self._journal.follow(value, partial(self._recount_held, database_key, value))
        return value

    def put(self, database_key: _DatabaseKey, value: Value | None) -> None:
        """Let a value, or nothing, be at a key."""
        if self._journal is not None:
            is_held, previous = database_key in self._values, self._values.get(database_key)
            self._journal.add(partial(self._restore, database_key, is_held, previous))
        self._drop(database_key)
        self._keep(database_key, value)
        self.note_change(database_key)

    def set_expiry(self, value: Value, expiry: int | None, *, is_changed: bool = True) -> None:
        """Set when a value expires; ``is_changed``: that is to be written."""
        if self._journal is not None:
            self._journal.add(
                partial(self.set_expiry, value, value.expiry, is_changed=value.expiry_changed)
            )
        value.expiry, value.expiry_changed = expiry, is_changed

    # Undoing

    @contextmanager
    def journaled(self) -> Iterator[Journal]:
        """Note in the block what changes, and let the time stand still.

        If the block raises an error, all that changed in it is undone.
        """
        journal = self._journal = Journal(self.environment.now())
        journal.add(
            partial(
                self._restore_whole,
                self._open_whole.copy(),
                self.counts.copy(),
                self.uncommitted,
                len(self.ready),
            )
        )
        try:
            yield journal
        except BaseException:
            self._end_journal(journal)
            journal.undo()
            raise
        finally:
            self._end_journal(journal)

    def _end_journal(self, journal: Journal) -> None:
        self._journal = None
        journal.end()

    def _restore_whole(
        self, whole: WholeDatabases, counts: KeyCounts, uncommitted: int, ready: int
    ) -> None:
        """Let what is known of all databases be as it was."""
        self._open_whole, self.counts, self.uncommitted = whole, counts, uncommitted
        del self.ready[ready:]

    def _restore(
        self, database_key: _DatabaseKey, is_held: bool, value: Value | None, is_open: bool = False
    ) -> None:
        """Let a value be in memory as it was, or none if it was not held."""
        self._drop(database_key)
        if is_open:
            self._open[database_key] = None
        if is_held:
            self._keep(database_key, value)

    def _recount_held(self, database_key: _DatabaseKey, value: Value) -> None:
        if self._values.get(database_key) is value:
            self.recount(value)

    # Memory

    def recount(self, value: Value) -> None:
        """Record that a value may have another size."""
        self._bytes += value.size - value.counted
        value.counted = value.size

    def _drop(self, database_key: _DatabaseKey) -> None:
        if database_key in self._values:
            value = self._values.pop(database_key)
            self._bytes -= ABSENT_BYTES if value is None else value.counted

    def note_change(self, database_key: _DatabaseKey) -> None:
        """Take the value at a key into the open batch."""
        if self._journal is not None and database_key not in self._open:
            self._journal.add(partial(self._open.pop, database_key, None))
        if database_key not in self._open:
            value = self._values.get(database_key)
            if value is not None and value.is_whole:
                self.changed_bytes += value.size
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
            if self._journal is not None:
                value, is_open = self._values[database_key], database_key in self._open
                self._journal.add(partial(self._restore, database_key, True, value, is_open))
            self._drop(database_key)
            self._open.pop(database_key, None)
        self._open_whole.flushed.add(number)
        self.changes += 1
        self.uncommitted = self._number
        self.counts.empty(number)

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
            self._bytes += ABSENT_BYTES
        else:
            value.used = self.tick
            value.counted = 0
            self.recount(value)
        if self._bytes > max(self.most_bytes, self._uncommitted_bytes):
            self._evict(database_key)

    def _evict(self, kept: _DatabaseKey | None) -> None:
        """Forget what was used least recently until there is room, but none of what must stay.

        That is what is to be committed, and ``kept``. If it takes more than there is room for,
        nothing is looked at again until it has grown by an eighth.
        """
        passed = 0
        while self._bytes > self.most_bytes * 7 // 8 and passed < len(self._values):
            database_key = next(iter(self._values))
            if database_key in self._open or database_key in self._sealed or database_key == kept:
                self._values.move_to_end(database_key)
                passed += 1
            else:
                self._drop(database_key)
        is_full = self._bytes > self.most_bytes
        self._uncommitted_bytes = self._bytes + self.most_bytes // 8 if is_full else 0

    def check_memory(self) -> None:
        """Raise CommandError if what is in memory leaves no room for more."""
        if self._bytes > self.most_bytes:
            if self._bytes > self._uncommitted_bytes:
                self._evict(None)
            if self._bytes > self.most_bytes:
                raise CommandError("OOM command not allowed when used memory > 'maxmemory'.")

    @property
    def memory(self) -> int:
        """About how much memory the values take."""
        return self._bytes

    def listing(self, number: int) -> KeyListing:
        """Return the keys that a database has now."""
        self._wait_for_batches()
        changed = {}
        for database_key in self._open.keys() | self._sealed:
            if database_key[0] == number and database_key in self._values:
                value = self._values[database_key]
                expiry = None if value is None else value.expiry
                changed[database_key[1]] = value is not None, expiry
        stored = None if self._is_flushed(number) else self.tables.keys(number)
        return KeyListing(stored, changed, self.tables.vnode_function(number), self.now())

    def count_keys(
        self, numbers: Sequence[int], reply: Callable[[list[int]], Reply]
    ) -> Reply | TableRead:
        """Return a reply that shows the numbers of keys of some databases."""
        known = {number: self.counts.known(number) for number in numbers}
        begun = {
            number: (self.counts.begin(number), self.listing(number))
            for number, keys in known.items()
            if keys is None
        }

        def read() -> dict[int, int]:
            return {
                number: sum(1 for _ in listing.entries()) for number, (_, listing) in begun.items()
            }

        def finish(counted: dict[int, int]) -> Reply:
            for number, keys in counted.items():
                self.counts.finish(number, begun[number][0], keys)
            return reply([counted.get(number, known[number] or 0) for number in numbers])

        return TableRead(read, finish) if begun else finish({})

    def uncommitted_expiries(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the expiries that are not committed, with the databases and keys."""
        for database_key in self._open.keys() | self._sealed:
            value = self._values.get(database_key)
            if value is not None and value.expiry is not None:
                yield value.expiry, *database_key

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

    def is_pending(self, batch: int) -> bool:
        """Return whether a batch is not committed yet."""
        return batch == self._number or (self._is_sealed and batch == self._number - 1)

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
        self.changes = self.changed_bytes = 0
        self._number += 1
        self._sealed, self._sealed_whole = set(self._open), whole
        self._open, self._open_whole = {}, WholeDatabases()
        self._is_sealed = True
        return batch

    def settle(self) -> None:
        """Record that the batch that was sealed last is committed."""
        self._sealed, self._sealed_whole = frozenset(), WholeDatabases()
        self._is_sealed = False
        self._uncommitted_bytes = 0

    def forget(self) -> int:
        """Forget all that is not committed, and all values; return the number of the last batch.

        Called after a commit failed: what the open batch did was based on it.
        """
        self.settle()
        self._open, self._open_whole = {}, WholeDatabases()
        self.changes = self.changed_bytes = 0
        self._number += 1
        self.forgotten += 1
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
        self.counts.forget(numbers)
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
