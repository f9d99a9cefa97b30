"""The requests to a bucket: each method is one request, repeated until its answer is clear.

obstore repeats a request after a refused connection or an answer of 5xx or 429, with growing,
random pauses. What it gives up is repeated here a few times if repeating is harmless. It repeats no
create-only put: it would report its own first success as an object that exists.

Promises: a create-only put that is not answered clearly is decided by reading the object back; the
errors are relstate's own, name the object and contain no credentials; FileNotFoundError and
FileExistsError are answers.
Does not know: what the objects mean.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeVar

import obstore
from obstore import exceptions

from ..errors import FilesystemError, UnknownOutcomeError
from ..location import Location
from .connection import connect, connect_once, describe, repeats

_T = TypeVar("_T")
_ATTEMPTS = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# After these a request has certainly not been carried out, and repeating it does not help.
_REFUSALS = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
    exceptions.UnknownConfigurationKeyError,
)


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The size of an object in bytes and when it was written, in microseconds since 1970."""

    size: int
    modified: int


class Client(Protocol):
    """The requests to a bucket, each of which is repeated where that is harmless."""

    def get(self, key: str) -> bytes:
        """Return an object's content."""

    def get_range(
        self, key: str, start: int, stop: int, *, repeats: bool = True
    ) -> tuple[bytes, int]:
        """Return bytes of an object, fewer if it ends before ``stop``, and its whole size."""

    def head(self, key: str) -> ObjectStatus:
        """Return the status of an object."""

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder."""

    def delete(self, key: str) -> None:
        """Delete an object."""

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Create or replace an object."""

    def put_new(self, key: str, data: bytes) -> None:
        """Create an object."""


class ObjectClient:
    """The objects of one bucket by their whole keys. Safe between threads, not across ``fork``."""

    def __init__(self, location: Location) -> None:
        """``location``: in the bucket, with its options. OptionError."""
        self._bucket: Any = connect(location)
        self._location = location
        self._repeats = repeats(location.storage_options)
        scheme, name, _ = location.parts()
        self._root = f"{scheme}://{name}"
        self._options: Mapping[str, str] = location.storage_options

    @cached_property
    def _bucket_once(self) -> Any:
        """A client that repeats nothing; a process that only reads has none."""
        return connect_once(self._location)

    def get(self, key: str) -> bytes:
        """Return an object's content. FileNotFoundError."""
        return self._repeated("read", key, lambda: bytes(obstore.get(self._bucket, key).bytes()))

    def get_range(
        self, key: str, start: int, stop: int, *, repeats: bool = True
    ) -> tuple[bytes, int]:
        """Return bytes of an object, fewer if it ends before ``stop``, and its whole size.

        ``repeats``: whether a failed request is repeated. FileNotFoundError.
        """
        bucket = self._bucket if repeats else self._bucket_once

        def read() -> tuple[bytes, int]:
            result = obstore.get(bucket, key, options={"range": (start, stop)})
            return bytes(result.bytes()), result.meta["size"]

        return self._repeated("read", key, read, _ATTEMPTS if repeats else 1)

    def head(self, key: str) -> ObjectStatus:
        """Return the status of an object. FileNotFoundError."""

        def look() -> ObjectStatus:
            meta = obstore.head(self._bucket, key)
            return ObjectStatus(meta["size"], int(meta["last_modified"].timestamp() * 1_000_000))

        return self._repeated("look at", key, look)

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, those of its folders too. Empty if there are none."""

        def read() -> list[str]:
            result = obstore.list_with_delimiter(self._bucket, folder or None)
            keys = [*result["common_prefixes"], *(item["path"] for item in result["objects"])]
            return [key.rstrip("/").rsplit("/", 1)[-1] for key in keys]

        return self._repeated("list", folder, read)

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""
        with suppress(FileNotFoundError):
            self._repeated("delete", key, lambda: obstore.delete(self._bucket, key))

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Create or replace an object, in parts if it is large."""
        self._repeated("write", key, lambda: obstore.put(self._bucket, key, data))

    def put_new(self, key: str, data: bytes) -> None:
        """Create an object. FileExistsError if its key is taken.

        FilesystemError if it was certainly not created; UnknownOutcomeError if it may have been.
        """
        is_clear = True
        message = ""
        deadline = time.monotonic() + self._repeats.seconds
        for attempt in range(self._repeats.count + 1):
            if attempt:
                if time.monotonic() > deadline:
                    break
                _pause(attempt)
            try:
                obstore.put(self._bucket_once, key, data, mode="create", use_multipart=False)
                return
            except exceptions.AlreadyExistsError:
                if is_clear:
                    raise FileExistsError(f"{self._root}/{key}") from None
            except (*_REFUSALS, FileNotFoundError) as error:
                if not is_clear:
                    # An earlier attempt may still have created it.
                    raise self._unknown_outcome(key, message) from None
                self._fail("write", key, error)
            except exceptions.BaseError as error:
                is_clear, message = False, describe(error, self._options)
            if self._is_written(key, data, message):
                return
        raise self._unknown_outcome(key, message)

    def _is_written(self, key: str, data: bytes, message: str) -> bool:
        """Return whether an object has this content after an unclear answer.

        FileExistsError if it has another one.
        """
        try:
            if self.get(key) == data:
                return True
        except FileNotFoundError:
            return False
        except FilesystemError:
            raise self._unknown_outcome(key, message) from None
        raise FileExistsError(f"{self._root}/{key}")

    def _unknown_outcome(self, key: str, message: str) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"{self._root}/{key}: the object may or may not have been created ({message})"
        )

    def _repeated(
        self, doing: str, key: str, request: Callable[[], _T], attempts: int = _ATTEMPTS
    ) -> _T:
        """Return the answer of a request that is harmless to repeat.

        No attempt begins after the time that the options give to repeating.
        """
        deadline = time.monotonic() + self._repeats.seconds
        for attempt in range(attempts):
            if attempt:
                if time.monotonic() > deadline:
                    break
                _pause(attempt)
            try:
                return request()
            except FileNotFoundError:
                raise FileNotFoundError(f"{self._root}/{key}") from None
            except _REFUSALS as error:
                self._fail(doing, key, error)
            except exceptions.BaseError as error:
                failure = error
        self._fail(doing, key, failure)

    def _fail(self, doing: str, key: str, error: BaseException) -> NoReturn:
        # Not chained: the text of obstore's errors may contain signatures.
        raise FilesystemError(
            f"{self._root}/{key}: cannot {doing} it: {describe(error, self._options)}; check the "
            "bucket, the network and the credentials"
        ) from None


def _pause(attempt: int) -> None:
    time.sleep(min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1))
