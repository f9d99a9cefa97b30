"""The laws of errors that cross the border between relstate and Spark."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest
from pyspark.logger import PySparkLogger

from relstate.connector.failure import (
    describe_error,
    find_own_error,
    strip_traceback,
    strip_tracebacks,
    unwrap_errors,
    without_context_log,
)
from relstate.storage.errors import ConflictError, SchemaMismatchError, SessionError


def test_a_reported_error_shows_none_of_our_insides() -> None:
    """Spark prints the class and the whole text, and no traceback of relstate's modules."""

    @strip_traceback
    def fails() -> None:
        try:
            raise OSError("below")
        except OSError as error:
            raise ConflictError("above: do this") from error

    with pytest.raises(ConflictError) as caught:
        fails()

    text = "".join(traceback.format_exception(caught.value))
    assert "relstate.storage.errors.ConflictError: above: do this" in text
    assert "below" not in text


def test_an_error_between_two_items_is_reported_too() -> None:
    """The items before the error are passed on."""

    def items() -> Iterator[int]:
        yield 1
        raise ConflictError("later")

    received = strip_tracebacks(items())

    assert next(received) == 1
    with pytest.raises(ConflictError, match="later"):
        next(received)


def test_a_bug_keeps_its_traceback() -> None:
    """An error that is not relstate's passes unchanged, with its cause."""

    @strip_traceback
    def fails() -> None:
        raise ZeroDivisionError from ValueError("the cause")

    with pytest.raises(ZeroDivisionError) as caught:
        fails()

    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_is_found_in_the_text_of_sparks() -> None:
    """The last line of the Python traceback has the class and the message."""
    error = find_own_error(
        "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in y\n'
        "relstate.storage.errors.SchemaMismatchError: unknown column 'x': drop it\n"
        " SQLSTATE: 38000"
    )

    assert type(error) is SchemaMismatchError
    assert str(error) == "unknown column 'x': drop it"


@pytest.mark.parametrize(
    "text",
    ["", "ValueError: no", "relstate.storage.errors.Unknown: x", "x relstate.storage.errors.X: y"],
)
def test_no_error_is_made_up(text: str) -> None:
    """Other failures of Spark stay what they are."""
    assert find_own_error(text) is None


def test_an_error_that_a_plan_may_raise_is_not_raised() -> None:
    """A mistyped column is not reported as the error of an expression beside it in the plan."""
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] `opp` cannot be resolved; line 1 pos 0;\n"
        "'Project [coalesce(seq#1, raise_error(USER_RAISED_EXCEPTION, map(errorMessage, \n"
        "relstate.storage.errors.NullValueError: sequence_by is NULL\n)))]\n+- LogicalRDD [seq#1]"
    )

    assert find_own_error(text) is None


def test_a_direct_call_raises_our_own_class() -> None:
    """Relstate's class is raised, however Spark wrapped it, without Spark's stack."""
    with pytest.raises(ConflictError, match=r"^twice$") as caught, unwrap_errors():
        raise RuntimeError("Job aborted\nrelstate.storage.errors.ConflictError: twice\n\tat java")

    assert caught.value.__suppress_context__


def test_a_failure_that_is_not_ours_passes() -> None:
    """Spark's errors about its own matters are not changed."""
    with pytest.raises(RuntimeError, match="theirs"), unwrap_errors():
        raise RuntimeError("theirs")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no space left", "RuntimeError: no space left"),
        (
            (
                "[CAST_INVALID_INPUT] The value 'x' is malformed. SQLSTATE: 22018\n"
                "== SQL (line 1, position 8) ==\nSELECT x\n       ^\n"
            ),
            "RuntimeError: [CAST_INVALID_INPUT] The value 'x' is malformed. SQLSTATE: 22018",
        ),
        (
            (
                "An error occurred while calling o51.collectToPython.\n: "
                "org.apache.spark.SparkException: [MALFORMED] Bad: {0.\nTo go on.  SQLSTATE: 1\n"
                "\tat org.apache.spark.X$.y(X.scala:1)\n\t... 1 more\nCaused by: a.BException: d\n"
            ),
            "SparkException: [MALFORMED] Bad: {0. To go on. SQLSTATE: 1",
        ),
        (
            (
                "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent "
                "failure: Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): "
                "java.lang.IllegalStateException: none\n\tat a.b(C.java:1)\n\nDriver stacktrace:"
            ),
            "IllegalStateException: none",
        ),
        (
            "[UNRESOLVED] No column. SQLSTATE: 42703; line 1 pos 7;\n'Project ['nope]\n+- S",
            "RuntimeError: [UNRESOLVED] No column. SQLSTATE: 42703",
        ),
        (
            (
                "An exception was thrown from the Python worker:\n"
                "Traceback (most recent call last):\n"
                '  File "x.py", line 22, in y\n    z()\nValueError: none\n'
            ),
            "RuntimeError: ValueError: none",
        ),
        ("x" * 20_000, f"RuntimeError: {'x' * 1_000}…"),
        ("", "RuntimeError: "),
    ],
)
def test_what_is_told_of_an_exception_is_its_sentence(text: str, expected: str) -> None:
    """The description has no stack, no plan and no query, and a bounded length."""
    assert describe_error(RuntimeError(text)) == expected


def test_a_spark_that_does_not_find_relstate_is_told_what_to_set() -> None:
    """One sentence, which names the variable and the command, in place of the stack of the JVM."""
    text = (
        "An error occurred while calling o39.load.\n: org.apache.spark.SparkClassNotFoundException"
        ": [DATA_SOURCE_NOT_FOUND] Failed to find the data source: relstate. Make sure\n\tat org"
    )
    with pytest.raises(SessionError, match=r"PYSPARK_PYTHON .* `relstate doctor`") as caught:
        _fail_in_spark(text)
    assert "\n" not in str(caught.value)


def _fail_in_spark(text: str) -> None:
    with unwrap_errors():
        raise RuntimeError(text)


def test_pyspark_logs_no_error_that_is_raised() -> None:
    """It would write the stack of the JVM beside the sentence, as it does outside of relstate."""
    records: list[str] = []
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")

    def record_message(record: logging.LogRecord) -> bool:
        records.append(record.getMessage())
        return False

    logger.addFilter(record_message)
    with without_context_log():
        logger.error("inside")
    logger.error("outside")

    assert records == ["outside"]


def test_a_worker_without_relstate_is_told_what_to_set() -> None:
    """Whatever Spark calls the exception; a module of the user's own stays its error."""
    text = (
        '[UDF_USER_CODE_ERROR] Traceback (most recent call last):\n  File "worker.py", line 1\n'
        "ModuleNotFoundError: No module named '{}'\n"
    )
    for module in ("relstate", "relstate.connector", "pyarrow"):
        with pytest.raises(SessionError, match=r"no module .* PYSPARK_PYTHON=/.* doctor") as caught:
            _fail_in_spark(text.format(module))
        assert "\n" not in str(caught.value)
    with pytest.raises(RuntimeError):
        _fail_in_spark(text.format("relstate_of_others"))
