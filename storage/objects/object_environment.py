"""The files of a store in a bucket.

The log's files are objects, read and created by one request each. A segment is written to this
machine's cache, uploaded when it is made durable, and read from the cache, into which it is fetched
whole at its first use (cache.py).

Promises: those of `Environment`. A prefix sees nothing of its neighbours.
Does not know: what the files mean, except which folder has the segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from ..clock import Clock, SystemClock, check_clock
from ..disk import Content, FolderVersion
from ..environment import created
from ..errors import CorruptionError, FilesystemError
from ..local_environment import LocalEnvironment
from ..location import Location
from ..paths import SEGMENTS
from .arrival import Arrival, Origin
from .arrivals import Arrivals
from .cache import Cache, cache_of
from .client import Client, ObjectClient, missing_error
from .leases import Lease
from .packing import HEADER_BYTES, packed, packed_size, unpacked
from .parts import Parts
from .server import Server

_T = TypeVar("_T")
# So many requests of one call are under way at the same time, and so many transfers of segments,
# each of which takes twice a segment's memory.
_REQUESTS_AT_ONCE, _TRANSFERS_AT_ONCE = 32, 8
# A smaller segment takes no longer than the requests for its parts.
_LEAST_PARTED = 1 << 20
# The sizes of so many segments are kept that were uploaded here: a commit asks for those it names.
_MOST_SIZES = 1 << 16
# After so many seconds a fetch behind reads is tried again if it failed.
_REFILL_SECONDS = 60.0


class ObjectEnvironment:
    """A prefix in a bucket, and a cache on this machine's disk. Safe between threads.

    Not across ``fork``: a child opens the store itself.
    """

    # Names are current, but the entry of a writer that died may hide others (log.py).
    listing_interval = 600.0
    removal_delay = 600.0
    has_current_names = True
    fills_up = False
    is_remote = True

    def __init__(
        self, root: Location, client: Client, cache: Cache, clock: Clock | None = None
    ) -> None:
        """``root``: the store's location; ``cache``: of its segments."""
        self.root = root
        self._client = client
        self._cache = cache
        self._clock = clock or SystemClock()
        self.now = self._clock.now
        self.monotonic = self._clock.monotonic
        _, _, self._prefix = root.parts()
        key = xxhash.xxh3_64_hexdigest(f"{root.endpoint} {root}".encode("utf-8", "surrogatepass"))
        self._files = LocalEnvironment(f"{cache.folder}/{key}")
        self._has_folder = False
        self.arrivals = Arrivals(cache)
        # Segments that were written here and are not yet uploaded, and the sizes of those that are.
        self._pending: dict[str, Lease] = {}
        self._uploaded: dict[str, int] = {}
        # A name that a vacant prefix may have: see log/store_creation.py.
        self._server = Server(
            client, self._clock, self.root, lambda: self._key(f".probe-{self.random_id()}")
        )

    @classmethod
    def of(cls, location: Location) -> ObjectEnvironment:
        """Return the environment of the store at a location. OptionError."""
        options = location.storage_options
        return cls(location, ObjectClient(location), cache_of(options))

    def location(self, name: str) -> str:
        """Return the URI of ``name``; of the store, with its options."""
        return f"{self.root}/{name}" if name else self.root

    def local_path(self, name: str) -> str:
        """Return the path of a segment in the cache."""
        return self._files.local_path(name)

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    # Reading

    def read(self, name: str) -> bytes:
        """Return an object's content. FileNotFoundError if there is none."""
        return self._client.get(self._key(name))

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the contents of objects, None for those that are missing, read at once."""
        return _map_at_once(self._or_none(self.read), names, _REQUESTS_AT_ONCE)

    def size(self, name: str) -> int:
        """Return a file's size before compression. FileNotFoundError if there is none."""
        if name in self._pending:
            return self._files.size(name)
        size = self._uploaded.get(name)
        if size is not None:
            return size
        if not name.startswith(f"{SEGMENTS}/"):
            return self._client.head(self._key(name)).size
        start, object_size = self._client.get_range(self._key(name), 0, HEADER_BYTES)
        content_size = packed_size(start)
        return object_size if content_size is None else content_size

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the sizes of files, None for those that are missing, looked at at once."""
        return _map_at_once(self._or_none(self.size), names, _REQUESTS_AT_ONCE)

    def _or_none(self, read: Callable[[str], _T]) -> Callable[[str], _T | None]:
        def read_or_none(name: str) -> _T | None:
            try:
                return read(name)
            except FileNotFoundError:
                return None

        return read_or_none

    def modified(self, name: str) -> int:
        """Return when an object was written, by the bucket's clock. FileNotFoundError."""
        return self._client.head(self._key(name)).modified

    def exists(self, name: str) -> bool:
        """Return whether there is an object, or anything in the store's prefix. FilesystemError."""
        try:
            if not name:
                return bool(self._client.list(self._prefix))
            self._client.head(self._key(name))
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted. FileNotFoundError if the prefix is empty."""
        names = self._client.list(self._key(folder))
        if not names and not (folder and self._client.list(self._prefix)):
            raise missing_error(self.location(folder))
        return sorted(names)

    def enclosing(self, folder: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the prefixes that begin this one: a request for each."""
        scheme, bucket, _ = self.root.parts()
        prefix = self._prefix
        while prefix:
            prefix, _, _ = prefix.rpartition("/")
            location = f"{scheme}://{bucket}/{prefix}".rstrip("/")
            with suppress(FilesystemError):
                names = self._client.list(f"{prefix}/{folder}".lstrip("/"))
                if names:
                    yield location, names

    def folder_version(self, folder: str) -> FolderVersion | None:
        """Return None: a prefix has no version."""
        return None

    def signal(self, name: str) -> None:
        """Return None: processes on several machines share no memory."""

    def announce(self, name: str, entry: str) -> None:
        """Do nothing: every look is a request."""

    # Segments on this machine

    def hold(self, name: str, size: int, digest: str) -> Lease:
        """Return a lease of a segment's copy in the cache, fetched if it is missing."""
        path = self.local_path(name)
        lease = self._cache.lease(path, size)
        if lease is not None:
            return lease
        self._make_folder()
        try:
            return self._cache.fill(
                path, size, digest, lambda: unpacked(self._client.get(self._key(name)), size)
            )
        except ValueError as error:
            raise CorruptionError(
                f"{self.location(name)}: {error}, but the log says {size} bytes of hash {digest}; "
                "the object was changed after it was published: restore it from a backup"
            ) from None

    def parts(self, name: str, size: int, digest: str) -> Parts | None:
        """Return what reads parts of a segment; None if it is here, or small.

        With the first part the whole is fetched, behind the reads; with a later one again if that
        failed a while ago.
        """
        if size < _LEAST_PARTED or self._cache.contains(self.local_path(name), size):
            return None
        key = self._key(name)
        next_fill = self.monotonic()

        def fetch(start: int, stop: int) -> tuple[bytes, int]:
            nonlocal next_fill
            if self.monotonic() >= next_fill:
                next_fill = self.monotonic() + _REFILL_SECONDS
                self._start(name, size, digest, is_behind=True)
            return self._client.get_range(key, start, stop)

        def read_whole() -> bytes:
            lease = self.hold(name, size, digest)
            content: bytes = self._files.map(name).tobytes()
            del lease
            return content

        return Parts(fetch, read_whole, digest)

    def bring(self, name: str, size: int, digest: str) -> tuple[Lease, Arrival | None]:
        """Return a lease of a segment's copy, and the segment on its way if it is not here."""
        path = self.local_path(name)
        lease = self._cache.lease(path, size)
        if lease is not None:
            return lease, None
        arrival = self._start(name, size, digest)
        return arrival.lease, arrival

    def _start(self, name: str, size: int, digest: str, *, is_behind: bool = False) -> Arrival:
        self._make_folder()
        path = self.local_path(name)
        fetch = partial(self._client.take_range, self._key(name))
        origin = Origin(self.location(name), path, size, digest, fetch)
        lease = self._cache.lease_name(path)
        return self.arrivals.start(origin, lease, is_behind=is_behind)

    def drop_copy(self, name: str) -> bool:
        """Remove the copy of a segment unless the bucket does not have it yet."""
        return name not in self._pending and self._cache.remove(self.local_path(name))

    def map(self, name: str) -> NDArray[np.uint8]:
        """Return the copy of a segment as a read-only map. FileNotFoundError if there is none."""
        return self._files.map(name)

    def identity(self, name: str) -> tuple[int, ...]:
        """Return the identity of a segment's copy. FileNotFoundError if there is none."""
        # Without the time of the last change: each lease changes it.
        return self._files.identity(name)[:3]

    def _make_folder(self) -> None:
        if not self._has_folder:
            self._cache.make_store(self._files.root.rsplit("/", 1)[-1], str(self.root))
            self._has_folder = True

    # Writing

    def make_folders(self, folders: Sequence[str]) -> None:
        """Check the server: a bucket has no folders. FilesystemError as of `put_if_absent`."""
        self._server.check()

    def put_if_absent(
        self, name: str, data: bytes, time: int | None = None, after: Sequence[str] = ()
    ) -> None:
        """Create an object; the segments in ``after`` are uploaded before it.

        Raises what `Environment.put_if_absent` does; FilesystemError also if the server does not
        refuse to create an object twice.
        """
        self._server.check()
        if time is not None:
            check_clock(self.location(name), time, self._server.now(time), "the bucket's clock")
        self.publish_all(after)
        self._client.put_new(self._key(name), data)

    def put_all_if_absent(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """Create objects at the same time; return the names that were taken."""
        self._server.check()

        def put(name: str) -> bool:
            return created(self.put_if_absent, name, files[name])

        are_new = _map_at_once(put, list(files), _TRANSFERS_AT_ONCE)
        return frozenset(name for name, is_new in zip(files, are_new, strict=True) if not is_new)

    def replace(self, name: str, data: bytes) -> None:
        """Put an object in place of the one that there is. FilesystemError."""
        self._server.check()
        self._client.put(self._key(name), data)

    def write(self, name: str, parts: Iterable[Content]) -> None:
        """Write a segment to this machine's disk; `publish` uploads it."""
        self._make_folder()
        lease = self._cache.lease_name(self.local_path(name))
        self._files.write(name, parts)
        self._pending[name] = lease
        self._cache.make_room(self._files.size(name))

    def publish(self, name: str) -> None:
        """Upload a segment that was written here, unless that was done."""
        if name in self._pending:
            content = self._files.map(name)
            self._client.put(self._key(name), packed(content.data))
            self._uploaded[name] = len(content)
            if len(self._uploaded) > _MOST_SIZES:
                for older in [*self._uploaded][: _MOST_SIZES // 2]:
                    self._uploaded.pop(older, None)
            self._pending.pop(name, None)

    def publish_all(self, names: Sequence[str]) -> None:
        """Upload segments at the same time."""
        pending = [name for name in names if name in self._pending]
        _map_at_once(self.publish, pending, _TRANSFERS_AT_ONCE)

    def remove(self, name: str) -> None:
        """Remove a file, here and in the bucket; a missing one is not an error."""
        was_pending = self._pending.pop(name, None) is not None
        self._uploaded.pop(name, None)
        if name.startswith(f"{SEGMENTS}/"):
            self._files.remove(name)
        if not was_pending:
            self._client.delete(self._key(name))

    def sync_folder(self, folder: str) -> None:
        """Do nothing: an object and its name are durable together."""

    def random_id(self) -> str:
        """Return 16 random bytes as 32 hexadecimal digits."""
        return self._files.random_id()


_Item = TypeVar("_Item")


def _map_at_once(call: Callable[[_Item], _T], items: Sequence[_Item], threads: int) -> list[_T]:
    """Return the results of calls that wait for a server, made in several threads."""
    if len(items) < 2:
        return [call(item) for item in items]
    # A pool per call: the threads of an older one would not be there after a fork.
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        return list(pool.map(call, items))
