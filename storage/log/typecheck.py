"""Whether a value that was read from a file has the types that its class declares.

A file with a right checksum may still say anything. Decoding builds dataclasses from it; their
fields are checked here before anybody relies on them. Opening a store checks every entry that it
reads, so the checks of a class are compiled to one function, as `dataclasses` compiles its
``__init__``; nothing that was read becomes code.
Does not know: which values make sense together.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

_Check = Callable[[Any], bool]

# What any number in a file may be at most: numpy and the file formats hold 64 bits.
_MOST = 2**63 - 1


def check_types(value: Any) -> bool:
    """Raise ValueError unless all fields of a dataclass, and of those in it, have their types.

    Return True.
    """
    cls: type = type(value)
    return _compiled(cls)(value)


@cache
def _compiled(cls: type) -> _Check:
    """Return the function that checks the fields of a dataclass, as `check_types` does."""
    hints = get_type_hints(cls)
    scope = _Scope()
    lines = ["def check(value):"]
    for field in fields(cls):
        lines += [
            f"    item = value.{field.name}",
            f"    if not ({scope.condition(hints[field.name])}):",
            f"        fail(value, {field.name!r}, item)",
        ]
    lines.append("    return True")
    exec("\n".join(lines), scope.names)
    check: _Check = scope.names["check"]
    return check


def _fail(value: Any, name: str, item: Any) -> NoReturn:
    raise ValueError(f"{name} of {type(value).__name__} is {item!r:.100}")


class _Scope:
    """The names that compiled conditions refer to."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "fail": _fail,
            "check_types": check_types,
            "are_integers": _are_integers,
        }

    def condition(self, hint: Any) -> str:
        """Return the condition, in Python, that ``item`` is of a type."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any:
            return "True"
        if hint is int:
            return f"type(item) is int and -{_MOST} <= item <= {_MOST}"
        if hint is types.NoneType:
            return "item is None"
        if origin is Literal:
            return f"item in {arguments!r}"
        if origin in (Union, types.UnionType):
            return " or ".join(f"({self.condition(argument)})" for argument in arguments)
        if origin is tuple and arguments == (int, ...):
            return "are_integers(item)"
        if origin is tuple and arguments[-1] is ...:
            check = self._check_of(arguments[0])
            return f"isinstance(item, tuple) and (not item or all(map({check}, item)))"
        if origin is tuple:
            parts = [f"{self._check_of(part)}(item[{n}])" for n, part in enumerate(arguments)]
            return " and ".join([f"isinstance(item, tuple) and len(item) == {len(parts)}", *parts])
        if origin is Mapping:
            check_key, check_item = map(self._check_of, arguments)
            items = f"{check_key}(key) and {check_item}(item) for key, item in item.items()"
            return f"isinstance(item, {self._name(Mapping)}) and all({items})"
        is_instance = f"isinstance(item, {self._name(hint)})"
        return f"{is_instance} and check_types(item)" if is_dataclass(hint) else is_instance

    def _check_of(self, hint: Any) -> str:
        """Return the name of the function that returns whether its argument is of a type."""
        return self._name(eval(f"lambda item: {self.condition(hint)}", self.names))

    def _name(self, value: Any) -> str:
        name = f"_{len(self.names)}"
        self.names[name] = value
        return name


def _are_integers(value: Any) -> bool:
    """Return whether a value is a tuple of integers of 64 bits: most of the statistics are."""
    return isinstance(value, tuple) and (
        not value or ({*map(type, value)} == {int} and min(value) >= -_MOST and max(value) <= _MOST)
    )
