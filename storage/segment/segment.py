"""One segment: an immutable, sorted LMDB file. The only file that imports lmdb.

Promises: a segment is opened read-only and without lock file. Scans read its map with `page`, point
reads use LMDB. LMDB holds one descriptor per file, so it gets only a share of those a process may
have: when that is used up, point reads use `page` too, more slowly but with the same results.
Does not know: rows, versions, tables. Keys and values are bytes here. `datafile` makes the files.

LMDB has no checksums, and reading a truncated map kills the process: the registry checks a file's
size and hash before there is a `SegmentFile` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..codec.ragged import Buffer, Bytes, Positions
from ..environment import Arriving
from ..errors import CorruptionError, FilesystemError, RelstateError
from ..forklock import ForkLock
from .block import Block
from .cursor import first_pairs, last_pairs
from .filterblock import read_filters
from .key import successor
from .keyfilter import KeyFilter, hashes_in
from .keyindex import LookupIndex
from .page import LayoutError, Pages, tree_of
from .search import (
    KeyRanges,
    RangeMatches,
    blocks_in_ranges,
    find_keys,
    find_ranges,
    has_entries_between,
    share_in_ranges,
)

_FEW_LEAVES = 4
_SAMPLED_LEAVES = 512
_DAMAGES = (
    # A transaction that has met damage cannot be used afterwards.
    lmdb.BadTxnError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)
LOOKUP_ERRORS = (lmdb.Error,)
"""What a function that `SegmentFile.getter` returns raises for a damaged file; `get` says more."""


@contextmanager
def _lmdb_errors(path: str) -> Iterator[None]:
    """Raise this project's errors, naming the file, for those of LMDB."""
    try:
        yield
    except lmdb.Error as error:
        raise _error_of(path, error) from error


def _error_of(path: str, error: lmdb.Error) -> CorruptionError | FilesystemError:
    """Return this project's error, naming the file, for one of LMDB."""
    if isinstance(error, _DAMAGES):
        return CorruptionError(f"{path}: LMDB finds the file damaged: {error}")
    if "data format" in str(error):
        return CorruptionError(f"{path}: the file is not a segment, or is damaged: {error}")
    return FilesystemError(f"{path}: LMDB cannot use the file: {error}")


class DescriptorShare:
    """How many more files LMDB may open. Safe between threads and across ``fork``: no lock."""

    def __init__(self, count: int) -> None:
        """``count``: how many files may be open at once."""
        self._free = [True] * count

    def take(self) -> bool:
        """Take one descriptor; return whether there was one."""
        try:
            return self._free.pop()
        except IndexError:
            return False

    def give_back(self) -> None:
        """Give one descriptor back."""
        self._free.append(True)


class SegmentFile:
    """A segment opened for reading.

    Safe between threads and after ``fork``: the file is immutable, its maps are inherited.

    ``is_damaged``: a read has met damage, or the file did not arrive; it must be opened again to be
    read. ``is_verified``: its hash is verified as it arrives.
    """

    def __init__(
        self,
        path: str,
        contents: Buffer | Arriving,
        share: DescriptorShare,
        identity: tuple[int, ...] = (),
        lease: object = None,
    ) -> None:
        """``contents``: the map of the file at ``path``, or the file on its way there, with the
        errors of which reads fail; ``share``: descriptors for LMDB; ``identity``: that of the file,
        see `Environment.identity`; ``lease``: keeps the file there, see `Environment.hold`.
        """
        self.path = path
        self.identity = identity
        self._lease = lease
        self.is_damaged = False
        self._arriving = None if isinstance(contents, np.ndarray) else contents
        self._contents = contents if isinstance(contents, np.ndarray) else None
        self.is_verified = self._arriving is not None
        self._share = share
        self._took_share = False
        self._lock = ForkLock()
        self._pages: Pages | None = None
        self._has_known_layout = True
        self._key_filters: Mapping[int, KeyFilter] | None = None
        self._lookup_index = LookupIndex()
        # The transaction keeps LMDB's file open; both are closed with the last reference.
        self._transaction: lmdb.Transaction | None = None
        self._may_open = True

    def __del__(self) -> None:
        if self._took_share:
            self._share.give_back()
        if self._arriving is not None:
            self._arriving.abandon()

    @property
    def contents(self) -> Buffer:
        """The map of the file, once all of it is here. Errors as of `Arriving`."""
        contents = self._contents
        if contents is None or self._arriving is not None:
            contents = self._arrived()
        return contents

    def _arrived(self) -> Buffer:
        """Wait for the whole file."""
        arriving = self._arriving
        if arriving is not None:
            with self._reporting_damage():
                arriving.wait_for_all()
                self._contents = arriving.contents()
            self._arriving = None
        assert self._contents is not None
        return self._contents

    def announce(self) -> None:
        """Take note that it will be scanned at once, so that a file on its way comes earlier."""
        arriving = self._arriving
        if arriving is not None:
            arriving.announce()

    # Point reads

    def getter(self) -> Callable[[bytes], bytes | None]:
        """Return the fastest function from a key to its value, None if there is none.

        The function raises one of `LOOKUP_ERRORS` if the file is damaged. CorruptionError or
        FilesystemError, naming the file, if it cannot be opened.
        """
        transaction = self._opened()
        if transaction is None:
            return self._find
        get: Callable[[bytes], Any] = transaction.get
        return get

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none.

        CorruptionError or FilesystemError, naming the file, if it cannot be read.
        """
        with self._reporting_damage():
            return self.getter()(key)

    def get_many(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (key, value) of those of ``keys`` that exist, in their order.

        Ascending keys are looked up about twice as fast.
        """
        transaction = self._opened()
        if transaction is None:
            values = ((key, self._find(key)) for key in keys)
            return [(key, value) for key, value in values if value is not None]
        with self._reporting_damage(), self._lock, transaction.cursor() as cursor:
            pairs = cast("list[tuple[bytes, bytes]]", cursor.getmulti(keys))
        return pairs

    def has_index_for(self, count: int) -> bool:
        """Return whether `find_keys` has an index for ``count`` keys, which is made if it pays.

        CorruptionError, naming the file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            return False
        with self._reporting_damage():
            return self._lookup_index.for_lookups(pages, count) is not None

    def find_keys(self, keys: Bytes, rows: Positions) -> tuple[Positions, Block]:
        """Return (indices, entries) of those of the keys at ``rows`` that exist.

        ``indices``: into ``rows``; the rest as of `search.find_keys`. No object is made per key;
        few keys are found faster by `get_many`. CorruptionError, naming the file, if a page is
        damaged.
        """
        pages = self._paged()
        if pages is None:
            some_keys = keys.take(pa.array(rows))
            entries = Block.of_pairs(self.get_many(some_keys.to_pylist()))
            indices = pc.index_in(entries.key_bytes(), value_set=some_keys)
            return np.asarray(indices).astype(np.int64), entries
        with self._reporting_damage():
            index = self._lookup_index.index
            if index is None or not index.has_width_of(keys, rows):
                return find_keys(pages, keys.take(pa.array(rows)))
            matches, nodes = index.find(keys, rows)
            return matches, pages.entries(nodes)

    @property
    def key_filters(self) -> Mapping[int, KeyFilter]:
        """The filters of the keys of the tables that have one, by their ids.

        CorruptionError, naming the file, if they are damaged.
        """
        filters = self._key_filters
        if filters is None:
            contents = self.contents
            with self._reporting_damage():
                try:
                    filters = read_filters(contents, tree_of(contents).end)
                except LayoutError:
                    filters = {}
            self._key_filters = filters
        return filters

    def key_hashes(self, span: tuple[bytes, bytes]) -> NDArray[np.uint64] | None:
        """Return the hashes of the keys of a span: see `keyfilter.key_hashes`.

        None if this code does not know the layout of the file's pages. CorruptionError, naming the
        file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            return None
        with self._reporting_damage():
            return hashes_in(pages, span[0], span[1] + b"\0")

    def prefix_getter(self) -> Callable[[bytes], list[tuple[bytes, bytes]]]:
        """Return the fastest function from a prefix to the entries whose keys begin with it.

        They ascend; it is meant for a few of them. It raises CorruptionError or FilesystemError,
        naming the file, if that cannot be read.
        """
        transaction = self._opened()
        if transaction is None:
            return self._pairs_after
        # A new cursor is quicker than one that was elsewhere, which first looks there. Not with the
        # lock: the transaction only reads.
        open_cursor = transaction.cursor

        def pairs_after(prefix: bytes) -> list[tuple[bytes, bytes]]:
            pairs: list[tuple[bytes, bytes]] = []
            try:
                # Any: its keys are bytes, as the transaction does not return buffers.
                cursor: Any = open_cursor()
                is_placed = cursor.set_range(prefix)
                while is_placed and cursor.key().startswith(prefix):
                    pairs.append(cursor.item())
                    is_placed = cursor.next()
            except lmdb.Error:
                # The context costs more than the lookup.
                with self._reporting_damage():
                    raise
            return pairs

        return pairs_after

    def _pairs_after(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return what `prefix_getter` finds, from pages."""
        return [
            pair
            for block in self.blocks(prefix, successor(prefix), _FEW_LEAVES)
            for pair in zip(
                block.key_bytes().to_pylist(), block.value_bytes().to_pylist(), strict=True
            )
        ]

    def _find(self, key: bytes) -> bytes | None:
        pages = self._paged()
        assert pages is not None
        with self._reporting_damage():
            return pages.find(key)

    @contextmanager
    def _reporting_damage(self) -> Iterator[None]:
        """Raise CorruptionError, naming the file, for what reading a damaged file raises."""
        try:
            with _lmdb_errors(self.path):
                yield
        except LayoutError:
            raise
        except (ValueError, IndexError) as error:
            self.is_damaged = True
            raise CorruptionError(f"{self.path}: a page is damaged: {error}") from error
        except RelstateError as error:
            # A file that did not arrive must be opened again, too.
            if isinstance(error, CorruptionError) or self._arriving is not None:
                self.is_damaged = True
            raise

    def _opened(self) -> lmdb.Transaction | None:
        """Return LMDB's transaction on the file; None if reads have to use pages."""
        if self._arriving is not None:
            self._arrived()
        with self._lock:
            if self._transaction is None and self._may_open:
                self._took_share = self._share.take()
                self._may_open = self._took_share or self._paged() is None
                self._transaction = self._open() if self._may_open else None
            return self._transaction

    def _open(self) -> lmdb.Transaction | None:
        # Not by `_lmdb_errors`: from Python 3.12 on, an error that passes a context manager of a
        # generator refers to itself. It would hold the frames of its readers, and so the files that
        # they have read, until the collector runs.
        try:
            file = lmdb.open(self.path, subdir=False, readonly=True, lock=False, readahead=False)
            return file.begin()
        except lmdb.Error as error:
            failure = _error_of(self.path, error)
            # LMDB cannot open the file, for example because this process has it open under another
            # path or has no descriptor left; its pages can still be read.
            self._may_open = isinstance(failure, CorruptionError)
            if self._may_open or self._paged() is None:
                raise failure from error
            return None

    def _paged(self) -> Pages | None:
        """Return the file's pages, all here; None if this code does not know their layout."""
        if self._arriving is not None:
            self._arrived()
        return self._arriving_pages()

    def _arriving_pages(self) -> Pages | None:
        """Return the file's pages, which wait for what they read; None as of `_paged`."""
        if self._pages is None and self._has_known_layout:
            arriving = self._arriving
            try:
                with self._reporting_damage():
                    if arriving is None:
                        self._pages = Pages(self.contents)
                    else:
                        self._pages = Pages(arriving.contents(), arriving.wait)
            except LayoutError:
                self._has_known_layout = False
        return self._pages

    # Scans

    def blocks(
        self, low: bytes | None, high: bytes | None, leaves: int, *, descending: bool = False
    ) -> Iterator[Block]:
        """Yield the entries with ``low <= key < high`` (None: unbounded), rows ascending.

        A block holds at most ``leaves`` leaf pages; with ``descending`` blocks come from the end.
        Of a file that arrives, a block waits for its own pages. CorruptionError, naming the file,
        if a page is damaged.
        """
        pages = self._arriving_pages()
        if pages is None:
            yield from self._cursor_blocks(low, high, descending)
            return
        with self._reporting_damage():
            yield from pages.blocks(low, high, leaves, descending=descending)

    @property
    def leaf_count(self) -> int:
        """How many leaf pages the file has; 0 if they cannot be read in bulk."""
        pages = self._paged()
        return 0 if pages is None else pages.leaf_count

    def sampled_blocks(self, low: bytes | None, high: bytes | None, step: int) -> Iterator[Block]:
        """Yield the entries of every ``step``-th leaf page: see `Pages.sampled_blocks`.

        CorruptionError, naming the file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            yield from self._cursor_blocks(low, high, False)
            return
        with self._reporting_damage():
            yield from pages.sampled_blocks(low, high, step, _SAMPLED_LEAVES)

    def keys_between(
        self, low: bytes, high: bytes | None, leaves: int
    ) -> Iterator[tuple[Buffer, Positions, Positions]]:
        """Yield (buffer, starts, lengths) of the keys of what `blocks` yields, in less time."""
        pages = self._paged()
        if pages is None:
            for block in self._cursor_blocks(low, high, False):
                yield block.keys, block.key_starts, block.key_lengths
            return
        with self._reporting_damage():
            for nodes in pages.nodes_between(low, high, leaves):
                yield pages.buffer, pages.key_starts(nodes), pages.key_lengths(nodes)

    def find_ranges(
        self, ranges: KeyRanges, most: Positions | None = None, *, from_end: bool = False
    ) -> RangeMatches:
        """Return the entries in some ranges of keys: see `search.find_ranges`.

        CorruptionError, naming the file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            return self._find_ranges_by_cursor(ranges)
        with self._reporting_damage():
            return find_ranges(pages, ranges, most, from_end=from_end)

    def blocks_in_ranges(self, ranges: KeyRanges, leaves: int) -> Iterator[Block]:
        """Yield the entries in some ranges of keys, in key order: see `search.blocks_in_ranges`.

        CorruptionError, naming the file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            yield self._find_ranges_by_cursor(ranges).entries
            return
        with self._reporting_damage():
            yield from blocks_in_ranges(pages, ranges, leaves)

    def bytes_in_ranges(self, ranges: KeyRanges) -> int:
        """Return about how many bytes of the file hold entries in some ranges of keys.

        CorruptionError, naming the file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            return len(self.contents)
        with self._reporting_damage():
            return int(share_in_ranges(pages, ranges) * len(self.contents))

    def has_entries_between(self, lows: Bytes, highs: Bytes) -> NDArray[np.bool_]:
        """Return for each pair of keys whether there may be an entry between them: see `search`.

        CorruptionError, naming the file, if a page is damaged.
        """
        pages = self._paged()
        if pages is None:
            return np.ones(len(lows), np.bool_)
        with self._reporting_damage():
            return has_entries_between(pages, lows, highs)

    def _find_ranges_by_cursor(self, ranges: KeyRanges) -> RangeMatches:
        """Return what `find_ranges` does, all entries, through LMDB's own cursor."""
        is_open = np.zeros(len(ranges), np.bool_) if ranges.is_open is None else ranges.is_open
        blocks_per_range = [
            [*self._cursor_blocks(low, high if excludes else successor(high), False)]
            for low, high, excludes in zip(
                ranges.lows.to_pylist(), ranges.highs.to_pylist(), is_open, strict=True
            )
        ]
        sizes = [sum(map(len, blocks)) for blocks in blocks_per_range]
        joined = [block for blocks in blocks_per_range for block in blocks]
        owners = np.repeat(np.arange(len(sizes)), np.array(sizes, np.int64))
        return RangeMatches(
            owners,
            Block.joined(joined or [Block.of_pairs([])]),
            np.zeros(len(sizes), np.bool_),
        )

    def _cursor_blocks(
        self, low: bytes | None, high: bytes | None, descending: bool
    ) -> Iterator[Block]:
        """Yield what `blocks` does, through LMDB's own cursor: slower, and every byte is copied."""
        transaction = self._opened()
        assert transaction is not None
        read = last_pairs if descending else first_pairs
        after = None
        while True:
            with self._reporting_damage(), self._lock, transaction.cursor() as cursor:
                pairs = read(cursor, low, high, after)
            if not pairs:
                return
            after = pairs[0][0] if descending else pairs[-1][0]
            yield Block.of_pairs(pairs)
