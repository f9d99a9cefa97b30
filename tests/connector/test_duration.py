"""The laws of lengths of time: they are read as Spark reads intervals."""

from __future__ import annotations

import pytest

from relstate.connector.duration import parse_interval, whole_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), (" 90 ", 90), ("2 minutes", 120), ("interval 1 week, 1 day", 691_200)],
)
def test_a_length_of_time_is_seconds(text: str, seconds: int) -> None:
    """A number of seconds, or a number with units."""
    assert whole_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "1.5 days", "1.5 seconds", "-1 day", "3 days and 2"])
def test_what_is_not_whole_seconds_is_refused(text: str) -> None:
    """Fractions, negative lengths and other text are errors."""
    with pytest.raises(ValueError, match="number of seconds"):
        whole_seconds(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("200 milliseconds", 0.2),
        ("INTERVAL 1 Minute 1.5 seconds", 61.5),
        ("1 hour -10 seconds", 3_590),
        ("500 microseconds, 1millisecond", 0.0015),
        ("-1 week", -604_800),
    ],
)
def test_an_interval_is_read_as_spark_does(text: str, seconds: float) -> None:
    """Intervals may have units below a second, fractions of a second, and signs."""
    assert float(parse_interval(text)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "interval", "x", "1.5 minutes", ". seconds", "1 month", "1 second x", "1 secondx"]
)
def test_what_is_no_interval_is_refused(text: str) -> None:
    """Only seconds have fractions; a month has no fixed length."""
    with pytest.raises(ValueError, match="number of seconds, or an interval"):
        parse_interval(text)
