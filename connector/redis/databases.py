"""The commands of YugabyteDB for databases: CREATEDB, LISTDB, DELETEDB. Names are 0 to 15."""

from __future__ import annotations

from .command import Arguments, Command, command
from .database import Database
from .replies import OK, CommandError, Reply
from .tables import DATABASES

_NAMES = [b"%d" % number for number in range(DATABASES)]


def _parse_name(word: bytes) -> int:
    if word not in _NAMES:
        shown = word.decode(errors="replace")
        raise CommandError(f"ERR a database has a number from 0 to {DATABASES - 1}, not '{shown}'")
    return int(word)


def _createdb(db: Database, args: Arguments) -> Reply:
    number = _parse_name(args[1])
    if not db.keyspace.exists(number):
        db.keyspace.create(number)
    return OK


def _listdb(db: Database, _: Arguments) -> Reply:
    return [name for name in _NAMES if db.keyspace.exists(int(name))]


def _deletedb(db: Database, args: Arguments) -> Reply:
    number = _parse_name(args[1])
    if number == 0:
        raise CommandError("ERR database 0 is always there; FLUSHDB removes its keys")
    views = db.keyspace.tables.readers(number)
    if views:
        names = ", ".join(sorted(views))
        raise CommandError(f"ERR database {number} is read by the views {names}; drop them first")
    if db.keyspace.exists(number):
        db.keyspace.delete(number)
    return OK


COMMANDS: dict[str, Command] = {
    "createdb": command(_createdb, 2, "write noscript", 0, 0, 0),
    "deletedb": command(_deletedb, 2, "write noscript", 0, 0, 0),
    "listdb": command(_listdb, 1, "readonly", 0, 0, 0),
}
