"""The laws of lengths of time: they are read as Spark reads intervals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.duration import duration_text, parse_interval, whole_seconds
from relstate.storage.errors import OptionError


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


@given(st.integers(0, 10**9))
def test_what_is_written_is_read_back(seconds: int) -> None:
    """A length of time as text is the same length again."""
    assert whole_seconds(duration_text(seconds)) == seconds


def test_a_length_of_time_is_written_in_its_units() -> None:
    """The largest first, and none that is zero."""
    texts = [duration_text(seconds) for seconds in (0, 1, 90, 86_400, 90_000, 604_800)]

    assert texts == [
        "0 seconds",
        "1 second",
        "1 minute 30 seconds",
        "1 day",
        "1 day 1 hour",
        "7 days",
    ]


def test_durations_in_python_are_texts_too(tmp_path: Path) -> None:
    """As properties of SQL are: of stores, vacuums and tables; numbers are seconds as before."""
    with Store.create(str(tmp_path / "s"), retention="7 days") as store:
        assert store.state.settings.retention == 7 * 86_400
        store.create_table(
            "t", "k INT, v INT", primary_key=["k"], ttl="90 minutes", tombstone_retention="1 day"
        )
        properties = store.state.table("t").definition.properties
        assert (properties.ttl, properties.tombstone_retention) == (5400, 86_400)
        store.set_ttl("t", "2 days")
        assert store.state.table("t").definition.properties.ttl == 2 * 86_400
        store.vacuum(retention="1 hour")
        store.vacuum("3600")
        Store.open(store.path, max_staleness="5 seconds").close()


@pytest.mark.parametrize("duration", ["7 dayz", "", "-1 day", "1.5 seconds", "99999 weeks" * 9])
def test_a_text_that_is_no_duration_is_refused(tmp_path: Path, duration: str) -> None:
    """The message names the argument, the text and what it can be."""
    with Store.create(str(tmp_path / "s")) as store:
        for call in (
            lambda: Store.create(str(tmp_path / "other"), retention=duration),
            lambda: store.vacuum(duration),
        ):
            with pytest.raises(OptionError, match=r"retention is '.*as in"):
                call()
        with pytest.raises(OptionError, match=r"ttl is '.*as in"):
            store.create_table("t", "k INT", primary_key=["k"], ttl=duration)
    assert not (tmp_path / "other").exists()
