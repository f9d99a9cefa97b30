"""A Lua runtime for scripts of strangers: no access to the machine, limits of time and memory.

Promises: a script ends in time, but for a call of one function of Lua's libraries, such as a match
of a pattern; it takes no more memory than it may; it gets no value of Python; what it leaves in
memory is not seen by the next.
Does not know: commands, replies.

A failed allocation ends a call of Lua by a jump, which must not skip functions of Python. So what
Python hands to Lua is estimated before, and there is room between what Python may fill and the
limit.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Protocol

from lupa import lua51

from relstate.storage import Environment

from . import bits, structure
from .numbers import Random48, pack_number, unpack_number

_logger = logging.getLogger(__name__)

LuaTable = Any
LuaFunction = Any
_INSTRUCTIONS = 100_000
"""After so many the hook looks at the clock."""
_ROOM = 8 << 20
_PAIR_BYTES, _TABLE_BYTES = 160, 200
_NO_MEMORY = b"not enough memory"
_LEVELS = (logging.DEBUG, logging.DEBUG, logging.INFO, logging.WARNING)
_CHUNK = b"@user_script"
_START = b"function(source, ...) return loadstring(source, '=redis')(...) end"


class ScriptEndedError(Exception):
    """A script that was ended because of a limit; what it wrote must be undone."""


class ScriptError(Exception):
    """An error of a script: ``source`` and ``line`` say where, None for unknown."""

    def __init__(self, message: str, source: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.source = source
        self.line = line


class Caller(Protocol):
    """What runs the commands of a script. ``version``: of the protocol that its replies have."""

    version: int

    def call(self, words: list[bytes]) -> tuple[bool, Any]:
        """Run a command; return whether it succeeded, and the reply for Lua or the error."""

    def check(self, words: Sequence[bytes]) -> tuple[bool, Any]:
        """Return whether there is such a command, and the reply or the error."""

    def set_version(self, version: int) -> None:
        """Let replies be those of a version of the protocol."""


class Runtime:
    """Lua, for scripts that run one after another, in one thread."""

    def __init__(self, environment: Environment, version: str, most_bytes: int) -> None:
        """``version``: of Redis, for scripts; ``most_bytes``: of memory that scripts may take."""
        self._environment = environment
        self._most_bytes = most_bytes
        self._random = Random48(int(environment.random_id()[:8], 16))
        self._caller: Caller | None = None
        self._deadline = 0.0
        self._ended: str | None = None
        self._lua = lua51.LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_filter=_refuse_attribute,
            max_memory=most_bytes + _ROOM,
        )
        folder = files(__package__)
        sources = {
            name.encode(): folder.joinpath(f"{name}.lua").read_bytes()
            for name in ("json", "msgpack")
        }
        start = self._lua.eval(_START)
        self._compile, self._run = start(
            folder.joinpath("sandbox.lua").read_bytes(),
            self._lua.table_from(self._host(version)),
            self._lua.table_from(sources),
            _INSTRUCTIONS,
        )

    def _host(self, version: str) -> dict[bytes, Any]:
        """Return what the sandbox calls. None of it raises an error."""
        major, minor, patch = map(int, version.split("."))
        host: dict[bytes, Any] = {
            b"is_ended": self._is_ended,
            b"call": self._guarded(lambda *words: self._running().call(_words(words))),
            b"acl_check_cmd": self._guarded(lambda *words: self._running().check(_words(words))),
            b"set_version": lambda version: self._running().set_version(version),
            b"sha1hex": self._guarded(lambda data: (True, sha1(data))),
            b"log": _log,
            b"random": self._random.fraction,
            b"seed": lambda seed: self._random.seed(int(seed)),
            b"pack_number": self._guarded(lambda number: (True, pack_number(number))),
            b"unpack_number": unpack_number,
            b"version": version.encode(),
            b"version_number": major << 16 | minor << 8 | patch,
        }
        for prefix, functions in ((b"bit_", bits.FUNCTIONS), (b"struct_", structure.FUNCTIONS)):
            for name, function in functions.items():
                host[prefix + name] = self._guarded(function)
        return host

    def _guarded(self, function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
        """Return a function whose result is replaced by False and None once the script must end."""

        def guarded(*args: Any) -> Any:
            if self._is_ended() or not self._has_room(0):
                return False, None
            try:
                result = function(*args)
            except ScriptEndedError as error:
                self._ended = str(error)
                return False, None
            except Exception as error:
                _logger.exception("a function for scripts failed")
                self._ended = f"an internal error: {type(error).__name__}"
                return False, None
            reply = result[1]
            kind = type(reply)
            if len(result) == 2 and (kind is int or reply is None):
                return result  # which there is room for
            is_single = kind is bytes and len(result) == 2
            size = len(reply) + _PAIR_BYTES if is_single else _estimate(result)
            if not self._has_room(size):
                return False, None
            if kind is list or kind is dict:
                return result[0], self._lua.table_from(reply, recursive=True)
            return result

        return guarded

    def _has_room(self, more: int) -> bool:
        """Return whether so many bytes may be handed to Lua; the script ends if not."""
        if self._lua.get_memory_used() + more > self._most_bytes:
            self._ended = "out of memory"
            return False
        return True

    def _running(self) -> Caller:
        assert self._caller is not None
        return self._caller

    def _is_ended(self) -> bool:
        if self._ended is None and self._environment.monotonic() > self._deadline:
            self._ended = "out of time"
        return self._ended is not None

    def check_time(self) -> None:
        """Raise ScriptEndedError if the script that ran last took too long."""
        if self._is_ended():
            raise ScriptEndedError(self._ended)

    def _table(self, words: Sequence[bytes]) -> LuaTable:
        """Return a table of Lua. ScriptEndedError if there is no memory for it."""
        if not self._has_room(_TABLE_BYTES + _PAIR_BYTES * len(words) + sum(map(len, words))):
            raise ScriptEndedError(self._ended)
        return self._lua.table_from(words)

    def compile(self, source: bytes) -> LuaFunction:
        """Return a script as a function. ScriptError if it is no Lua."""
        self._lua.set_max_memory(0)
        compiled = self._compile(source, _CHUNK)
        function, message = compiled if isinstance(compiled, tuple) else (compiled, None)
        if function is None:
            raise ScriptError(_text(message))
        return function

    def run(
        self,
        function: LuaFunction,
        keys: Sequence[bytes],
        arguments: Sequence[bytes],
        caller: Caller,
        seconds: float,
    ) -> Any:
        """Return what a script returns. ScriptError, ScriptEndedError.

        ``caller`` runs its commands. What is returned is to be read before the next call.
        """
        lua = self._lua
        if lua.get_memory_used() > self._most_bytes // 2:
            lua.gccollect()
        self._ended = None
        self._caller = caller
        self._deadline = self._environment.monotonic() + seconds
        try:
            tables = self._table(keys), self._table(arguments)
            lua.set_max_memory(self._most_bytes + _ROOM)
            ok, result = self._protected(function, *tables)
        finally:
            lua.set_max_memory(0)
            self._caller = None
        if ok:
            return result
        raise _error_of(result)

    def _protected(
        self, function: LuaFunction, keys: LuaTable, arguments: LuaTable
    ) -> tuple[bool, Any]:
        """Return whether a function returned, and its result or the error. ScriptEndedError."""
        try:
            results = self._run(function, keys, arguments)
        except lua51.LuaError as error:
            self._ended = self._ended or str(error)
        else:
            ok, result, *_ = (*results, None) if isinstance(results, tuple) else (results, None)
            if not ok and result == _NO_MEMORY:
                self._ended = "out of memory"
            if self._ended is None:
                return ok, result
        raise ScriptEndedError(self._ended)


def sha1(data: bytes) -> bytes:
    """Return the SHA1 of bytes in hexadecimal digits."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()


def _estimate(value: Any) -> int:
    """Return at least how many bytes of memory a value takes in Lua."""
    kind = type(value)
    if kind is bytes:
        return len(value) + _PAIR_BYTES
    if kind is dict:
        return _TABLE_BYTES + sum(_estimate(key) + _estimate(item) for key, item in value.items())
    if kind is list or kind is tuple:
        return _TABLE_BYTES + sum(map(_estimate, value))
    return _PAIR_BYTES


def _words(words: Sequence[bytes | int | float]) -> list[bytes]:
    """Return the words of a command: numbers as Redis writes them."""
    return [word if isinstance(word, bytes) else b"%.17g" % word for word in words]


def _log(level: float, text: bytes) -> None:
    _logger.log(_LEVELS[int(level)], "a script: %s", _text(text))


def _refuse_attribute(_: object, name: object, __: bool) -> object:
    raise AttributeError(f"scripts cannot use {name!r}")


def _error_of(result: Any) -> ScriptError:
    """Return the error that a script raised."""
    if lua51.lua_type(result) != "table":
        return ScriptError(f"ERR {_text(result)}")
    message, source, line = result[b"err"], result[b"source"], result[b"line"]
    return ScriptError(
        _text(message) if message is not None else "ERR unknown error",
        None if source is None else _text(source),
        line,
    )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return "nil" if value is None else str(value)
