"""The library ``struct`` of scripts: numbers and strings as bytes, as Redis 7.0 has it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from .arguments import RefusedError, Results, checked, wrong_argument

_SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "l": 8, "L": 8, "T": 8, "f": 4, "d": 8, "x": 1}
_MOST_INTEGER_BYTES = 32
_MOST_RESULTS = 7000
_MOST_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class _Field:
    """One option of a format. ``padding``: zero bytes before it; ``is_big``: its bytes' order."""

    option: str
    size: int
    padding: int
    is_big: bool


def _fields(layout: bytes, start: int = 0) -> Generator[_Field, int | None, None]:
    """Yield the fields of a format. What is sent in is where the field after it begins."""
    text, index, position = layout.decode("latin-1"), 0, start
    is_big, alignment = False, 1
    while index < len(text):
        option = text[index]
        index += 1
        if option in "<>=":
            is_big = option == ">"
        elif option == "!":
            number, index = _number(text, index, _MOST_ALIGNMENT // 2)
            if number < 1 or number & (number - 1):
                raise RefusedError("alignment is not a power of 2")
            alignment = number
        elif option in " ":
            pass
        else:
            size, index = _size(option, text, index)
            aligned = min(size, alignment)
            padding = 0
            if aligned > 1 and option != "c":
                if aligned & (aligned - 1):
                    raise RefusedError("alignment is not a power of 2")
                padding = -position & (aligned - 1)
            position += padding + size
            moved = yield _Field(option, size, padding, is_big)
            position = position if moved is None else moved


def _number(text: str, index: int, default: int) -> tuple[int, int]:
    end = index
    while end < len(text) and text[end].isdigit():
        end += 1
    if end == index:
        return default, index
    if end - index > 9:
        raise RefusedError("integral size overflow")
    return int(text[index:end]), end


def _size(option: str, text: str, index: int) -> tuple[int, int]:
    """Return how many bytes an option takes, 0 for a string, and where the next option is."""
    if option in "iI":
        size, index = _number(text, index, 4)
        if size > _MOST_INTEGER_BYTES:
            raise RefusedError(
                f"integral size {size} is larger than limit of {_MOST_INTEGER_BYTES}"
            )
        return size, index
    if option == "c":
        return _number(text, index, 1)
    if option == "s":
        return 0, index
    if option not in _SIZES:
        raise RefusedError(f"bad argument #1 to '%s' (invalid format option '{option}')")
    return _SIZES[option], index


def _pack(*args: Any) -> Results:
    layout = _text_of(args, 0)
    result, index = bytearray(), 1
    fields = _fields(layout)
    field = next(fields, None)
    while field is not None:
        result += bytes(field.padding)
        if field.option == "x":
            result += b"\0"
        elif field.option in "cs":
            data = _text_of(args, index)
            size = len(data) if field.option == "s" or not field.size else field.size
            if len(data) < size:
                raise RefusedError(f"bad argument #{index + 1} to '%s' (string too short)")
            result += data[:size] + (b"\0" if field.option == "s" else b"")
            index += 1
        else:
            result += _packed(field, _number_of(args, index))
            index += 1
        field = _next(fields, len(result))
    return (bytes(result),)


def _next(fields: Generator[_Field, int | None, None], position: int) -> _Field | None:
    try:
        return fields.send(position)
    except StopIteration:
        return None


def _packed(field: _Field, number: float) -> bytes:
    order = ">" if field.is_big else "<"
    if field.option in "fd":
        try:
            return struct.pack(order + field.option, number)
        except OverflowError:
            return struct.pack(order + field.option, float("inf") if number > 0 else float("-inf"))
    whole = 0 if number != number or number in (float("inf"), float("-inf")) else int(number)
    return (whole & ((1 << 8 * field.size) - 1)).to_bytes(
        field.size, "big" if field.is_big else "little"
    )


def _unpack(*args: Any) -> Results:
    layout, data = _text_of(args, 0), _text_of(args, 1)
    position = int(_number_of(args, 2)) - 1 if len(args) > 2 else 0
    if position < 0:
        raise RefusedError("offset must be 1 or greater")
    values: list[Any] = []
    fields = _fields(layout, position)
    field = next(fields, None)
    while field is not None:
        position += field.padding
        size = field.size
        if field.option == "c" and not size:
            if not values or not isinstance(values[-1], int | float):
                raise RefusedError("format 'c0' needs a previous size")
            size = int(values.pop())
        if field.option == "s":
            end = data.find(b"\0", position)
            if end < 0:
                raise RefusedError("unfinished string in data")
            values.append(data[position:end])
            size = end + 1 - position
        elif size < 0 or position + size > len(data):
            raise RefusedError("bad argument #2 to '%s' (data string too short)")
        elif field.option == "c":
            values.append(data[position : position + size])
        elif field.option != "x":
            values.append(_unpacked(field, data[position : position + size]))
        if len(values) > _MOST_RESULTS:
            raise RefusedError("too many results to unpack")
        position += size
        field = _next(fields, position)
    return (*values, position + 1)


def _unpacked(field: _Field, data: bytes) -> float:
    if field.option in "fd":
        return float(struct.unpack((">" if field.is_big else "<") + field.option, data)[0])
    order = "big" if field.is_big else "little"
    number = int.from_bytes(data, order, signed=field.option.islower())  # type: ignore[arg-type]
    return float(number)


def _size_of(*args: Any) -> Results:
    size = 0
    for field in _fields(_text_of(args, 0)):
        if field.option == "s" or (field.option == "c" and not field.size):
            shown = "s" if field.option == "s" else "c0"
            raise RefusedError(f"bad argument #1 to '%s' (option '{shown}' has no fixed size)")
        size += field.padding + field.size
    return (size,)


def _text_of(args: tuple[Any, ...], index: int) -> bytes:
    value = args[index] if index < len(args) else None
    if isinstance(value, bytes):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return b"%.14g" % value
    raise wrong_argument(args, index, "string", missing="nil")


def _number_of(args: tuple[Any, ...], index: int) -> float:
    value = args[index] if index < len(args) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, bytes):
        try:
            return float(value)
        except ValueError:
            pass
    raise wrong_argument(args, index, "number", missing="nil")


FUNCTIONS: dict[bytes, Callable[..., Results]] = {
    name: checked(name, run)
    for name, run in {b"pack": _pack, b"unpack": _unpack, b"size": _size_of}.items()
}
"""By name what returns True and the results, or False and the error."""
