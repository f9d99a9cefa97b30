"""The error that says that a view could not be computed.

What raises it is the query, a row of its inputs, or the machines (`failure_kind`). Only the first
two are failures of the view, which remain until it, or a row, is changed.

Does not know: how jobs run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import SparkSession

from relstate.connector.failure import describe_error
from relstate.connector.failure_kind import FailureKind, failure_kind
from relstate.storage import errors

from .failing_expression import failing_expression, in_words_of_query
from .failing_row import FailingRow
from .general_reason import general_sentence

KEPT_ERRORS = (errors.CommitError, errors.StorageError, errors.SessionError, errors.MissingError)
"""Errors that have nothing to do with a view or its rows."""
# As an executor names the group whose sum overflows.
_GROUP = re.compile(r" in the group with .*(?=; correct)", re.DOTALL)
# What the code of the driver raises if it is wrong: it would be raised again for ever.
_DEFECTS = TypeError, AttributeError, NameError, LookupError, AssertionError
_RECURSION_LIMIT = re.compile(r"RECURSION_\w+_EXCEEDED")

_logger = logging.getLogger(__name__)


def view_failure(
    view: str,
    error: Exception,
    query: str = "",
    row: FailingRow | None = None,
    expressions: Mapping[str, str] = MappingProxyType({}),
) -> Exception:
    """Return the error that says that a view could not be computed.

    ViewFailedError for the failures of a query or of a row; JobFailedError for those of machines;
    `KEPT_ERRORS` are returned as they are. ``query``: of the view. ``row``: the one that fails, if
    it is known. ``expressions``: of the fields that its plan computes. Spark's stack is no part of
    an error: it has its one sentence, and the log the rest.
    """
    if isinstance(error, (errors.ViewFailedError, *KEPT_ERRORS)):
        return error
    if isinstance(error, errors.RelstateError):
        place = "" if row is None else f" for {row}"
        reason = in_words_of_query(str(error), expressions, query)
        return errors.ViewFailedError(f"view {view!r} could not be computed{place}: {reason}")
    _logger.debug("view %s could not be computed", view, exc_info=error)
    reason = describe_error(error)
    kind = failure_kind(error)
    if kind is FailureKind.MACHINE:
        return errors.JobFailedError(
            f"the job of view {view!r} failed, and neither its query nor a row is known to be the "
            f"reason: refresh again; if that fails too, look at Spark's log. What was raised: "
            f"{reason}"
        )
    if _RECURSION_LIMIT.search(reason):
        advice = (
            "its recursion reached a limit of Spark: correct the rows that it follows, or create "
            "the view again with a greater MAX RECURSION LEVEL, or LIMIT ALL"
        )
    elif kind is FailureKind.QUERY:
        advice = "Spark does not run its query: create the view again with another SELECT"
    else:
        expression = failing_expression(str(error), query, expressions)
        subject = "an expression of its SELECT" if expression is None else f"{expression!r}"
        place = "a row of its inputs" if row is None else str(row)
        advice = (
            f"{subject} fails for {place}: correct the row, or create the view again with an "
            "expression that does not fail"
        )
    return errors.ViewFailedError(
        f"view {view!r} could not be computed; {advice}. What was raised: {reason}"
    )


def reason_of_row(
    error: Exception, expressions: Mapping[str, str], query: str, session: SparkSession
) -> str:
    """Return why a view cannot be computed for a row, in the words of its query.

    Without values: they may be those of other rows, which the row is joined or added up with.
    ``expressions``: of the fields that its plan computes. ``session``: of the view.
    """
    if isinstance(error, errors.RelstateError):
        return in_words_of_query(_GROUP.sub("", str(error)), expressions, query)
    expression = failing_expression(str(error), query, expressions)
    subject = "an expression of the SELECT" if expression is None else repr(expression)
    return f"{subject} fails for this row: {general_sentence(error, session)}"


def continued_error(error: errors.JobFailedError) -> errors.JobFailedError:
    """Return the error of a CREATE whose job failed: what it has committed is kept."""
    return errors.JobFailedError(
        f"{error}; what was read so far is committed: the next refresh continues, or DROP "
        "MATERIALIZED VIEW gives it up"
    )


def is_of_machine(error: Exception) -> bool:
    """Return whether what a refresh raised may not be raised again later, whatever the rows are."""
    if isinstance(error, errors.RelstateError):
        return isinstance(
            error, (errors.CommitError, errors.FilesystemError, errors.StorageFullError)
        )
    return not isinstance(error, _DEFECTS) and failure_kind(error) is FailureKind.MACHINE
