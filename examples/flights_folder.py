"""The folders of the demo: the store, and beside it what Spark needs to replay into it.

    <store>                       the store
    <store>.replay/source/        the package's tables as Parquet, for Spark
    <store>.replay/history/       the changes before the day from which on they are streamed
    <store>.replay/changes/       the stream of changes, a file for every micro-batch
    <store>.replay/checkpoint/    how far the streaming query has come
    <store>.replay/spark.log      what Spark has to say

Promises: checkpoints are never used with another store than the one they belong to, whenever the
demo is killed; nothing is removed that is not a store or the demo's own.
Does not know: what is in the files.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import flights_source
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class Folder:
    """The folders of one replay; see the module."""

    store: Path

    @property
    def address(self) -> str:
        """The path of the store."""
        return str(self.store)

    def source_file(self, name: str) -> Path:
        """Return the file of one of the source's tables."""
        return self._replay / "source" / f"{name}.parquet"

    def history(self, since: datetime) -> Path:
        """Return the file of what was before a day. SystemExit if a replay began with another."""
        folder = self._replay / "history"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{since:%Y-%m-%d}.parquet"
        for existing in folder.glob("2*.parquet"):
            if existing != file:
                raise SystemExit(
                    f"this replay began with --since {existing.stem}: say so, or --reset"
                )
        return file

    @property
    def changes(self) -> Path:
        """The stream's files."""
        return self._replay / "changes"

    @property
    def checkpoint(self) -> Path:
        """The folder of the streaming query."""
        return self._replay / "checkpoint"

    @property
    def log(self) -> Path:
        """The file of Spark's messages."""
        return self._replay / "spark.log"

    @property
    def _replay(self) -> Path:
        return self.store.with_name(f"{self.store.name}.replay")

    def prepare(self, *, reset: bool) -> None:
        """Start over with ``reset``, or if the store is gone; else leave what is there."""
        if reset and (self.store / "_log").is_dir():
            # Moved away first: if this is killed, there is no half of a store to go on with.
            self._replay.mkdir(exist_ok=True)
            self.store.rename(self._replay / "removed")
        if not self.store.exists():
            shutil.rmtree(self._replay, ignore_errors=True)

    def write_source(self) -> None:
        """Write the package's tables, as Spark is to read them, unless they are there."""
        for name in flights_source.NAMES:
            file = self.source_file(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                unfinished = file.with_suffix(".unfinished")
                pq.write_table(flights_source.read(name), unfinished)
                unfinished.rename(file)
