"""The commands of the bits of strings. Bit 0 is the highest of the first byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from .command import (
    NOT_INTEGER,
    SYNTAX,
    Arguments,
    Command,
    command,
    parse_integer,
    range_of,
)
from .database import Database
from .replies import CommandError, Reply
from .strings import check_size, replace_string
from .values import StringValue

_BIT_OFFSET = "ERR bit offset is not an integer or out of range"
_BIT_VALUE = "ERR bit is not an integer or out of range"
_FIELD_TYPE = (
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 "
    "is."
)


def _offset(db: Database, data: bytes, width: int = 0) -> int:
    """Return the offset of a bit; ``#3``: of the third field of a width. CommandError."""
    is_counted = width > 0 and data[:1] == b"#"
    number = parse_integer(data[is_counted:], _BIT_OFFSET)
    offset = number * width if is_counted else number
    if offset < 0 or (offset + max(width, 1) - 1) >> 3 >= db.keyspace.most_string_bytes:
        raise CommandError(_BIT_OFFSET)
    return offset


def _setbit(db: Database, args: Arguments) -> Reply:
    offset = _offset(db, args[2])
    bit = parse_integer(args[3], _BIT_VALUE)
    if bit not in (0, 1):
        raise CommandError(_BIT_VALUE)
    previous = db.find(args[1], StringValue)
    data = bytearray(b"" if previous is None else previous.data)
    index, mask = offset >> 3, 0x80 >> (offset & 7)
    data.extend(bytes(max(index + 1 - len(data), 0)))
    old = data[index] & mask
    data[index] = (data[index] & ~mask) | (mask if bit else 0)
    _replace_changed(db, args[1], bytes(data), previous)
    return int(old > 0)


def _replace_changed(db: Database, key: bytes, data: bytes, previous: StringValue | None) -> None:
    """Write a string if it is not what is there."""
    if previous is None or previous.data != data:
        replace_string(db, key, data, previous, b"setbit")


def _getbit(db: Database, args: Arguments) -> Reply:
    offset = _offset(db, args[2])
    data = db.string(args[1]) or b""
    return data[offset >> 3] >> (7 - (offset & 7)) & 1 if offset >> 3 < len(data) else 0


@dataclass(frozen=True, slots=True)
class _BitRange:
    """The bits from one to before another."""

    start: int
    stop: int


def _bit_range(ends: Arguments, data: bytes) -> _BitRange:
    """Return the bits that two ends and BYTE or BIT name. CommandError."""
    unit = 8
    if len(ends) == 3:
        if ends[2].upper() not in (b"BYTE", b"BIT"):
            raise CommandError(SYNTAX)
        unit = 1 if ends[2].upper() == b"BIT" else 8
    start = parse_integer(ends[0])
    stop = parse_integer(ends[1]) if len(ends) > 1 else -1
    indices = range_of(start, stop, len(data) * 8 // unit)
    return _BitRange(indices.start * unit, indices.stop * unit)


def _bits_of(data: bytes, bits: _BitRange) -> int:
    """Return some bits as a number, the first one as the highest."""
    first, last = bits.start >> 3, (bits.stop + 7) >> 3
    number = int.from_bytes(data[first:last], "big") >> (last * 8 - bits.stop)
    return number & ((1 << (bits.stop - bits.start)) - 1)


def _bitcount(db: Database, args: Arguments) -> Reply:
    if len(args) == 3 or len(args) > 5:
        raise CommandError(SYNTAX)
    for end in args[2:4]:
        parse_integer(end)
    data = db.string(args[1]) or b""
    ends = args[2:] or [b"0", b"-1"]
    bits = _bit_range(ends, data)
    return _bits_of(data, bits).bit_count() if bits.stop > bits.start else 0


def _bitpos(db: Database, args: Arguments) -> Reply:
    if len(args) > 6:
        raise CommandError(SYNTAX)
    bit = parse_integer(args[2])
    if bit not in (0, 1):
        raise CommandError("ERR The bit argument must be 1 or 0.")
    for end in args[3:5]:
        parse_integer(end)
    if len(args) == 6 and args[5].upper() not in (b"BYTE", b"BIT"):
        raise CommandError(SYNTAX)
    value = db.find(args[1], StringValue)
    if value is None:
        return -1 if bit else 0
    bits = _bit_range(args[3:] or [b"0"], value.data)
    width = bits.stop - bits.start
    if width <= 0:
        return -1
    number = _bits_of(value.data, bits)
    if not bit:
        number ^= (1 << width) - 1
    if number:
        return bits.start + width - number.bit_length()
    # After the string there are zeros, unless an end was named.
    return bits.stop if not bit and len(args) <= 4 else -1


_OPERATIONS: dict[bytes, Callable[[int, int], int]] = {
    b"AND": lambda left, right: left & right,
    b"OR": lambda left, right: left | right,
    b"XOR": lambda left, right: left ^ right,
}


def _bitop(db: Database, args: Arguments) -> Reply:
    name = args[1].upper()
    if name not in _OPERATIONS and name != b"NOT":
        raise CommandError(SYNTAX)
    if name == b"NOT" and len(args) != 4:
        raise CommandError("ERR BITOP NOT must be called with a single source key.")
    strings = [db.string(key) or b"" for key in args[3:]]
    db.note_misses(args[3:])
    length = max(map(len, strings))
    numbers = [int.from_bytes(data.ljust(length, b"\0"), "big") for data in strings]
    result = numbers[0] ^ ((1 << 8 * length) - 1) if name == b"NOT" else numbers[0]
    for number in numbers[1:]:
        result = _OPERATIONS[name](result, number)
    if length:
        db.put(args[2], StringValue(result.to_bytes(length, "big")), b"set")
    elif db.get(args[2]) is not None:
        db.remove(args[2])
    return length


# Fields of bits


@dataclass(frozen=True, slots=True)
class _FieldOperation:
    """What BITFIELD does with one field. ``overflow``: for SET and INCRBY."""

    name: Literal["GET", "SET", "INCRBY"]
    is_signed: bool
    width: int
    offset: int
    value: int
    overflow: bytes

    @property
    def least(self) -> int:
        """The least value of the field."""
        return -(1 << (self.width - 1)) if self.is_signed else 0

    @property
    def most(self) -> int:
        """The greatest value of the field."""
        return (1 << (self.width - self.is_signed)) - 1

    def wrapped(self, number: int) -> int:
        """Return a number without the bits that the field does not have."""
        number &= (1 << self.width) - 1
        return number - (1 << self.width) if number > self.most else number

    def fitted(self, number: int) -> int | None:
        """Return a number that fits into the field, as ``overflow`` says; None for none."""
        if self.least <= number <= self.most:
            return number
        if self.overflow == b"WRAP":
            return self.wrapped(number)
        if self.overflow == b"SAT":
            # Redis takes a distance that does not fit into 64 bits for one to the other side.
            is_far = self.name == "SET" and self.most - number >= 1 << 63
            return self.most if number > self.most or is_far else self.least
        return None


def _field_operations(db: Database, args: Arguments) -> Iterator[_FieldOperation]:
    """Yield the operations of BITFIELD. CommandError."""
    index, overflow = 0, b"WRAP"
    while index < len(args):
        name, rest = args[index].upper(), args[index + 1 :]
        if name == b"OVERFLOW" and rest:
            overflow = rest[0].upper()
            if overflow not in (b"WRAP", b"SAT", b"FAIL"):
                raise CommandError("ERR Invalid OVERFLOW type specified")
            index += 2
            continue
        count = 2 if name == b"GET" else 3
        if name not in (b"GET", b"SET", b"INCRBY") or len(rest) < count:
            raise CommandError(SYNTAX)
        is_signed, width = _field_type(rest[0])
        offset = _offset(db, rest[1], width)
        value = 0 if name == b"GET" else parse_integer(rest[2], NOT_INTEGER)
        kind: Literal["GET", "SET", "INCRBY"] = (
            "GET" if name == b"GET" else "SET" if name == b"SET" else "INCRBY"
        )
        yield _FieldOperation(kind, is_signed, width, offset, value, overflow)
        index += 1 + count


def _field_type(data: bytes) -> tuple[bool, int]:
    is_signed = data[:1] == b"i"
    digits = data[1:]
    if data[:1] not in (b"i", b"u") or not digits.isdigit() or len(digits) > 2:
        raise CommandError(_FIELD_TYPE)
    width = int(digits)
    if not 1 <= width <= 63 + is_signed:
        raise CommandError(_FIELD_TYPE)
    return is_signed, width


def _bitfield(db: Database, args: Arguments) -> Reply:
    operations = list(_field_operations(db, args[2:]))
    is_read_only = args[0].upper().endswith(b"_RO")
    if is_read_only and any(operation.name != "GET" for operation in operations):
        raise CommandError("ERR BITFIELD_RO only supports the GET subcommand")
    previous = db.find(args[1], StringValue)
    data = bytearray(b"" if previous is None else previous.data)
    writes = [operation for operation in operations if operation.name != "GET"]
    if writes:
        size = max((operation.offset + operation.width + 7) >> 3 for operation in writes)
        check_size(db, size)
        data.extend(bytes(max(size - len(data), 0)))
    replies = [_run_field(operation, data) for operation in operations]
    if writes:
        _replace_changed(db, args[1], bytes(data), previous)
    elif not is_read_only:
        db.note_misses(args[1:2])
    return replies


def _run_field(operation: _FieldOperation, data: bytearray) -> int | None:
    """Do something with a field of bytes, and return its reply."""
    bits = _BitRange(operation.offset, operation.offset + operation.width)
    first, last = bits.start >> 3, (bits.stop + 7) >> 3
    part = bytes(data[first:last]).ljust(last - first, b"\0")
    shift = last * 8 - bits.stop
    whole = int.from_bytes(part, "big")
    mask = (1 << operation.width) - 1
    old = operation.wrapped(whole >> shift & mask)
    if operation.name == "GET":
        return old
    wanted = operation.value + (old if operation.name == "INCRBY" else 0)
    if operation.name == "SET" and not operation.is_signed:
        wanted &= (1 << 64) - 1
    new = operation.fitted(wanted)
    if new is None:
        return None
    whole = whole & ~(mask << shift) | (new & mask) << shift
    data[first:last] = whole.to_bytes(last - first, "big")
    return new if operation.name == "INCRBY" else old


COMMANDS: dict[str, Command] = {
    "bitcount": command(_bitcount, -2, "readonly"),
    "bitfield": command(_bitfield, -2, "write denyoom"),
    "bitfield_ro": command(_bitfield, -2, "readonly fast"),
    "bitop": command(_bitop, -4, "write denyoom", 2, -1),
    "bitpos": command(_bitpos, -3, "readonly"),
    "getbit": command(_getbit, 3, "readonly fast"),
    "setbit": command(_setbit, 4, "write denyoom"),
}
