"""Names that are there once: those of a plan's fields, which read as what they hold, and others."""

from __future__ import annotations

import re

# What Spark does not read as the name of a column where it stands without quotes.
_RESERVED = """
    all and anti any array as asc between both by case cast cross current_date current_time
    current_timestamp current_user date day desc distinct div else end escape except exists extract
    false fetch filter for from full group having hour if in inner intersect interval into is join
    lateral leading left like limit map minus minute month natural not null nulls offset on or order
    outer over partition position right rlike second select semi session_user set some struct
    substring table then time timestamp to trailing trim true union unique unknown user using values
    when where window with within year
"""
_WORDS = frozenset(_RESERVED.split())
_LONGEST = 60
_NUMBER = re.compile(r"_\d+$")


class Namer:
    """Gives names that it has not given before, whatever their case. For one plan."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def fresh(self, base: str) -> str:
        """Return ``base`` if it is free and reads as a name, else something like it."""
        base = re.sub(r"\W+", "_", base).strip("_").lower()[:_LONGEST] or "value"
        if base[0].isdigit():
            base = f"value_{base}"
        if base in self._taken:
            base = _NUMBER.sub("", base)
        found, number = f"{base}_" if base in _WORDS else base, 2
        while found in self._taken:
            found, number = f"{base}_{number}", number + 1
        self._taken.add(found)
        return found


def free_name(name: str, taken: set[str]) -> str:
    """Return ``name``, with a number where it is taken, and take it; ``taken``: in lower case."""
    found, number = name, 2
    while found.lower() in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found.lower())
    return found
