"""The epochs of an open store: the newest, the earlier ones, and the commit of the next.

A store, its catalog and its tables share one object of this kind; what they read or commit goes
through it. What a commit needs is imported by the first: most processes only read.

Promises: the newest epoch is looked up at each call, unless a staleness is allowed; a store that
was closed is neither read nor written through it. Safe between threads; each process opens its own.
Does not know: tables and rows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING
from weakref import WeakMethod

from relstate.vnode import DEFAULT_SHARDS, MAX_VNODE_COUNT

from .environment import Environment
from .environment_choice import environment_of
from .errors import (
    ClosedError,
    EpochNotFoundError,
    OptionError,
    RelstateError,
    StorageError,
    StoreExistsError,
    UnknownOutcomeError,
)
from .forklock import ForkLock
from .index.layout import IndexLayouts
from .instant import micros_of, seconds_of
from .log.entry import Entry, Settings
from .log.log import Log
from .log.moment import Moment
from .log.segment_record import SegmentRecord
from .log.state import StoreState
from .paths import SEGMENTS, segment_path
from .segment.registry import registry

if TYPE_CHECKING:
    from .log.proposal import Additions, Proposal
    from .log.transaction import CommitResult
    from .segment.writer import SegmentWriter

# Files that the newest epoch does not name are released once so many others were opened.
_MOST_OPENED = 64

_logger = logging.getLogger(__name__)


class Epochs:
    """The log of an open store and the newest state known of it; ``is_closed``: see `close`."""

    def __init__(self, log: Log, state: StoreState, max_staleness: int = 0) -> None:
        """``state``: what the log was loaded with; use `create` or `open`."""
        self.environment = log.environment
        self.log = log
        self._state = state
        self._max_staleness = max_staleness
        # When the last look that did not fail began.
        self._looked = Moment.of(log.environment)
        self._lock = ForkLock()
        self.is_closed = False
        # Whether the block of `one_look` that a thread is in has looked; none if it is in none.
        self._block = threading.local()
        self._layouts = IndexLayouts()
        # How many files were opened in the process when some were released last.
        self._opened = registry.opened
        self._holders: list[WeakMethod[Callable[[], None]]] = []

    @classmethod
    def create(
        cls,
        environment: Environment,
        *,
        vnode_count: int,
        shards: int | None,
        retention: int | str,
        exist_ok: bool,
    ) -> Epochs:
        """Create an empty store and open it: see `Store.create`."""
        settings = _new_settings(environment.random_id(), vnode_count, shards, retention)
        from .log.store_creation import create_store
        from .log.transaction import keep_reserve

        log = Log(environment)
        try:
            state = create_store(log, settings)
            keep_reserve(environment)
            return cls(log, state)
        except StoreExistsError:
            if not exist_ok:
                raise
            return cls(log, log.load())

    @classmethod
    def open(cls, environment: Environment, max_staleness: int | str = 0) -> Epochs:
        """Open a store: see `Store.open`. StoreNotFoundError, NotAStoreError, CorruptionError."""
        seconds = seconds_of("max_staleness", max_staleness)
        log = Log(environment)
        return cls(log, log.load(), seconds)

    @classmethod
    def open_path(cls, path: str) -> Epochs:
        """Open the store at a path; errors as of `open`."""
        return cls.open(environment_of(path))

    def close(self) -> None:
        """Close the segments; a later look at the store raises ClosedError."""
        self.is_closed = True
        registry.close(self.environment.local_path(SEGMENTS))

    def check_open(self) -> None:
        """Raise ClosedError if the store was closed."""
        if self.is_closed:
            raise ClosedError(f"{self.path}: this store was closed; open it again")

    @property
    def path(self) -> str:
        """The store's folder."""
        return self.environment.location("")

    @property
    def settings(self) -> Settings:
        """What was fixed when the store was created."""
        return self._state.settings

    @property
    def state(self) -> StoreState:
        """The store at its newest epoch, looked up now or lately: see `Store.open`. ClosedError."""
        if self._is_fresh():
            self.check_open()
            return self._state
        return self.look_up()

    @property
    def known_epoch(self) -> int:
        """The newest epoch known, that of the last commit by this object at least; no look."""
        return self._state.epoch

    def look_up(self) -> StoreState:
        """Return the store at its newest epoch, looked up now. ClosedError."""
        self.check_open()
        has_looked = getattr(self._block, "has_looked", None)
        if has_looked:
            return self._state
        if has_looked is not None:
            self._block.has_looked = True
        looked = Moment.of(self.environment) if self._max_staleness else None
        state = self._state
        newest = self.log.refresh(state)
        if newest is not state:
            newest = self.advance(newest)
        if looked is not None:
            self._note_look(looked)
        return newest

    def _note_look(self, looked: Moment) -> None:
        with self._lock:
            if looked.monotonic >= self._looked.monotonic:
                self._looked = looked

    @property
    def looks_by_requests(self) -> bool:
        """Whether `state` would make a request now."""
        return (
            self.environment.is_remote
            and getattr(self._block, "has_looked", None) is None
            and not self._is_fresh()
        )

    def _is_fresh(self) -> bool:
        """Return whether what is known may be read without a look."""
        return self._max_staleness > 0 and self._looked.is_within(
            self._max_staleness, Moment.of(self.environment)
        )

    @contextmanager
    def one_look(self, *, again: bool = False) -> Iterator[None]:
        """Let this thread look up the newest epoch once in the block, where that is a request.

        Later looks return the newest state known, that of a commit by this object included. After
        a commit that was refused the next look is made. A block inside of another one looks only if
        ``again``.
        """
        outer = getattr(self._block, "has_looked", None)
        if again or outer is None:
            self._block.has_looked = False if self.environment.is_remote else None
        try:
            yield
        finally:
            if again or outer is None:
                self._block.has_looked = outer

    @property
    def likely_state(self) -> StoreState:
        """The store at an epoch that was the newest lately, looked up where a look is no request.

        For what looks later: a writer, whose commit fails if what it was prepared for has changed,
        and the reader of a table. ClosedError.
        """
        self.check_open()
        state = self._state
        return state if self.log.was_newest_lately(state) else self.state

    def advance(self, state: StoreState) -> StoreState:
        """Take a state as the newest known, unless a newer one is; return the newest known.

        Threads look and commit at the same time, and a slower one may come with an older state.
        Files that the newest does not name are released when a vacuum may have removed some of
        them, or many files were opened since. Reads that have begun, and tables of earlier epochs,
        hold those that they have opened. What is remembered of the epochs that a vacuum has made
        unreadable is forgotten.
        """
        with self._lock:
            previous = self._state
            if state.epoch < previous.epoch:
                return previous
            self._state = state
        is_vacuumed = state.oldest_epoch > previous.oldest_epoch
        if is_vacuumed or registry.opened - self._opened >= _MOST_OPENED:
            self._release_files(state)
        if is_vacuumed:
            verified = registry.verified(self.environment)
            registry.forget_removed(self.environment, state.segments.absent(verified))
            self.log.history.forget_expired(state)
        return state

    def _release_files(self, state: StoreState) -> None:
        self._opened = registry.opened
        for holder in self._holders:
            let_go = holder()
            if let_go is not None:
                let_go()
        kept = registry.kept(self.environment)
        registry.release(self.environment, state.segments.absent(kept))

    def before_release(self, let_go: Callable[[], None]) -> None:
        """Call a method before files are released: it drops tables that may hold some.

        Not any more once its object is gone.
        """
        self._holders.append(WeakMethod(let_go))

    # Earlier epochs

    def state_at(self, epoch: int) -> StoreState:
        """Return the store's state as of an epoch.

        EpochNotFoundError, EpochExpiredError, OptionError for what is not an integer.
        """
        return self.log.history.state_at(self.state, epoch_number(epoch))

    def epoch_at(self, time: datetime) -> int:
        """Return the newest epoch committed at or before a time: see `Store.epoch_at`."""
        return self.log.history.epoch_at(self.state, micros_of(time))

    def history(self) -> Iterator[Entry]:
        """Yield the entries of all epochs, the newest first."""
        return self.log.history.newest_first(self.state)

    def entry(self, epoch: int) -> Entry:
        """Return the entry of an epoch, however old. EpochNotFoundError."""
        state = self.state
        if not 1 <= epoch <= state.epoch:
            raise EpochNotFoundError(
                f"there is no epoch {epoch}: the store is at epoch {state.epoch}"
            )
        (entry,) = self.log.history.entries(state, epoch, epoch)
        return entry

    # The next epoch

    def commit(self, proposal: Proposal) -> CommitResult:
        """Commit a proposal, then merge files of the tables it wrote where that is due.

        The indexes of the tables it writes change in the same epoch. The errors of
        `transaction.commit`, AppendOnlyError, CheckViolationError, UniqueViolationError.
        """
        from .maintenance import compaction

        result, written = self.commit_uncompacted(proposal)
        if written:
            self.advance(compaction.auto_compact(self.log, result.state, written))
        return result

    def auto_compact(self, table_ids: Collection[int]) -> None:
        """Merge files of some tables where that is due. Errors are logged."""
        from .maintenance import compaction

        if table_ids:
            self.advance(compaction.auto_compact(self.log, self.state, table_ids))

    def commit_uncompacted(self, proposal: Proposal) -> tuple[CommitResult, frozenset[int]]:
        """Commit a proposal as `commit` does, but merge no files.

        Return also the ids of the tables whose files may have to be merged now.
        """
        from .index.index_maintenance import IndexMaintenance
        from .log.transaction import commit
        from .table.appendonly import AppendCheck
        from .table.checks import ConstraintCheck

        started = self.environment.monotonic()
        appends = AppendCheck(self.environment, proposal)
        constraints = ConstraintCheck(self.environment, proposal)

        # The rows of a proposal are encoded under the definitions that it brings.
        definitions = tuple(altered.after for altered in proposal.altered_tables)

        def check(state: StoreState) -> None:
            altered = state.with_definitions(definitions)
            appends(altered)
            constraints(altered)

        indexes = IndexMaintenance(self.log, proposal, self._layouts)

        def additions(state: StoreState) -> Additions:
            added = indexes(state.with_definitions(definitions))
            if constraints.violations:
                added = replace(added, violations=constraints.violations)
            return added

        try:
            # Those that a commit syncs were written for it alone.
            with self.discarding(proposal.segments if proposal.syncs_segments else ()):
                self.check_open()
                result = commit(self.log, self._state, proposal, check, additions)
        except UnknownOutcomeError:
            raise
        except RelstateError:
            if getattr(self._block, "has_looked", None):
                # What is known may be what made the commit fail.
                self._block.has_looked = False
            indexes.discard()
            raise
        if result.committed:
            seconds = self.environment.monotonic() - started
            _logger.info(
                "epoch %d: %s, committed in %.4f s", result.epoch, proposal.operation, seconds
            )
        else:
            indexes.discard()
        self.advance(result.state)
        added = (*proposal.segments, *indexes.segments) if proposal.data_change else ()
        return result, frozenset(table.table_id for record in added for table in record.tables)

    def segment_writer(self) -> SegmentWriter:
        """Return a writer of segments for the store."""
        from .segment.writer import SegmentWriter

        return SegmentWriter(self.environment, self.settings.vnode_count, self.settings.shards)

    def discard(self, segments: Sequence[SegmentRecord]) -> None:
        """Remove segments of a commit that was refused: no commit names them."""
        for record in segments:
            self.environment.remove(segment_path(record.name))

    @contextmanager
    def discarding(self, segments: Sequence[SegmentRecord]) -> Iterator[None]:
        """Remove segments if the block, which commits them, is refused, whatever the reason.

        They would occupy a full disk, and must not be committed after a failed sync. They stay
        where a commit may name them; vacuum removes those that could not be removed.
        """
        from .log.transaction import CommittedSegmentError

        try:
            yield
        except (UnknownOutcomeError, CommittedSegmentError):
            raise
        except RelstateError:
            with suppress(StorageError):
                self.discard(segments)
            raise


def epoch_number(epoch: object) -> int:
    """Return an epoch as an int, also of numpy's kind. OptionError for anything else."""
    if not isinstance(epoch, bool):
        try:
            return index(epoch)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise OptionError(f"an epoch is an integer, not {epoch!r}; store.epoch is the latest")


def _new_settings(
    store_id: str, vnode_count: int, shards: int | None, retention: int | str
) -> Settings:
    """Return the settings of a new store; ``shards``: None for the default. OptionError."""
    if type(vnode_count) is not int or not 1 <= vnode_count <= MAX_VNODE_COUNT:
        raise OptionError(f"vnode_count must be 1 to {MAX_VNODE_COUNT}, not {vnode_count!r}")
    shards = min(DEFAULT_SHARDS, vnode_count) if shards is None else shards
    if type(shards) is not int or not 1 <= shards <= vnode_count:
        raise OptionError(f"shards must be 1 to vnode_count ({vnode_count}), not {shards!r}")
    return Settings(store_id, vnode_count, shards, seconds_of("retention", retention))
