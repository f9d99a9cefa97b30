"""How failures cross the border between relstate and Spark, in both directions.

Promises: an error of relstate raised in one of Spark's Python workers ends up in the user's
exception with its class and its whole text, without a traceback of relstate's insides; and what
a user called directly raises relstate's own class, however Spark wrapped it on the way.
Does not know: what any of the errors mean. Other exceptions pass unchanged: they are bugs, and
their tracebacks are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from relstate.storage import errors

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")

# The last line of a Python traceback, as Spark's exceptions carry it.
_RAISED = re.compile(rf"^{re.escape(errors.__name__)}\.(\w+): (.*)$", re.MULTILINE)
# What stands around the sentence in the text of an exception of Spark's.
_BEFORE = re.compile(
    r"An error occurred while calling \S+\s+: "
    r"|Job aborted due to stage failure: .*? executor [^)]*\): "
    r"|An exception was thrown from the Python worker:\s+"
)
_JAVA_CLASS = re.compile(r"(?:[\w$]+\.)+([\w$]+(?:Exception|Error)): ")
_TRACEBACK = re.compile(r"(?s:.*)Traceback \(most recent call last\):\n(?: .*\n)+")
_BEHIND = re.compile(
    r"\n\s+at \S+\(.*|\n(?:Caused by|Driver stacktrace|JVM stacktrace)\b.*|\n== SQL.*"
    r"|; line \d+ pos \d+;\n.*",
    re.DOTALL,
)
_LONGEST = 1_000


def reported(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return ``method`` for Spark to call: its errors of relstate carry no inner traceback."""

    @wraps(method)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return method(*args, **kwargs)
        except errors.RelstateError as error:
            raise error.with_traceback(None) from None

    return call


def reported_items(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield ``items`` to Spark; errors of relstate on the way carry no inner traceback."""
    try:
        yield from items
    except errors.RelstateError as error:
        raise error.with_traceback(None) from None


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise relstate's own error where Spark wrapped one in an exception of its own."""
    try:
        yield
    except errors.RelstateError:
        raise
    except Exception as error:
        own = own_error(str(error))
        if own is None:
            raise
        raise own from None


def own_error(text: str) -> errors.RelstateError | None:
    """Return the error of relstate that the text of Spark's exception tells of; None if none."""
    for name, message in reversed(_RAISED.findall(text)):
        found = getattr(errors, name, None)
        if isinstance(found, type) and issubclass(found, errors.RelstateError):
            return found(message)
    return None


def told(error: Exception) -> str:
    """Return what an exception says, as a person reads it: its class, and its sentence on one line.

    Stacks, plans and the text of queries, which Spark puts around it, are left out.
    """
    kind, text = type(error).__name__, _BEHIND.sub("", f"{error}\n", count=1)
    while found := _BEFORE.match(text) or _JAVA_CLASS.match(text):
        kind = found[1] if found.re is _JAVA_CLASS else kind
        text = text[found.end() :]
    text = " ".join(_TRACEBACK.sub("", text).split())
    return f"{kind}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"
