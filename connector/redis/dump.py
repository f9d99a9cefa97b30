"""DUMP and RESTORE: a value as bytes, which another relstate takes, and Redis does not.

The bytes: ``relstate``, the version, the name of the type, the content as an Arrow stream of one
column as the table has it, and the CRC of all before.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa

from .columns import content_array, content_values
from .command import LAST_MOMENT, SYNTAX, Arguments, Command, command, parse_integer
from .database import Database, check_name
from .replies import OK, CommandError, Reply
from .values import KINDS, ListValue, MappedValue, StringValue, Value

_MARK = b"relstate\x01"
_CRC_BYTES = 4
_MOST_FREQUENCY = 255
_WRONG = "ERR DUMP payload version or checksum are wrong"
_BAD = "ERR Bad data format"


def _dump(db: Database, args: Arguments) -> Reply:
    value = db.get(args[1])
    if value is None:
        return None
    kind = value.kind
    batch = pa.record_batch({kind: content_array(kind, [value.content()])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = _MARK + sink.getvalue().to_pybytes()
    return data + zlib.crc32(data).to_bytes(_CRC_BYTES, "little")


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """The options of RESTORE. ``idle_seconds``: since the value was used last."""

    replaces: bool
    is_moment: bool
    idle_seconds: int

    @classmethod
    def parse(cls, words: Arguments) -> RestoreOptions:
        """Read the options. CommandError."""
        replaces = is_moment = False
        idle_seconds = frequency = -1
        index = 0
        while index < len(words):
            option, has_value = words[index].upper(), index + 1 < len(words)
            if option == b"REPLACE":
                replaces = True
            elif option == b"ABSTTL":
                is_moment = True
            elif option == b"IDLETIME" and has_value and frequency < 0:
                index += 1
                idle_seconds = parse_integer(words[index])
                if idle_seconds < 0:
                    raise CommandError("ERR Invalid IDLETIME value, must be >= 0")
            elif option == b"FREQ" and has_value and idle_seconds < 0:
                index += 1
                frequency = parse_integer(words[index])
                if not 0 <= frequency <= _MOST_FREQUENCY:
                    raise CommandError("ERR Invalid FREQ value, must be >= 0 and <= 255")
            else:
                raise CommandError(SYNTAX)
            index += 1
        return cls(replaces, is_moment, max(idle_seconds, 0))


def _restore(db: Database, args: Arguments) -> Reply:
    options = RestoreOptions.parse(args[4:])
    if not options.replaces and db.get(args[1]) is not None:
        raise CommandError("BUSYKEY Target key name already exists.")
    lifetime = parse_integer(args[2])
    if lifetime < 0:
        raise CommandError("ERR Invalid TTL value, must be >= 0")
    value = _value_of(args[3])
    expiry = lifetime if options.is_moment else lifetime + db.now()
    if lifetime and expiry > LAST_MOMENT:
        raise CommandError("ERR invalid expire time in 'restore' command")
    if lifetime and expiry <= db.now():
        if db.get(args[1]) is not None:
            db.remove(args[1])
        return OK
    if db.get(args[1]) is not None:
        db.remove(args[1], None)
    if lifetime:
        value.take_expiry(expiry)
    db.put(args[1], value, None)
    value.used = db.now() - 1000 * options.idle_seconds
    db.notify("g", b"restore", args[1])
    return OK


def _value_of(data: bytes) -> Value:
    """Return the value that DUMP made bytes of. CommandError."""
    body, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    if not body.startswith(_MARK) or zlib.crc32(body).to_bytes(_CRC_BYTES, "little") != crc:
        raise CommandError(_WRONG)
    try:
        with pa.ipc.open_stream(body[len(_MARK) :]) as reader:
            batch = reader.read_next_batch()
        (kind,) = batch.schema.names
        (content,) = content_values(kind, batch.column(0))
    except (pa.ArrowException, ValueError, KeyError, TypeError):
        raise CommandError(_BAD) from None
    return _checked(kind, content)


def _checked(kind: str, content: object) -> Value:
    """Return a value of a type with a content. CommandError if it would be empty."""
    if kind == StringValue.kind:
        return StringValue(content if isinstance(content, bytes) else b"")
    assert isinstance(content, dict)
    value = KINDS[kind].of_parts(content)
    if not len(value):
        raise CommandError(_BAD)
    if isinstance(value, MappedValue):
        for name in value.items:
            check_name(name)
    if isinstance(value, ListValue):
        value.first = 0
    return value


COMMANDS: dict[str, Command] = {
    "dump": command(_dump, 2, "readonly"),
    "restore": command(_restore, -4, "write denyoom"),
}
