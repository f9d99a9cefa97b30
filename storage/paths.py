"""The names of a store's files: the only module that builds or parses them.

    _log/00000000000000000042.json              the entry of epoch 42
    _log/00000000000000000064.checkpoint.json   the fold of the entries up to epoch 64
    _log/.signal                                a number that is new after each commit
    _archive/00000000000000000001-00000000000000000032.json
                                                the entries of a block of epochs, one per line
    _archive/00000000000000000064.checkpoint.json
                                                a checkpoint that newer ones have replaced
    _archive/<hash>.manifest.json               records of segments that checkpoints name together
    segments/<name>.lmdb                        a segment
    _failures/0000000012-00000000000000000042.json
                                                why view 12 could not be refreshed up to epoch 42

    .reserve                                    bytes that a vacuum or a drop frees on a full disk

Names sort in the order of their epochs. While a file is being written, its name is followed by a
random id and ``.tmp``; a crash may leave such a file. Files with other names are ignored.
Does not know: what the files hold.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

LOG = "_log"
ARCHIVE = "_archive"
SEGMENTS = "segments"
FOLDERS = (LOG, ARCHIVE, SEGMENTS)
# Made when it is needed.
FAILURES = "_failures"
RESERVE = ".reserve"
SIGNAL = f"{LOG}/.signal"

# On disk: checkpoints and archives are cut at multiples of it. Never change it.
BLOCK = 32

_LOG_FILE = re.compile(r"([0-9]{20})(\.checkpoint)?\.json", re.ASCII)
_ARCHIVE_FILE = re.compile(r"([0-9]{20})-[0-9]{20}\.json", re.ASCII)
_MANIFEST_FILE = re.compile(r"([0-9a-f]{32})\.manifest\.json", re.ASCII)
_FAILURE_FILE = re.compile(r"([0-9]{10})-[0-9]{20}\.json", re.ASCII)
_SEGMENT_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}", re.ASCII)
_SEGMENT_SUFFIX = ".lmdb"


class LogFile(NamedTuple):
    """The kind and epoch that the name of a file in the log's folder states."""

    kind: Literal["entry", "checkpoint"]
    epoch: int


def entry_path(epoch: int) -> str:
    """Return the name of the log entry of an epoch."""
    return f"{LOG}/{epoch:020d}.json"


def checkpoint_path(epoch: int) -> str:
    """Return the name of the checkpoint that folds the entries up to an epoch."""
    return f"{LOG}/{epoch:020d}.checkpoint.json"


def block_of(epoch: int) -> range:
    """Return the epochs that share an archive with this epoch: 1 to 32, 33 to 64, ..."""
    first = (epoch - 1) // BLOCK * BLOCK + 1
    return range(first, first + BLOCK)


def archive_path(epoch: int) -> str:
    """Return the name of the archive that an epoch's entry is copied to."""
    block = block_of(epoch)
    return f"{ARCHIVE}/{block[0]:020d}-{block[-1]:020d}.json"


def parse_archive(file: str) -> int | None:
    """Return the first epoch of an archive of entries by its file name; None for other files."""
    match = _ARCHIVE_FILE.fullmatch(file)
    if match is None or int(match[1]) == 0:
        return None
    first = int(match[1])
    return first if archive_path(first) == f"{ARCHIVE}/{file}" else None


def archived_checkpoint_path(epoch: int) -> str:
    """Return the name under which the checkpoint of an epoch is archived."""
    return f"{ARCHIVE}/{epoch:020d}.checkpoint.json"


def parse_archived_checkpoint(file: str) -> int | None:
    """Return the epoch of an archived checkpoint by its file name; None for other files."""
    parsed = parse_log_file(file)
    return parsed.epoch if parsed is not None and parsed.kind == "checkpoint" else None


def manifest_path(name: str) -> str:
    """Return the file name of a manifest. ValueError if ``name`` cannot be a manifest's."""
    file = f"{name}.manifest.json"
    if parse_manifest_file(file) is None:
        raise ValueError(f"{name!r:.100} is not the name of a manifest")
    return f"{ARCHIVE}/{file}"


def parse_manifest_file(file: str) -> str | None:
    """Return the name of the manifest in a file of the archive; None for other files."""
    match = _MANIFEST_FILE.fullmatch(file)
    return None if match is None else match[1]


def failure_path(view_id: int, epoch: int) -> str:
    """Return the name of the file that says why a view could not be refreshed up to an epoch."""
    return f"{FAILURES}/{view_id:010d}-{epoch:020d}.json"


def parse_failure_file(file: str) -> int | None:
    """Return the id of the view in the name of a file of failures; None for other files."""
    match = _FAILURE_FILE.fullmatch(file)
    return None if match is None else int(match[1])


def segment_path(name: str) -> str:
    """Return the file name of a segment. ValueError if ``name`` cannot be a segment's."""
    if not is_segment_name(name):
        raise ValueError(f"{name!r} is not the name of a segment")
    return f"{SEGMENTS}/{name}{_SEGMENT_SUFFIX}"


def is_segment_name(name: str) -> bool:
    """Return whether a segment may have this name; such a name cannot leave the folder."""
    return _SEGMENT_NAME.fullmatch(name) is not None


def parse_log_file(file: str) -> LogFile | None:
    """Return the kind and epoch of a file in the log's folder; None if it is not the log's."""
    match = _LOG_FILE.fullmatch(file)
    epoch = 0 if match is None else int(match[1])
    if match is None or epoch == 0:
        return None
    return LogFile("checkpoint" if match[2] else "entry", epoch)


def is_temporary(file: str) -> bool:
    """Return whether a file is unfinished: its writer has died, or is still writing it."""
    return file.endswith(".tmp")


def parse_segment_file(file: str) -> str | None:
    """Return the name of the segment in a file of the segments' folder; None for other files."""
    name = file.removesuffix(_SEGMENT_SUFFIX)
    return name if name != file and is_segment_name(name) else None
