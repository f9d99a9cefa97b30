"""The connection of one client: bytes in, requests to its session, replies out in their order.

Promises: a reply goes out when what it says is durable, and after those before it; a client that
does not read its replies is not served until it does, and disconnected if too much waits for it;
others do not notice.
Does not know: what commands do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from ipaddress import ip_address
from typing import Protocol

from relstate.storage import errors

from .command import Wait, store_error
from .listing import TableRead
from .protocol import ProtocolError, RequestReader
from .replies import CommandError, Reply, Several, encode_reply
from .service import Service
from .session import Session

_logger = logging.getLogger(__name__)

_HIGH_WATER = 1 << 20
# So many requests are read from a client that waits.
_MOST_QUEUED = 1000
# So many bytes of replies are sent before the next request is run.
_MOST_GATHERED = 256 << 10
_DENIED = (
    "DENIED Redis is running in protected mode because protected mode is enabled and no password "
    "is set for the default user. In this mode connections are only accepted from the loopback "
    "interface. Start relstate redis with --requirepass to accept others."
)

_READ_FORGOTTEN = (
    "TRYAGAIN a commit failed while keys were read that it was to write: send the command again"
)


class Commits(Protocol):
    """What a client needs to know of commits."""

    @property
    def waits(self) -> bool:
        """Whether replies wait for commits."""

    def wake(self) -> None:
        """Record that there may be something to commit."""


class Client(asyncio.Protocol):
    """One client."""

    def __init__(
        self, service: Service, commits: Commits, clients: set[Client], waiting: dict[Client, None]
    ) -> None:
        """``clients``: all that are connected; ``waiting``: those whose replies wait for a commit.

        The client adds itself to them; who waits longest is the first.
        """
        self._service = service
        self._clients = clients
        self._commits = commits
        self._waiting = waiting
        self._reader = RequestReader(service.settings.max_request_bytes)
        self._requests: deque[list[bytes]] = deque()
        self._requested_bytes = 0
        self._held: deque[tuple[int, bytes]] = deque()
        self._held_bytes = 0
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._is_full = False
        self._is_ended = False
        self._is_waiting = False
        self._timeout: asyncio.TimerHandle | None = None
        self._session: Session | None = None
        self._reading: asyncio.Task[None] | None = None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the client in, or say why not."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._clients.add(self)
        transport.set_write_buffer_limits(_HIGH_WATER)
        host, port = transport.get_extra_info("peername")[:2]
        settings = self._service.settings
        if settings.is_protected and not ip_address(host.split("%")[0]).is_loopback:
            self._refuse(_DENIED)
        elif len(self._service.sessions) >= settings.maxclients:
            self._refuse("ERR max number of clients reached")
        else:
            address = f"{host}:{port}"
            self._session = Session(self._service, address, self._deliver, transport.abort)
            self._session.unblock = self._unblock

    def _refuse(self, message: str) -> None:
        self._transport.write(encode_reply(CommandError(message), 2))
        self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        """Forget the client."""
        self._clients.discard(self)
        self._waiting.pop(self, None)
        self._service.waiting.remove(self)
        if self._timeout is not None:
            self._timeout.cancel()
        self._requests.clear()
        if self._session is not None:
            self._session.end()
            self._session = None

    def data_received(self, data: bytes) -> None:
        """Run the requests that have come."""
        if self._session is None or self._is_ended:
            return
        try:
            self._read(data)
        except ProtocolError as error:
            self._run()
            self._is_ended = True
            self._send(CommandError(f"ERR Protocol error: {error}"), 0)
            self._flush()
            self._close_when_sent()
            return
        self._run()
        if self._requests:
            self._requested_bytes += len(data)
            if len(self._requests) > _MOST_QUEUED or self._requested_bytes > _HIGH_WATER:
                self._transport.pause_reading()

    def _read(self, data: bytes) -> None:
        """Take the requests in some bytes; run them at once until the client is authenticated.

        ProtocolError.
        """
        session, reader = self._session, self._reader
        assert session is not None
        reader.is_authenticated = session.is_authenticated
        for request in reader.read(data):
            self._requests.append(request)
            if not reader.is_authenticated:
                self._run()
                reader.is_authenticated = session.is_authenticated

    def pause_writing(self) -> None:
        """Stop serving the client, which does not read."""
        self._is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Serve the client again."""
        self._is_full = False
        self._transport.resume_reading()
        self._run()

    # Requests and replies

    def _run(self) -> None:
        """Run the requests of the client, as long as it reads the replies."""
        session, keyspace = self._session, self._service.keyspace
        if session is None:
            return
        # While commits are made, the server looks from time to time: they would double the cost.
        if not (keyspace.has_changes or keyspace.is_committing):
            keyspace.refresh()
        waits = self._commits.waits
        while self._requests and self._may_run(session):
            keyspace.uncommitted = 0
            reply = session.execute(self._requests.popleft())
            if isinstance(reply, Wait):
                self._wait(reply)
                break
            if isinstance(reply, TableRead):
                self._is_waiting = True
                loop = asyncio.get_running_loop()
                self._reading = loop.create_task(self._read_tables(reply, keyspace.uncommitted))
                break
            self._send_result(reply, waits=waits)
            if keyspace.ready:
                self._service.waiting.serve()
            if self._output_bytes > _MOST_GATHERED:
                self._flush()
        if not self._requests:
            self._requested_bytes = 0
        self._commits.wake()
        self._flush()
        if session.is_closing:
            self._requests.clear()
            self._close_when_sent()

    def _may_run(self, session: Session) -> bool:
        """Return whether the next request may be run."""
        is_behind = self._is_full or self._held_bytes > _HIGH_WATER
        return not (is_behind or self._is_waiting or session.is_closing)

    def _wait(self, wait: Wait) -> None:
        """Run no request until there is what the client waits for, or for some time."""
        self._set_waiting(True)
        self._service.waiting.add(self, wait)
        if wait.seconds:
            loop = asyncio.get_running_loop()
            self._timeout = loop.call_later(wait.seconds, self._wait_no_longer)

    async def _read_tables(self, read: TableRead, batch: int) -> None:
        """Send a reply once tables were read in another thread; run no request before.

        ``batch``: the last one of which it shows changes.
        """
        keyspace = self._service.keyspace
        forgotten = keyspace.forgotten
        reply: Reply
        try:
            result = await asyncio.get_running_loop().run_in_executor(None, read.read)
            keyspace.uncommitted = batch if keyspace.is_pending(batch) else 0
            reply = read.reply(result)
        except errors.RelstateError as error:
            reply = store_error(error)
        except CommandError as error:
            reply = error
        except Exception:
            _logger.exception("tables could not be read")
            self._transport.abort()
            return
        if batch and keyspace.forgotten != forgotten:
            reply = CommandError(_READ_FORGOTTEN)
        if self._session is not None:
            self.resume(reply)

    def _set_waiting(self, is_waiting: bool) -> None:
        self._is_waiting = is_waiting
        if self._session is not None:
            self._session.is_blocked = is_waiting

    def _wait_no_longer(self) -> None:
        self._unblock(None)

    def _unblock(self, reply: Reply) -> bool:
        """Let the client wait no longer, with a reply; None for that of a wait in vain."""
        wait = self._service.waiting.remove(self)
        if wait is None:
            return False
        self._service.keyspace.uncommitted = 0
        self.resume(wait.empty if reply is None else reply)
        return True

    def resume(self, reply: Reply) -> None:
        """Send the reply that the client waited for, and run what it sent meanwhile."""
        self._set_waiting(False)
        if not self._is_full:
            self._transport.resume_reading()
        if self._timeout is not None:
            self._timeout.cancel()
        self._send_result(reply, waits=self._commits.waits)
        asyncio.get_running_loop().call_soon(self._run)

    def _send_result(self, reply: Reply, *, waits: bool) -> None:
        """Send the reply to the command that was just run, after its commit if it waits for one."""
        assert self._session is not None
        keyspace = self._service.keyspace
        if not waits:
            keyspace.answered = max(keyspace.answered, keyspace.uncommitted)
        is_confirmation = isinstance(reply, Several)
        if self._session.takes_reply() or is_confirmation:
            self._send(reply, keyspace.uncommitted if waits else 0)

    def _send(self, reply: Reply, batch: int) -> None:
        """Send a reply once a batch is committed, 0 for none."""
        assert self._session is not None
        data = encode_reply(reply, self._session.version)
        if batch or self._held:
            self._held.append((batch, data))
            self._held_bytes += len(data)
            self._waiting[self] = None
        else:
            self._output.append(data)
            self._output_bytes += len(data)

    def settle(self, number: int, error: str | None) -> None:
        """Send the replies that waited for batches up to a number, or the error instead."""
        held = self._held
        while held and held[0][0] <= number:
            batch, data = held.popleft()
            self._held_bytes -= len(data)
            is_failed = batch and error is not None
            self._output.append(encode_reply(CommandError(error), 2) if is_failed else data)
        if not held:
            self._waiting.pop(self, None)
        self._flush()
        if self._requests and not (self._is_full or self._is_waiting or self._is_ended):
            self._transport.resume_reading()
            asyncio.get_running_loop().call_soon(self._run)
        if self._is_ended or (self._session is not None and self._session.is_closing):
            self._close_when_sent()

    def _deliver(self, message: Reply) -> None:
        """Send a message that is no reply."""
        if self._transport.is_closing():
            return
        self._send(message, 0)
        if self._held_bytes > self._service.settings.max_output_bytes:
            self._transport.abort()
        self._flush()

    def _flush(self) -> None:
        if not self._output or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > self._service.settings.max_output_bytes:
            self._transport.abort()
            return
        self._transport.write(b"".join(self._output))
        self._output.clear()
        self._output_bytes = 0

    def stop_serving(self) -> None:
        """Run no more requests; replies that wait for a commit are still sent."""
        self._is_ended = True
        self._requests.clear()
        self._transport.pause_reading()

    def disconnect(self) -> None:
        """End the connection, after what was sent."""
        self._transport.close()

    def _close_when_sent(self) -> None:
        if not self._held:
            self._transport.close()
