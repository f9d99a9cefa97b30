"""Errors that cross the border between relstate and Spark."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from relstate.connector.failure import own_error, reported, reported_items, unwrapped
from relstate.storage.errors import ConflictError, SchemaMismatchError


def test_a_reported_error_shows_none_of_our_insides() -> None:
    """The traceback Spark prints ends at the border, with the class and the whole text."""

    @reported
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
    """Items before it are handed over."""

    def items() -> Iterator[int]:
        yield 1
        raise ConflictError("later")

    received = reported_items(items())

    assert next(received) == 1
    with pytest.raises(ConflictError, match="later"):
        next(received)


def test_a_bug_keeps_its_traceback() -> None:
    """What is no error of relstate's passes as it is, with its cause."""

    @reported
    def fails() -> None:
        raise ZeroDivisionError from ValueError("the cause")

    with pytest.raises(ZeroDivisionError) as caught:
        fails()

    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_is_found_in_the_text_of_sparks() -> None:
    """The last line of the Python traceback says which it was."""
    error = own_error(
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
    assert own_error(text) is None


def test_a_direct_call_raises_our_own_class() -> None:
    """However Spark wrapped it, and without Spark's stack behind it."""
    with pytest.raises(ConflictError, match=r"^twice$") as caught, unwrapped():
        raise RuntimeError("Job aborted\nrelstate.storage.errors.ConflictError: twice\n\tat java")

    assert caught.value.__suppress_context__


def test_a_failure_that_is_not_ours_passes() -> None:
    """Spark's word on its own matters is not changed."""
    with pytest.raises(RuntimeError, match="theirs"), unwrapped():
        raise RuntimeError("theirs")
