"""The table of all commands of databases, by their names in small letters."""

from __future__ import annotations

from . import hashes, keys, strings
from .command import Command

COMMANDS: dict[str, Command] = {
    **hashes.COMMANDS,
    **keys.COMMANDS,
    **strings.COMMANDS,
}
