"""Commits: what clients changed becomes epochs, while they go on.

Promises: one commit is made at a time, in another thread; all that changed meanwhile is the next.
With ``always`` a commit begins as soon as there is something to commit. With ``everysec`` once a
second, and sooner if much was changed; a commit that fails is tried again, and one that met a
conflict is made over what the other writer committed.
Does not know: sockets, commands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from relstate.storage import errors

from .service import Service
from .tables import Batch

_logger = logging.getLogger(__name__)

_SECOND = 1.0
_MOMENT = 0.0005
_MOST_MOMENTS = 4
# Under `everysec` so many changes are not kept waiting.
_MOST_CHANGES = 50_000
_MISCONF = (
    "Errors writing to the AOF file: relstate could not commit, and tries again every second; see "
    "its log"
)

_BROKEN = (
    "Errors writing to the AOF file: relstate cannot commit until it is restarted; see its log"
)


class Committer:
    """Commits the batches of a keyspace, until an error that is not of the store.

    ``committed`` is the number of the last batch that is durable. ``settled`` is called after each
    commit with the number of the last batch that was decided, and the error it ended with.
    """

    def __init__(self, service: Service, settled: Callable[[int, str | None], None]) -> None:
        self._service = service
        self._keyspace = service.keyspace
        self._settled = settled
        self._thread = ThreadPoolExecutor(1, "relstate-redis-commit")
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._is_finishing = self._is_broken = False
        self.committed = 0

    @property
    def waits(self) -> bool:
        """Whether replies wait for commits."""
        return self._service.settings.appendfsync == "always"

    def wake(self) -> None:
        """Record that there may be something to commit."""
        if self._is_broken:
            return
        if self._task is None:
            if self._keyspace.has_changes:
                self._task = asyncio.get_running_loop().create_task(self._run())
        elif self.waits or self._keyspace.changes > _MOST_CHANGES:
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
        if self._keyspace.has_changes or self._keyspace.is_committing:
            raise errors.FilesystemError(
                f"{self._keyspace.uncommitted_keys} keys were changed and could not be committed: "
                "their last changes are lost; the log says why"
            )

    async def _run(self) -> None:
        """Commit until there is nothing to commit."""
        try:
            is_first = True
            while self._keyspace.has_changes:
                if not self.waits:
                    await self._pause()
                elif not is_first:
                    await self._gather()
                is_first = False
                self._keyspace.changes = 0
                if not await self._commit(self._keyspace.seal()):
                    break
        except Exception:
            _logger.exception("commits ended; nothing is written until the server is restarted")
            self._is_broken = True
            self._service.write_error = _BROKEN
        finally:
            self._task = None

    async def _pause(self) -> None:
        """Wait for a second, or until a commit is urgent."""
        if self._is_finishing:
            return
        self._hurry.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), _SECOND)

    async def _gather(self) -> None:
        """Wait for those who were just answered, as long as they go on changing things.

        Otherwise half of the clients would wait for the commit of the others, and so on in turns.
        """
        for _ in range(_MOST_MOMENTS):
            before = self._keyspace.changes
            await asyncio.sleep(_MOMENT)
            if self._keyspace.changes == before:
                return

    async def _commit(self, batch: Batch) -> bool:
        """Commit a batch and return True; return False if the server ends without it."""
        loop = asyncio.get_running_loop()
        is_promised = not self.waits
        has_conflict = False
        while True:
            try:
                if has_conflict:
                    self._keyspace.rebase(batch)
                    has_conflict = False
                await loop.run_in_executor(self._thread, self._keyspace.tables.commit, batch)
            except Exception as error:
                _logger.warning("a commit failed: %s", error)
                if is_promised and isinstance(error, errors.ConflictError):
                    has_conflict = True
                    continue
                if is_promised:
                    self._service.write_error = _MISCONF
                    if self._is_finishing:
                        return False
                    await asyncio.sleep(_SECOND)
                    continue
                number = self._keyspace.forget()
                self.committed = number
                self._settled(number, _reply_to(error))
            else:
                self._service.write_error = None
                self._keyspace.settle()
                self.committed = batch.number
                self._settled(batch.number, None)
            return True


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
