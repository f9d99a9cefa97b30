"""One client: its database, its protocol, its transaction; a request in, a reply out.

Does not know: sockets, commits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from relstate.storage import errors

from .command import Arguments, Command, Wait, arity_error, fits_arity, keys_of, store_error
from .commands import COMMANDS
from .database import Database
from .listing import TableRead
from .replies import QUEUED, RESP2, CommandError, Reply, Simple, quote
from .service import Service

_DatabaseKey = tuple[int, bytes]
# What a client may send before it has said its password.
_BEFORE_PASSWORD = frozenset({"auth", "hello", "quit", "reset"})
_NOT_QUEUED = frozenset({"exec", "discard", "multi", "watch", "quit", "reset"})
# What a client of RESP2 may send while it gets messages.
_WHILE_SUBSCRIBED = frozenset(
    {"ping", "psubscribe", "punsubscribe", "quit", "reset", "subscribe", "unsubscribe"}
)
_NOT_MONITORED = frozenset({"admin", "skip_monitor"})
# Reads that tell nobody which keys they miss, or tell it themselves.
_MISSING_NOTHING = frozenset({b"memory", b"object", b"sort_ro"})
_MOST_SHOWN = 128
_ARGUMENT_BYTES = 50
# So many words of a request, and bytes of a word, are shown to monitors.
_MOST_MONITORED = 1000
_MOST_WORD_BYTES = 1000


@dataclass(frozen=True, slots=True)
class SessionCommand:
    """A command that concerns the client or the server, not the values of a database.

    The fields are those of `Command`.
    """

    run: Callable[[Session, Arguments], Reply]
    arity: int
    flags: frozenset[str]
    keys: tuple[int, int, int] = (0, 0, 0)
    count_at: int = 0
    writes = False


class ReplyMode(Enum):
    """Which replies a client gets: all, none, or none to the next request, or to this one."""

    ON = "on"
    OFF = "off"
    SKIP_NEXT = "skip next"
    SKIP = "skip"


@dataclass(slots=True)
class Queued:
    """A command of a transaction, with its arguments."""

    command: Command | SessionCommand
    args: Arguments


class Session:
    """One client."""

    def __init__(
        self,
        service: Service,
        address: str,
        deliver: Callable[[Reply], None],
        disconnect: Callable[[], None],
    ) -> None:
        """``deliver`` sends the client a message; ``disconnect`` ends its connection now."""
        self.service = service
        self.address = address
        self._deliver = deliver
        self._disconnect = disconnect
        self.unblock: Callable[[Reply], bool] = lambda _: False
        """Let the client wait no longer, with a reply; None for that of its command in vain.
        Return whether it waited."""
        self.is_blocked = False
        self.last_command = "NULL"
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.id = service.add(self)
        self.name = b""
        self.library = {b"LIB-NAME": b"", b"LIB-VER": b""}
        self.version = RESP2
        self.since = self.last_seen = service.keyspace.now()
        self.reset()

    def reset(self) -> None:
        """Be as a client that has just connected."""
        self.database: Database = self.service.databases[0]
        self.is_authenticated = self.service.settings.requirepass is None
        self.queue: list[Queued] | None = None
        self.queued_bytes = 0
        self.is_queue_wrong = False
        self.watched: set[_DatabaseKey] = set()
        self.has_watched_change = False
        self.is_closing = False
        self.is_monitor = False
        self.reply_mode = ReplyMode.ON
        self.service.monitors.pop(self, None)

    def deliver(self, message: Reply) -> None:
        """Send the client a message that is no reply."""
        self._deliver(message)

    def disconnect(self) -> None:
        """End the connection of the client now."""
        self._disconnect()

    def takes_reply(self) -> bool:
        """Return whether the client gets the reply to the request that was just run."""
        match self.reply_mode:
            case ReplyMode.SKIP_NEXT:
                self.reply_mode = ReplyMode.SKIP
            case ReplyMode.SKIP:
                self.reply_mode = ReplyMode.ON
            case mode:
                return mode is ReplyMode.ON
        return False

    @property
    def subscriptions(self) -> int:
        """The number of channels and patterns that the client is subscribed to."""
        return len(self.channels) + len(self.patterns)

    def unsubscribe(self) -> None:
        """Subscribe to nothing any more."""
        for channel in self.channels:
            self.service.channels.remove(channel, self)
        for pattern in self.patterns:
            self.service.patterns.remove(pattern, self)
        self.channels, self.patterns = {}, {}

    def execute(self, args: Arguments) -> Reply:
        """Return the reply to a request."""
        self.service.commands_run += 1
        self.last_seen = self.service.keyspace.tick
        try:
            command = self._command(args)
            self.last_command = args[0].lower().decode("latin-1")
            if self.queue is not None and args[0].lower().decode("latin-1") not in _NOT_QUEUED:
                return self._add_to_queue(command, args)
            return self.run(command, args)
        except CommandError as error:
            return error

    def _end_transaction(self, error: CommandError) -> CommandError:
        """Forget the transaction, as EXEC has a wrong form; return its reply."""
        self.queue = None
        self.unwatch()
        message = str(error).removeprefix("ERR ")
        return CommandError(f"EXECABORT Transaction discarded because of: {message}")

    def _add_to_queue(self, command: Command | SessionCommand, args: Arguments) -> Reply:
        """Queue a command of a transaction. CommandError, and the end, if they are too large."""
        assert self.queue is not None
        self.queued_bytes += sum(map(len, args)) + _ARGUMENT_BYTES * len(args)
        limit = self.service.settings.max_transaction_bytes
        if self.queued_bytes > limit:
            self.queue, self.is_closing = None, True
            raise CommandError(
                f"ERR a transaction of more than {limit} bytes: send several smaller ones"
            )
        self.queue.append(Queued(command, args))
        return QUEUED

    def run(
        self, command: Command | SessionCommand, args: Arguments, source: str | None = None
    ) -> Reply:
        """Return the reply of a command. CommandError.

        ``source``: what monitors see in place of the client's address.
        """
        try:
            if isinstance(command, SessionCommand):
                return command.run(self, args)
            reply = command.run(self.database, args)
            if "readonly" in command.flags and args[0].lower() not in _MISSING_NOTHING:
                self.database.note_misses(keys_of(command, args))
            return reply
        except errors.RelstateError as error:
            raise store_error(error) from error
        finally:
            if self.service.monitors and command.flags.isdisjoint(_NOT_MONITORED):
                self._show_to_monitors(args, source)

    def run_at_once(
        self, command: Command | SessionCommand, args: Arguments, source: str | None = None
    ) -> Reply:
        """Return the reply of a command of a transaction or script. CommandError.

        It waits for nothing, and others wait while it reads tables.
        """
        reply = self.run(command, args, source)
        if isinstance(reply, Wait):
            return reply.empty
        return self.finish_read(reply) if isinstance(reply, TableRead) else reply

    def finish_read(self, read: TableRead) -> Reply:
        """Return the reply of a command that reads tables, now. CommandError."""
        try:
            return read.reply(read.read())
        except errors.RelstateError as error:
            raise store_error(error) from error

    def show_to_monitors(self, args: Arguments) -> None:
        """Send a request to the clients that have sent MONITOR, before it is run."""
        if self.service.monitors:
            self._show_to_monitors(args, None)

    def _show_to_monitors(self, args: Arguments, source: str | None) -> None:
        time = self.service.keyspace.microseconds()
        moment = f"{time // 1_000_000}.{time % 1_000_000:06}"
        words = " ".join(map(quote, _shortened(_without_passwords(args))))
        sender = f"{self.database.number} {source or self.address}"
        line = Simple(f"{moment} [{sender}] {words}".encode())
        for monitor in list(self.service.monitors):
            monitor.deliver(line)

    def _command(self, args: Arguments) -> Command | SessionCommand:
        """Return the command that a request names, if it may be run now. CommandError."""
        name = args[0].lower().decode("latin-1")
        command = COMMANDS.get(name) or SESSION_COMMANDS.get(name)
        try:
            if command is None:
                raise _unknown_error(args)
            if not fits_arity(command.arity, len(args)):
                raise arity_error(args[0])
            if not self.is_authenticated and name not in _BEFORE_PASSWORD:
                raise CommandError("NOAUTH Authentication required.")
            if self.subscriptions and self.version == RESP2 and name not in _WHILE_SUBSCRIBED:
                raise CommandError(
                    f"ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                    "QUIT / RESET are allowed in this context"
                )
            if self.is_monitor and isinstance(command, Command):
                raise CommandError("ERR Replica can't interact with the keyspace")
            if self.queue is not None and "no_multi" in command.flags:
                raise CommandError("ERR Command not allowed inside a transaction")
            self.check_writable(command)
        except CommandError as error:
            if name == "exec":
                raise self._end_transaction(error) from None
            self.is_queue_wrong = self.queue is not None
            raise
        return command

    def check_writable(self, command: Command | SessionCommand) -> None:
        """Raise CommandError if the command writes and nothing can be written now."""
        if not isinstance(command, Command) or not command.writes:
            return
        if self.service.write_error is not None:
            raise CommandError(f"MISCONF {self.service.write_error}")
        if "denyoom" in command.flags:
            self.service.keyspace.check_memory()

    def describe(self) -> bytes:
        """Return the line of CLIENT LIST about the client."""
        now = self.service.keyspace.now()
        queued = -1 if self.queue is None else len(self.queue)
        facts = {
            "id": self.id,
            "addr": self.address,
            "laddr": f"{self.service.settings.host}:{self.service.settings.port}",
            "fd": -1,
            "name": self.name.decode(),
            "age": (now - self.since) // 1000,
            "idle": max(now - self.last_seen, 0) // 1000,
            "flags": self._flags(),
            "db": self.database.number,
            "sub": len(self.channels),
            "psub": len(self.patterns),
            "ssub": 0,
            "multi": queued,
            "qbuf": 0,
            "qbuf-free": 0,
            "argv-mem": 0,
            "multi-mem": self.queued_bytes if queued >= 0 else 0,
            "obl": 0,
            "oll": 0,
            "omem": 0,
            "tot-mem": 0,
            "events": "r",
            "cmd": self.last_command,
            "user": "default",
            "redir": -1,
            "resp": self.version,
            "lib-name": self.library[b"LIB-NAME"].decode(errors="replace"),
            "lib-ver": self.library[b"LIB-VER"].decode(errors="replace"),
        }
        return (" ".join(f"{name}={fact}" for name, fact in facts.items()) + "\n").encode()

    def _flags(self) -> str:
        """Return the letters of CLIENT LIST for what the client does."""
        flags = [
            ("O", self.is_monitor),
            ("P", self.subscriptions),
            ("b", self.is_blocked),
            ("x", self.queue is not None),
            ("d", self.has_watched_change),
        ]
        return "".join(letter for letter, holds in flags if holds) or "N"

    # Watched keys

    def note_change(self) -> None:
        """Record that a watched key has changed."""
        self.has_watched_change = True

    def unwatch(self) -> None:
        """Watch no key any more."""
        watchers = self.service.keyspace.watchers
        for database_key in self.watched:
            watchers[database_key].discard(self)
            if not watchers[database_key]:
                del watchers[database_key]
        self.watched = set()
        self.has_watched_change = False

    def end(self) -> None:
        """Forget the client."""
        self.unwatch()
        self.unsubscribe()
        self.service.monitors.pop(self, None)
        self.service.sessions.pop(self.id, None)


def _without_passwords(args: Arguments) -> Arguments:
    """Return the words of a request with others in place of all that may be passwords."""
    words = [word.upper() for word in args[:_MOST_MONITORED]]
    if words[0] in (b"AUTH", b"HELLO") and b"AUTH" in words:
        shown = words.index(b"AUTH") + 1
        return [*args[:shown], *[b"(redacted)"] * (len(args) - shown)]
    return args


def _shortened(args: Arguments) -> Arguments:
    """Return the words of a request without the end of long ones, and of many."""
    words = [
        word
        if len(word) <= _MOST_WORD_BYTES
        else b"%b... (%d more bytes)" % (word[:_MOST_WORD_BYTES], len(word) - _MOST_WORD_BYTES)
        for word in args[:_MOST_MONITORED]
    ]
    if len(args) > _MOST_MONITORED:
        words.append(b"... (%d more arguments)" % (len(args) - _MOST_MONITORED))
    return words


def _unknown_error(args: Arguments) -> CommandError:
    """Return Redis's error for a command that there is not."""
    shown, words = 0, []
    for arg in args[1:]:
        if shown >= _MOST_SHOWN:
            break
        word = arg[: _MOST_SHOWN - shown].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        words.append(f"'{word}' ")
        shown += len(words[-1])
    name = args[0][:_MOST_SHOWN].decode("utf-8", "surrogateescape")
    return CommandError(f"ERR unknown command '{name}', with args beginning with: {''.join(words)}")


SESSION_COMMANDS: dict[str, SessionCommand] = {}
"""The commands of sessions by their names in small letters; `sessions` fills it."""
