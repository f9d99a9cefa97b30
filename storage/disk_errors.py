"""The errors of the operating system as those of relstate, which name the path and what to do.

Does not know: which calls fail.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from .disk import NotAFileError
from .errors import CorruptionError, FilesystemError, StorageFullError, UnknownOutcomeError


class ErrorConversion:
    """Turns the system's errors into relstate's, except the two that are answers.

    A class, because a generator takes twice the time, and every look at a file needs one.
    """

    __slots__ = ("_doing", "_missing_is_answer", "_path")

    def __init__(self, doing: str, path: str, *, missing_is_answer: bool = True) -> None:
        self._doing = doing
        self._path = path
        self._missing_is_answer = missing_is_answer

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            raise self._conversion(error) from error

    def _conversion(self, error: OSError) -> Exception:
        doing, path = self._doing, self._path
        if isinstance(error, NotAFileError):
            return CorruptionError(
                f"{path}: {error.strerror} has the name of a file of the store, and is neither "
                "read nor written: put the file itself in its place, from a backup if it is lost"
            )
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            if self._missing_is_answer:
                return FileNotFoundError(error.errno, error.strerror, path)
            return FilesystemError(
                f"{path}: cannot {doing} it: its folder does not exist or takes no new names; was "
                "the store moved or deleted?"
            )
        if error.errno == errno.EFBIG:
            return StorageFullError(
                f"{path}: cannot {doing} it, the file would exceed this process's limit of file "
                "sizes (ulimit -f), or that of the file system; nothing was committed: raise the "
                "limit and write again"
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageFullError(
                f"{path}: cannot {doing} it, there is no space left ({error.strerror}); nothing "
                "was committed: free some space and write again"
            )
        return FilesystemError(
            f"{path}: cannot {doing} it: {error.strerror}; check the file system and the "
            "permissions of the store's folder"
        )


@contextmanager
def in_doubt(path: str, but: frozenset[int] = frozenset()) -> Iterator[None]:
    """Turn the system's errors into an unknown outcome, except those with numbers in ``but``."""
    try:
        yield
    except OSError as error:
        if error.errno in but:
            raise
        raise UnknownOutcomeError(
            f"{path}: the file may or may not have been created ({error.strerror})"
        ) from error
