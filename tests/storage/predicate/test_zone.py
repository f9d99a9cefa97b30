"""Local times mean the instants that they mean in Spark."""

from __future__ import annotations

import datetime

import pytest

from relstate.storage.errors import OptionError, UnsupportedExpressionError
from relstate.storage.predicate.zone import UTC, zone_of

HOUR = 3_600_000_000


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
    """And one that a clock leaps over is as much later as it leaps."""
    rome = zone_of("Europe/Rome")

    assert rome.instant(local(2020, 7, 1)) == local(2020, 6, 30, 22)
    assert rome.instant(local(2020, 10, 25, 2, 30)) == local(2020, 10, 25, 0, 30)
    assert rome.instant(local(2020, 3, 29, 2, 30)) == local(2020, 3, 29, 1, 30)


def test_times_of_a_region_that_are_not_certain_are_refused() -> None:
    """Zone databases disagree about what was before 1970."""
    with pytest.raises(UnsupportedExpressionError, match="write the offset"):
        zone_of("Europe/Rome").instant(local(1969, 12, 31))


@pytest.mark.parametrize("name", ["Mars/Base", "", "+25:00", "+02:60", "../etc/passwd", "CET+1"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    """With the ways to name one."""
    with pytest.raises(OptionError, match=r"Europe/Rome"):
        zone_of(name)
