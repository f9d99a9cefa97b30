"""CLIENT: who is connected, who is to be disconnected, and who gets no replies."""

from __future__ import annotations

from collections.abc import Callable

from .command import SYNTAX, Arguments, arity_error, fits_arity, parse_integer
from .connection import set_name
from .replies import OK, CommandError, Reply
from .service import Connected
from .session import ReplyMode, Session

_Filter = Callable[[Connected], bool]
_TYPES = frozenset({b"normal", b"master", b"replica", b"slave", b"pubsub"})


def client(session: Session, args: Arguments) -> Reply:
    """Run CLIENT. CommandError."""
    name = args[1].upper()
    subcommand = _SUBCOMMANDS.get(name)
    if name in _REFUSED:
        raise CommandError(
            f"ERR CLIENT {name.decode()} is not supported by relstate: {_REFUSED[name]}"
        )
    if subcommand is None:
        shown = args[1].decode(errors="replace")
        raise CommandError(f"ERR unknown subcommand '{shown}'. Try CLIENT HELP.")
    run, arity = subcommand
    if not fits_arity(arity, len(args)):
        raise arity_error(b"|".join(args[:2]))
    return run(session, args)


def _set_name(session: Session, args: Arguments) -> Reply:
    set_name(session, args[2])
    return OK


def _set_info(session: Session, args: Arguments) -> Reply:
    if args[2].upper() not in session.library:
        shown = args[2].decode(errors="replace")
        raise CommandError(f"ERR Unrecognized option '{shown}'")
    session.library[args[2].upper()] = args[3]
    return OK


def _list(session: Session, args: Arguments) -> Reply:
    """Return a line about each client, or of one type, or with some ids. CommandError."""
    sessions = list(session.service.sessions.values())
    if len(args) > 2:
        option = args[2].upper()
        if option == b"TYPE" and len(args) == 4:
            sessions = list(filter(_filter(b"TYPE", args[3]), sessions))
        elif option == b"ID" and len(args) > 3:
            numbers = {parse_integer(arg, "ERR Invalid client ID") for arg in args[3:]}
            sessions = [connected for connected in sessions if connected.id in numbers]
        else:
            raise CommandError(SYNTAX)
    return b"".join(connected.describe() for connected in sessions)


_UNBLOCKED = "UNBLOCKED client unblocked via CLIENT UNBLOCK"


def _unblock(session: Session, args: Arguments) -> Reply:
    """Let a client wait no longer, as if the time was over, or with an error."""
    how = args[3].upper() if len(args) == 4 else b"TIMEOUT"
    if len(args) > 4:
        raise CommandError(
            "ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP."
        )
    if how not in (b"TIMEOUT", b"ERROR"):
        raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    connected = session.service.sessions.get(parse_integer(args[2]))
    reply = CommandError(_UNBLOCKED) if how == b"ERROR" else None
    return int(connected is not None and connected.unblock(reply))


_REFUSED = {
    b"CACHING": "relstate does not track what clients have read",
    b"GETREDIR": "relstate does not track what clients have read",
    b"PAUSE": "a commit or another writer may need the server at any time",
    b"TRACKING": "relstate does not track what clients have read",
    b"TRACKINGINFO": "relstate does not track what clients have read",
    b"UNPAUSE": "a commit or another writer may need the server at any time",
}
"""By subcommand why it is not supported."""


def _switch(_: Session, args: Arguments) -> Reply:
    """Take ON and OFF, which make no difference here."""
    if args[2].upper() not in (b"ON", b"OFF"):
        raise CommandError(SYNTAX)
    return OK


def _reply(session: Session, args: Arguments) -> Reply:
    """Send this client replies, or none, or none to the next command."""
    match args[2].upper():
        case b"ON":
            session.reply_mode = ReplyMode.ON
        case b"OFF":
            session.reply_mode = ReplyMode.OFF
        case b"SKIP":
            if session.reply_mode is not ReplyMode.OFF:
                session.reply_mode = ReplyMode.SKIP_NEXT
        case _:
            raise CommandError(SYNTAX)
    return OK


def _kill(session: Session, args: Arguments) -> Reply:
    """Disconnect the client at an address, or return how many some filters were true of."""
    if len(args) == 3:
        address = args[2].decode("latin-1")
        if not _disconnect(session, [lambda connected: connected.address == address]):
            raise CommandError("ERR No such client")
        return OK
    if len(args) % 2:
        raise CommandError(SYNTAX)
    filters, skips_me = [], True
    for option, value in zip(args[2::2], args[3::2], strict=True):
        if option.upper() == b"SKIPME":
            if value.lower() not in (b"yes", b"no"):
                raise CommandError(SYNTAX)
            skips_me = value.lower() == b"yes"
        else:
            filters.append(_filter(option.upper(), value))
    if skips_me:
        filters.append(lambda connected: connected is not session)
    return _disconnect(session, filters)


def _filter(option: bytes, value: bytes) -> _Filter:
    """Return what says if a filter of CLIENT KILL is true of a client. CommandError."""
    text = value.decode("utf-8", "replace")
    match option:
        case b"ID":
            if not (value.isdigit() and int(value) > 0):
                raise CommandError("ERR client-id should be greater than 0")
            number = int(value)
            return lambda connected: connected.id == number
        case b"ADDR":
            return lambda connected: connected.address == text
        case b"TYPE":
            if value.lower() not in _TYPES:
                raise CommandError(f"ERR Unknown client type '{text}'")
            kind = value.lower()
            return lambda connected: kind == (b"pubsub" if connected.subscriptions else b"normal")
        case b"USER":
            if value != b"default":
                raise CommandError(f"ERR No such user '{text}'")
            return lambda connected: True
    raise CommandError(SYNTAX)


def _disconnect(session: Session, filters: list[_Filter]) -> int:
    """Disconnect the clients of which all filters are true, and return their number."""
    sessions = [
        connected for connected in session.service.sessions.values() if not connected.is_closing
    ]
    chosen = [connected for connected in sessions if all(holds(connected) for holds in filters)]
    for connected in chosen:
        # One's own connection ends after the reply.
        connected.is_closing = True
        if connected is not session:
            connected.disconnect()
    return len(chosen)


_SUBCOMMANDS: dict[bytes, tuple[Callable[[Session, Arguments], Reply], int]] = {
    b"GETNAME": (lambda session, _: session.name or None, 2),
    b"ID": (lambda session, _: session.id, 2),
    b"INFO": (lambda session, _: session.describe(), 2),
    b"KILL": (_kill, -3),
    b"LIST": (_list, -2),
    b"NO-EVICT": (_switch, 3),
    b"NO-TOUCH": (_switch, 3),
    b"REPLY": (_reply, 3),
    b"SETINFO": (_set_info, 4),
    b"SETNAME": (_set_name, 3),
    b"UNBLOCK": (_unblock, -3),
}
