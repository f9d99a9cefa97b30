"""The creation of a store: the first entry of its log, in a folder of its own.

Promises: of all processes that create a store at one path exactly one does; what is at the path
already is left as it is.
Does not know: tables.
"""

from __future__ import annotations

from ..errors import NotAStoreError, StoreExistsError
from ..paths import FOLDERS, LOG, parse_log_file
from .append import append
from .entry import Entry, Settings
from .log import Log
from .state import StoreState


def create_store(log: Log, settings: Settings) -> StoreState:
    """Create an empty store by committing its first entry, and return its state.

    ``log``: of the path, whose folder need not exist yet. StoreExistsError if there is a store, or
    another process created it first; NotAStoreError if the path holds something else, or is in
    another store.
    """
    environment = log.environment
    _check_vacant(log)
    _check_apart(log)
    environment.make_folders(FOLDERS)
    now = environment.now()
    first = Entry(
        commit_id=environment.random_id(),
        parent="",
        epoch=1,
        time=now,
        started=now,
        operation="create store",
        data_change=False,
        settings=settings,
    )
    if not append(log, first):
        raise _store_exists_error(environment.location(""))
    return StoreState.first(first)


def _check_vacant(log: Log) -> None:
    environment, root = log.environment, log.environment.location("")
    try:
        names = environment.list("")
    except FileNotFoundError:
        if environment.exists(""):
            raise NotAStoreError(f"{root}: this is a file; a store is a folder") from None
        return
    if LOG in names and log.files.listing().newest:
        raise _store_exists_error(root)
    foreign_names = [name for name in names if name not in FOLDERS and not name.startswith(".")]
    if foreign_names:
        raise NotAStoreError(
            f"{root}: the folder has other files ({', '.join(foreign_names[:3])}): a store needs a "
            "separate folder"
        )


def _check_apart(log: Log) -> None:
    """Raise NotAStoreError for a folder in a store, which would have a foreign folder then."""
    for location, names in log.environment.enclosing(LOG):
        if any(parse_log_file(name) is not None for name in names):
            raise NotAStoreError(
                f"{log.environment.location('')}: this is inside of the store {location}, and a "
                "store in a store would be lost with it: take a folder beside it"
            )


def _store_exists_error(root: str) -> StoreExistsError:
    return StoreExistsError(f"{root}: there is a store already: open it, or take another path")
