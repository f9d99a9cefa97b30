"""The names on disk: the only file that builds or parses them.

    _log/00000000000000000042.json              the entry of epoch 42
    _log/00000000000000000064.checkpoint.json   the fold of the entries up to epoch 64
    _archive/00000000000000000001-00000000000000000032.json
                                                the entries of a block of epochs, one a line
    _archive/00000000000000000064.checkpoint.json
                                                a checkpoint that later ones have taken over from
    segments/<name>.lmdb                        a segment

    .reserve                                    bytes that a vacuum or a drop frees on a full disk

Names sort as their epochs do. A file on its way to one of these names has a random id and ``.tmp``
behind it; a crash may leave it there. Files under any other name are left alone.
Does not know: what the files hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

LOG = "_log"
ARCHIVE = "_archive"
SEGMENTS = "segments"
FOLDERS = (LOG, ARCHIVE, SEGMENTS)
RESERVE = ".reserve"

# On disk: checkpoints and archives are cut at multiples of it. Never change it.
BLOCK = 32

_LOG_FILE = re.compile(r"([0-9]{20})(\.checkpoint)?\.json", re.ASCII)
_SEGMENT_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}", re.ASCII)
_SEGMENT_SUFFIX = ".lmdb"


@dataclass(frozen=True, slots=True)
class LogFile:
    """What the name of a file in the log's folder says."""

    kind: Literal["entry", "checkpoint"]
    epoch: int


def entry_path(epoch: int) -> str:
    """Return the name of the log entry of an epoch."""
    return f"{LOG}/{epoch:020d}.json"


def checkpoint_path(epoch: int) -> str:
    """Return the name of the checkpoint that folds the entries up to an epoch."""
    return f"{LOG}/{epoch:020d}.checkpoint.json"


def block_of(epoch: int) -> range:
    """Return the epochs that are archived in one file with this one: 1 to 32, 33 to 64, ..."""
    first = (epoch - 1) // BLOCK * BLOCK + 1
    return range(first, first + BLOCK)


def archive_path(epoch: int) -> str:
    """Return the name of the archive that an epoch's entry goes to."""
    block = block_of(epoch)
    return f"{ARCHIVE}/{block[0]:020d}-{block[-1]:020d}.json"


def archived_checkpoint_path(epoch: int) -> str:
    """Return the name under which the checkpoint of an epoch is archived."""
    return f"{ARCHIVE}/{epoch:020d}.checkpoint.json"


def parse_archived_checkpoint(file: str) -> int | None:
    """Return the epoch whose checkpoint a file in the archive's folder is; None if it is none."""
    found = parse_log_file(file)
    return found.epoch if found is not None and found.kind == "checkpoint" else None


def segment_path(name: str) -> str:
    """Return the file name of a segment. ValueError if ``name`` cannot be a segment's."""
    if not is_segment_name(name):
        raise ValueError(f"{name!r} is not the name of a segment")
    return f"{SEGMENTS}/{name}{_SEGMENT_SUFFIX}"


def is_segment_name(name: str) -> bool:
    """Return whether a segment can have this name: it never leads out of the folder."""
    return _SEGMENT_NAME.fullmatch(name) is not None


def parse_log_file(file: str) -> LogFile | None:
    """Return what a file in the log's folder is; None if it is not the log's."""
    match = _LOG_FILE.fullmatch(file)
    if match is None or int(match[1]) == 0:
        return None
    return LogFile("checkpoint" if match[2] else "entry", int(match[1]))


def is_temporary(file: str) -> bool:
    """Return whether a file was on its way to another name when its writer died, or still is."""
    return file.endswith(".tmp")


def parse_segment_file(file: str) -> str | None:
    """Return the segment whose file this is in the segments' folder; None if it is none's."""
    name = file.removesuffix(_SEGMENT_SUFFIX)
    return name if name != file and is_segment_name(name) else None
