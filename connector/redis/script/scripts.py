"""The scripts that a server knows, by the SHA1 of their sources, and how one is run.

Promises: a script that is ended by a limit changes nothing; what it published was not sent back.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..journal import Journal
from ..keyspace import Keyspace
from ..replies import CommandError, Reply
from .conversion import ScriptReply
from .runtime import Caller, LuaFunction, Runtime, ScriptEndedError, ScriptError, sha1

MOST_SECONDS = 5.0
MOST_BYTES = 64 << 20
_MOST_SOURCE_BYTES = 32 << 20
_SOURCE_BYTES = 1000
_FLAGS = frozenset({"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"})
StartCalls = Callable[[Journal, bool], Caller]
"""Returns what runs the commands of a script; True: those that read."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script. ``flags``: those of its first line, None if it has no such line."""

    sha: bytes
    source: bytes
    flags: frozenset[str] | None


class Scripts:
    """The scripts of a server; those that were used least recently are forgotten, if they are many.

    ``most_seconds``, ``most_bytes``: for one run.
    """

    def __init__(self, keyspace: Keyspace, version: str) -> None:
        """``version``: of Redis, for scripts."""
        self.most_seconds = MOST_SECONDS
        self.most_bytes = MOST_BYTES
        self._keyspace = keyspace
        self._version = version
        self._scripts: OrderedDict[bytes, Script] = OrderedDict()
        self._bytes = 0
        self._runtime: Runtime | None = None
        self._functions: dict[bytes, LuaFunction] = {}

    def load(self, source: bytes) -> Script:
        """Keep a script. CommandError if it is not one."""
        sha = sha1(source)
        if sha not in self._scripts:
            script = _script_of(sha, source)
            self._compiled(script)
            self._scripts[sha] = script
            self._bytes += len(source) + _SOURCE_BYTES
            while self._bytes > _MOST_SOURCE_BYTES and len(self._scripts) > 1:
                self._forget(next(iter(self._scripts)))
        return self.find(sha)

    def find(self, sha: bytes) -> Script:
        """Return the script with a SHA1. CommandError if there is none."""
        script = self._scripts.get(sha.lower())
        if script is None:
            raise CommandError("NOSCRIPT No matching script. Please use EVAL.")
        self._scripts.move_to_end(script.sha)
        return script

    def __contains__(self, sha: bytes) -> bool:
        return sha.lower() in self._scripts

    def clear(self) -> None:
        """Forget all scripts."""
        self._scripts.clear()
        self._functions.clear()
        self._bytes = 0
        self._runtime = None

    def _forget(self, sha: bytes) -> None:
        self._bytes -= len(self._scripts.pop(sha).source) + _SOURCE_BYTES
        self._functions.pop(sha, None)

    def _running(self) -> Runtime:
        if self._runtime is None:
            self._functions.clear()
            self._runtime = Runtime(self._keyspace.environment, self._version, self.most_bytes)
        return self._runtime

    def _compiled(self, script: Script) -> LuaFunction:
        """Return a script as a function of the runtime. CommandError."""
        runtime = self._running()
        function = self._functions.get(script.sha)
        if function is None:
            source = script.source
            if script.flags is not None:
                # The line stays, so that errors have the right numbers.
                source = source[source.find(b"\n") :] if b"\n" in source else b""
            try:
                function = runtime.compile(source)
            except ScriptError as error:
                raise CommandError(f"ERR Error compiling script (new function): {error}") from None
            self._functions[script.sha] = function
        return function

    def run(
        self,
        script: Script,
        keys: Sequence[bytes],
        arguments: Sequence[bytes],
        start: StartCalls,
        *,
        is_read_only: bool,
    ) -> Reply:
        """Return the reply of a script that a client sent. CommandError."""
        if is_read_only and script.flags is not None and "no-writes" not in script.flags:
            raise CommandError("ERR Can not execute a script with write flag using *_ro command.")
        is_read_only |= script.flags is not None and "no-writes" in script.flags
        function, runtime = self._compiled(script), self._running()
        try:
            with self._keyspace.journaled() as journal:
                caller = start(journal, is_read_only)
                try:
                    value = runtime.run(function, keys, arguments, caller, self.most_seconds)
                except ScriptError as error:
                    return _error_reply(script, error)
                return ScriptReply(caller.version, runtime.check_time).reply_of(value)
        except ScriptEndedError as error:
            self._runtime = None
            raise CommandError(
                f"ERR script {script.sha.decode()} was ended, and nothing was changed: {error}; a "
                f"script may take {self.most_seconds:g} s and {self.most_bytes} bytes of memory"
            ) from None


def _error_reply(script: Script, error: ScriptError) -> CommandError:
    message = str(error)
    if error.source is None:
        return CommandError(f"{message} script: {script.sha.decode()}")
    return CommandError(f"{message} script: {script.sha.decode()}, on {error.source}:{error.line}.")


def _script_of(sha: bytes, source: bytes) -> Script:
    """Return a script with what its first line says. CommandError."""
    if not source.startswith(b"#!"):
        return Script(sha, source, None)
    line, newline, _ = source.partition(b"\n")
    if not newline:
        raise CommandError("ERR Invalid script shebang")
    engine, *options = line.decode("utf-8", "replace").split()
    if engine != "#!lua":
        raise CommandError(f"ERR Unexpected engine in script shebang: {engine}")
    flags: set[str] = set()
    for option in options:
        match = re.fullmatch(r"flags=(.*)", option)
        if match is None:
            raise CommandError(f"ERR Unknown lua shebang option: {option}")
        flags.update(filter(None, match[1].split(",")))
    for flag in sorted(flags - _FLAGS):
        raise CommandError(f"ERR Unexpected flag in script shebang: {flag}")
    return Script(sha, source, frozenset(flags))
