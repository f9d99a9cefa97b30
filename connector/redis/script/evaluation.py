"""The commands of scripts: EVAL, EVALSHA, SCRIPT; FUNCTION and FCALL are refused."""

from __future__ import annotations

from collections.abc import Callable

from ..command import Arguments, arity_error, fits_arity, parse_integer
from ..journal import Journal
from ..replies import OK, CommandError, Reply
from ..session import Session, SessionCommand
from .caller import ScriptCaller
from .scripts import Script


def _eval(session: Session, args: Arguments) -> Reply:
    return _run(session, args, session.service.scripts.load)


def _evalsha(session: Session, args: Arguments) -> Reply:
    return _run(session, args, session.service.scripts.find)


def _run(session: Session, args: Arguments, find: Callable[[bytes], Script]) -> Reply:
    """Run a script with the keys and arguments of a request. CommandError.

    ``find`` returns the script.
    """
    count = parse_integer(args[2])
    if count > len(args) - 3:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise CommandError("ERR Number of keys can't be negative")
    script = find(args[1])
    session.show_to_monitors(args)

    def start(journal: Journal, is_read_only: bool) -> ScriptCaller:
        return ScriptCaller(session, journal, is_read_only=is_read_only)

    database = session.database
    try:
        return session.service.scripts.run(
            script,
            args[3 : 3 + count],
            args[3 + count :],
            start,
            is_read_only=args[0].upper().endswith(b"_RO"),
        )
    finally:
        session.database = database


_HELP = (
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "HELP",
    "    Prints this help.",
)
_ARITIES = {b"EXISTS": -3, b"FLUSH": -2, b"HELP": 2, b"KILL": 2, b"LOAD": 3}


def _script(session: Session, args: Arguments) -> Reply:
    scripts, name = session.service.scripts, args[1].upper()
    if name not in _ARITIES:
        shown = args[1].decode(errors="replace")
        raise CommandError(f"ERR unknown subcommand '{shown}'. Try SCRIPT HELP.")
    if not fits_arity(_ARITIES[name], len(args)):
        raise arity_error(b"|".join(args[:2]))
    match name:
        case b"LOAD":
            return scripts.load(args[2]).sha
        case b"EXISTS":
            return [int(sha in scripts) for sha in args[2:]]
        case b"FLUSH":
            if len(args) > 3 or (len(args) == 3 and args[2].upper() not in (b"SYNC", b"ASYNC")):
                raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
            scripts.clear()
            return OK
        case b"KILL":
            # Scripts run to their end before the next request is read.
            raise CommandError("NOTBUSY No scripts in execution right now.")
    return [line.encode() for line in _HELP]


def _refuse(_: Session, args: Arguments) -> Reply:
    shown = args[0].decode(errors="replace").upper()
    raise CommandError(
        f"ERR {shown} is not supported by relstate, which has no libraries of functions: send the "
        "script with EVAL or SCRIPT LOAD"
    )


_RUN = frozenset({"noscript", "movablekeys", "skip_monitor"})
COMMANDS: dict[str, SessionCommand] = {
    "eval": SessionCommand(_eval, -3, _RUN, count_at=2),
    "eval_ro": SessionCommand(_eval, -3, _RUN | {"readonly"}, count_at=2),
    "evalsha": SessionCommand(_evalsha, -3, _RUN, count_at=2),
    "evalsha_ro": SessionCommand(_evalsha, -3, _RUN | {"readonly"}, count_at=2),
    "fcall": SessionCommand(_refuse, -3, frozenset({"noscript"})),
    "fcall_ro": SessionCommand(_refuse, -3, frozenset({"noscript"})),
    "function": SessionCommand(_refuse, -2, frozenset({"noscript"})),
    "script": SessionCommand(_script, -2, frozenset({"noscript"})),
}
