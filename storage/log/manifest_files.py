"""The files of manifests: read through a bounded cache, and put before a checkpoint names them.

A manifest's name is a hash of its content. So a checkpoint names the files of an earlier one for
what has not changed, and two writers that divide one state put the same files.

**What may be removed.** A file that no kept checkpoint names is garbage, and vacuum removes it once
it is older than any checkpoint that is being written. A writer therefore relies only on what the
newest checkpoint in the log's folder names, which is kept, and puts everything else, if it is
absent. If such a file was there already, it may be old, and be removed before the checkpoint is
there; so the writer looks for what it has put once more after that, and puts again what is gone.

Promises: a content that was read is the one that was written; a damaged or missing file is a
CorruptionError that names it.
Does not know: which manifests a state has, when checkpoints are made.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..environment import Environment, after_fork
from ..environments import environment_of
from ..errors import CorruptionError
from ..paths import ARCHIVE, manifest_path
from .entry import malformed_error
from .frame import unseal
from .live_segments import Manifests
from .manifest import (
    Manifest,
    ManifestContent,
    ManifestFile,
    name_of,
    segments_from_json,
)
from .table_summary import TableSummary

# Segments whose records are in memory, undecoded, at most: some 100 MB.
_CACHED_SEGMENTS = 1 << 16


class MissingManifestError(CorruptionError):
    """The file of a manifest is missing."""


class ManifestCache:
    """Contents of manifests by their files; those used last stay. Safe between threads."""

    def __init__(self, segments: int = _CACHED_SEGMENTS) -> None:
        """``segments``: how many to hold at most, in all manifests but the one used last."""
        self._room = segments
        self._contents: dict[str, ManifestContent] = {}
        self._lock = threading.Lock()
        _caches.add(self)

    def get(self, location: str) -> ManifestContent | None:
        """Return the content of the file at a location, if it is here."""
        with self._lock:
            content = self._contents.pop(location, None)
            if content is not None:
                self._contents[location] = content
            return content

    def add(self, location: str, content: ManifestContent) -> None:
        """Add a content, and remove those that exceed the limit."""
        with self._lock:
            if location not in self._contents:
                self._room -= len(content.segments)
            self._contents[location] = content
            while self._room < 0 and len(self._contents) > 1:
                oldest = self._contents.pop(next(iter(self._contents)))
                self._room += len(oldest.segments)

    def renew_lock(self) -> None:
        """Replace the lock, which another thread may have held when this process forked."""
        self._lock = threading.Lock()


_caches: weakref.WeakSet[ManifestCache] = weakref.WeakSet()
shared_manifests = ManifestCache()


def _renew_locks() -> None:
    for cache in list(_caches):
        cache.renew_lock()


after_fork(_renew_locks)


class ManifestFiles:
    """The files of manifests of one store with some number of shards. Safe between threads."""

    def __init__(self, environment: Environment, shards: int, cache: ManifestCache) -> None:
        """``environment``: that of the store; ``cache``: holds what was read."""
        self._environment = environment
        self._shards = shards
        self._cache = cache

    def cached(self, manifest: Manifest) -> ManifestContent | None:
        """Return the content of a manifest if it is in memory."""
        return self._cache.get(self._location(manifest))

    def read(self, manifests: Sequence[Manifest]) -> list[ManifestContent]:
        """Return the contents of manifests; those that are not in memory are read at once."""
        contents = {}
        for manifest in manifests:
            contents[_path(manifest)] = self.cached(manifest)
        missing = [path for path, content in contents.items() if content is None]
        data = dict(zip(missing, self._environment.read_all(missing), strict=True))
        for manifest in manifests:
            path = _path(manifest)
            if contents[path] is None:
                contents[path] = self._decode(manifest, data[path])
        return [content for manifest in manifests if (content := contents[_path(manifest)])]

    def _decode(self, manifest: Manifest, data: bytes | None) -> ManifestContent:
        assert manifest.file is not None
        location = self._location(manifest)
        if data is None:
            raise MissingManifestError(
                f"{location}: this file is missing, although a checkpoint of the log names it: "
                "restore it from a backup; if a vacuum came after the read of an older epoch "
                "began, read again"
            )
        value, lines = unseal("manifest", data, location)
        if name_of(data) != manifest.file.name:
            raise CorruptionError(
                f"{location}: it holds another manifest; the file was renamed or replaced: "
                "restore it from a backup"
            )
        try:
            content = _from_json(value, lines, self._shards)
            _check(manifest, value["shard"], content)
        except Exception as error:
            raise malformed_error(location, "manifest", error) from error
        self._cache.add(location, content)
        return content

    def _location(self, manifest: Manifest) -> str:
        return self._environment.location(_path(manifest))

    def __reduce__(self) -> tuple[Callable[[str, int], ManifestFiles], tuple[str, int]]:
        """Pickle by the path of the store: the copy reads the files in its own process."""
        return _files_at, (self._environment.location(""), self._shards)

    def from_json(self, value: Mapping[str, Any]) -> Manifest:
        """Return the manifest of which a checkpoint says this. ValueError, TypeError, KeyError."""
        epoch, rank, name = value["last"]
        tables = [TableSummary.from_json(table, self._shards) for table in value["tables"]]
        summaries = {table.statistics.table_id: table for table in tables}
        numbers = (epoch, rank, value["count"], value["size"])
        texts = (name, value["name"])
        shard = value["shard"]
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError(f"numbers of the manifest {value['name']!r:.100}")
        if any(type(text) is not str for text in texts) or not manifest_path(value["name"]):
            raise ValueError(f"names of the manifest {value['name']!r:.100}")
        if shard is not None and (type(shard) is not int or not 0 <= shard < self._shards):
            raise ValueError(f"the shard {shard!r:.100}")
        if len(summaries) < len(tables):
            raise ValueError(f"tables of the manifest {value['name']!r:.100}")
        file = ManifestFile.of(value["name"], value["size"], summaries)
        return Manifest(shard, (epoch, rank, name), value["count"], file, self)

    def put(self, manifests: Manifests, named: Collection[str]) -> PutManifests:
        """Put the manifests that have no file; ``named``: the names of files that are kept."""
        put = PutManifests(self._environment)
        stored = {
            shard: tuple(self._put(manifest, named, put) for manifest in of_shard)
            for shard, of_shard in manifests.items()
        }
        put.manifests = stored
        put.sync()
        return put

    def _put(self, manifest: Manifest, named: Collection[str], put: PutManifests) -> Manifest:
        if manifest.file is not None and manifest.file.name in named:
            return manifest
        data = manifest.encode()
        name = name_of(data)
        stored = manifest.in_file(name, len(data), self)
        if name not in named:
            put.add(name, data)
        self._cache.add(self._location(stored), manifest.content)
        return stored


class PutManifests:
    """Manifests that were put for a checkpoint. ``manifests``: those that it is to name."""

    def __init__(self, environment: Environment) -> None:
        self.manifests: Manifests = {}
        self._environment = environment
        self._data: dict[str, bytes] = {}
        self._is_synced = True

    def add(self, name: str, data: bytes) -> None:
        """Put the file of a manifest, unless it is there."""
        self._data[name] = data
        try:
            self._environment.put_if_absent(manifest_path(name), data)
        except FileExistsError:  # equal, byte by byte
            self._is_synced = False

    def sync(self) -> None:
        """Make the names durable that were there, and may not have been."""
        if not self._is_synced:
            self._environment.sync_folder(ARCHIVE)
            self._is_synced = True

    def confirm(self) -> None:
        """Put the files again that were removed before a checkpoint named them."""
        names = list(self._data)
        sizes = self._environment.sizes([manifest_path(name) for name in names])
        for name, size in zip(names, sizes, strict=True):
            if size is None:
                self.add(name, self._data[name])


def _files_at(path: str, shards: int) -> ManifestFiles:
    return ManifestFiles(environment_of(path), shards, shared_manifests)


def _path(manifest: Manifest) -> str:
    assert manifest.file is not None
    return manifest_path(manifest.file.name)


def _from_json(value: Mapping[str, Any], lines: Sequence[bytes], shards: int) -> ManifestContent:
    shard = () if value["shard"] is None else (value["shard"],)
    segments = segments_from_json(value, lines, shards, [shard] * len(lines))
    return ManifestContent(tuple(segments))


def _check(manifest: Manifest, shard: object, content: ManifestContent) -> None:
    """Raise ValueError unless a content is what a checkpoint says of it."""
    keys = [segment.key for segment in content.segments]
    if shard != manifest.shard or len(keys) != manifest.count or keys[-1] != manifest.last:
        raise ValueError("it is not what the checkpoint says")
    if keys != sorted(set(keys)) or len(content.by_name) < len(keys):
        raise ValueError("its segments are not in order")
    tables = {table_id: len(segments) for table_id, segments in content.by_table.items()}
    if manifest.tables != tables:
        raise ValueError("its tables are not those that the checkpoint says")
