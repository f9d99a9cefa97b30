"""The commands of a connection: who the client is, which database and protocol it uses."""

from __future__ import annotations

import hmac

from .command import SYNTAX, Arguments, arity_error, parse_integer
from .replies import OK, RESP2, RESP3, CommandError, Reply, Simple
from .session import Session, SessionCommand
from .tables import DATABASES

REDIS_VERSION = "7.0.0"
"""The version of Redis whose commands these are."""


def _ping(session: Session, args: Arguments) -> Reply:
    if len(args) > 2:
        raise arity_error(args[0])
    if session.subscriptions and session.version == RESP2:
        return [b"pong", args[1] if len(args) == 2 else b""]
    return args[1] if len(args) == 2 else Simple(b"PONG")


def _echo(_: Session, args: Arguments) -> Reply:
    return args[1]


def _select(session: Session, args: Arguments) -> Reply:
    number = parse_integer(args[1])
    if not 0 <= number < DATABASES:
        raise CommandError("ERR DB index is out of range")
    session.database = session.service.databases[number]
    return OK


def _auth(session: Session, args: Arguments) -> Reply:
    if len(args) > 3:
        raise CommandError(SYNTAX)
    _authenticate(session, args[1] if len(args) == 3 else b"default", args[-1], len(args) == 2)
    return OK


def _authenticate(session: Session, user: bytes, password: bytes, is_plain: bool) -> None:
    """Let a client in. CommandError if the password is wrong."""
    expected = session.service.settings.requirepass
    if expected is None and is_plain:
        raise CommandError(
            "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?"
        )
    if user != b"default" or (expected is not None and not hmac.compare_digest(password, expected)):
        raise CommandError("WRONGPASS invalid username-password pair or user is disabled.")
    session.is_authenticated = True


def _hello(session: Session, args: Arguments) -> Reply:
    version = session.version
    if len(args) > 1:
        version = parse_integer(args[1], "ERR Protocol version is not an integer or out of range")
        if version not in (RESP2, RESP3):
            raise CommandError("NOPROTO unsupported protocol version")
    index, name = 2, None
    while index < len(args):
        option = args[index].upper()
        if option == b"AUTH" and index + 2 < len(args):
            _authenticate(session, args[index + 1], args[index + 2], is_plain=False)
            index += 3
        elif option == b"SETNAME" and index + 1 < len(args):
            name = args[index + 1]
            index += 2
        else:
            shown = args[index].decode(errors="replace")
            raise CommandError(f"ERR Syntax error in HELLO option '{shown}'")
    if not session.is_authenticated:
        raise CommandError(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the "
            "HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and "
            "select the RESP protocol version at the same time"
        )
    if name is not None:
        set_name(session, name)
    session.version = version
    return {
        b"server": b"redis",
        b"version": REDIS_VERSION.encode(),
        b"proto": version,
        b"id": session.id,
        b"mode": b"standalone",
        b"role": b"master",
        b"modules": [],
    }


def set_name(session: Session, name: bytes) -> None:
    """Give a client a name. CommandError for one that CLIENT LIST could not show."""
    if any(not 33 <= byte <= 126 for byte in name):
        raise CommandError(
            "ERR Client names cannot contain spaces, newlines or special characters."
        )
    session.name = name


def _quit(session: Session, _: Arguments) -> Reply:
    session.is_closing = True
    return OK


def _reset(session: Session, _: Arguments) -> Reply:
    session.unwatch()
    session.unsubscribe()
    session.reset()
    session.version, session.name = RESP2, b""
    return Simple(b"RESET")


def _time(session: Session, _: Arguments) -> Reply:
    seconds, micros = divmod(session.service.keyspace.microseconds(), 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


def _wait(_: Session, args: Arguments) -> Reply:
    """Return the number of replicas that have the changes: there are none."""
    parse_integer(args[1])
    message = "ERR timeout is not an integer or out of range"
    if parse_integer(args[2], message) < 0:
        raise CommandError("ERR timeout is negative")
    return 0


_FAST = frozenset({"fast"})
COMMANDS: dict[str, SessionCommand] = {
    "auth": SessionCommand(_auth, -2, frozenset({"noscript", "no_auth", "fast"})),
    "echo": SessionCommand(_echo, 2, _FAST),
    "hello": SessionCommand(_hello, -1, frozenset({"noscript", "no_auth", "fast"})),
    "ping": SessionCommand(_ping, -1, _FAST),
    "quit": SessionCommand(_quit, -1, frozenset({"noscript", "no_auth", "fast"})),
    "reset": SessionCommand(_reset, 1, frozenset({"noscript", "no_auth", "fast"})),
    "select": SessionCommand(_select, 2, _FAST),
    "time": SessionCommand(_time, 1, _FAST),
    "wait": SessionCommand(_wait, 3, frozenset({"noscript"})),
}
