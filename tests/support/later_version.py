"""A later version of relstate, as far as others meet it: the bytes that it leaves in a log."""

from __future__ import annotations

from typing import Any

from relstate.storage.environment import Environment
from relstate.storage.log.entry import Entry
from relstate.storage.log.file_frame import seal
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.paths import entry_path


def commit_as_later_version(environment: Environment, **fields: Any) -> int:
    """Put the next entry of a store, with more fields than this version has; return its epoch."""
    log = Log(environment, EntryCache())
    state = log.load()
    epoch = state.epoch + 1
    entry = Entry(
        commit_id=environment.random_id(),
        parent=state.commit_id,
        epoch=epoch,
        time=state.time,
        started=state.time,
        operation="write",
    )
    environment.put_if_absent(entry_path(epoch), seal("entry", entry.to_json() | fields))
    log.announce(epoch)
    return epoch
