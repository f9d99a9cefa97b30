"""What a check reports as a problem of the store, and what it fails with.

Does not know: what is checked.
"""

from __future__ import annotations

from .environment import Environment
from .errors import FilesystemError, FormatVersionError


def problem_of(environment: Environment, error: Exception) -> str:
    """Return what an error of a read says of the store; raise it if it says nothing of the store.

    A server that does not answer is not a problem of the store, nor is a store of a later
    version of relstate; a disk that cannot be read is.
    """
    is_unreachable = environment.is_remote and isinstance(error, FilesystemError)
    if is_unreachable or isinstance(error, FormatVersionError):
        raise error
    return str(error)
