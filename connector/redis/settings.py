"""The settings of a server: how durable replies are, who may connect, how much is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fsync = Literal["always", "everysec"]


@dataclass(slots=True)
class Settings:
    """The settings of a server, under the names that CONFIG has for them.

    ``appendfsync``: ``always``, a reply comes after the commit of what it says; ``everysec``, a
    commit is made once a second. ``requirepass``: None for none. ``maxmemory``: bytes of values in
    memory; ``max_request_bytes``: of one request; ``max_transaction_bytes``: of the commands
    between MULTI and EXEC; ``max_output_bytes``: of replies and messages that a client has not
    read.
    """

    host: str = "127.0.0.1"
    port: int = 6379
    appendfsync: Fsync = "always"
    requirepass: bytes | None = None
    maxclients: int = 10_000
    maxmemory: int = 256 << 20
    max_request_bytes: int = 64 << 20
    max_transaction_bytes: int = 64 << 20
    max_output_bytes: int = 64 << 20

    @property
    def is_protected(self) -> bool:
        """Whether clients of other machines are refused: nobody would need a password."""
        return self.requirepass is None
