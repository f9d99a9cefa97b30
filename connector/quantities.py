"""Numbers as people read them: counts, sizes and measured times.

Does not know: what is counted.
"""

from __future__ import annotations


def count(number: int) -> str:
    """Return a number with separators: 1,234,567."""
    return f"{number:,}"


def size(number: int) -> str:
    """Return a number of bytes in a unit: 1.2 MiB."""
    if number < 1024:
        return f"{number} B"
    value, units = float(number), iter(("KiB", "MiB", "GiB", "TiB", "PiB"))
    unit = "B"
    while value >= 1024 and unit != "PiB":
        value, unit = value / 1024, next(units)
    return f"{value:.1f} {unit}"


_TIMES = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def elapsed(seconds: float) -> str:
    """Return a measured time in one unit: 4.5 ms, 12 s, 3.2 h."""
    unit, length = next((time for time in _TIMES if seconds >= time[1]), ("s", 1.0))
    value = seconds / length
    return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"
