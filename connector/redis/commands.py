"""The table of all commands of databases, by their names in small letters."""

from __future__ import annotations

from . import (
    blocking,
    combinations,
    databases,
    hashes,
    keys,
    lists,
    scans,
    sets,
    sorted_sets,
    strings,
    timeseries,
)
from .command import Command

COMMANDS: dict[str, Command] = {
    **blocking.COMMANDS,
    **combinations.COMMANDS,
    **databases.COMMANDS,
    **hashes.COMMANDS,
    **keys.COMMANDS,
    **lists.COMMANDS,
    **scans.COMMANDS,
    **sets.COMMANDS,
    **sorted_sets.COMMANDS,
    **strings.COMMANDS,
    **timeseries.COMMANDS,
}
