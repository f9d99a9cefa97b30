"""The laws of numbers as people read them."""

from __future__ import annotations

import pytest

from relstate.connector.quantities import count, elapsed, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.0000123, "12 µs"),
        (0.0045, "4.5 ms"),
        (0.9996, "1,000 ms"),
        (1.0, "1 s"),
        (59.9, "60 s"),
        (90.0, "1.5 min"),
        (7200.0, "2 h"),
        (8_640_000.0, "100 d"),
    ],
)
def test_a_measured_time_has_one_unit(seconds: float, text: str) -> None:
    """Two digits, or whole numbers; never an exponent."""
    assert elapsed(seconds) == text


def test_counts_and_sizes_are_readable() -> None:
    """Separators of thousands; the largest unit that is not below 1."""
    assert count(1234567) == "1,234,567"
    assert [size(number) for number in (0, 1023, 1024, 5 << 20, 3 << 50)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 PiB",
    ]
