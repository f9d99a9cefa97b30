"""Arguments that scripts give to functions of the server, and the errors of wrong ones.

Does not know: the runtime, which raises the errors within Lua.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Results = tuple[Any, ...]


class RefusedError(Exception):
    """What a function does not take; ``%s`` in the text stands for the name of the function."""


def wrong_argument(args: Sequence[Any], index: int, expected: str, *, missing: str) -> RefusedError:
    """Return the error of an argument of a wrong type; ``missing``: the type of none at all."""
    kind = _kind_of(args[index]) if index < len(args) else missing
    return RefusedError(f"bad argument #{index + 1} to '%s' ({expected} expected, got {kind})")


def _kind_of(value: Any) -> str:
    """Return what Lua calls the type of a value."""
    if isinstance(value, bytes):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "nil" if value is None else "table"


def checked(name: bytes, run: Callable[..., Results]) -> Callable[..., Results]:
    """Return a function that returns True and the results, or False and the error."""

    def run_checked(*args: Any) -> Results:
        try:
            return (True, *run(*args))
        except RefusedError as error:
            return False, str(error).replace("%s", name.decode()).encode()

    return run_checked
