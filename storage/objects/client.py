"""The requests to a bucket: each method is one request, repeated until its answer is clear.

Requests are repeated here, with growing, random pauses, and not by obstore, which would hide that a
server throttles, and would report its own first success of a create-only put as an object that
exists. Only the parts of a large upload are repeated by obstore.

A create-only put is not believed to have found its key taken unless the server says that the
condition failed (412): S3 answers 409 if another request for the key was under way, of which
nothing may remain, and obstore reports this like a key that is taken. So the object is read first;
if there is none, the put is repeated. Azure answers 409 for an object that exists.

Promises: a server that throttles is asked by fewer requests at once, and again until the time for
repeating is over; a create-only put that is not answered clearly is decided by reading the object
back; the errors are relstate's own, name the object and contain no credentials;
FileNotFoundError and FileExistsError are answers.
Does not know: what the objects mean.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

import obstore
from obstore import exceptions

from relstate.vnode import cached_property

from ..errors import FilesystemError, UnknownOutcomeError
from ..location import Location
from .connection import (
    Repeats,
    connect,
    describe,
    has_failed_condition,
    is_refusal,
    is_throttling,
    repeats,
)
from .requestlimit import ThrottledError, limit_of

_T = TypeVar("_T")
IsWanted: TypeAlias = Callable[[], bool]
Take: TypeAlias = Callable[[memoryview, int], None]
"""Takes the next bytes of an object, and the object's whole size."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A larger object is put in parts of so many bytes, of which so many are under way at once.
_PART_BYTES, _PARTS_AT_ONCE = 5 << 20, 4
# How often obstore repeats a part.
_PART_RETRIES = 2
# So many bytes at least of a range are taken at once.
_PIECE_BYTES = 128 << 10
# After these a request has certainly not been carried out, and repeating it does not help.
_REFUSALS = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
    exceptions.UnknownConfigurationKeyError,
)


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The size of an object in bytes and when it was written, in microseconds since 1970."""

    size: int
    modified: int


class Client(Protocol):
    """The requests to a bucket, each of which is repeated where that is harmless."""

    def get(self, key: str) -> bytes:
        """Return an object's content."""

    def get_range(self, key: str, start: int, stop: int) -> tuple[bytes, int]:
        """Return bytes of an object, fewer if it ends before ``stop``, and its whole size."""

    def take_range(
        self, key: str, start: int, stop: int, take: Take, is_wanted: IsWanted = _always
    ) -> int:
        """Take bytes of an object as they come, fewer if it ends before ``stop``.

        Return the object's whole size.
        """

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
        options = location.storage_options
        self._repeats = repeats(options)
        self._bucket: Any = connect(location, Repeats(0, 0))
        self._location = location
        scheme, name, _ = location.parts()
        self._root = f"{scheme}://{name}"
        self._options: Mapping[str, str] = options
        self._limit = limit_of(f"{location.endpoint} {self._root}")

    @cached_property
    def _bucket_of_parts(self) -> Any:
        """A client that repeats the parts of an upload; a process that only reads has none."""
        retries = min(_PART_RETRIES, self._repeats.count)
        return connect(self._location, Repeats(retries, self._repeats.seconds))

    def get(self, key: str) -> bytes:
        """Return an object's content. FileNotFoundError."""
        return self._repeated("read", key, lambda _: bytes(obstore.get(self._bucket, key).bytes()))

    def get_range(self, key: str, start: int, stop: int) -> tuple[bytes, int]:
        """Return bytes of an object, fewer if it ends before ``stop``, and its whole size.

        FileNotFoundError.
        """

        def read(_: int) -> tuple[bytes, int]:
            result = obstore.get(self._bucket, key, options={"range": (start, stop)})
            return bytes(result.bytes()), result.meta["size"]

        return self._repeated("read", key, read)

    def take_range(
        self, key: str, start: int, stop: int, take: Take, is_wanted: IsWanted = _always
    ) -> int:
        """Take bytes of an object as they come, fewer if it ends before ``stop``.

        Return the object's whole size. A request that fails is repeated for the bytes that are
        missing. ``is_wanted``: whether it is still to be repeated. FileNotFoundError.
        """
        position, size = start, stop

        def read(_: int) -> int:
            nonlocal position, size
            if position < min(stop, size):
                result = obstore.get(self._bucket, key, options={"range": (position, stop)})
                size = result.meta["size"]
                for piece in result.stream(min_chunk_size=_PIECE_BYTES):
                    take(memoryview(piece), size)
                    position += len(piece)
            return size

        return self._repeated("read", key, read, is_wanted=is_wanted)

    def head(self, key: str) -> ObjectStatus:
        """Return the status of an object. FileNotFoundError."""

        def look(_: int) -> ObjectStatus:
            meta = obstore.head(self._bucket, key)
            return ObjectStatus(meta["size"], int(meta["last_modified"].timestamp() * 1_000_000))

        return self._repeated("look at", key, look)

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, those of its folders too. Empty if there are none."""

        def read(_: int) -> list[str]:
            result = obstore.list_with_delimiter(self._bucket, folder or None)
            keys = [*result["common_prefixes"], *(item["path"] for item in result["objects"])]
            return [key.rstrip("/").rsplit("/", 1)[-1] for key in keys]

        return self._repeated("list", folder, read)

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""
        with suppress(FileNotFoundError):
            self._repeated("delete", key, lambda _: obstore.delete(self._bucket, key))

    def put(self, key: str, data: bytes | memoryview) -> None:
        """Create or replace an object, in parts if it is large."""
        parts = -(-memoryview(data).nbytes // _PART_BYTES)
        bucket = self._bucket if parts <= 1 else self._bucket_of_parts

        def write(at_once: int) -> None:
            obstore.put(
                bucket,
                key,
                data,
                use_multipart=parts > 1,
                chunk_size=_PART_BYTES,
                max_concurrency=at_once,
            )

        self._repeated("write", key, write, most=max(min(parts, _PARTS_AT_ONCE), 1))

    def put_new(self, key: str, data: bytes) -> None:
        """Create an object. FileExistsError if its key is taken.

        FilesystemError if it was certainly not created; UnknownOutcomeError if it may have been.
        """
        is_clear = True
        message = ""
        attempts = _Attempts(self._repeats)
        while True:
            try:
                with self._admitted():
                    obstore.put(self._bucket, key, data, mode="create", use_multipart=False)
                return
            except (*_REFUSALS, FileNotFoundError) as error:
                if not is_clear:
                    # An earlier attempt may still have created it.
                    raise self._unknown_outcome(key, message) from None
                self._fail("write", key, error)
            except (exceptions.BaseError, ThrottledError) as error:
                is_taken = isinstance(error, exceptions.AlreadyExistsError)
                is_throttled = isinstance(error, ThrottledError)
                if is_taken and is_clear and self._has_failed_condition(error):
                    raise taken_error(f"{self._root}/{key}") from None
                is_clear, message = is_clear and is_taken, self._describe(error)
                failure = error
            content = self._content(key, message)
            if content == data and not is_clear:
                return
            if content is not None:
                raise taken_error(f"{self._root}/{key}")
            if not attempts.wait(is_throttled=is_throttled):
                if is_clear:
                    self._fail("write", key, failure)
                raise self._unknown_outcome(key, message)

    def _has_failed_condition(self, error: BaseException) -> bool:
        """Return whether a put was refused because there is an object, and for no other reason."""
        return self._location.parts()[0] == "memory" or has_failed_condition(error)

    def _content(self, key: str, message: str) -> bytes | None:
        """Return what an object has after an unclear answer; None if there is no object."""
        try:
            return self.get(key)
        except FileNotFoundError:
            return None
        except FilesystemError:
            raise self._unknown_outcome(key, message) from None

    def _unknown_outcome(self, key: str, message: str) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"{self._root}/{key}: the object may or may not have been created ({message})"
        )

    def _repeated(
        self,
        doing: str,
        key: str,
        request: Callable[[int], _T],
        *,
        most: int = 1,
        is_wanted: IsWanted = _always,
    ) -> _T:
        """Return the answer of what is harmless to repeat.

        ``request``: takes how many requests it may have under way at once, at most ``most``.
        """
        attempts = _Attempts(self._repeats)
        while True:
            try:
                with self._admitted(most) as at_once:
                    return request(at_once)
            except FileNotFoundError:
                raise missing_error(f"{self._root}/{key}") from None
            except _REFUSALS as error:
                self._fail(doing, key, error)
            except (exceptions.BaseError, ThrottledError) as error:
                is_throttled = isinstance(error, ThrottledError)
                if is_refusal(error) or not (
                    is_wanted() and attempts.wait(is_throttled=is_throttled)
                ):
                    self._fail(doing, key, error)

    @contextmanager
    def _admitted(self, most: int = 1) -> Iterator[int]:
        """Wait until requests may run; yield how many may at once, at most ``most``.

        ThrottledError, with what the server said, if it asks for fewer.
        """
        with self._limit.admitted(most) as requests:
            try:
                yield requests
            except exceptions.BaseError as error:
                if is_throttling(error):
                    raise ThrottledError(describe(error, self._options)) from None
                raise

    def _fail(self, doing: str, key: str, error: BaseException) -> NoReturn:
        # Not chained: the text of obstore's errors may contain signatures.
        raise FilesystemError(
            f"{self._root}/{key}: cannot {doing} it: {self._describe(error)}; check the "
            "bucket, the network and the credentials"
        ) from None

    def _describe(self, error: BaseException) -> str:
        is_described = isinstance(error, ThrottledError)
        return str(error) if is_described else describe(error, self._options)


def missing_error(uri: str) -> FileNotFoundError:
    """Return the answer that there is no object, which names it as the system names a file."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)


def taken_error(uri: str) -> FileExistsError:
    """Return the answer that there is an object already, which names it."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), uri)


class _Attempts:
    """The attempts of a request: the pauses between them, and when there are no more."""

    def __init__(self, limits: Repeats) -> None:
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds
        self._pauses = self._failures = 0

    def wait(self, *, is_throttled: bool) -> bool:
        """Wait before the next attempt; return False, at once, if there is to be none.

        A server that throttles is asked again until the time for repeating is over.
        """
        self._failures += not is_throttled
        if self._failures > self._limits.count or not self._limits.count:
            return False
        pause = min(_FIRST_PAUSE * 2**self._pauses, _LONGEST_PAUSE) * random.uniform(0.5, 1)
        if time.monotonic() + pause > self._deadline:
            return False
        self._pauses += 1
        time.sleep(pause)
        return True
