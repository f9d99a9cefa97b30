"""The baseline of reads: a source that yields batches it need not make.

The batches are kept as Arrow files, one per partition, and yielded from their memory maps: not a
byte is copied or looked at before Spark gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


def record(folder: str, schema: pa.Schema, partitions: Iterable[Iterable[pa.RecordBatch]]) -> None:
    """Keep the batches of every partition for `ReplayingSource` to yield, in ``folder``."""
    for index, batches in enumerate(partitions):
        path = str(Path(folder) / f"{index:05d}.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)


class ReplayingSource(DataSource):
    """Yields the batches recorded in the folder that is loaded. The caller gives the schema."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "replay"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of what is recorded now."""
        files = sorted(Path(self.options["path"]).glob("*.arrow"))
        return _Reader([_RecordedPartition(str(file)) for file in files])


@dataclass(frozen=True)
class _RecordedPartition(InputPartition):
    path: str


class _Reader(DataSourceReader):
    def __init__(self, recorded: list[_RecordedPartition]) -> None:
        self._recorded = recorded

    def partitions(self) -> list[InputPartition]:
        return list(self._recorded)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _RecordedPartition)
        with pa.memory_map(partition.path) as source, pa.ipc.open_file(source) as file:
            yield from (file.get_batch(index) for index in range(file.num_record_batches))
