"""What a check reports as a problem of the store, and what it fails with.

Does not know: what is checked.
"""

from __future__ import annotations

from .environment import Environment
from .errors import FilesystemError


def problem_of(environment: Environment, error: Exception) -> str:
    """Return what an error of a read says of the store; raise it if it says nothing of the store.

    A server that does not answer is not a problem of the store; a disk that cannot be read is.
    """
    if environment.is_remote and isinstance(error, FilesystemError):
        raise error
    return str(error)
