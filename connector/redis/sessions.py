"""The table of all commands of sessions, filled from the files that have them."""

from __future__ import annotations

from . import connection, information, pubsub, transactions
from .script import evaluation
from .session import SESSION_COMMANDS, SessionCommand

COMMANDS: dict[str, SessionCommand] = {
    **connection.COMMANDS,
    **evaluation.COMMANDS,
    **information.COMMANDS,
    **pubsub.COMMANDS,
    **transactions.COMMANDS,
}
SESSION_COMMANDS.update(COMMANDS)
