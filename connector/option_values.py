"""The texts of single options as values.

Promises: a text that is not a value of its option is a ValueError, whose message completes the
sentence "option 'x' is 'y': …".
Does not know: which operation has which options (options.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from relstate.storage import DEDUPLICATIONS, errors, parse_instant

BAD_ROWS = ("fail", "quarantine")
CHANGE_FORMATS = ("debezium", "json")
LATEST = "latest"
MAX_LONG = 2**63 - 1

Parse: TypeAlias = Callable[[str], Any]

_DIGITS = re.compile(r"\s*[0-9]{1,19}\s*")
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`,]+?))\s*(?:,|$)")


def text_value(text: str) -> str:
    """Return a text that is not blank."""
    if not text.strip():
        raise ValueError("it must not be empty")
    return text


def instant_text(text: str) -> str:
    """Return the text of an instant; its zone, if it names none, is another option."""
    try:
        parse_instant(text)
    except errors.OptionError as error:
        raise ValueError(str(error)) from None
    return text


def deduplication(text: str) -> str:
    """Return one of `DEDUPLICATIONS`, whatever its case."""
    mode = {mode.lower(): mode for mode in DEDUPLICATIONS}.get(text.strip().lower())
    if mode is not None:
        return mode
    if text.strip().lower() == "none":
        raise ValueError(
            "raw changes are not stored; use 'dropCarryovers' for the changes of every commit"
        )
    raise ValueError(f"it must be {' or '.join(map(repr, DEDUPLICATIONS))}")


def change_format(text: str) -> str:
    """Return one of `CHANGE_FORMATS`, whatever its case."""
    name = text.strip().lower()
    if name not in CHANGE_FORMATS:
        raise ValueError(f"it must be {' or '.join(map(repr, CHANGE_FORMATS))}")
    return name


def sets_bad_rows_aside(text: str) -> bool:
    """Return which of `BAD_ROWS` a text is, in any case: whether it is the last one."""
    name = text.strip().lower()
    if name not in BAD_ROWS:
        raise ValueError(f"it must be {' or '.join(map(repr, BAD_ROWS))}")
    return name == "quarantine"


def column_names(text: str) -> tuple[str, ...]:
    """Return names that commas separate; one in backquotes may have any character."""
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _NAME.match(text, position)
        if match is None:
            raise ValueError("it must be column names, separated by commas")
        names.append(match[1].replace("``", "`") if match[1] else match[2].strip())
        position = match.end()
    if not names or not all(names):
        raise ValueError("it must be column names, separated by commas")
    if len({name.lower() for name in names}) != len(names):
        raise ValueError("it names a column twice")
    return tuple(names)


def whole_number(minimum: int, maximum: int) -> Parse:
    """Return a parser of whole numbers from ``minimum`` to ``maximum``."""

    def parse(text: str) -> int:
        number = int(text) if _DIGITS.fullmatch(text) else minimum - 1
        if not minimum <= number <= maximum:
            raise ValueError(f"it must be a whole number from {minimum} to {maximum}")
        return number

    return parse


def boolean(text: str) -> bool:
    """Return what ``true`` or ``false`` says."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("it must be 'true' or 'false'")
    return lowered == "true"


def version_or_latest(text: str) -> int | str:
    """Return the number of an epoch, or `LATEST`."""
    return LATEST if text.strip().lower() == LATEST else version(text)


version = whole_number(0, MAX_LONG)
"""Parses the number of an epoch."""
