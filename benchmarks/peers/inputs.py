"""The files that all systems read: rows to load, changes, keys, micro-batches.

Promises: the same size gives the same files. A file is made when it is first asked for.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .rows import keys_of, table_of

BATCHES = 20
_LOAD_FILES = 8
# The time of the first file of a stream, in seconds since 1970.
_FIRST_FILE = 1_700_000_000
# Of changed rows, one in so many is new.
_NEW = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows a run has; all else follows: 5 million rows give the numbers of the docs."""

    rows: int

    @property
    def upserted(self) -> int:
        """The number of rows of an upsert, of a MERGE, and of keys that are got at once."""
        return max(self.rows // 50, 10)

    @property
    def small(self) -> int:
        """The number of rows of a change feed, a DELETE, and the changes before a refresh."""
        return max(self.rows // 500, 10)

    @property
    def batch(self) -> int:
        """The number of rows of a micro-batch."""
        return max(self.rows // 1000, 10)

    @property
    def groups(self) -> int:
        """The number of the many groups: a million of 5 million rows."""
        return max(self.rows // 5, 10)

    @property
    def gets(self) -> int:
        """The number of gets that are measured together."""
        return min(self.rows // 2, 2000)


class Inputs:
    """The files of one run, in one folder."""

    def __init__(self, folder: Path, size: Size) -> None:
        """``folder`` is made if it is not there."""
        self._folder, self.size = folder, size
        folder.mkdir(parents=True, exist_ok=True)

    def load(self) -> str:
        """Return the folder with all rows in files, ascending by key, as a database exports."""
        folder = self._folder / "load"
        for part in range(_LOAD_FILES):
            start, stop = (self.size.rows * edge // _LOAD_FILES for edge in (part, part + 1))
            keys = np.arange(start, stop, dtype=np.int64)
            self._file(folder / f"{part:05d}.parquet", partial(table_of, keys))
        return str(folder)

    def changes(self, name: str, number: int, count: int) -> str:
        """Return a file with ``count`` rows all over the table, one in ten of them new."""

        def make() -> pa.Table:
            random, version = _random(name, number), _version(name, number)
            old = random.choice(self.size.rows, count - count // _NEW, replace=False)
            new = self.size.rows + random.choice(self.size.rows, count // _NEW, replace=False)
            return table_of(random.permutation(np.concatenate([old, new])), version)

        return self._file(self._folder / f"{name}-{number}.parquet", make)

    def kept_keys(self, name: str, number: int, count: int) -> str:
        """Return a file with ``count`` keys of rows that are never deleted, in random order."""
        return self._keys(name, number, count, 0)

    def deleted_keys(self, name: str, number: int, count: int) -> str:
        """Return a file with ``count`` keys, some of which may be deleted already."""
        return self._keys(name, number, count, 1)

    def _keys(self, name: str, number: int, count: int, remainder: int) -> str:
        """Return a file with keys of rows whose indices are even or odd."""

        def make() -> pa.Table:
            picked = _random(name, number).choice(self.size.rows // 2, count, replace=False)
            return pa.table({"k": keys_of(2 * picked.astype(np.int64) + remainder)})

        return self._file(self._folder / f"{name}-{number}.parquet", make)

    def batches(self, number: int) -> str:
        """Return a folder with a file of changes for each of the micro-batches of a stream.

        Spark takes files in the order of their times of modification, which have a second each:
        small files are written within one millisecond, and have the same keys.
        """
        folder = f"stream-{number}"
        for batch in range(BATCHES):
            file = self.changes(f"{folder}/{batch:05d}", number, self.size.batch)
            os.utime(file, (_FIRST_FILE + batch, _FIRST_FILE + batch))
        return str(self._folder / folder)

    def key_range(self, number: int) -> list[int]:
        """Return the least and the greatest key of a hundredth of the rows."""
        start = int(_random("range", number).integers(self.size.rows - self.size.rows // 100))
        edges = np.array([start, start + self.size.rows // 100 - 1])
        return [int(key) for key in keys_of(edges)]

    def _file(self, file: Path, make: Callable[[], pa.Table]) -> str:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            # Spark ignores files whose names begin with a dot.
            partial = file.with_name(f".{file.name}")
            pq.write_table(make(), partial, compression="zstd")
            partial.rename(file)
        return str(file)


def _version(name: str, number: int) -> int:
    """Return a number for the values of changes that others hardly have, below 1,000."""
    return 1 + zlib.crc32(f"{name} {number}".encode()) % 997


def _random(name: str, number: int) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(f"{name}/{number}".encode()))
