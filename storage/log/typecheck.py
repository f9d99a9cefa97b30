"""Whether a value that was read from a file has the types that its class declares.

A file with a right checksum may still say anything. Decoding builds dataclasses from it; this walks
them, field by field, before anybody relies on them.
Does not know: which values make sense together.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_Check = Callable[[Any], bool]

# What any number in a file may be at most: numpy and the file formats hold 64 bits.
_MOST = 2**63 - 1


def check_types(value: Any) -> None:
    """Raise ValueError unless all fields of a dataclass, and of those in it, have their types."""
    _check_fields(type(value), value)


def _check_fields(cls: type, value: Any) -> None:
    for name, check in _checks_of(cls):
        if not check(getattr(value, name)):
            raise ValueError(f"{name} of {cls.__name__} is {getattr(value, name)!r:.100}")


@cache
def _checks_of(cls: type) -> tuple[tuple[str, _Check], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, _check_of(hints[field.name])) for field in fields(cls))


@cache
def _check_of(hint: Any) -> _Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: True
    if hint is int:
        return lambda value: type(value) is int and -_MOST <= value <= _MOST
    if origin is Literal:
        return lambda value: value in arguments
    if origin in (Union, types.UnionType):
        return _union_check(tuple(map(_check_of, arguments)))
    if origin is tuple and arguments[-1] is Ellipsis:
        return _items_check(_check_of(arguments[0]))
    if origin is tuple:
        return _record_check(tuple(map(_check_of, arguments)))
    if origin is Mapping:
        return _mapping_check(*map(_check_of, arguments))
    if is_dataclass(hint):
        return _dataclass_check(hint)
    return lambda value: isinstance(value, hint)


def _union_check(checks: tuple[_Check, ...]) -> _Check:
    return lambda value: any(check(value) for check in checks)


def _items_check(check: _Check) -> _Check:
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def _record_check(checks: tuple[_Check, ...]) -> _Check:
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(checks)
        and all(check(item) for check, item in zip(checks, value, strict=True))
    )


def _mapping_check(check_key: _Check, check_item: _Check) -> _Check:
    return lambda value: all(check_key(key) and check_item(item) for key, item in value.items())


def _dataclass_check(cls: Any) -> _Check:
    def check(value: Any) -> bool:
        if not isinstance(value, cls):
            return False
        _check_fields(type(value), value)
        return True

    return check
