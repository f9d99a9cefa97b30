"""The formats of files of rows, and how a name says which one it is.

Does not know: how a format is read or written.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath

from relstate.storage import errors


class FileFormat(StrEnum):
    """A format of files."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"

    @property
    def is_text(self) -> bool:
        """Whether its values are text, which has to be parsed."""
        return self in (FileFormat.CSV, FileFormat.JSON)


_SUFFIXES = {
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".parquet": FileFormat.PARQUET,
    ".arrow": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


def compression_of(path: str) -> str | None:
    """Return Arrow's name of the compression that a name ends with; None for none."""
    return _COMPRESSIONS.get(PurePath(path).suffix.lower())


def format_of(path: str) -> FileFormat:
    """Return the format that a name ends with, before that of a compression.

    OptionError if that says nothing, or names a compression that the format does not have.
    """
    compression = compression_of(path)
    name = PurePath(path).stem if compression else PurePath(path).name
    file_format = _SUFFIXES.get(PurePath(name).suffix.lower())
    if file_format is None:
        suffixes = ", ".join(_SUFFIXES)
        raise errors.OptionError(
            f"the name {path!r} does not say which format the file has ({suffixes}): give --format"
        )
    if compression and not file_format.is_text:
        raise errors.OptionError(
            f"{path!r}: a file of format {file_format} is compressed inside; only CSV and JSON "
            "files are compressed as a whole"
        )
    return file_format
