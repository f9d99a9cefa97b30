"""What workloads share in one run: sizes, folders, a store of rows, a session of Spark.

Promises: everything it makes is in one temporary folder, which is removed when the run is over;
what no workload asks for is never made.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb
import pyarrow as pa

from relstate.storage import Proposal, SegmentRecord, Store, Table
from relstate.vnode import cached_property

from . import rows
from .bare import bare_segments
from .session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Size:
    """How much a run does.

    ``rows``: of the large tables. ``turns``: of each measurement. ``batches``: micro-batches of a
    turn that count. ``scale``: of the public workloads, Nexmark and TPC-H.
    """

    rows: int
    turns: int
    batches: int
    scale: float


class Workbench:
    """One run of the benchmarks; a context manager."""

    def __init__(self, size: Size) -> None:
        """``size``: how much to do."""
        self.size = size
        self._stack = ExitStack()
        self._names = itertools.count()
        self._shared: dict[object, Any] = {}

    def __enter__(self) -> Workbench:
        self._root = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="relstate-"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def folder(self) -> str:
        """Return a new, empty folder."""
        path = Path(self._root) / f"{next(self._names)}"
        path.mkdir()
        return str(path)

    @contextmanager
    def store(self, **options: Any) -> Iterator[Store]:
        """Yield a new, empty store, which is removed after the block.

        ``options``: of `Store.create`.
        """
        folder = self.folder()
        with Store.create(folder, **options) as store:
            yield store
        shutil.rmtree(folder)

    def once(self, make: Callable[[Workbench], AbstractContextManager[Thing]]) -> Thing:
        """Return what a context manager yields, the same for all callers; it ends with the run."""
        if make not in self._shared:
            self._shared[make] = self._stack.enter_context(make(self))
        thing: Thing = self._shared[make]
        return thing

    @cached_property
    def spark(self) -> SparkSession:
        """The session of this run."""
        return self._stack.enter_context(local_session(self.folder()))

    @contextmanager
    def bare(self, name: str) -> Iterator[list[lmdb.Transaction]]:
        """Yield LMDB transactions on the segments of a table of `filled`; see `bare_segments`."""
        with bare_segments(self.filled.read_plan(name), self._copies) as segments:
            yield segments

    @cached_property
    def _copies(self) -> str:
        return self.folder()

    @cached_property
    def filled(self) -> Store:
        """A store with the tables ``one`` and ``eight``.

        ``eight`` holds all rows in eight segments of equal size that cover the same range of
        keys; ``one`` the rows of the first of them, in one segment.
        """
        store = self._stack.enter_context(self.store())
        parts = eighths(self.size.rows)
        for name, ranges in (("one", parts[:1]), ("eight", parts)):
            new_table(store, name)
            for part in ranges:
                write(store, name, rows.batches(part))
        return store


def eighths(count: int) -> list[range]:
    """Return the indices of ``count`` rows in eight parts."""
    return [range(count * part // 8, count * (part + 1) // 8) for part in range(8)]


def new_table(store: Store, name: str, columns: str = rows.COLUMNS) -> Table:
    """Create a table for the benchmarks' rows."""
    return store.create_table(name, columns, primary_key=rows.PRIMARY_KEY)


def write(store: Store, name: str, batches: Iterator[pa.RecordBatch]) -> None:
    """Write batches to a table as one epoch, without Spark."""
    writer, started = store.jobs.write_target(name).open(), store.environment.now()
    for batch in batches:
        writer.write(batch)
    store.jobs.commit(Proposal(operation="write", started=started, segments=writer.finish()))


def records_of(store: Store, epoch: int) -> tuple[SegmentRecord, ...]:
    """Return the records of the segments that an epoch added, even if they are merged by now."""
    return next(entry.added for entry in store.history() if entry.epoch == epoch)
