"""Why an expression fails, said without the values of rows.

Promises: the reason is Spark's sentence of its error, in which values of rows are an ellipsis. So
it holds for all rows for which the expression fails, and a row that is erased is in the reason of
no other one.
Does not know: plans, or which rows there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relstate.connector.failure import describe_error, known_cause, without_context_log

from .failing_expression import evaluated_fragment
from .sessions import is_classic

# Parameters of Spark's sentences that are the same for all rows.
_OF_EXPRESSION = frozenset(
    (
        "alternative",
        "ansiConfig",
        "config",
        "funcName",
        "functionName",
        "precision",
        "scale",
        "sourceType",
        "suggestion",
        "symbol",
        "targetType",
    )
)
# Conditions of which all parameters are.
_WITHOUT_VALUES = frozenset({"ARITHMETIC_OVERFLOW"})
_ELLIPSIS = "…"
# The condition in the text of an error.
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\]")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an expression fails for a row: Spark's sentence; "" if there is none.

    ``is_of_whole``: whether Spark says that the whole expression failed; else a part of it may
    have, and for another row another part.
    """

    sentence: str = ""
    is_of_whole: bool = True

    def __str__(self) -> str:
        """Return it as the end of a sentence on any row for which the expression fails."""
        if not self.sentence:
            return ""
        return f"{':' if self.is_of_whole else '; the first such row:'} {self.sentence}"


def general_reason(error: BaseException | None, expression: str, session: SparkSession) -> Reason:
    """Return why an expression fails, of what Spark raised for a row.

    ``expression``: as it was evaluated. ``session``: of the classic Spark.
    """
    with without_context_log():
        known = known_cause(error) if isinstance(error, Py4JJavaError) else error
        if not isinstance(known, PySparkException):
            return Reason()
        condition, parameters = known.getCondition(), known.getMessageParameters() or {}
        is_of_whole = evaluated_fragment(str(known)) == expression.strip()
    if condition is None:
        return Reason(type(known).__name__, is_of_whole)
    return Reason(_sentence(known, condition, parameters, session), is_of_whole)


def general_sentence(error: Exception, session: SparkSession) -> str:
    """Return what a job raised for its rows, without their values.

    It is Spark's sentence, or no more than the kind of the error and its condition.
    """
    with without_context_log():
        known = known_cause(error) if isinstance(error, Py4JJavaError) else error
        if isinstance(known, PySparkException) and is_classic(session):
            condition, parameters = known.getCondition(), known.getMessageParameters()
            if condition is not None and parameters is not None:
                return _sentence(known, condition, parameters, session)
    text = describe_error(error)
    kind, condition_text = text.partition(":")[0], _CONDITION.search(text)
    return kind if condition_text is None else f"{kind}: {condition_text[0]}"


def _sentence(
    error: PySparkException, condition: str, parameters: dict[str, str], session: SparkSession
) -> str:
    shown = {
        name: value if condition in _WITHOUT_VALUES or name in _OF_EXPRESSION else _ELLIPSIS
        for name, value in parameters.items()
    }
    jvm: Any = session._jvm
    message = jvm.org.apache.spark.SparkThrowableHelper.getMessage(condition, shown)
    return f"{type(error).__name__}: {' '.join(str(message).split())}"
