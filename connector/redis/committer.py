"""Commits: what clients changed becomes epochs, while they go on.

Promises: one commit is made at a time, in another thread; all that changed meanwhile is the next.
Replies do not wait for compaction: files are merged in a thread of its own.
With ``always`` a commit begins as soon as there is something to commit; after a commit, once the
clients that it answered have sent their next changes, if they do so soon. With ``everysec`` once a
second, and sooner if much was changed. A commit that fails is tried again if a client already has a
reply of its changes or of later ones, and one that met a conflict is then made over what the other
writer committed. Otherwise nothing was changed, and the replies say so.
Does not know: sockets, commands.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from relstate.storage import errors

from .batches import Batch
from .service import Service

_logger = logging.getLogger(__name__)

_SECOND = 1.0
_MOMENT = 0.0005
# Those who were answered are waited for so long, in parts of the time that the last commit took.
_GATHERING = 0.2
# Under `everysec` so many changes are not kept waiting, nor values of so many bytes, of which a
# commit takes copies.
_MOST_CHANGES = 50_000
_MOST_CHANGED_BYTES = 16 << 20
# A merge reads a few megabytes at most; the end of the server does not wait longer for it.
_MOST_MERGE_SECONDS = 10.0
_MISCONF = (
    "Errors writing to the AOF file: relstate could not commit, and tries again every second; see "
    "its log"
)

_BROKEN = (
    "Errors writing to the AOF file: relstate cannot commit until it is restarted; see its log"
)


class Replies(Protocol):
    """The replies that wait for commits."""

    @property
    def waiting_clients(self) -> int:
        """The number of clients whose replies wait."""

    def settle(self, number: int, error: str | None) -> None:
        """Send the replies that waited for the batches up to a number, or the error instead."""


class Committer:
    """Commits the batches of a keyspace, until an error that is not of the store.

    ``committed`` is the number of the last batch that is durable.
    """

    def __init__(self, service: Service, replies: Replies) -> None:
        self._service = service
        self._keyspace = service.keyspace
        self._replies = replies
        self._waited_clients = 0
        self._commit_seconds = 0.0
        self._thread = ThreadPoolExecutor(1, "relstate-redis-commit")
        self._compactor = ThreadPoolExecutor(1, "relstate-redis-compact")
        self._compaction: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._is_finishing = self._is_broken = False
        self.committed = 0

    @property
    def waits(self) -> bool:
        """Whether replies wait for commits."""
        return self._service.settings.appendfsync == "always"

    @property
    def _is_much_changed(self) -> bool:
        keyspace = self._keyspace
        return keyspace.changes > _MOST_CHANGES or keyspace.changed_bytes > _MOST_CHANGED_BYTES

    def wake(self) -> None:
        """Record that there may be something to commit."""
        if self._is_broken:
            return
        if self._task is None:
            if self._keyspace.has_changes:
                self._task = asyncio.get_running_loop().create_task(self._run())
        elif self._is_much_changed or (
            self.waits and self._replies.waiting_clients >= self._waited_clients
        ):
            self._hurry.set()

    async def finish(self) -> None:
        """Commit what is left, and end. FilesystemError if that fails.

        No client may be served any more.
        """
        self._is_finishing = True
        self._hurry.set()
        self.wake()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._thread.shutdown()
        await self._finish_merge()
        if self._keyspace.has_changes or self._keyspace.is_committing:
            raise errors.FilesystemError(
                f"{self._keyspace.uncommitted_keys} keys were changed and could not be committed: "
                "their last changes are lost; the log says why"
            )

    async def _finish_merge(self) -> None:
        """Wait for the merge under way, up to a limit: a store is whole without it."""
        if self._compaction is not None and not self._compaction.done():
            await asyncio.wait([self._compaction], timeout=_MOST_MERGE_SECONDS)
            if self._compaction.cancel():
                _logger.warning(
                    "files were still being merged %s s after the last commit", _MOST_MERGE_SECONDS
                )
        self._compactor.shutdown(wait=False)

    async def _run(self) -> None:
        """Commit until there is nothing to commit."""
        try:
            while self._keyspace.has_changes:
                if not self.waits:
                    await self._pause(_SECOND)
                if not await self._commit(self._keyspace.seal()):
                    break
                if self.waits:
                    await self._gather()
        except Exception:
            _logger.exception("commits ended; nothing is written until the server is restarted")
            self._is_broken = True
            self._service.write_error = _BROKEN
        finally:
            self._task = None

    async def _pause(self, seconds: float) -> None:
        """Wait for some time, or until a commit is urgent."""
        if self._is_finishing:
            return
        self._hurry.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    async def _gather(self) -> None:
        """Wait until as many clients wait as before the last commit ended, or no more come.

        Otherwise the first client that was answered would have a commit of its own, and all others
        wait for it, and so on in turns.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._commit_seconds * _GATHERING
        previous = -1
        while (waiting := self._replies.waiting_clients) < self._waited_clients:
            is_late = waiting == previous and loop.time() >= deadline
            if is_late or self._is_finishing:
                return
            previous = waiting
            await self._pause(_MOMENT)

    def _compact(self) -> None:
        """Merge files while the next commits are made, unless that is under way."""
        if self._compaction is None or self._compaction.done():
            loop = asyncio.get_running_loop()
            self._compaction = loop.run_in_executor(self._compactor, self._keyspace.tables.compact)
            self._compaction.add_done_callback(_log_failure)

    def _settle(self, number: int, error: str | None) -> None:
        """Send the replies that waited for the batches up to a number, or the error instead."""
        self.committed = number
        self._waited_clients = self._replies.waiting_clients
        self._replies.settle(number, error)

    async def _commit(self, batch: Batch) -> bool:
        """Commit a batch and return True; return False if the server ends without it."""
        loop = asyncio.get_running_loop()
        has_conflict = False
        while True:
            try:
                if has_conflict:
                    self._keyspace.rebase(batch)
                    has_conflict = False
                start = loop.time()
                await loop.run_in_executor(self._thread, self._keyspace.tables.commit, batch)
                self._commit_seconds = loop.time() - start
            except Exception as error:
                _logger.warning("a commit failed: %s", error)
                # Later changes may be based on these, and the setting may have changed since.
                is_promised = self._keyspace.answered >= batch.number
                if is_promised and isinstance(error, errors.ConflictError):
                    has_conflict = True
                    continue
                if is_promised:
                    self._service.write_error = _MISCONF
                    if self._is_finishing:
                        return False
                    await asyncio.sleep(_SECOND)
                    continue
                self._settle(self._keyspace.forget(), _reply_to(error))
            else:
                self._service.write_error = None
                self._keyspace.settle()
                self._settle(batch.number, None)
                self._compact()
            return True


def _log_failure(compaction: asyncio.Future[None]) -> None:
    error = None if compaction.cancelled() else compaction.exception()
    if error is not None:
        _logger.error("files could not be merged: %s", error)


def _reply_to(error: Exception) -> str:
    """Return the reply of commands whose changes were not committed."""
    if isinstance(error, errors.ConflictError):
        return (
            "TRYAGAIN another writer changed the table of this database at the same time; nothing "
            "was changed: send the command again"
        )
    if isinstance(error, errors.UnknownOutcomeError):
        return (
            "MISCONF Errors writing to the AOF file: it is not known whether this happened: "
            f"{error}"
        )
    return f"MISCONF Errors writing to the AOF file: nothing was changed: {error}"
