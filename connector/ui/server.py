"""The server of the web application and of the metrics.

Promises: it listens on the loopback address unless another is given; it ends at Ctrl-C.
Does not know: what is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from socket import socket

import uvicorn

from relstate.storage import Store, errors

from .application import LOOPBACK, application

_LOCAL = ("127.0.0.1", "localhost", "::1")


class _Server(uvicorn.Server):
    """A server that says where it listens once it does."""

    def __init__(self, config: uvicorn.Config, started: Callable[[str], None]) -> None:
        super().__init__(config)
        self._say = started

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._say(f"http://{shown}:{port}/")


def serve(store: Store, host: str, port: int, started: Callable[[str], None]) -> None:
    """Serve the pages of a store until the process is interrupted.

    ``port``: 0 for any free one. ``started`` is called with the address. OptionError if it cannot
    listen there.
    """
    hosts = LOOPBACK if host in _LOCAL else ("*",)
    config = uvicorn.Config(
        application(store, hosts),
        host=host,
        port=port,
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    try:
        _Server(config, started).run()
    except SystemExit:
        # uvicorn has logged why.
        raise errors.OptionError(
            f"cannot listen on {host}, port {port}: choose another one (--host, --port)"
        ) from None
