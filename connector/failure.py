"""Errors at the border between relstate and Spark, in both directions.

Promises: an error of relstate raised in one of Spark's Python workers arrives in the user's
exception with its class and its whole text, without a traceback of relstate's internals; a method
that a user called directly raises relstate's own class, however Spark wrapped it, and PySpark logs
nothing beside it.
Does not know: what any of the errors mean. Other exceptions pass unchanged: they are bugs, and
their tracebacks are needed.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from relstate.storage import errors

from .spark.worker_output import hide_traceback

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")

# The last line of a Python traceback, as Spark's exceptions carry it, or that line alone.
_RAISED = re.compile(rf"(?:^|(?<=: )){re.escape(errors.__name__)}\.(\w+): (.*)$", re.MULTILINE)
# What Spark puts before, and after, the sentence in the text of its exceptions.
_BEFORE = re.compile(
    r"An error occurred while calling \S+\s+: "
    r"|Job aborted due to stage failure: .*? executor [^)]*\): "
    r"|An exception was thrown from the Python worker:\s+"
)
# What Spark raises where another thread has run the job, down to what that raised.
_AWAITED = re.compile(r"Exception thrown in awaitResult:\s+(?:at .*\s+|\.\.\. .*\s+)*Caused by: ")
_FRAME = re.compile(r"^\s+at \S+\(", re.MULTILINE)
_JAVA_CLASS = re.compile(r"(?:[\w$]+\.)+([\w$]+(?:Exception|Error))(?:: |\s*\Z)")
_TRACEBACK = re.compile(r"(?s:.*)Traceback \(most recent call last\):\n(?: .*\n)+")
_AFTER = re.compile(
    r"\n\s+at \S+\(.*|\n(?:Caused by|Driver stacktrace|JVM stacktrace)\b.*|\n== SQL.*"
    r"|; line \d+ pos \d+;\n.*",
    re.DOTALL,
)
# The plan that Spark appends to what it finds wrong with a query.
_PLAN = re.compile(r";\n['!]?[A-Z].*", re.DOTALL)
_LONGEST = 1_000
_SOURCE_NOT_FOUND = re.compile(r"\[DATA_SOURCE_NOT_FOUND\].*relstate")
# What relstate needs in the Python of a worker.
_MODULE_NOT_FOUND = re.compile(
    r"ModuleNotFoundError: No module named '(relstate|pyarrow|numpy|lmdb|xxhash|sqlglot|pandas)\b"
)
_NO_SOURCE = (
    "the Python that Spark starts does not find relstate: set the environment variable "
    "PYSPARK_PYTHON to the Python that has it before Spark starts; `relstate doctor` says which "
    "Pythons Spark starts and what each lacks"
)
# As PySpark names them (pyspark/errors/exceptions/base.py).
_CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_IS_SILENT = ContextVar("_IS_SILENT", default=False)


def strip_traceback(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return ``method`` as Spark should call it: relstate's errors leave without a traceback."""

    @wraps(method)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return method(*args, **kwargs)
        except errors.RelstateError as error:
            hide_traceback()
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
    """Raise relstate's own error where Spark wrapped one in an exception of its own.

    SessionError if Spark does not find relstate. PySpark logs nothing of what is raised.
    """
    try:
        with without_context_log():
            yield
    except errors.RelstateError:
        raise
    except Exception as error:
        text = str(error)
        own = find_own_error(text)
        if own is None:
            own = _session_error(text)
        if own is None:
            raise
        raise own from None


@contextmanager
def in_short() -> Iterator[None]:
    """Raise what Spark raises as its sentence, in the class of what failed first.

    The text of the query, which is not the user's, plans and stacks are left out. What fails in a
    subquery reaches PySpark within other exceptions, which it does not know.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        with without_context_log():
            known = known_cause(error) if isinstance(error, Py4JJavaError) else error
        if known is None:
            raise
        raise _shortened(known) from None


def known_cause(error: Py4JJavaError) -> PySparkException | None:
    """Return the outermost cause of an exception of the JVM that PySpark knows.

    If it knows none of them, the outermost that has one of Spark's conditions; None if none has.
    """
    from pyspark.errors.exceptions.captured import UnknownException, convert_exception

    cause, with_condition = error.java_exception, None
    while cause is not None:
        known: PySparkException = convert_exception(cause)
        if not isinstance(known, UnknownException):
            return known
        if with_condition is None:
            # What PySpark does not know it converts without its condition.
            candidate = UnknownException(origin=cause)
            with_condition = None if candidate.getCondition() is None else candidate
        cause = cause.getCause()
    return with_condition


def _shortened(error: PySparkException) -> PySparkException:
    """Return an exception of PySpark with its sentence alone."""
    from pyspark import errors as spark_errors

    kind = getattr(spark_errors, type(error).__name__, None)
    text = str(error)
    sentence = _AFTER.sub("", f"{text}\n", count=1).strip()
    condition = error.getCondition()
    if kind is None or condition is None or sentence == text.strip():
        return error
    sentence = sentence.removeprefix(f"[{condition}] ")
    shortened: PySparkException = kind(sentence, condition, error.getMessageParameters() or {})
    return shortened


@contextmanager
def without_context_log() -> Iterator[None]:
    """Keep PySpark from logging, in this thread, the exceptions that it raises.

    It logs each error of a query as a record of JSON with the stack of the JVM.
    """
    from pyspark.logger import PySparkLogger  # only here: the command line starts without Spark

    token = _IS_SILENT.set(True)
    try:
        for name in _CONTEXT_LOGGERS:
            logger = PySparkLogger.getLogger(name)
            if _is_logged not in logger.filters:
                logger.addFilter(_is_logged)
        yield
    finally:
        _IS_SILENT.reset(token)


def _session_error(text: str) -> errors.SessionError | None:
    """Return what is wrong with the session that Spark's exception is of; None for others."""
    if _SOURCE_NOT_FOUND.search(text):
        return errors.SessionError(_NO_SOURCE)
    missing = _MODULE_NOT_FOUND.search(text)
    if missing is None:
        return None
    return errors.SessionError(
        f"the Python that Spark starts has no module {missing[1]!r}: before Spark, or the server "
        f"of Spark Connect, starts, set PYSPARK_PYTHON to the Python that has it, such as "
        f"PYSPARK_PYTHON={sys.executable}, or activate its environment; `relstate doctor` says "
        "which Pythons Spark starts and what each lacks"
    )


def _is_logged(record: logging.LogRecord) -> bool:
    return not _IS_SILENT.get()


def find_own_error(text: str) -> errors.RelstateError | None:
    """Return the error of relstate that is in the text of Spark's exception; None if none is.

    A plan in the text has the errors that its expressions may raise, none of which was raised.
    """
    for name, message in reversed(_RAISED.findall(_PLAN.sub("", text))):
        error_class = getattr(errors, name, None)
        if isinstance(error_class, type) and issubclass(error_class, errors.RelstateError):
            return error_class(message)
    return None


def describe_error(error: Exception) -> str:
    """Return an exception as one line for a person: its class and its sentence.

    Stacks, plans and the text of queries, which Spark puts around the sentence, are left out.
    """
    text = _AWAITED.sub("", f"{error}\n", count=1)
    kind, text = type(error).__name__, _AFTER.sub("", text, count=1)
    while prefix := _BEFORE.match(text) or _JAVA_CLASS.match(text):
        kind = prefix[1] if prefix.re is _JAVA_CLASS else kind
        text = text[prefix.end() :]
    text = " ".join(_TRACEBACK.sub("", text).split())
    return f"{kind}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"


def stack_of(error: Exception) -> str:
    """Return the stack of what failed first in the JVM, from its first line; "" if none is shown.

    It is in the text of an exception that PySpark does not know, and beside that of others.
    """
    texts = str(error), getattr(error, "_stackTrace", None), getattr(error, "_stacktrace", None)
    for text in texts:
        stack = _FRAME.search(_AWAITED.sub("", text or "", count=1))
        if stack is not None:
            return stack.string[stack.start() :]
    return ""
