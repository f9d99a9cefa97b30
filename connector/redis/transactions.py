"""Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.

The commands of a transaction run one after another within one batch, so they are one epoch.
"""

from __future__ import annotations

from .command import Arguments
from .replies import NO_ARRAY, OK, CommandError, Reply
from .session import Session, SessionCommand


def _multi(session: Session, _: Arguments) -> Reply:
    if session.queue is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.queue, session.queued_bytes, session.is_queue_wrong = [], 0, False
    return OK


def _exec(session: Session, _: Arguments) -> Reply:
    queue, session.queue = session.queue, None
    if queue is None:
        raise CommandError("ERR EXEC without MULTI")
    try:
        _look_for_expired(session)
        has_changed = session.has_watched_change
    finally:
        session.unwatch()
    if session.is_queue_wrong:
        raise CommandError("EXECABORT Transaction discarded because of previous errors.")
    if has_changed:
        return NO_ARRAY
    try:
        for queued in queue:
            session.check_writable(queued.command)
    except CommandError as error:
        raise CommandError(f"EXECABORT Transaction discarded because of: {error}") from None
    replies: list[Reply] = []
    for queued in queue:
        try:
            replies.append(session.run_at_once(queued.command, queued.args))
        except CommandError as error:
            replies.append(error)
    return replies


def _look_for_expired(session: Session) -> None:
    """Look at the watched keys, which removes those that have expired."""
    databases = session.service.databases
    for number, key in list(session.watched):
        databases[number].look_at(key)


def _discard(session: Session, _: Arguments) -> Reply:
    if session.queue is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.queue = None
    session.unwatch()
    return OK


def _watch(session: Session, args: Arguments) -> Reply:
    if session.queue is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    for key in args[1:]:
        session.database.look_at(key)
        database_key = (session.database.number, key)
        session.watched.add(database_key)
        session.service.keyspace.watchers.setdefault(database_key, set()).add(session)
    return OK


def _unwatch(session: Session, _: Arguments) -> Reply:
    session.unwatch()
    return OK


_FLAGS = frozenset({"noscript", "fast"})
COMMANDS: dict[str, SessionCommand] = {
    "discard": SessionCommand(_discard, 1, _FLAGS),
    "exec": SessionCommand(_exec, 1, _FLAGS),
    "multi": SessionCommand(_multi, 1, _FLAGS),
    "unwatch": SessionCommand(_unwatch, 1, _FLAGS),
    "watch": SessionCommand(_watch, -2, _FLAGS, (1, -1, 1)),
}
