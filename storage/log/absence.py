"""Why a segment that a read was planned over is not there: vacuum, or damage.

Does not know: which rows were in it.
"""

from __future__ import annotations

from ..environment import Environment
from ..errors import EpochExpiredError, RelstateError, SegmentMissingError
from .log import Log


def explained(
    environment: Environment, epoch: int, error: SegmentMissingError
) -> SegmentMissingError:
    """Return the error of a read at an epoch, which tells if that is no longer kept.

    The log is read, so this is for when the read has failed.
    """
    try:
        Log(environment).load().check_epoch(epoch)
    except EpochExpiredError as expired:
        return SegmentMissingError(
            f"{environment.location('')}: a segment was vacuumed under a read that had been "
            f"planned before: {expired}, and let the retention outlast the longest read"
        )
    except RelstateError:
        pass
    return error
