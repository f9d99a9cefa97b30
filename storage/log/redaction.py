"""The redaction of a log: keys of rows leave the records of segments that nobody reads again.

The log says of each segment between which keys its rows are. A segment that no readable epoch names
is never opened, so its record needs no keys. Its name, sizes and counts stay: they are the history.

Files are replaced as a whole, each by one that says the same of every readable epoch and has the
same commit ids, so readers and writers continue. Two others must not bring back what was removed:

- A writer that archives a block copies its entries as they were when it read them. It can do so
  only once the block is full. So full blocks are archived first, and an archive is never put
  twice; if another block was filled meanwhile, the redaction begins again.
- A writer may put the checkpoint of its commit late. So the newest one that is due is put first.

Promises: after an interruption at any point the log reads as before, and the next redaction
completes this one.
Does not know: which keys are to be removed: it removes all that are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace

from ..paths import (
    ARCHIVE,
    BLOCK,
    LOG,
    archived_checkpoint_path,
    block_of,
    checkpoint_path,
    entry_path,
    parse_archive,
    parse_archived_checkpoint,
    parse_log_file,
)
from .archive import archive_block, replace_archive
from .entry import Entry, decode_entry, encode_entry
from .live_segments import LiveSegments
from .log import Log
from .sequenced_segment import SequencedSegment
from .state import StoreState


def readable_segments(log: Log, newest: StoreState) -> set[str]:
    """Return the names of the segments that a readable epoch names."""
    oldest = log.history.state_at(newest, newest.oldest_epoch)
    entries = log.history.entries(newest, oldest.epoch + 1, newest.epoch)
    return {*oldest.segments, *(record.name for entry in entries for record in entry.added)}


def redact(log: Log, state: StoreState) -> tuple[StoreState, int]:
    """Remove the keys of rows from the records of all segments that no readable epoch names.

    Return the newest state, and how many files of the log were replaced. CorruptionError if a file
    of the log is damaged; StorageFullError or FilesystemError, after which the log is as sound as
    before.
    """
    replaced = 0
    while True:
        state = log.refresh(state)
        needed = readable_segments(log, state)
        for epoch in [*_unarchived_blocks(log, state)]:
            archive_block(log.environment, epoch)
        _put_due_checkpoint(log, state)
        replaced += _redact_checkpoints(log, needed)
        replaced += _redact_entries(log, needed)
        newest = log.refresh(state)
        if newest.epoch // BLOCK == state.epoch // BLOCK:
            return newest, replaced


def _unarchived_blocks(log: Log, state: StoreState) -> Iterator[int]:
    """Yield an epoch of each full block of which entries are in the log's folder."""
    full = state.epoch // BLOCK * BLOCK
    yield from sorted({block_of(e)[0] for e in log.files.listing().entries if e <= full})


def _put_due_checkpoint(log: Log, state: StoreState) -> None:
    due = state.epoch // BLOCK * BLOCK
    if due and due not in log.files.listing().checkpoints:
        log.folding.put_checkpoint(log.history.past_state(state, due))


def _redact_checkpoints(log: Log, needed: Collection[str]) -> int:
    environment = log.environment
    live = [checkpoint_path(epoch) for epoch in log.files.listing().checkpoints]
    archived = map(parse_archived_checkpoint, environment.list(ARCHIVE))
    paths = [*live, *(archived_checkpoint_path(epoch) for epoch in archived if epoch is not None)]
    replaced = 0
    for path in paths:
        with suppress(FileNotFoundError):  # archived, or vacuumed, by another process
            replaced += _redact_checkpoint(log, path, needed)
    return replaced


def _redact_checkpoint(log: Log, path: str, needed: Collection[str]) -> bool:
    state = log.files.checkpoint_at(path)
    segments = list(state.segments.values())
    redacted = [_without_keys(segment, needed) for segment in segments]
    if all(map(_is_same, segments, redacted)):
        return False
    log.folding.replace_checkpoint(path, replace(state, segments=LiveSegments.of(redacted)))
    return True


def _is_same(before: SequencedSegment, after: SequencedSegment) -> bool:
    return before is after


def _without_keys(segment: SequencedSegment, needed: Collection[str]) -> SequencedSegment:
    if segment.name in needed or not segment.record.names_keys:
        return segment
    return SequencedSegment(segment.record.without_keys(), segment.epoch, segment.rank)


def _redact_entries(log: Log, needed: Collection[str]) -> int:
    """Redact the entries in the archive and in the log's folder; return how many files."""
    environment = log.environment
    change = _redaction(needed)
    replaced = 0
    for file in environment.list(ARCHIVE):
        first = parse_archive(file)
        if first is not None:
            replaced += replace_archive(environment, f"{ARCHIVE}/{file}", first, change)
    for file in environment.list(LOG):
        parsed = parse_log_file(file)
        if parsed is not None and parsed.kind == "entry":
            with suppress(FileNotFoundError):  # another process folded it
                replaced += _redact_entry(log, parsed.epoch, change)
    return replaced


def _redact_entry(log: Log, epoch: int, change: Callable[[Entry], Entry]) -> bool:
    path = entry_path(epoch)
    location = log.environment.location(path)
    entry = decode_entry(log.environment.read(path), epoch, location)
    changed = change(entry)
    if changed == entry:
        return False
    log.environment.replace(path, encode_entry(changed))
    return True


def _redaction(needed: Collection[str]) -> Callable[[Entry], Entry]:
    def redacted(entry: Entry) -> Entry:
        if all(record.name in needed or not record.names_keys for record in entry.added):
            return entry
        added = (
            record if record.name in needed else record.without_keys() for record in entry.added
        )
        return replace(entry, added=tuple(added))

    return redacted
