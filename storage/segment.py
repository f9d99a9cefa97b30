"""One segment: an immutable, sorted LMDB file. The only file that imports lmdb.

Promises: a segment is written by appending in key order in one transaction; it is opened
read-only, without lock file, once a process however many read it, only after its size (always)
and its hash (once a process and file) are what the log says.
Does not know: rows, versions, tables. Keys and values are bytes here.

LMDB has no checksums, and reading a truncated map kills the process: hence the checks at opening.
Never ``writemap``; files are always of LMDB 0.9's format, whatever the environment says
(``lib_version=0``), because `page` reads them itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

import lmdb
import pyarrow as pa

from .block import Block
from .environment import Environment
from .errors import CorruptionError, FilesystemError, StorageFullError
from .page import LayoutError, Pages
from .paths import segment_path
from .ragged import Buffer, Bytes, Positions, lengths_of

_ROWS_A_CALL = 65_536
_PAGE = 4096
_OVERFLOW_BYTES = 1900
_SPARE_BYTES = 1 << 20


def write_segment(
    environment: Environment, name: str, keys: Bytes, values: Bytes, order: Positions
) -> None:
    """Write entries to a new file in the order given (ascending keys) and make it durable.

    ``order`` names rows of ``keys`` and ``values``; rows it leaves out are not written.
    The folder's own entry is the caller's to make durable. StorageFullError if the disk is full.
    """
    path = environment.local_path(segment_path(name))
    with _told(path):
        file = lmdb.open(
            path,
            subdir=False,
            lock=False,
            sync=False,
            metasync=False,
            map_size=_map_size(keys, values),
            lib_version=0,
        )
        try:
            with file.begin(write=True) as transaction:
                cursor = transaction.cursor()
                for start in range(0, len(order), _ROWS_A_CALL):
                    rows = pa.array(order[start : start + _ROWS_A_CALL])
                    pairs = zip(
                        keys.take(rows).to_pylist(), values.take(rows).to_pylist(), strict=True
                    )
                    cursor.putmulti(pairs, append=True)
        finally:
            file.close()
    environment.publish(segment_path(name))


def _map_size(keys: Bytes, values: Bytes) -> int:
    """Return an upper bound of the file's size: LMDB refuses to grow beyond it."""
    # A node header and a pointer an entry; whole pages for a value that leaves its leaf page;
    # twice the content because a leaf page stays open where the next entry does not fit.
    content = int(lengths_of(keys).sum() + lengths_of(values).sum())
    overflowing = int((lengths_of(values) > _OVERFLOW_BYTES).sum())
    return _SPARE_BYTES + 2 * content + 32 * len(keys) + 2 * _PAGE * overflowing


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn LMDB's errors into this project's, naming the file."""
    try:
        yield
    except lmdb.MapFullError as error:
        raise StorageFullError(f"{path}: the segment outgrew its map: {error}") from error
    except lmdb.Error as error:
        text = str(error)
        if "No space left" in text or "quota" in text or "File too large" in text:
            raise StorageFullError(
                f"{path}: no space left for a segment ({text}); nothing was committed: "
                "free some space and write again"
            ) from error
        raise FilesystemError(f"{path}: LMDB cannot use the file: {text}") from error


class SegmentFile:
    """A segment opened for reading.

    Safe between threads and after ``fork``: the file is immutable, its maps are inherited.
    """

    def __init__(self, path: str, contents: Buffer) -> None:
        """Open the segment at ``path``, whose map ``contents`` has been found whole."""
        self.path = path
        self._contents = contents
        with _told(path):
            self._file = lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False)
            self._transaction = self._file.begin()
        self._pages: Pages | None = None
        self._lock = threading.Lock()
        self.get: Callable[[bytes], bytes | None] = self._transaction.get

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (key, value) of those of ``keys`` that are there, in the order asked.

        Ascending keys are found about twice as fast.
        """
        with self._lock, self._transaction.cursor() as cursor:
            return cursor.getmulti(keys)

    def blocks(
        self, low: bytes | None, high: bytes | None, leaves: int, *, descending: bool = False
    ) -> Iterator[Block]:
        """Yield the entries with ``low <= key < high`` (None: unbounded), rows ascending.

        A block holds at most ``leaves`` leaf pages; with ``descending`` blocks come from the end.
        CorruptionError, naming the file, if a page is damaged.
        """
        try:
            if self._pages is None:
                self._pages = Pages(self._contents)
        except LayoutError:
            # A page layout this code does not know: LMDB's own cursor still reads it.
            yield from self._cursor_blocks(low, high, descending=descending)
            return
        try:
            yield from self._pages.blocks(low, high, leaves, descending=descending)
        except (LayoutError, IndexError) as error:
            raise CorruptionError(f"{self.path}: a page is damaged: {error}") from error

    def _cursor_blocks(
        self, low: bytes | None, high: bytes | None, *, descending: bool
    ) -> Iterator[Block]:
        with self._lock, self._transaction.cursor() as cursor:
            found = cursor.set_range(low) if low is not None else cursor.first()
            pairs = cursor.iternext() if found else iter(())
            inside = list(takewhile(lambda pair: high is None or pair[0] < high, pairs))
        parts = [inside[at : at + _ROWS_A_CALL] for at in range(0, len(inside), _ROWS_A_CALL)]
        for part in reversed(parts) if descending else parts:
            yield Block.of_pairs(part)

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            self._transaction.abort()
            file.close()
