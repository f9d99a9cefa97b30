"""Why an expression fails, said once for all rows for which it fails.

Promises: the reason is Spark's sentence of its error, in which values of the row are an ellipsis.
So a row that is erased is in the reason of no other one.
Does not know: plans, or which rows there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relstate.connector.failure import known_cause, without_context_log

from .failing_expression import evaluated_fragment

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
    shown = {
        name: value if condition in _WITHOUT_VALUES or name in _OF_EXPRESSION else _ELLIPSIS
        for name, value in parameters.items()
    }
    jvm: Any = session._jvm
    message = jvm.org.apache.spark.SparkThrowableHelper.getMessage(condition, shown)
    return Reason(f"{type(known).__name__}: {' '.join(str(message).split())}", is_of_whole)
