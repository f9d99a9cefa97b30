"""The table of all commands of databases, by their names in small letters."""

from __future__ import annotations

from . import blocking, combinations, hashes, keys, lists, sets, sorted_sets, strings
from .command import Command

COMMANDS: dict[str, Command] = {
    **blocking.COMMANDS,
    **combinations.COMMANDS,
    **hashes.COMMANDS,
    **keys.COMMANDS,
    **lists.COMMANDS,
    **sets.COMMANDS,
    **sorted_sets.COMMANDS,
    **strings.COMMANDS,
}
