"""RocksDB in the process, by rocksdict: keys and values, of which it knows no columns."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relstate.vnode import cached_property

from ..peer import Peer, Work

_FIXED = struct.Struct(">idqq")
_BATCH = 100_000
_BLIND = "the rows are put without a look at the old ones"


class RocksdbPeer(Peer):
    """Rows packed by `struct`, under keys whose order is that of the numbers."""

    name = "rocksdb"
    settings = (
        (
            "bloom filters of 10 bits per key, block cache of 512 MiB, LZ4, dynamic level sizes: "
            "its wiki's advice for point lookups"
        ),
        "a write is one batch, synced",
        "rows are packed and unpacked by Python's struct",
    )
    silent: ClassVar = {"merge": _BLIND, "stream": f"20 batches; {_BLIND}", "delete": _BLIND}

    def versions(self) -> dict[str, str]:
        """Return the version of rocksdict, which has RocksDB inside."""
        from importlib.metadata import version

        return {"rocksdict": version("rocksdict")}

    def close(self) -> None:
        """Close the files."""
        if "database" in self.__dict__:
            self.database.close()

    @cached_property
    def database(self) -> Any:
        """The open database."""
        from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.increase_parallelism(2)
        options.set_level_compaction_dynamic_level_bytes(True)
        options.set_compression_type(DBCompressionType.lz4())
        table = BlockBasedOptions()
        table.set_bloom_filter(10, False)
        table.set_block_cache(Cache(512 << 20))
        options.set_block_based_table_factory(table)
        self.folder.mkdir(parents=True, exist_ok=True)
        return Rdict(str(self.folder / f"db-{self._generation}"), options)

    _generation = 0

    def load(self, files: str) -> Work:
        """Put all rows, and flush them."""
        from rocksdict import Rdict

        if "database" in self.__dict__:
            path = self.database.path()
            self.database.close()
            Rdict.destroy(path)
            del self.database
            self._generation += 1
        database = self.database

        def action() -> None:
            for file in sorted(Path(files).glob("*.parquet")):
                for batch in pq.ParquetFile(file).iter_batches(_BATCH):
                    self._put(pa.Table.from_batches([batch]), sync=False)
            database.flush()

        return Work(action)

    def _put(self, rows: pa.Table, *, sync: bool) -> None:
        from rocksdict import WriteBatch, WriteOptions

        batch = WriteBatch(raw_mode=True)
        for key, value in _packed(rows):
            batch.put(key, value)
        options = WriteOptions()
        options.sync = sync
        self.database.write(batch, options)

    def key_range(self, low: int, high: int) -> Work:
        """Iterate over a range of keys and unpack its rows."""

        def action() -> list[int]:
            count = total = 0
            last = high.to_bytes(8, "big")
            for key, value in self.database.items(from_key=low.to_bytes(8, "big")):
                if key > last:
                    break
                count, total = count + 1, total + _unpacked(value)[0]
            return [count, total]

        return Work(action, lambda found: found)

    def get(self, keys: str) -> Work:
        """Get and unpack rows, one by one."""
        values = pq.read_table(keys)["k"].to_pylist()

        def action() -> int:
            database = self.database
            return sum(_unpacked(database[key.to_bytes(8, "big")])[0] for key in values)

        return Work(action, lambda total: total, len(values))

    def get_many(self, keys: str) -> Work:
        """Get and unpack rows of a list of keys."""
        values = pq.read_table(keys)["k"].to_pylist()

        def action() -> int:
            found = self.database[[key.to_bytes(8, "big") for key in values]]
            return sum(_unpacked(value)[0] for value in found)

        return Work(action, lambda total: total)

    def upsert(self, rows: str) -> Work:
        """Put rows."""
        table = pq.read_table(rows)
        return Work(lambda: self._put(table, sync=True))

    def merge(self, rows: str) -> Work:
        """Put rows."""
        return self.upsert(rows)

    def stream(self, files: str) -> Work:
        """Put the rows of each file."""
        tables = [pq.read_table(file) for file in sorted(Path(files).glob("*.parquet"))]

        def action() -> None:
            for table in tables:
                self._put(table, sync=True)

        return Work(action)

    def delete(self, keys: str) -> Work:
        """Delete keys."""
        from rocksdict import WriteBatch, WriteOptions

        values = pq.read_table(keys)["k"].to_pylist()

        def action() -> None:
            batch = WriteBatch(raw_mode=True)
            for key in values:
                batch.delete(key.to_bytes(8, "big"))
            options = WriteOptions()
            options.sync = True
            self.database.write(batch, options)

        return Work(action)

    def compact(self) -> Work:
        """Compact the whole range of keys."""
        return Work(lambda: self.database.compact_range(None, None))

    def stored(self) -> Work:
        """Find the bytes after all rows are in sorted files."""
        self.database.flush()
        return super().stored()


def _packed(rows: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values."""
    cents = pc.multiply(rows["m"], pa.scalar(100, pa.decimal128(3, 0))).cast(pa.int64())
    columns = [rows["k"], rows["i"], rows["d"], rows["ts"].cast(pa.int64()), cents, rows["s"]]
    for k, i, d, ts, m, s in zip(*(column.to_pylist() for column in columns), strict=True):
        yield k.to_bytes(8, "big"), _FIXED.pack(i, d, ts, m) + s.encode()


def _unpacked(value: bytes) -> tuple[Any, ...]:
    return *_FIXED.unpack_from(value), value[_FIXED.size :].decode()


PEER = RocksdbPeer
