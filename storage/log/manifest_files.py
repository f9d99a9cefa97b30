"""The files of manifests: read through a bounded cache, and put before a checkpoint names them.

A manifest's name is a hash of its content. So a checkpoint names the files of an earlier one for
what has not changed, and two writers that divide one state put the same files.

**What may be removed.** A file that no kept checkpoint names is garbage, and vacuum removes it once
it is older than `ORPHAN_GRACE`. A writer therefore relies only on what the newest checkpoint in the
log's folder names, which is kept, and puts everything else. What it puts may be there already, as
another writer left it. So that it is not about to be removed then, the number of a period, half as
long as that time, is in the content and thus in the name: a file with the name of this period was
put in it. A checkpoint that was not put within the other half, because its writer slept, is left to
the next one. So no vacuum removes what a checkpoint names or is about to name.

Promises: a content that was read is the one that was written; a damaged or missing file is a
CorruptionError that names it.
Does not know: which manifests a state has, when checkpoints are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..clock import CLOCK_TOLERANCE
from ..environment import Environment
from ..environment_choice import environment_of
from ..errors import CorruptionError
from ..forklock import ForkLock
from ..paths import ARCHIVE, manifest_path
from .archive import check_same
from .entry import malformed_error
from .file_frame import unseal
from .live_segments import Manifests
from .manifest import Manifest, ManifestContent, ManifestFile, name_of, segments_from_json
from .moment import ORPHAN_GRACE
from .table_summary import TableSummary

# The length of a period, in microseconds.
_PERIOD = ORPHAN_GRACE // 2
# For so many seconds a checkpoint may be put that names what was put for it.
RELIED = (ORPHAN_GRACE - _PERIOD - 2 * CLOCK_TOLERANCE) / 1_000_000
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
        self._lock = ForkLock()

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


shared_manifests = ManifestCache()


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
        numbers = (epoch, rank, value["count"], value["size"], value["period"])
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
        file = ManifestFile.of(value["name"], value["size"], value["period"], summaries)
        return Manifest(shard, (epoch, rank, name), value["count"], file, self)

    def put(self, manifests: Manifests, kept_manifests: Manifests) -> Manifests:
        """Return the manifests that a checkpoint is to name, after putting those without a file.

        ``kept_manifests``: those of a checkpoint that is kept. The new checkpoint has to be there
        within `RELIED` seconds from the call on.
        """
        by_file = {
            manifest.file.name: manifest
            for of_shard in kept_manifests.values()
            for manifest in of_shard
            if manifest.file is not None
        }
        by_end = {(manifest.shard, manifest.last): manifest for manifest in by_file.values()}
        period = self._environment.now() // _PERIOD
        files: dict[str, bytes] = {}

        def stored(manifest: Manifest) -> Manifest:
            if manifest.file is not None and manifest.file.name in by_file:
                return manifest
            same = by_end.get((manifest.shard, manifest.last))
            if same is not None and same.has_content_of(manifest):
                return same
            data = manifest.encode(period)
            name = name_of(data)
            files[manifest_path(name)] = data
            in_file = manifest.in_file(name, len(data), period, self)
            self._cache.add(self._location(in_file), manifest.content)
            return in_file

        result = {shard: tuple(map(stored, of_shard)) for shard, of_shard in manifests.items()}
        taken = self._environment.put_all_if_absent(files)
        for path in taken:
            check_same(self._environment, path, files[path])
        if taken:
            # Whoever put them may have died before their names were durable.
            self._environment.sync_folder(ARCHIVE)
        return result


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
