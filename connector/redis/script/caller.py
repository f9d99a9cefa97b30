"""``redis.call`` of one script: which commands it may run, and their replies.

Does not know: Lua.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..command import Command, fits_arity
from ..commands import COMMANDS
from ..journal import Journal
from ..replies import RESP2, CommandError, Reply
from ..session import SESSION_COMMANDS, Session, SessionCommand
from .conversion import plain_reply
from .runtime import ScriptEndedError


class ScriptCaller:
    """Runs the commands of one script. ``version``: of the protocol that its replies have."""

    def __init__(self, session: Session, journal: Journal, *, is_read_only: bool) -> None:
        self.version = RESP2
        self._session = session
        self._journal = journal
        self._is_read_only = is_read_only

    def call(self, words: list[bytes]) -> tuple[bool, Any]:
        """Run a command; return whether it succeeded, and the reply for Lua or the error.

        ScriptEndedError if the script changed too much to be undone.
        """
        try:
            reply = self._run(words)
        except CommandError as error:
            reply = error
        if self._journal.is_full:
            raise ScriptEndedError("too many changes")
        if isinstance(reply, CommandError):
            return False, str(reply).encode("utf-8", "surrogateescape")
        return True, plain_reply(reply, self.version)

    def check(self, words: Sequence[bytes]) -> tuple[bool, Any]:
        """Return that the command may be run, or that there is no such command."""
        if not words:
            return False, b"ERR Please specify at least one argument for this redis lib call"
        command = _command_of(words[0])
        if command is None or not fits_arity(command.arity, len(words)):
            return False, b"ERR Invalid command passed to redis.acl_check_cmd()"
        return True, True

    def set_version(self, version: int) -> None:
        """Let replies be those of a version of the protocol."""
        self.version = int(version)

    def _run(self, words: list[bytes]) -> Reply:
        if not words:
            raise CommandError("ERR Please specify at least one argument for this redis lib call")
        command = _command_of(words[0])
        if command is None:
            raise CommandError("ERR Unknown Redis command called from script")
        if not fits_arity(command.arity, len(words)):
            raise CommandError("ERR Wrong number of args calling Redis command from script")
        if "noscript" in command.flags:
            raise CommandError("ERR This Redis command is not allowed from script")
        if self._is_read_only and "write" in command.flags:
            raise CommandError("ERR Write commands are not allowed from read-only scripts.")
        self._session.check_writable(command)
        return self._session.run_at_once(command, words, source="lua")


def _command_of(word: bytes) -> Command | SessionCommand | None:
    name = word.lower().decode("latin-1")
    return COMMANDS.get(name) or SESSION_COMMANDS.get(name)
