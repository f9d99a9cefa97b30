"""The epochs that the options of a change feed mean.

Promises: a bound that is a version must be an epoch that can be read; one that is a time means the
first commit at or after it, or the last at or before it, and no commit there is no error.
Does not know: tables.
"""

from __future__ import annotations

from datetime import timedelta

from relstate.connector.options import Bound
from relstate.storage import Store, errors

_LEAST = timedelta(microseconds=1)


def first_epoch(store: Store, start: Bound) -> int:
    """Return the first epoch within a start, one behind the latest if there is none yet.

    EpochNotFoundError for a version in the future, EpochExpiredError where the time of a commit
    that is no longer kept is asked for.
    """
    if start.version is not None:
        store.state.check_epoch(start.version)
        return start.version if start.inclusive else start.version + 1
    assert start.time is not None
    try:
        return store.epoch_at(start.time - _LEAST if start.inclusive else start.time) + 1
    except errors.EpochNotFoundError:
        return 1


def last_epoch(store: Store, end: Bound) -> int:
    """Return the last epoch within an end, the latest if there is no end.

    EpochNotFoundError for a version in the future or a time before the first commit,
    EpochExpiredError for what is no longer kept.
    """
    if end.version is not None:
        store.state.check_epoch(end.version)
        return end.version if end.inclusive else end.version - 1
    if end.time is None:
        return store.epoch
    return store.epoch_at(end.time if end.inclusive else end.time - _LEAST)
