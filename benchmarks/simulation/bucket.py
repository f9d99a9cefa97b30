"""An object store whose requests take simulated time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from relstate.storage.disk import Content
from relstate.storage.paths import SEGMENTS, segment_path

from .simulated_time import SimulatedTime

# What requests of an object store take, in seconds, and how fast a process moves bytes.
PUT, GET, LIST = 0.030, 0.015, 0.030
BYTES_PER_SECOND = 100e6
NAMES_PER_LIST = 1_000


class SimulatedBucket:
    """An environment whose files are in memory, of segments only the sizes."""

    listing_interval = 600.0
    removal_delay = 600.0
    has_current_names = True
    fills_up = False
    is_remote = True

    def __init__(self, clock: SimulatedTime) -> None:
        self.clock = clock
        self.requests: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self.put_times: dict[str, int] = {}
        self.segments: dict[str, int] = {}
        self._random = random.Random(0)

    def _request(self, kind: str, seconds: float, size: int = 0) -> None:
        self.requests[kind] += 1
        self.requests[f"{kind} bytes"] += size
        self.clock.wait(seconds + size / BYTES_PER_SECOND)

    def location(self, name: str) -> str:
        """Return the URI of a file."""
        return f"s3://bucket/store/{name}"

    local_path = location

    def read(self, name: str) -> bytes:
        """Get a file."""
        self._request("get", GET, len(self.files.get(name, b"")))
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def read_all(self, names: Sequence[str]) -> list[bytes | None]:
        """Get files at the same time."""
        contents = [self.files.get(name) for name in names]
        self.requests["get"] += max(len(names) - 1, 0)
        if names:
            self._request("get", GET, sum(len(content or b"") for content in contents))
        return contents

    def hold(self, name: str, size: int, digest: str) -> object:
        """Do nothing: no cache evicts a file."""

    def bring(self, name: str, size: int, digest: str) -> tuple[object, None]:
        """Raise: segments have no bytes."""
        raise FileNotFoundError(name)

    def parts(self, name: str, size: int, digest: str) -> None:
        """Return None: segments have no bytes."""

    def drop_copy(self, name: str) -> bool:
        """Return False: there are no copies."""
        return False

    def map(self, name: str) -> NDArray[np.uint8]:
        """Get a file."""
        return np.frombuffer(self.read(name), np.uint8)

    def size(self, name: str) -> int:
        """Ask for a file's size."""
        if name.startswith(SEGMENTS):
            # The process has put it: an environment of an object store knows that.
            return self.segments[name]
        self._request("head", GET)
        if name not in self.files:
            raise FileNotFoundError(name)
        return len(self.files[name])

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Ask for the sizes of segments, which this process has put."""
        return [self.segments.get(name) for name in names]

    def identity(self, name: str) -> tuple[int, ...]:
        """Return the file's size, as it never changes."""
        return (self.size(name),)

    def modified(self, name: str) -> int:
        """Ask when a file was put."""
        self._request("head", GET)
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.put_times[name]

    def exists(self, name: str) -> bool:
        """Ask whether there is a file."""
        self._request("head", GET)
        return name in self.files

    def list(self, folder: str) -> list[str]:
        """List a folder, a thousand names per request."""
        prefix = f"{folder}/" if folder else ""
        names = sorted(name[len(prefix) :] for name in self.files if name.startswith(prefix))
        for _ in range(0, max(len(names), 1), NAMES_PER_LIST):
            self._request("list", LIST)
        if not names and not folder:
            raise FileNotFoundError(folder)
        return names

    def enclosing(self, folder: str) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield nothing: no store is around a simulated one."""
        return iter(())

    def folder_version(self, folder: str) -> None:
        """Return None: there is no such thing."""

    def signal(self, name: str) -> None:
        """Return None: processes share no memory."""

    def announce(self, name: str, entry: str) -> None:
        """Do nothing: others look."""

    def make_folders(self, folders: Sequence[str]) -> None:
        """Do nothing: there are no folders."""

    def put_if_absent(
        self, name: str, data: bytes, time: int | None = None, after: Sequence[str] = ()
    ) -> None:
        """Put a file, unless there is one by then."""
        self._request("put", PUT, len(data))
        if name in self.files:
            raise FileExistsError(name)
        self.files[name], self.put_times[name] = data, self.now()

    def put_all_if_absent(self, files: Mapping[str, bytes]) -> frozenset[str]:
        """Put files at the same time."""
        taken = frozenset(name for name in files if name in self.files)
        self.requests["put"] += max(len(files) - 1, 0)
        if files:
            self._request("put", PUT, sum(map(len, files.values())))
        for name in files.keys() - taken:
            self.files[name], self.put_times[name] = files[name], self.now()
        return taken

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in place of the one that there is."""
        self._request("put", PUT, len(data))
        self.files[name], self.put_times[name] = data, self.now()

    def put_segment(self, name: str, size: int) -> None:
        """Put a segment."""
        self._request("put segment", PUT, size)
        self.segments[segment_path(name)] = size

    def write(self, name: str, parts: Iterable[Content]) -> None:
        """Put a file."""
        self.put_if_absent(name, b"".join(parts))

    def remove(self, name: str) -> None:
        """Delete a file, in the background."""
        self.requests["delete"] += 1
        self.files.pop(name, None)
        self.put_times.pop(name, None)

    def publish(self, name: str) -> None:
        """Do nothing: what was put is durable."""

    sync_folder = publish

    def now(self) -> int:
        """Return the simulated time in microseconds."""
        return round(self.clock.seconds * 1e6)

    def monotonic(self) -> float:
        """Return the simulated time in seconds."""
        return self.clock.seconds

    def random_id(self) -> str:
        """Return 32 random hexadecimal digits."""
        return f"{self._random.getrandbits(128):032x}"
