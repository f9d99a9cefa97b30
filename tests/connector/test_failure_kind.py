"""The query's failures, the row's and the machine's are told apart by what Spark says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j import protocol
from pyspark.errors import AnalysisException, PythonException, SparkRuntimeException

from relstate.connector.failure import describe_error
from relstate.connector.failure_kind import FailureKind, condition_of, failure_kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK = (
    "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: Job "
    "aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost "
    "task 0.3 in stage 3.0 (TID 7) (10.0.0.1 executor 1): "
)
ROW, QUERY, MACHINE = FailureKind.ROW, FailureKind.QUERY, FailureKind.MACHINE


class Py4JJavaError(Exception):
    """An error of the JVM that PySpark does not convert, by its name."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            Py4JJavaError(
                TASK + "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by "
                "zero. SQLSTATE: 22012\n== SQL (line 1, position 1) ==\n1 / v\n^^^^^\n\tat x.y(Z)"
            ),
            ROW,
        ),
        (SparkRuntimeException("[DUPLICATED_MAP_KEY] Duplicate key. SQLSTATE: 23505"), ROW),
        (SparkRuntimeException("[USER_RAISED_EXCEPTION] no SQLSTATE: P0001"), ROW),
        (
            SparkRuntimeException("[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one. SQLSTATE: 21000"),
            ROW,
        ),
        (
            SparkRuntimeException(
                "[INCONSISTENT_BEHAVIOR_CROSS_VERSION.PARSE_DATETIME_BY_NEW_PARSER] You may get a "
                "different result SQLSTATE: 42K0B"
            ),
            ROW,
        ),
        (Py4JJavaError(TASK + "java.lang.NumberFormatException: For input string: x"), ROW),
        (Py4JJavaError(TASK + "java.util.zip.DataFormatException: no"), ROW),
        (
            Py4JJavaError(
                TASK + "java.lang.IllegalArgumentException: no\n\tat java.base/java.util.A.b(C)"
                "\n\tat org.apache.spark.sql.catalyst.expressions.GeneratedClass$I.project_1(U)"
            ),
            ROW,
        ),
        (
            Py4JJavaError(
                TASK + "java.lang.IllegalArgumentException: no\n\tat java.base/java.util.A.b(C)"
                "\n\tat org.apache.spark.storage.BlockManager.get(B)"
                "\n\tat org.apache.spark.sql.catalyst.expressions.GeneratedClass$I.processNext(U)"
            ),
            MACHINE,
        ),
        (
            Py4JJavaError(
                TASK + "java.lang.StackOverflowError\n"
                "\tat org.apache.spark.sql.catalyst.expressions.Add.eval(A)"
            ),
            MACHINE,
        ),
        (SparkRuntimeException("[INVALID_FORMAT.MISMATCH_INPUT] no SQLSTATE: 42601"), ROW),
        (AnalysisException("[UNRESOLVED_COLUMN] a SQLSTATE: 42703"), QUERY),
        (
            SparkRuntimeException("[RECURSION_LEVEL_LIMIT_EXCEEDED] Level 100. SQLSTATE: 42836"),
            QUERY,
        ),
        (SparkRuntimeException("[UNSUPPORTED_FEATURE.X] no SQLSTATE: 0A000"), QUERY),
        (
            Py4JJavaError(
                TASK + "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) "
                "Reason: Container from a bad node: exit status: 137"
            ),
            MACHINE,
        ),
        (Py4JJavaError(TASK + "java.lang.OutOfMemoryError: Java heap space"), MACHINE),
        (
            SparkRuntimeException(
                "[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes SQLSTATE: 53200"
            ),
            MACHINE,
        ),
        (Py4JJavaError(TASK + "java.io.FileNotFoundException: /tmp/blockmgr-1/rdd_1_0"), MACHINE),
        (
            PythonException(
                "[PYTHON_EXCEPTION] An exception was thrown from the Python worker:\nTraceback "
                "(most recent call last):\n  File x\nModuleNotFoundError: No module named 'numpy' "
                "SQLSTATE: 38000"
            ),
            MACHINE,
        ),
        (SparkRuntimeException("[INTERNAL_ERROR] a bug SQLSTATE: XX000"), MACHINE),
        (RuntimeError("anything else"), MACHINE),
        (ArithmeticError("of this process"), MACHINE),
        (ConnectionRefusedError(111, "refused"), MACHINE),
        (MemoryError(), MACHINE),
    ],
)
def test_the_kind_of_a_failure(error: Exception, kind: FailureKind) -> None:
    """By the class of the SQLSTATE, or of the exception; what is unknown is of the machine."""
    assert failure_kind(error) is kind


@pytest.mark.spark
@pytest.mark.parametrize("way", ["toArrow", "collect"])
@pytest.mark.parametrize(
    "expression",
    ["format_string(concat('%', id, 'q'), id)", "concat('(', id) RLIKE concat('(', id)"],
)
def test_what_a_function_of_java_raises_is_of_the_row(
    expression: str, way: str, spark: SparkSession
) -> None:
    """Whether Spark raises it as it is or within what a thread waited for; the sentence is its."""
    rows = spark.range(1).selectExpr(f"{expression} AS x")
    with pytest.raises(protocol.Py4JJavaError) as raised:
        getattr(rows, way)()
    assert failure_kind(raised.value) is ROW
    assert "awaitResult" not in describe_error(raised.value)


def test_the_condition_of_a_failure() -> None:
    """Without its part; "" if Spark gives none."""
    assert condition_of(SparkRuntimeException("[CAST_INVALID_INPUT] x")) == "CAST_INVALID_INPUT"
    assert condition_of(SparkRuntimeException("[A.B_C] x")) == "A"
    assert condition_of(RuntimeError("x")) == ""
