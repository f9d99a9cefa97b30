"""Lookups in the files of a table of which some large ones are not on this machine.

Promises: a lookup of a key waits for the parts of a file that it needs, not for the file; once the
file is here, it is opened and read as any other.
Does not know: which files may hold a key.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..environment import Environment, PartReader
from ..errors import CorruptionError, SegmentMissingError
from ..log.expired_read import missing_segment_error
from ..log.segment_record import SegmentRecord
from ..log.sequenced_segment import SequencedSegment
from ..paths import segment_path
from ..segment.pagewalk import find
from ..segment.registry import registry
from ..segment.segment import SegmentFile


class ColdFile:
    """The lookup of a key in a file that may be on its way to this machine. Thread-safe."""

    def __init__(
        self, environment: Environment, record: SegmentRecord, verify: str, epoch: int | None
    ) -> None:
        """``verify``: see `SegmentRegistry.open`. ``epoch``: that is read, for messages."""
        self._environment, self._record, self._verify = environment, record, verify
        self._epoch = epoch
        self._parts = self._parts_now()
        self._file: SegmentFile | None = None

    @property
    def is_cold(self) -> bool:
        """Whether the file was not here when it was last needed."""
        return self._parts is not None

    def __call__(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none. The errors of `SegmentFile.get`."""
        file = self._file
        if file is not None:
            return file.getter()(key)
        parts = self._parts
        if parts is not None and self._parts_now() is None:
            parts = self._parts = None
        if parts is None:
            file = self._file = registry.open(self._environment, self._record, self._verify)
            return file.getter()(key)
        return self._find(parts, key)

    def _find(self, parts: PartReader, key: bytes) -> bytes | None:
        location = self._environment.location(segment_path(self._record.name))
        try:
            return find(parts.read, key)
        except (ValueError, IndexError, struct.error) as error:
            raise CorruptionError(
                f"{location}: {error}; the object was changed after it was published: restore it "
                "from a backup"
            ) from None
        except FileNotFoundError as error:
            missing = SegmentMissingError(
                f"{location}: the log names this segment, but the file is missing; if vacuum "
                "removed it during a long read, read again, otherwise restore it from a backup"
            )
            if self._epoch is None:
                raise missing from error
            raise missing_segment_error(self._environment, self._epoch, missing) from None

    def _parts_now(self) -> PartReader | None:
        record = self._record
        return self._environment.parts(segment_path(record.name), record.size, record.hash)


def cold_files(
    environment: Environment,
    segments: Sequence[SequencedSegment],
    verify: str,
    epoch: int | None,
) -> list[ColdFile] | None:
    """Return a lookup for each file of a table; None if all that are large are here."""
    if not environment.is_remote:
        return None
    files = [ColdFile(environment, segment.record, verify, epoch) for segment in segments]
    return files if any(file.is_cold for file in files) else None
