"""The segments with visible rows at one epoch, divided among manifests.

Promises: a value; a change costs what it touches, not the number of segments; what is not asked for
is not read. A segment is found by its key in one manifest, by its name alone in any of them: then
those in memory and those of the newest segments are looked at first.
Does not know: which rows are visible, checkpoints.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from itertools import chain, islice
from typing import TypeAlias

from ..errors import CorruptionError
from ..paths import BLOCK
from .manifest import Manifest, ManifestContent, Shard, divided, ends
from .segment_record import SegmentRecord
from .sequenced_segment import KEY_OF, SegmentKey, SequencedSegment, shard_of

Manifests: TypeAlias = Mapping[Shard, tuple[Manifest, ...]]
"""The manifests of each shard that has any, in the order of their segments."""

# Segments per manifest, and the most in one that has no file yet.
SIZE = 512
_MOST_IN_MEMORY = 4 * SIZE
# A state relies on the files of a checkpoint for so many blocks of epochs; vacuum keeps those of as
# many checkpoints before the one that it needs, and one more.
KEPT_BLOCKS = 2
# The segments of a table are read and sorted again after each commit if there are more of them.
_MOST_CARRIED = 1 << 18
# Manifests that are read at once.
_AT_ONCE = 32


class LiveSegments(Mapping[str, SequencedSegment]):
    """Segments by name. Immutable: `adopt` changes only where they are."""

    __slots__ = ("_count", "_of_table", "_where")

    def __init__(self, manifests: Manifests, checkpoint_epoch: int = 0) -> None:
        # Replaced at once: other threads read it.
        self._where = (manifests, checkpoint_epoch)
        self._count: int | None = None
        # What `of_table` has returned, by table.
        self._of_table: dict[int, tuple[SequencedSegment, ...]] = {}

    @classmethod
    def of(cls, segments: Iterable[SequencedSegment]) -> LiveSegments:
        """Return the collection of some segments, which have different names."""
        by_shard: dict[Shard, list[SequencedSegment]] = {}
        for segment in segments:
            by_shard.setdefault(segment.shard, []).append(segment)
        return cls(
            {
                shard: (Manifest.of(shard, sorted(of_shard, key=KEY_OF)),)
                for shard, of_shard in by_shard.items()
            }
        )

    @property
    def manifests(self) -> Manifests:
        """Where the segments are."""
        return self._where[0]

    @property
    def checkpoint_epoch(self) -> int:
        """The epoch of the checkpoint that names the files of the manifests; 0 without one."""
        return self._where[1]

    # Reading

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(manifest.count for manifest in self._all())
        return self._count

    def __iter__(self) -> Iterator[str]:
        return (segment.name for segment in self._segments(self._all()))

    def values(self) -> ValuesView[SequencedSegment]:
        """Return the segments, which are read a few manifests at a time."""
        return _Values(self)

    def readable(self) -> Iterator[SequencedSegment | CorruptionError]:
        """Yield the segments, and an error in place of those of each damaged manifest."""
        for manifest in self._all():
            try:
                yield from manifest.content.segments
                manifest.check_summaries()
            except CorruptionError as error:
                yield error

    def __getitem__(self, name: str) -> SequencedSegment:
        return self.find(name)

    def find(self, name: str, shards: Collection[Shard] = ()) -> SequencedSegment:
        """Return a segment by its name, which probably is in one of some shards. KeyError."""
        likely = [
            manifest
            for shard in (None, *shards)
            for manifest in reversed(self.manifests.get(shard, ()))
        ]
        unread: dict[Manifest, None] = {}
        # To ask for each of them takes long in a large store: the likely ones come first.
        for manifest in chain(likely, self._all()):
            content = manifest.known
            if content is None:
                unread[manifest] = None
            elif name in content.by_name:
                return content.by_name[name]
        for manifest in sorted(
            unread, key=lambda manifest: (manifest.shard in shards, manifest.last), reverse=True
        ):
            segment = manifest.content.by_name.get(name)
            if segment is not None:
                return segment
        raise KeyError(name)

    def absent(self, names: Iterable[str]) -> set[str]:
        """Return those of some names that certainly no segment has; nothing is read.

        None while segments of some manifest are not in memory: they may have any name.
        """
        absent = set(names)
        for manifest in self._all():
            content = manifest.known
            if content is None:
                return set()
            absent.difference_update(content.by_name)
        return absent

    def holds(self, segment: SequencedSegment) -> bool:
        """Return whether a segment is among them, with the same sequence number."""
        manifests = self.manifests.get(segment.shard, ())
        index = _position(manifests, segment.key)
        return index < len(manifests) and manifests[index].get(segment.key) is not None

    def with_name_of(self, record: SegmentRecord, first: int) -> SequencedSegment | None:
        """Return the segment with the name of a record, which a commit adds or has added.

        ``first``: no earlier epoch can have added it.
        """
        first = record.sequence_number[0] if record.sequence_number is not None else first
        (shard,) = shard_of(record) or (None,)
        manifests = self.manifests.get(shard, ())
        for manifest in reversed(manifests):
            if manifest.last[0] < first:
                break
            segment = manifest.content.by_name.get(record.name)
            if segment is not None:
                return segment
        return None

    @property
    def has_files(self) -> bool:
        """Whether some segments are in files, not in memory for good."""
        # Without a checkpoint that names some there are none.
        return self.checkpoint_epoch > 0 and any(
            manifest.file is not None for manifest in self._all()
        )

    def count_of(self, table_id: int) -> int:
        """Return the number of segments with rows of a table, visible or not."""
        return sum(manifest.tables.get(table_id, 0) for manifest in self._all())

    def of_table(self, table_id: int) -> tuple[SequencedSegment, ...]:
        """Return the segments with rows of a table, visible or not, in the order of their keys."""
        segments = self._of_table.get(table_id)
        if segments is None:
            manifests = [manifest for manifest in self._all() if table_id in manifest.tables]
            parts = (content.by_table.get(table_id, ()) for content in contents_of(manifests))
            segments = tuple(sorted(chain.from_iterable(parts), key=KEY_OF))
            self._of_table[table_id] = segments
        return segments

    def _all(self) -> Iterator[Manifest]:
        return chain.from_iterable(self.manifests.values())

    def _segments(self, manifests: Iterable[Manifest]) -> Iterator[SequencedSegment]:
        for content in contents_of(manifests):
            yield from content.segments

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LiveSegments):
            return NotImplemented
        if len(self) != len(other):
            return False
        return set(self.values()) == set(other.values())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LiveSegments({len(self)} in {sum(map(len, self.manifests.values()))} manifests)"

    # Changing

    def changed(
        self, added: Iterable[SequencedSegment], removed: Iterable[SequencedSegment]
    ) -> LiveSegments:
        """Return the segments without some of them, and with others."""
        added_to: dict[Shard, list[SequencedSegment]] = {}
        removed_from: dict[Shard, list[SequencedSegment]] = {}
        for segment in added:
            added_to.setdefault(segment.shard, []).append(segment)
        for segment in removed:
            removed_from.setdefault(segment.shard, []).append(segment)
        before, checkpoint_epoch = self._where
        manifests = dict(before)
        for shard in added_to.keys() | removed_from.keys():
            changed = _changed(
                shard,
                manifests.get(shard, ()),
                added_to.get(shard, ()),
                removed_from.get(shard, ()),
            )
            if changed:
                manifests[shard] = changed
            else:
                del manifests[shard]
        after = LiveSegments(manifests, checkpoint_epoch)
        after._of_table = self._of_table_after(added_to.values(), removed_from.values())
        return after

    def _of_table_after(
        self,
        added: Iterable[Sequence[SequencedSegment]],
        removed: Iterable[Sequence[SequencedSegment]],
    ) -> dict[int, tuple[SequencedSegment, ...]]:
        """Return what `of_table` would return after a change, of the tables that it knows."""
        new, old = list(chain.from_iterable(added)), list(chain.from_iterable(removed))
        names = {segment.name for segment in old}
        touched = {table_id for segment in (*new, *old) for table_id in segment.table_ids}
        by_table = {
            table_id: segments
            for table_id, segments in self._of_table.copy().items()
            if len(segments) <= _MOST_CARRIED
        }
        for table_id in touched & by_table.keys():
            before = by_table[table_id]
            if names:
                before = tuple([segment for segment in before if segment.name not in names])
            of_table = sorted(
                (segment for segment in new if table_id in segment.table_ids), key=KEY_OF
            )
            after = (*before, *of_table)
            is_sorted = not before or not of_table or before[-1].key < of_table[0].key
            by_table[table_id] = after if is_sorted else tuple(sorted(after, key=KEY_OF))
        return by_table

    def divided(self, size: int) -> LiveSegments:
        """Return the same segments, in manifests of about ``size`` segments each.

        What has a file stays as it is unless its end is no end of a manifest any more.
        """
        return LiveSegments(
            {
                shard: tuple(_divided(shard, manifests, size))
                for shard, manifests in self.manifests.items()
            },
            self.checkpoint_epoch,
        )

    def adopt(self, manifests: Manifests, checkpoint_epoch: int) -> None:
        """Take other manifests of the same segments, which a checkpoint names."""
        self._where = (manifests, checkpoint_epoch)


class _Values(ValuesView[SequencedSegment]):
    """The segments of a collection."""

    def __init__(self, segments: LiveSegments) -> None:
        super().__init__(segments)
        self._live = segments

    def __iter__(self) -> Iterator[SequencedSegment]:
        live = self._live
        return live._segments(live._all())


EMPTY = LiveSegments({})


def file_names(manifests: Manifests) -> Set[str]:
    """Return the names of the files that manifests are in."""
    all_of = chain.from_iterable(manifests.values())
    return {manifest.file.name for manifest in all_of if manifest.file is not None}


def is_outdated(segments: LiveSegments, epoch: int) -> bool:
    """Return whether to load the state of an epoch again instead of folding it onto segments.

    Those that are not in memory are in files that a checkpoint names which may be removed soon: see
    `KEPT_BLOCKS`.
    """
    return 0 < segments.checkpoint_epoch < epoch - KEPT_BLOCKS * BLOCK and segments.has_files


def _position(manifests: Sequence[Manifest], key: SegmentKey) -> int:
    """Return the index of the manifest that a key belongs to; their number if it is above all."""
    return bisect_left(manifests, key, key=lambda manifest: manifest.last)


def contents_of(manifests: Iterable[Manifest]) -> Iterator[ManifestContent]:
    """Yield the contents of manifests; some of those that are not in memory are read at once."""
    remaining = iter(manifests)
    while some := list(islice(remaining, _AT_ONCE)):
        unread = [manifest for manifest in some if manifest.in_memory is None]
        read = iter(unread[0].reader.read(unread) if unread and unread[0].reader else ())
        for manifest in some:
            yield manifest.in_memory or next(read)


def _changed(
    shard: Shard,
    manifests: Sequence[Manifest],
    added: Sequence[SequencedSegment],
    removed: Sequence[SequencedSegment],
) -> tuple[Manifest, ...]:
    """Return the manifests of a shard after a change of its segments."""
    additions: dict[int, list[SequencedSegment]] = {}
    removals: dict[int, list[str]] = {}
    for segment in added:
        index = _position(manifests, segment.key)
        if index == len(manifests) and manifests and manifests[-1].file is None:
            index -= 1
        additions.setdefault(index, []).append(segment)
    for segment in removed:
        removals.setdefault(_position(manifests, segment.key), []).append(segment.name)
    changed = list(manifests)
    new = additions.pop(len(manifests), None)
    if new:
        changed += (
            Manifest.of(shard, part) for part in divided(sorted(new, key=KEY_OF), _MOST_IN_MEMORY)
        )
    for index in sorted(additions.keys() | removals.keys(), reverse=True):
        changed[index : index + 1] = manifests[index].changed(
            additions.get(index, ()), removals.get(index, ()), _MOST_IN_MEMORY
        )
    return tuple(changed)


def _divided(shard: Shard, manifests: Sequence[Manifest], size: int) -> Iterator[Manifest]:
    """Yield the manifests of a shard's segments, of about ``size`` segments each."""
    # Those that are not known to end where they do.
    open_segments: list[SequencedSegment] = []
    for index, manifest in enumerate(manifests):
        is_closed = index == len(manifests) - 1 or ends(manifest.last[2], size)
        if manifest.file is not None and is_closed and not open_segments:
            yield manifest
            continue
        open_segments += manifest.content.segments
        *complete, rest = divided(open_segments, size)
        yield from (Manifest.of(shard, part) for part in complete)
        if ends(rest[-1].name, size):
            yield Manifest.of(shard, rest)
            rest = ()
        open_segments = list(rest)
    if open_segments:
        yield Manifest.of(shard, open_segments)
