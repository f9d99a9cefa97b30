"""What failed when Spark ran a query: the query, a row, or the machines.

    query     Spark refuses it whatever the rows are: an analysis error, or a feature it lacks
    row       an expression fails for a value: a division by zero, a bad cast, an overflow
    machine   everything else: an executor was lost or out of memory, a block cannot be read, a
              Python worker lacks a module, the server of Spark Connect does not answer

Spark's errors are told apart by their SQLSTATEs. What functions of Java raise has none: it is a
failure of the row if its class says so, or if its stack begins in an expression. What is unknown is
a failure of the machine: it is tried again and blames no row.

Does not know: what is done about a failure.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from pyspark.errors import AnalysisException, ParseException, PySparkException

from .failure import describe_error, stack_of


class FailureKind(Enum):
    """What failed."""

    QUERY = auto()
    ROW = auto()
    MACHINE = auto()


# Data exceptions, cardinality violations (two rows of a scalar subquery), constraints on values (a
# key twice in a map), and what raise_error() raises.
_ROW_STATES = "21", "22", "23", "P0"
# Features that Spark lacks, errors of names and types, limits of a query, as of its recursion.
_QUERY_STATES = "0A", "42", "54"
_ROW_CONDITIONS = (
    # Of an array that a value makes too long; its state is that of limits.
    "COLLECTION_SIZE_LIMIT_EXCEEDED",
    # Of a text that a format does not fit; its state is that of a syntax error.
    "INVALID_FORMAT",
    # Of a text that Spark parses otherwise than Spark 2 did; its state is that of a syntax error.
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION",
)
# The limits of a buffer that a setting of Spark, not the query, sets.
_MACHINE_CONDITIONS = ("KRYO_BUFFER_OVERFLOW",)
# What only a value raises, in functions whose errors have no condition.
_ROW_CLASSES = frozenset(
    """ArithmeticException DataFormatException DateTimeException DateTimeParseException
    NumberFormatException PatternSyntaxException SparkArithmeticException
    SparkArrayIndexOutOfBoundsException SparkDateTimeException SparkNumberFormatException
    SparkUpgradeException UnsupportedTemporalTypeException URISyntaxException
    ZoneRulesException""".split()  # noqa: SIM905
)
# What a value raises if an expression does, besides those; an Error is one of the machine.
_JAVA_EXCEPTION = re.compile(r"\w*Exception\Z")
# The first line of a stack that is not one of Java or Scala, if it is one of an expression.
_EXPRESSION_FRAME = re.compile(
    r"\s*(?:at (?:java\.|javax\.|jdk\.|sun\.|scala\.)\S*.*\s+)*"
    r"at org\.apache\.spark\.(?:sql\.catalyst\.(?:expressions|util)|sql\.types|unsafe)\."
)
_CONDITION = re.compile(r"^\w+: \[([A-Z][A-Z0-9_]*)[A-Z0-9_.]*\]")
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_SEARCHED = 100_000


def failure_kind(error: BaseException) -> FailureKind:
    """Return what failed, of an error that is not one of relstate."""
    if isinstance(error, ParseException | AnalysisException):
        return FailureKind.QUERY
    if not isinstance(error, Exception):
        return FailureKind.MACHINE
    description = describe_error(error)
    condition = condition_of(error)
    text = str(error)[:_SEARCHED]
    state = _STATE.search(text, max(text.find(f"[{condition}"), 0))
    if condition in _MACHINE_CONDITIONS:
        return FailureKind.MACHINE
    if condition in _ROW_CONDITIONS:
        return FailureKind.ROW
    if condition and state is not None:
        return _kind_of_state(state[1])
    is_of_spark = isinstance(error, PySparkException) or "java" in type(error).__name__.lower()
    if is_of_spark and not condition and _is_of_value(error, description.partition(":")[0]):
        return FailureKind.ROW
    return FailureKind.MACHINE


def _is_of_value(error: Exception, name: str) -> bool:
    """Return whether an exception of the JVM, of a class, is raised for a value."""
    if name in _ROW_CLASSES:
        return True
    if not _JAVA_EXCEPTION.match(name):
        return False
    return _EXPRESSION_FRAME.match(stack_of(error)) is not None


def condition_of(error: Exception) -> str:
    """Return the name of the condition that Spark raised, without a part; "" if there is none."""
    match = _CONDITION.match(describe_error(error))
    return "" if match is None else match[1]


def _kind_of_state(state: str) -> FailureKind:
    if state.startswith(_ROW_STATES):
        return FailureKind.ROW
    return FailureKind.QUERY if state.startswith(_QUERY_STATES) else FailureKind.MACHINE
