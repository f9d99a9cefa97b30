"""The archive: entries that checkpoints cover, one file for each block of 32 epochs.

An archive is the concatenation of its entries' files. It is created before the first of them is
removed, and only once: so an epoch without an archive still has its entry in the log, and the
archived entry of an epoch is the one that was committed. Only an erasure replaces it, by one that
names no keys of rows (redaction.py).

Does not know: which entries are covered (folding.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..environment import Environment
from ..errors import CorruptionError
from ..paths import archive_path, block_of, entry_path
from .entry import Entry, decode_entry, encode_entry


def is_archived(environment: Environment, epoch: int) -> bool:
    """Return whether an epoch's entry is archived; errors raise, which `exists` may hide."""
    try:
        environment.size(archive_path(epoch))
    except FileNotFoundError:
        return False
    return True


def read_archive(environment: Environment, epoch: int) -> tuple[Entry, ...] | None:
    """Return the entries of the block of an epoch; None if they are not archived.

    CorruptionError if the archive is damaged.
    """
    path = archive_path(epoch)
    try:
        data = environment.read(path)
    except FileNotFoundError:
        return None
    return _decode(data, block_of(epoch), environment.location(path))


def archive_block(environment: Environment, epoch: int) -> None:
    """Archive the entries of the block of an epoch, unless that was done.

    Its entries may be removed afterwards: an archive that was there has been read. CorruptionError
    if an entry is missing or damaged, and nothing is archived then, or if that archive is.
    """
    block = block_of(epoch)
    path = archive_path(epoch)
    if read_archive(environment, epoch) is not None:
        return
    try:
        lines = [_read_line(environment, entry_epoch) for entry_epoch in block]
    except FileNotFoundError as error:
        if read_archive(environment, epoch) is not None:
            return
        raise CorruptionError(
            f"{error.filename}: this log entry is missing although it was not archived; "
            "restore it from a backup"
        ) from error
    data = b"".join(lines)
    _decode(data, block, environment.location(path))
    try:
        environment.put_if_absent(path, data)
    except FileExistsError:
        check_same(environment, path, data)


def replace_archive(
    environment: Environment, path: str, first: int, change: Callable[[Entry], Entry]
) -> bool:
    """Replace the entries of an archive by changed ones; return whether any is another one.

    ``first``: the first epoch of its block. CorruptionError if it is damaged.
    """
    entries = _decode(environment.read(path), block_of(first), environment.location(path))
    changed = tuple(map(change, entries))
    if changed == entries:
        return False
    environment.replace(path, b"".join(map(encode_entry, changed)))
    return True


def check_same(environment: Environment, path: str, data: bytes) -> None:
    """Raise CorruptionError unless a file, whose name was taken, has the content to be put there.

    For files that all writers make alike.
    """
    try:
        is_same = environment.read(path) == data
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise CorruptionError(
            f"{environment.location(path)}: it is not the file that the log leads to; it was "
            "damaged or replaced: restore it from a backup"
        )


def _read_line(environment: Environment, epoch: int) -> bytes:
    """Return the content of an entry's file, after checking it."""
    path = entry_path(epoch)
    data = environment.read(path)
    decode_entry(data, epoch, environment.location(path))
    return data


def _decode(data: bytes, block: range, location: str) -> tuple[Entry, ...]:
    lines = data.splitlines(keepends=True)
    if len(lines) != len(block):
        raise CorruptionError(
            f"{location}: {len(lines)} entries instead of {len(block)}; the file was truncated "
            "or extended: restore it from a backup"
        )
    entries = tuple(map(decode_entry, lines, block, [location] * len(block)))
    check_chain(entries[0].parent, entries, location)
    return entries


def check_chain(commit_id: str, entries: Sequence[Entry], location: str) -> None:
    """Raise CorruptionError unless entries follow a commit, each the one before it."""
    for entry in entries:
        check_parent(commit_id, entry, location)
        commit_id = entry.commit_id


def check_parent(commit_id: str, entry: Entry, location: str) -> None:
    """Raise CorruptionError unless an entry was written after the commit with this id."""
    if entry.parent != commit_id:
        raise mixed_stores_error(entry.epoch - 1, location)


def mixed_stores_error(epoch: int, location: str) -> CorruptionError:
    """Return the error for an epoch whose entry is not the one that the next epoch's names."""
    return CorruptionError(
        f"{location}: epoch {epoch + 1} was committed after another epoch {epoch} than the one "
        "that is here; files of two stores were mixed: restore one of them whole"
    )
