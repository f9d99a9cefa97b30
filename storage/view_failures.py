"""The last failure of each view, for people: when a refresh could not compute it, and why.

One small file per view, beside the log. It is not part of the store's state: no commit names it,
check and vacuum ignore it, and a store without it is whole.

The last one is the first of the latest epoch at which the view failed.

Promises: a failure that cannot be kept or read is no error. At most one file of a view remains.
Does not know: why views fail.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass

from .environment import Environment
from .errors import RelstateError
from .paths import FAILURES, failure_path, parse_failure_file

MOST_MESSAGE = 2000
"""How many characters of a message are kept."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ViewFailure:
    """Why a view could not be computed, at ``time``, in microseconds since 1970.

    ``epoch``: up to which it should have taken in its tables.
    """

    epoch: int
    time: int
    message: str


def keep_failure(environment: Environment, view_id: int, failure: ViewFailure) -> None:
    """Keep the failure of a view in place of those of earlier epochs; a later one stays."""
    message = failure.message[:MOST_MESSAGE]
    truncated = ViewFailure(failure.epoch, failure.time, message)
    path = failure_path(view_id, failure.epoch)
    try:
        environment.make_folders([FAILURES])
        paths = _paths_of(environment, view_id)
        if all(name < path for name in paths):
            environment.put_if_absent(path, json.dumps(asdict(truncated)).encode())
            for name in paths:
                environment.remove(name)
    except (RelstateError, OSError) as error:
        _logger.debug("the failure of view %d is not kept", view_id, exc_info=error)


def forget_failures(environment: Environment, view_id: int) -> None:
    """Remove what is kept of a view, which is dropped. A failure to do so is no error."""
    try:
        for name in _paths_of(environment, view_id):
            environment.remove(name)
    except (RelstateError, OSError) as error:
        _logger.debug("the failures of view %d are not removed", view_id, exc_info=error)


def read_failure(environment: Environment, view_id: int) -> ViewFailure | None:
    """Return the last failure of a view that was kept; None if there is none, or it is damaged."""
    try:
        *_, path = _paths_of(environment, view_id)
        values = json.loads(environment.read(path))
        return ViewFailure(int(values["epoch"]), int(values["time"]), str(values["message"]))
    except (RelstateError, OSError, ValueError, TypeError, KeyError):
        return None


def _paths_of(environment: Environment, view_id: int) -> list[str]:
    """Return the files of a view, the newest last."""
    try:
        files = environment.list(FAILURES)
    except FileNotFoundError:
        return []
    return [f"{FAILURES}/{file}" for file in files if parse_failure_file(file) == view_id]
