"""A link of limited speed before a server, as a process: what a bucket of a network is like.

All connections together receive at most so many bytes per second.
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
def limited_link(port: int, bytes_per_second: int) -> Iterator[int]:
    """Run a link before a port of this machine; yield its own port."""
    command = [sys.executable, "-m", __name__, str(port), str(bytes_per_second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


class _Link:
    def __init__(self, port: int, bytes_per_second: int) -> None:
        self._port, self._rate = port, bytes_per_second
        self._free_at = 0.0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry the bytes of a connection in both directions."""
        with suppress(ConnectionError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(
                self._carry(reader, server_writer, is_limited=False),
                self._carry(server_reader, writer, is_limited=True),
            )

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_limited: bool
    ) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(_PIECE_BYTES):
                if is_limited:
                    now = time.monotonic()
                    self._free_at = max(self._free_at, now - _BURST) + len(piece) / self._rate
                    await asyncio.sleep(self._free_at - now)
                writer.write(piece)
                await writer.drain()
        writer.close()


async def _serve(port: int, bytes_per_second: int) -> None:
    server = await asyncio.start_server(_Link(port, bytes_per_second).connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
