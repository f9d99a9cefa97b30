"""Instants as people write them."""

from __future__ import annotations

import pytest

from relstate.storage import parse_instant
from relstate.storage.errors import OptionError


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
    """Its own zone counts before the one given."""
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
def test_what_is_no_instant_is_refused(text: str, time_zone: str, error: str) -> None:
    """With what would be one."""
    with pytest.raises(OptionError, match=error):
        parse_instant(text, time_zone)
