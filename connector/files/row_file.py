"""Opening files of rows, which are outside of any store: the one door to them.

Promises: a file that is written appears whole, or not at all. Errors are UsageError for a missing
file, FilesystemError for one that cannot be written, else OSError, with the path.
Does not know: what is in them.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from relstate.storage import errors

from .file_format import compression_of

_LONGEST_LINE = 1 << 20
STANDARD = "-"
"""The name of standard input and output."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is open for reading: ``stream`` is decompressed, ``raw`` as it is on disk."""

    path: str
    stream: Any
    raw: Any

    @property
    def size(self) -> int | None:
        """How many bytes it has; None if that is not known before its end."""
        return None if self.path == STANDARD else int(self.raw.size())

    def first_line(self) -> str:
        """Return the first line, without reading it. UnicodeDecodeError if it is not UTF-8."""
        peeked: bytes = self.stream.peek(_LONGEST_LINE)
        line, _, _ = peeked.partition(b"\n")
        return line.decode("utf-8-sig").rstrip("\r")

    @property
    def position(self) -> int:
        """How many of its bytes are read."""
        return int(self.raw.tell())


@contextmanager
def open_input(path: str) -> Iterator[InputFile]:
    """Open a file, or standard input for ``-``, for the block.

    UsageError if there is no such file; OSError.
    """
    if path == STANDARD:
        yield InputFile(path, sys.stdin.buffer, sys.stdin.buffer)
        return
    if not os.path.exists(path):
        raise errors.UsageError(f"there is no file {path!r}: nothing was read")
    with pa.OSFile(path, "r") as raw:
        compression = compression_of(path)
        stream = raw if compression is None else pa.CompressedInputStream(raw, compression)
        yield InputFile(path, io.BufferedReader(stream, _LONGEST_LINE), raw)


@contextmanager
def open_output(path: str) -> Iterator[Any]:
    """Open a file to be written, or standard output for ``-``; it is there after the block.

    If the block ends with an error, no file is left and one that was there stays. FilesystemError
    if it cannot be written.
    """
    if path == STANDARD:
        yield pa.PythonFile(sys.stdout.buffer, "w")
        sys.stdout.buffer.flush()
        return
    # A pipe or a device is written itself, of a link what it leads to.
    is_special = os.path.exists(path) and not os.path.isfile(path)
    target = path if is_special else os.path.realpath(path)
    unfinished = path if is_special else f"{target}.unfinished"
    try:
        with open(unfinished, "wb") as raw:
            compression = compression_of(path)
            if compression is None:
                yield raw
            else:
                with pa.CompressedOutputStream(raw, compression) as stream:
                    yield stream
        if not is_special:
            os.replace(unfinished, target)
    except OSError as error:
        _remove(unfinished, target)
        raise unwritable_error(path, error) from error
    except BaseException:
        _remove(unfinished, target)
        raise


def _remove(unfinished: str, target: str) -> None:
    """Remove what was written of a file; not a pipe or a device, which is its own target."""
    if unfinished != target:
        with suppress(OSError):
            os.remove(unfinished)


def unwritable_error(path: str, error: OSError) -> errors.FilesystemError:
    """Return the error for a file outside of any store that cannot be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return errors.FilesystemError(
        f"{path}: cannot write this file: {reason}; choose another place, or make its folder"
    )


def parquet_file(stream: Any) -> pq.ParquetFile:
    """Return a Parquet file that is open for reading. pa.ArrowInvalid if it is not one."""
    return pq.ParquetFile(stream)


def parquet_writer(stream: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Return what writes batches of a schema as Parquet."""
    return pq.ParquetWriter(stream, schema)
