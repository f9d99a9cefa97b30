"""A link of limited speed before a server, as a process: what a bucket of a network is like.

All connections together receive at most so many bytes per second. Each request reaches the server
after a delay, however many are under way. A connection is made at once, as if it had been kept:
moto's server closes each after an answer.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE_BYTES = 64 << 10
# What may come at once after a pause, in seconds of the link.
_BURST = 0.005


@contextmanager
def limited_link(port: int, bytes_per_second: int, delay: float = 0.0) -> Iterator[int]:
    """Run a link before a port of this machine; yield its own port.

    ``delay``: seconds, from a request to the first byte of its answer.
    """
    command = [sys.executable, "-m", __name__, str(port), str(bytes_per_second), str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


class _Link:
    def __init__(self, port: int, bytes_per_second: int, delay: float) -> None:
        self._port, self._rate, self._delay = port, bytes_per_second, delay
        self._free_at = 0.0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry the bytes of a connection in both directions."""
        with suppress(ConnectionError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(
                self._send_requests(reader, server_writer),
                self._send_answers(server_reader, writer),
            )

    async def _send_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry bytes to the server, each after the delay."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def receive() -> None:
            with suppress(ConnectionError):
                while piece := await reader.read(_PIECE_BYTES):
                    pieces.put_nowait((time.monotonic() + self._delay, piece))
            pieces.put_nowait((0.0, b""))

        receiver = asyncio.create_task(receive())
        with suppress(ConnectionError):
            while True:
                due, piece = await pieces.get()
                if not piece:
                    break
                await asyncio.sleep(due - time.monotonic())
                writer.write(piece)
                await writer.drain()
        receiver.cancel()
        writer.close()

    async def _send_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry bytes from the server, as fast as the link is."""
        with suppress(ConnectionError):
            while piece := await reader.read(_PIECE_BYTES):
                now = time.monotonic()
                self._free_at = max(self._free_at, now - _BURST) + len(piece) / self._rate
                await asyncio.sleep(self._free_at - now)
                writer.write(piece)
                await writer.drain()
        writer.close()


async def _serve(port: int, bytes_per_second: int, delay: float) -> None:
    link = _Link(port, bytes_per_second, delay)
    server = await asyncio.start_server(link.connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
