"""The commands of keys, whatever is at them: removal, expiry, names, lists of keys."""

from __future__ import annotations

from .command import (
    SYNTAX,
    Arguments,
    Command,
    arity_error,
    command,
    expiry_of,
    parse_integer,
)
from .database import WRONG_TYPE, Database
from .listing import TableRead
from .patterns import glob
from .replies import OK, CommandError, Reply, Simple
from .tables import DATABASES
from .values import SeriesValue, Value


def _del(db: Database, args: Arguments) -> Reply:
    removed = 0
    for key in args[1:]:
        if db.get(key) is not None:
            db.remove(key)
            removed += 1
    return removed


def _exists(db: Database, args: Arguments) -> Reply:
    return sum(db.look_at(key) is not None for key in args[1:])


def _touch(db: Database, args: Arguments) -> Reply:
    return sum(db.get(key) is not None for key in args[1:])


def _type(db: Database, args: Arguments) -> Reply:
    value = db.look_at(args[1])
    return Simple(b"none" if value is None else value.kind.encode())


def _keys(db: Database, args: Arguments) -> Reply:
    pattern, listing = glob(args[1]), db.keyspace.listing(db.number)
    return TableRead(lambda: pattern.filter(listing.keys()), lambda keys: keys)


def _dbsize(db: Database, _: Arguments) -> Reply:
    return db.keyspace.count_keys([db.number], lambda counts: counts[0])


def _randomkey(db: Database, _: Arguments) -> Reply:
    """Return one of the keys of the first vnode that has any, from a random one on."""
    keyspace, vnodes = db.keyspace, db.keyspace.tables.vnode_count
    start, listing = keyspace.random_below(vnodes), keyspace.listing(db.number)

    def read() -> list[bytes]:
        of_vnodes = (list(listing.keys((start + n) % vnodes)) for n in range(vnodes))
        return next(filter(None, of_vnodes), [])

    return TableRead(read, lambda keys: keys[keyspace.random_below(len(keys))] if keys else None)


def _rename(db: Database, args: Arguments) -> Reply:
    is_careful = args[0].upper() == b"RENAMENX"
    value = db.get(args[1])
    if value is None:
        raise CommandError("ERR no such key")
    if is_careful and db.get(args[2]) is not None:
        return 0
    if args[1] != args[2]:
        if db.get(args[2]) is not None:
            db.remove(args[2], None)
        db.put(args[2], value.copy(), None)
        db.remove(args[1], None)
        db.notify("g", b"rename_from", args[1])
        db.notify("g", b"rename_to", args[2])
    return 1 if is_careful else OK


def _copy(db: Database, args: Arguments) -> Reply:
    target, replaces, index = db, False, 3
    while index < len(args):
        option = args[index].upper()
        if option == b"REPLACE":
            replaces = True
        elif option == b"DB" and index + 1 < len(args):
            index += 1
            target = _database(db, args[index])
        else:
            raise CommandError(SYNTAX)
        index += 1
    if target.number == db.number and args[1] == args[2]:
        raise CommandError("ERR source and destination objects are the same")
    value = db.get(args[1])
    db.note_misses(args[1:2])
    if value is None or (target.get(args[2]) is not None and not replaces):
        return 0
    if target.get(args[2]) is not None:
        target.remove(args[2], None)
    target.put(args[2], value.copy(), None)
    target.notify("g", b"copy_to", args[2])
    return 1


def _move(db: Database, args: Arguments) -> Reply:
    target = _database(db, args[2])
    if target.number == db.number:
        raise CommandError("ERR source and destination objects are the same")
    value = db.get(args[1])
    if value is None or target.get(args[1]) is not None:
        return 0
    target.put(args[1], value.copy(), None)
    db.remove(args[1], None)
    db.notify("g", b"move_from", args[1])
    target.notify("g", b"move_to", args[1])
    return 1


def _swapdb(db: Database, args: Arguments) -> Reply:
    """Exchange the keys of two databases, which writes both as a whole."""
    numbers = [
        parse_integer(arg, f"ERR invalid {place} DB index")
        for arg, place in zip(args[1:], ("first", "second"), strict=True)
    ]
    if not all(0 <= number < DATABASES for number in numbers):
        raise CommandError("ERR DB index is out of range")
    if numbers[0] == numbers[1]:
        return OK
    databases = [Database(db.keyspace, number) for number in numbers]
    contents = [
        {
            key: value.copy()
            for key in list(db.keyspace.listing(one.number).keys())
            if (value := one.get(key)) is not None
        }
        for one in databases
    ]
    for one, content in zip(databases, reversed(contents), strict=True):
        db.keyspace.flush(one.number)
        for key, value in content.items():
            one.place(key, value)
    return OK


def _database(db: Database, data: bytes) -> Database:
    number = parse_integer(data)
    if not 0 <= number < DATABASES:
        raise CommandError("ERR DB index is out of range")
    return Database(db.keyspace, number)


# Expiry


def _expire(db: Database, args: Arguments) -> Reply:
    name = args[0].upper()
    conditions = _expire_conditions(args[3:])
    unit = 1 if name.startswith(b"P") else 1000
    expiry = expiry_of(db, args[0], args[2], unit, is_moment=name.endswith(b"AT"))
    value = _expiring_value(db, args[1])
    if value is None or not _may_expire(value.expiry, expiry, conditions):
        return 0
    if expiry <= db.now():
        db.remove(args[1])
    else:
        db.expire(args[1], value, expiry)
    return 1


def _expiring_value(db: Database, key: bytes) -> Value | None:
    """Return what is at a key. WRONGTYPE for a time series: its entries expire, each by itself."""
    value = db.get(key)
    if isinstance(value, SeriesValue):
        raise CommandError(WRONG_TYPE)
    return value


def _expire_conditions(args: Arguments) -> set[bytes]:
    conditions = {arg.upper() for arg in args}
    for condition in (arg.upper() for arg in args):
        if condition not in (b"NX", b"XX", b"GT", b"LT"):
            original = next(arg for arg in args if arg.upper() == condition)
            raise CommandError(f"ERR Unsupported option {original.decode(errors='replace')}")
    if b"NX" in conditions and len(conditions) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if conditions >= {b"GT", b"LT"}:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return conditions


def _may_expire(previous: int | None, expiry: int, conditions: set[bytes]) -> bool:
    """Return whether conditions allow an expiry to replace another."""
    if b"NX" in conditions and previous is not None:
        return False
    if b"XX" in conditions and previous is None:
        return False
    if b"GT" in conditions and (previous is None or expiry <= previous):
        return False
    return not (b"LT" in conditions and previous is not None and expiry >= previous)


def _ttl(db: Database, args: Arguments) -> Reply:
    return _expiry_reply(db, args[1], db.now(), is_precise=args[0].upper() == b"PTTL")


def _expiretime(db: Database, args: Arguments) -> Reply:
    return _expiry_reply(db, args[1], 0, is_precise=args[0].upper() == b"PEXPIRETIME")


def _expiry_reply(db: Database, key: bytes, start: int, *, is_precise: bool) -> Reply:
    """Return the milliseconds or seconds from a moment until a key expires, or why there are none.

    -1 for a key that does not expire, -2 for no key.
    """
    value = db.look_at(key)
    if value is None:
        return -2
    if value.expiry is None or isinstance(value, SeriesValue):
        return -1
    left = max(value.expiry - start, 0)
    return left if is_precise else (left + 500) // 1000


def _persist(db: Database, args: Arguments) -> Reply:
    value = _expiring_value(db, args[1])
    if value is None or value.expiry is None:
        return 0
    db.expire(args[1], value, None)
    return 1


def _flush(db: Database, args: Arguments) -> Reply:
    if len(args) > 2 or (len(args) == 2 and args[1].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError(SYNTAX)
    is_all = args[0].upper() == b"FLUSHALL"
    for number in range(DATABASES) if is_all else [db.number]:
        db.keyspace.flush(number)
    return OK


_ENCODINGS = {"string": b"raw", "list": b"quicklist", "zset": b"skiplist"}
_OBJECT_ARITIES = {b"ENCODING": 3, b"FREQ": 3, b"HELP": 2, b"IDLETIME": 3, b"REFCOUNT": 3}
_OBJECT_HELP = (
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
)


def _object(db: Database, args: Arguments) -> Reply:
    """Return what Redis shows of a value's insides, where relstate has something like it."""
    subcommand = args[1].upper()
    if subcommand not in _OBJECT_ARITIES:
        raise CommandError(
            f"ERR unknown subcommand '{args[1].decode(errors='replace')}'. Try OBJECT HELP."
        )
    if len(args) != _OBJECT_ARITIES[subcommand]:
        raise arity_error(b"|".join(args[:2]))
    if subcommand == b"HELP":
        return [line.encode() for line in _OBJECT_HELP]
    value = db.look_at(args[2])
    if value is None:
        return None
    match subcommand:
        case b"ENCODING":
            return _ENCODINGS.get(value.kind, b"hashtable")
        case b"IDLETIME":
            return max(db.now() - value.used, 0) // 1000
        case b"FREQ":
            raise CommandError(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please "
                "note that when switching between policies at runtime LRU and LFU data will take "
                "some time to adjust."
            )
    return 1


def _memory(db: Database, args: Arguments) -> Reply:
    """Return about how much memory a value takes."""
    if args[1].upper() != b"USAGE":
        shown = args[1].decode(errors="replace")
        raise CommandError(f"ERR unknown subcommand '{shown}'. Try MEMORY HELP.")
    if len(args) < 3:
        raise arity_error(b"|".join(args[:2]))
    for name, count in zip(args[3::2], [*args[4::2], b""], strict=False):
        if name.upper() != b"SAMPLES" or not count or parse_integer(count) < 0:
            raise CommandError(SYNTAX)
    value = db.look_at(args[2])
    return None if value is None else value.size + len(args[2])


COMMANDS: dict[str, Command] = {
    "copy": command(_copy, -3, "write denyoom", 1, 2),
    "dbsize": command(_dbsize, 1, "readonly fast", 0, 0, 0),
    "del": command(_del, -2, "write", 1, -1),
    "exists": command(_exists, -2, "readonly fast", 1, -1),
    "expire": command(_expire, -3, "write fast"),
    "expireat": command(_expire, -3, "write fast"),
    "expiretime": command(_expiretime, 2, "readonly fast"),
    "flushall": command(_flush, -1, "write", 0, 0, 0),
    "flushdb": command(_flush, -1, "write", 0, 0, 0),
    "keys": command(_keys, 2, "readonly", 0, 0, 0),
    "memory": command(_memory, -2, "readonly", 2, 2),
    "move": command(_move, 3, "write fast"),
    "object": command(_object, -2, "readonly", 2, 2),
    "persist": command(_persist, 2, "write fast"),
    "pexpire": command(_expire, -3, "write fast"),
    "pexpireat": command(_expire, -3, "write fast"),
    "pexpiretime": command(_expiretime, 2, "readonly fast"),
    "pttl": command(_ttl, 2, "readonly fast"),
    "randomkey": command(_randomkey, 1, "readonly", 0, 0, 0),
    "rename": command(_rename, 3, "write", 1, 2),
    "renamenx": command(_rename, 3, "write fast", 1, 2),
    "swapdb": command(_swapdb, 3, "write fast noscript", 0, 0, 0),
    "touch": command(_touch, -2, "readonly fast", 1, -1),
    "ttl": command(_ttl, 2, "readonly fast"),
    "type": command(_type, 2, "readonly fast"),
    "unlink": command(_del, -2, "write fast", 1, -1),
}
