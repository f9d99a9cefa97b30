"""Segment files made by hand, from plain pairs of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from relstate.storage.environment import Environment
from relstate.storage.log.segment_record import SegmentRecord
from relstate.storage.paths import SEGMENTS, segment_path
from relstate.storage.segment.block import Block
from relstate.storage.segment.key import KeyPrefix
from relstate.storage.segment.segment import DescriptorShare, SegmentFile
from relstate.storage.segment.writer import write_segment

from .stores import unsynced

Pair = tuple[bytes, bytes]


def folder_for_segments(path: Path) -> Environment:
    """Return the environment of a folder that can hold segments."""
    (path / SEGMENTS).mkdir(parents=True)
    return unsynced(str(path))


def write_pairs(
    environment: Environment, pairs: Sequence[Pair], name: str = "0" * 32 + "-000000"
) -> SegmentRecord:
    """Write pairs with ascending keys as a segment and return its record."""
    keys = pa.array([key for key, _ in pairs], pa.large_binary())
    values = pa.array([value for _, value in pairs], pa.large_binary())
    order = np.arange(len(pairs), dtype=np.int64)
    return write_segment(environment, name, (keys, values), order, ())


def open_file(
    environment: Environment, record: SegmentRecord, *, share: int = 1, is_known: bool = True
) -> SegmentFile:
    """Open a segment; ``share``: LMDB's descriptors, ``is_known``: whether its layout seems so."""
    path = segment_path(record.name)
    contents = environment.map(path)
    if not is_known:
        # Another magic number: to `page` the file is not one of LMDB 0.9.
        contents = contents.copy()
        contents[16:20] = 0
    return SegmentFile(environment.local_path(path), contents, DescriptorShare(share))


def pairs_of(blocks: Iterable[Block]) -> list[list[Pair]]:
    """Return the entries of each block."""
    return [
        list(zip(block.key_bytes().to_pylist(), block.value_bytes().to_pylist(), strict=True))
        for block in blocks
    ]


def full_key(primary_key: bytes, *, table_id: int = 1, vnode: int = 0) -> bytes:
    """Return the full key of a row."""
    return KeyPrefix(table_id, 256).of(vnode) + primary_key
