"""Errors at the border between relstate and Spark, in both directions.

Promises: an error of relstate raised in one of Spark's Python workers arrives in the user's
exception with its class and its whole text, without a traceback of relstate's internals; a method
that a user called directly raises relstate's own class, however Spark wrapped it.
Does not know: what any of the errors mean. Other exceptions pass unchanged: they are bugs, and
their tracebacks are needed.
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
# What Spark puts before, and after, the sentence in the text of its exceptions.
_BEFORE = re.compile(
    r"An error occurred while calling \S+\s+: "
    r"|Job aborted due to stage failure: .*? executor [^)]*\): "
    r"|An exception was thrown from the Python worker:\s+"
)
_JAVA_CLASS = re.compile(r"(?:[\w$]+\.)+([\w$]+(?:Exception|Error)): ")
_TRACEBACK = re.compile(r"(?s:.*)Traceback \(most recent call last\):\n(?: .*\n)+")
_AFTER = re.compile(
    r"\n\s+at \S+\(.*|\n(?:Caused by|Driver stacktrace|JVM stacktrace)\b.*|\n== SQL.*"
    r"|; line \d+ pos \d+;\n.*",
    re.DOTALL,
)
_LONGEST = 1_000


def strip_traceback(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return ``method`` as Spark should call it: relstate's errors leave without a traceback."""

    @wraps(method)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return method(*args, **kwargs)
        except errors.RelstateError as error:
            raise error.with_traceback(None) from None

    return call


def strip_tracebacks(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield ``items`` to Spark; relstate's errors leave without a traceback."""
    try:
        yield from items
    except errors.RelstateError as error:
        raise error.with_traceback(None) from None


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Raise relstate's own error where Spark wrapped one in an exception of its own."""
    try:
        yield
    except errors.RelstateError:
        raise
    except Exception as error:
        own = find_own_error(str(error))
        if own is None:
            raise
        raise own from None


def find_own_error(text: str) -> errors.RelstateError | None:
    """Return the error of relstate that is in the text of Spark's exception; None if none is."""
    for name, message in reversed(_RAISED.findall(text)):
        error_class = getattr(errors, name, None)
        if isinstance(error_class, type) and issubclass(error_class, errors.RelstateError):
            return error_class(message)
    return None


def describe_error(error: Exception) -> str:
    """Return an exception as one line for a person: its class and its sentence.

    Stacks, plans and the text of queries, which Spark puts around the sentence, are left out.
    """
    kind, text = type(error).__name__, _AFTER.sub("", f"{error}\n", count=1)
    while prefix := _BEFORE.match(text) or _JAVA_CLASS.match(text):
        kind = prefix[1] if prefix.re is _JAVA_CLASS else kind
        text = text[prefix.end() :]
    text = " ".join(_TRACEBACK.sub("", text).split())
    return f"{kind}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"
