"""The table of all commands of databases, by their names in small letters."""

from __future__ import annotations

from . import (
    bits,
    blocking,
    combinations,
    databases,
    dump,
    hashes,
    keys,
    lists,
    scans,
    sets,
    sorted_sets,
    sorting,
    strings,
    timeseries,
)
from .command import Command

COMMANDS: dict[str, Command] = {
    **bits.COMMANDS,
    **blocking.COMMANDS,
    **combinations.COMMANDS,
    **databases.COMMANDS,
    **dump.COMMANDS,
    **hashes.COMMANDS,
    **keys.COMMANDS,
    **lists.COMMANDS,
    **scans.COMMANDS,
    **sets.COMMANDS,
    **sorted_sets.COMMANDS,
    **sorting.COMMANDS,
    **strings.COMMANDS,
    **timeseries.COMMANDS,
}
