"""The commands about the server, its clients, its settings and its commands."""

from __future__ import annotations

from .client_command import client
from .command import SYNTAX, Arguments, Command, arity_error, fits_arity, parse_integer
from .commands import COMMANDS as DATA_COMMANDS
from .connection import REDIS_VERSION
from .notifications import parse_flags, show_flags
from .patterns import glob
from .replies import OK, CommandError, Reply, Simple
from .service import Service
from .session import SESSION_COMMANDS, Session, SessionCommand
from .tables import DATABASES


def _subcommand_error(args: Arguments) -> CommandError:
    name, shown = args[0].decode().upper(), args[1].decode(errors="replace")
    return CommandError(f"ERR unknown subcommand '{shown}'. Try {name} HELP.")


def _check_count(args: Arguments, arity: int) -> None:
    """Raise CommandError if a subcommand has another number of arguments."""
    if not fits_arity(arity, len(args)):
        raise arity_error(b"|".join(args[:2]))


def _command(_: Session, args: Arguments) -> Reply:
    commands: dict[str, object] = {**DATA_COMMANDS, **SESSION_COMMANDS}
    if len(args) == 1:
        return [_command_details(name) for name in commands]
    match args[1].upper():
        case b"COUNT":
            _check_count(args, 2)
            return len(commands)
        case b"LIST":
            return _listed(args[2:], list(commands))
        case b"INFO":
            names = [arg.decode("latin-1").lower() for arg in args[2:]] or list(commands)
            return [_command_details(name) for name in names]
        case b"DOCS":
            return {}
        case b"GETKEYS":
            _check_count(args, -4)
            return _keys_in(args[2:])
    raise _subcommand_error(args)


def _listed(args: Arguments, names: list[str]) -> Reply:
    """Return the names of commands that a filter of COMMAND LIST is true of. CommandError."""
    encoded = [name.encode() for name in names]
    if not args:
        return encoded
    if len(args) != 3 or args[0].upper() != b"FILTERBY":
        raise CommandError(SYNTAX)
    match args[1].upper():
        case b"PATTERN":
            return glob(args[2].lower()).filter(encoded)
        case b"MODULE":
            return []
        case b"ACLCAT":
            raise CommandError("ERR ACLCAT is not supported by relstate, which has no ACLs")
    raise CommandError(SYNTAX)


def _command_details(name: str) -> Reply:
    """Return what COMMAND shows of a command; None if there is no such command."""
    command = DATA_COMMANDS.get(name) or SESSION_COMMANDS.get(name)
    if command is None:
        return None
    flags = {Simple(flag.encode()) for flag in command.flags}
    return [name.encode(), command.arity, flags, *command.keys, set(), [], [], []]


def _keys_in(args: Arguments) -> Reply:
    """Return the keys among the arguments of a command."""
    name = args[0].decode("latin-1").lower()
    command = DATA_COMMANDS.get(name) or SESSION_COMMANDS.get(name)
    if command is None:
        raise CommandError("ERR Invalid command specified")
    if not fits_arity(command.arity, len(args)):
        raise CommandError("ERR Invalid number of arguments specified for command")
    first, last, step = command.keys
    keys = args[first : len(args) + last + 1 if last < 0 else last + 1 : step] if first else []
    if command.count_at:
        keys += _counted_keys(args[command.count_at :], int(isinstance(command, Command)))
    if not keys and not command.count_at:
        raise CommandError("ERR The command has no key arguments")
    return keys


def _counted_keys(args: Arguments, least: int) -> list[bytes]:
    """Return the keys after their number, which has a least value. CommandError."""
    message = "ERR Invalid arguments specified for command"
    count = parse_integer(args[0], message)
    if not least <= count < len(args):
        raise CommandError(message)
    return args[1 : count + 1]


def _config(session: Session, args: Arguments) -> Reply:
    match args[1].upper():
        case b"GET":
            _check_count(args, -3)
            return {
                name: value
                for name, value in _parameters(session.service).items()
                if any(glob(pattern.lower()).matches(name) for pattern in args[2:])
            }
        case b"SET":
            _check_count(args, -4)
            if len(args) % 2:
                raise CommandError(SYNTAX)
            for name, value in zip(args[2::2], args[3::2], strict=True):
                _set_parameter(session.service, name.lower(), value)
            return OK
        case b"RESETSTAT":
            session.service.commands_run = session.service.connections = 0
            return OK
    raise _subcommand_error(args)


def _parameters(service: Service) -> dict[bytes, bytes]:
    """Return the parameters that CONFIG GET shows."""
    settings = service.settings
    return {
        b"appendfsync": settings.appendfsync.encode(),
        b"appendonly": b"yes",
        b"bind": settings.host.encode(),
        b"databases": b"16",
        b"maxclients": b"%d" % settings.maxclients,
        b"maxmemory": b"%d" % settings.maxmemory,
        b"maxmemory-policy": b"noeviction",
        b"notify-keyspace-events": show_flags(service.keyspace.notifications.flags),
        b"port": b"%d" % settings.port,
        b"proto-max-bulk-len": b"%d" % settings.max_request_bytes,
        b"save": b"",
        b"timeout": b"0",
    }


_UNKNOWN_CLASS = (
    "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event "
    "class character. Use 'Ag$lshzxeKEtmdn'."
)


def _set_parameter(service: Service, name: bytes, value: bytes) -> None:
    settings = service.settings
    shown = name.decode(errors="replace")
    if name == b"appendfsync" and value.lower() in (b"always", b"everysec"):
        settings.appendfsync = "always" if value.lower() == b"always" else "everysec"
    elif name == b"maxclients" and parse_integer(value) > 0:
        settings.maxclients = int(value)
    elif name == b"notify-keyspace-events":
        flags = parse_flags(value)
        if flags is None:
            raise CommandError(_UNKNOWN_CLASS)
        service.keyspace.notifications.flags = flags
    elif _parameters(service).get(name) == value:
        pass
    elif name in _parameters(service):
        raise CommandError(
            f"ERR CONFIG SET failed (possibly related to argument '{shown}') - can't set immutable "
            "config"
        )
    else:
        raise CommandError(f"ERR Unknown option or number of arguments for CONFIG SET - '{shown}'")


def _info(session: Session, args: Arguments) -> Reply:
    names = {arg.decode("latin-1").lower() for arg in args[1:]}
    return session.service.keyspace.count_keys(
        range(DATABASES), lambda counts: _shown_sections(_sections(session, counts), names)
    )


def _shown_sections(sections: dict[str, dict[str, object]], names: set[str]) -> bytes:
    if not names or names & {"all", "default", "everything"}:
        names = set(sections)
    texts = [
        f"# {name.capitalize()}\r\n" + "".join(f"{key}:{value}\r\n" for key, value in facts.items())
        for name, facts in sections.items()
        if name in names
    ]
    return "\r\n".join(texts).encode()


def _sections(session: Session, counts: list[int]) -> dict[str, dict[str, object]]:
    service = session.service
    keyspace, settings = service.keyspace, service.settings
    databases: dict[str, object] = {
        f"db{number}": f"keys={count},expires=0,avg_ttl=0"
        for number, count in enumerate(counts)
        if count
    }
    return {
        "server": {
            "redis_version": REDIS_VERSION,
            "redis_mode": "standalone",
            "server_name": "relstate",
            "tcp_port": settings.port,
            "uptime_in_seconds": (keyspace.now() - service.started) // 1000,
        },
        "clients": {
            "connected_clients": len(service.sessions),
            "maxclients": settings.maxclients,
        },
        "memory": {"used_memory": keyspace.memory, "maxmemory": settings.maxmemory},
        "persistence": {
            "loading": 0,
            "aof_enabled": 1,
            "aof_last_write_status": "ok" if service.write_error is None else "err",
        },
        "stats": {
            "total_connections_received": service.connections,
            "total_commands_processed": service.commands_run,
        },
        "replication": {"role": "master", "connected_slaves": 0},
        "keyspace": databases,
    }


def _role(_: Session, __: Arguments) -> Reply:
    return [b"master", 0, []]


_CLUSTER = {
    "addslots": -3,
    "addslotsrange": -4,
    "bumpepoch": 2,
    "count-failure-reports": 3,
    "countkeysinslot": 3,
    "delslots": -3,
    "delslotsrange": -4,
    "failover": -2,
    "flushslots": 2,
    "forget": 3,
    "getkeysinslot": 4,
    "help": 2,
    "info": 2,
    "keyslot": 3,
    "links": 2,
    "meet": -4,
    "myid": 2,
    "nodes": 2,
    "replicas": 3,
    "replicate": 3,
    "reset": -2,
    "saveconfig": 2,
    "set-config-epoch": 3,
    "setslot": -4,
    "shards": 2,
    "slaves": 3,
    "slots": 2,
}
"""The number of arguments of each subcommand of CLUSTER, as `Command` has it."""


def _cluster(_: Session, args: Arguments) -> Reply:
    """Raise what a Redis that is not part of a cluster replies."""
    arity = _CLUSTER.get(args[1].decode("latin-1").lower())
    if arity is None:
        raise _subcommand_error(args)
    _check_count(args, arity)
    raise CommandError("ERR This instance has cluster support disabled")


def _monitor(session: Session, _: Arguments) -> Reply:
    session.is_monitor = True
    session.service.monitors[session] = None
    return OK


_ADMIN = frozenset({"admin", "noscript"})
COMMANDS: dict[str, SessionCommand] = {
    "client": SessionCommand(client, -2, frozenset({"noscript"})),
    "cluster": SessionCommand(_cluster, -2, frozenset()),
    "command": SessionCommand(_command, -1, frozenset({"loading"})),
    "config": SessionCommand(_config, -2, _ADMIN),
    "info": SessionCommand(_info, -1, frozenset({"loading"})),
    "monitor": SessionCommand(_monitor, 1, _ADMIN | {"no_multi"}),
    "role": SessionCommand(_role, 1, frozenset({"noscript", "fast"})),
}
