"""Text and local times mean the instants that they mean in Spark."""

from __future__ import annotations

import datetime

import pytest

from relstate.storage import parse_instant
from relstate.storage.errors import OptionError, UnsupportedExpressionError
from relstate.storage.instant import (
    UTC,
    parse_date,
    parse_local_timestamp,
    parse_time,
    parse_timestamp,
    zone_of,
)

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "time_zone", "expected"),
    [
        ("2026-03-01", "UTC", "2026-03-01T00:00:00+00:00"),
        ("2026-03-01 08:30:00", "UTC", "2026-03-01T08:30:00+00:00"),
        (" 2026-03-01 08:30:00.5 ", "UTC", "2026-03-01T08:30:00.500000+00:00"),
        ("2026-03-01T08:30:00.123456Z", "UTC", "2026-03-01T08:30:00.123456+00:00"),
        ("2026-03-01T08:30:00+01:00", "UTC", "2026-03-01T07:30:00+00:00"),
        ("2026-03-01 08:30:00", "Europe/Rome", "2026-03-01T07:30:00+00:00"),
        ("2026-07-01 08:30:00", "Europe/Rome", "2026-07-01T06:30:00+00:00"),
        ("2026-07-01 08:30:00Z", "Europe/Rome", "2026-07-01T08:30:00+00:00"),
        ("2026-03-01", "-05:00", "2026-03-01T05:00:00+00:00"),
    ],
)
def test_a_text_is_an_instant(text: str, time_zone: str, expected: str) -> None:
    """A zone in the text counts, not the one that is given beside it."""
    assert parse_instant(text, time_zone).isoformat() == expected


@pytest.mark.parametrize(
    ("text", "time_zone", "error"),
    [
        ("", "UTC", "'' is not a time such as 2026-03-01"),
        ("now", "UTC", "'now' is not a time such as"),
        ("2026-13-01", "UTC", "'2026-13-01' is not a time"),
        ("2026-03-01 25:00:00", "UTC", "is not a time"),
        ("2026-03-01", "Nowhere", "there is no time zone 'Nowhere'"),
        ("2999-03-01", "Europe/Rome", "zone databases disagree"),
    ],
)
def test_what_is_not_an_instant_is_refused(text: str, time_zone: str, error: str) -> None:
    """The error says what would be one."""
    with pytest.raises(OptionError, match=error):
        parse_instant(text, time_zone)


def local(*parts: int) -> int:
    """A local time in microseconds."""
    moment = datetime.datetime(*parts)  # type: ignore[arg-type]
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


@pytest.mark.parametrize("name", ["UTC", "utc", "Z", "GMT", "Etc/UTC"])
def test_utc_has_several_names(name: str) -> None:
    """All of them are one zone."""
    assert zone_of(name) is UTC
    assert UTC.instant(5) == 5


@pytest.mark.parametrize(
    ("name", "hours"), [("+02:00", 2), ("-08:30", -8.5), ("UTC+1:00", None), ("GMT+01:00", 1)]
)
def test_an_offset_is_a_zone(name: str, hours: float | None) -> None:
    """East of UTC is positive; an hour has two digits."""
    if hours is None:
        with pytest.raises(OptionError, match="there is no time zone"):
            zone_of(name)
    else:
        assert zone_of(name).instant(0) == -hours * HOUR


def test_of_a_local_time_that_comes_twice_the_earlier_is_meant() -> None:
    """A time that a clock skips is moved forward by as much as the clock."""
    rome = zone_of("Europe/Rome")

    assert rome.instant(local(2020, 7, 1)) == local(2020, 6, 30, 22)
    assert rome.instant(local(2020, 10, 25, 2, 30)) == local(2020, 10, 25, 0, 30)
    assert rome.instant(local(2020, 3, 29, 2, 30)) == local(2020, 3, 29, 1, 30)


def test_times_of_a_region_that_are_not_certain_are_refused() -> None:
    """Zone databases disagree about what was before 1970."""
    with pytest.raises(UnsupportedExpressionError, match="write the offset"):
        zone_of("Europe/Rome").instant(local(1969, 12, 31))


@pytest.mark.parametrize("name", ["Mars/Base", "", "+25:00", "+02:60", "../etc/passwd", "CET+1"])
def test_what_is_not_a_zone_is_refused(name: str) -> None:
    """The error lists the ways to name one."""
    with pytest.raises(OptionError, match=r"Europe/Rome"):
        zone_of(name)


DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "date", "timestamp"),
    [
        ("1970-1-2", 1, DAY),
        (" 1970-01-02\n", 1, DAY),
        ("1970-02", 31, 31 * DAY),
        ("1970-01-02 whatever", 1, None),
        ("1970-01-01T00:00:01.5", 0, 1_500_000),
        ("2020-02-30", None, None),
        ("yesterday", None, None),
        ("1970-01-01 25:00:00", 0, None),
        ("1970-01-01 00:00:00.1234567", 0, None),
        ("1970-01-01 00:00:00Z", 0, None),
    ],
)
def test_a_text_is_a_date_or_a_local_time(
    text: str, date: int | None, timestamp: int | None
) -> None:
    """A date may have a time, which does not count; what only Spark knows has no value."""
    assert parse_date(text) == date
    assert parse_local_timestamp(text) == timestamp


def test_a_zone_in_a_text_counts_before_the_session_s() -> None:
    """An unknown zone is refused."""
    assert parse_timestamp("1970-01-01 02:00:00+02:00", zone_of("Europe/Rome")) == 0
    assert parse_timestamp("1970-01-01 01:00:00", zone_of("+01:00")) == 0
    with pytest.raises(UnsupportedExpressionError, match="Mars/Base"):
        parse_timestamp("2020-01-01 00:00:00 Mars/Base", UTC)


def test_a_time_of_day_has_at_most_six_digits_after_the_second() -> None:
    """It is returned in nanoseconds."""
    assert parse_time("00:00:01.5") == 1_500_000_000
    assert parse_time("24:00:00") is None
    assert parse_time("00:00:00.1234567") is None
