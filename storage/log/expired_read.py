"""The error of a read that found something missing: its epoch has expired, or there is damage.

Does not know: what the read was of.
"""

from __future__ import annotations

from ..environment import Environment
from ..errors import CorruptionError, EpochExpiredError, RelstateError, SegmentMissingError
from .log import Log


def missing_segment_error(
    environment: Environment, epoch: int, error: SegmentMissingError
) -> SegmentMissingError:
    """Return the error of a read at an epoch that found a segment missing: vacuum, or damage.

    The message says so if the epoch has expired since. Reads the log: call it after a failure.
    """
    return _expired_read_error(environment, epoch, "a segment") or error


def missing_manifest_error(
    environment: Environment, epoch: int, error: CorruptionError
) -> RelstateError:
    """Return the error of a read at an epoch that found a manifest missing, as of a segment."""
    return _expired_read_error(environment, epoch, "the records of segments") or error


def _expired_read_error(
    environment: Environment, epoch: int, description: str
) -> SegmentMissingError | None:
    """Return the error of a read that found something missing; None if its epoch is kept."""
    try:
        Log(environment).load().check_epoch(epoch)
    except EpochExpiredError as expired:
        return SegmentMissingError(
            f"{environment.location('')}: a vacuum removed {description} of a read that was "
            f"planned before it: {expired}; set a retention longer than the longest read"
        )
    except RelstateError:
        pass
    return None
