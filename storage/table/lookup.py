"""Stored entries by their full keys: the newest of one key or of many, or all of one row.

Promises: a lookup sees every file of the table at its epoch; a damaged file is named.
Does not know: columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..codec.ragged import Bytes, Positions, distinct_rows, first_of_equal
from ..environment import Environment
from ..errors import CorruptionError
from ..paths import SEGMENTS
from ..segment import longkey
from ..segment.block import Block
from ..segment.search import KeyRanges
from ..segment.segment import LOOKUP_ERRORS
from .encoding import Encoding
from .keysearch import all_entries, newest_entries
from .prefixes import PrefixReader
from .resolve import Fold, Resolver, keep_all, keep_visible
from .scan import Piece
from .tablefiles import TableFiles

# Blocks with fewer entries are decoded together in less time, though their bytes are copied.
_FEW_PER_BLOCK = 4096
# So many keys are looked up one by one rather than to wait for large files to come to this machine.
_FEW_KEYS = 8


class Lookup:
    """The entries of one table at one epoch, by key. Safe between threads."""

    def __init__(self, environment: Environment, encoding: Encoding, files: TableFiles) -> None:
        """``files``: those that the table's rows are in, which the caller closes."""
        self._environment = environment
        self._encoding = encoding
        self._files = files

    def value(self, full_key: bytes) -> bytes | None:
        """Return the value under a full key, a delete or expired row included; None if none."""
        try:
            if self._encoding.fold is not None:
                return self._folded_value(self._encoding.fold, full_key)
            if longkey.is_long(full_key):
                return next(self._versions_of(full_key), None)
            for get in self._files.getters(full_key):
                value = get(full_key)
                if value is not None:
                    return value
        except (*LOOKUP_ERRORS, IndexError) as error:
            self._fail_lookup(full_key, error)
        except CorruptionError:
            # The files are opened again at the next lookup: they may be repaired by then.
            self._files.close()
            raise
        return None

    def row_entries(self, full_key: bytes) -> list[list[tuple[bytes, bytes]]]:
        """Return the entries of a row in each file that has any, the newest first.

        Of a row with a long key it is the entry of its group.
        """
        prefix = longkey.group_key(full_key)
        try:
            getters = self._files.prefix_getters(full_key)
            return [pairs for get in getters if (pairs := get(prefix))]
        except LOOKUP_ERRORS as error:
            self._fail_lookup(full_key, error)
        except CorruptionError:
            # The files are opened again at the next lookup: they may be repaired by then.
            self._files.close()
            raise

    def values(self, full_keys: Bytes) -> list[Block]:
        """Return the newest entries, deletes included, of those full keys that have one.

        They are in any order.
        """
        if self._encoding.has_parts:
            # As in other tables an entry that has expired is returned too, with its expiry.
            return [self.documents(full_keys, lambda: 0)]
        if longkey.has_long(full_keys) or self._are_few_of_cold_files(full_keys):
            values = [(key, self.value(key)) for key in full_keys.to_pylist()]
            return [Block.of_pairs([(key, value) for key, value in values if value is not None])]
        distinct_keys = full_keys.take(pa.array(first_of_equal(full_keys)))
        files, prefix_bytes = self._files.of_keys(distinct_keys), self._encoding.prefix.size
        if self._encoding.fold is None:
            return newest_entries(files, distinct_keys, prefix_bytes)[1]
        blocks = all_entries(files, distinct_keys, prefix_bytes) or [Block.of_pairs([])]
        return [Resolver(keep_all, self._encoding.fold).resolve(blocks)]

    def _are_few_of_cold_files(self, full_keys: Bytes) -> bool:
        return len(full_keys) <= _FEW_KEYS and self._files.is_cold

    def find(self, full_keys: Bytes) -> tuple[Positions, list[Block]]:
        """Return (rows, blocks): what `values` does, and for each key where its entry is.

        ``rows``: int64, counted over all blocks; -1 for a key that has no entry.
        """
        is_plain = self._encoding.fold is None and not self._encoding.has_parts
        is_single = longkey.has_long(full_keys) or self._are_few_of_cold_files(full_keys)
        if not is_plain or is_single:
            entries = Block.joined(self.values(full_keys))
            return rows_of(full_keys, entries), [entries]
        firsts, numbers = distinct_rows(full_keys)
        distinct_keys = full_keys.take(pa.array(firsts))
        files = self._files.of_keys(distinct_keys)
        indices, blocks = newest_entries(files, distinct_keys, self._encoding.prefix.size)
        rows = np.full(len(firsts), -1, np.int64)
        rows[indices] = np.arange(len(indices))
        return rows[numbers], blocks

    def visible(
        self, full_keys: Bytes, newest: Block | None, time: Callable[[], int]
    ) -> tuple[Positions, Piece]:
        """Return (indices, rows): the rows, visible at a time, of those keys that have one.

        ``newest``: entries that hide the table's own; None: none. ``indices``: int64, ascending;
        which key each row has.
        """
        rows, blocks = self._entries_of(full_keys, newest, time)
        # One time for all blocks.
        keeps = list(map(keep_visible(cache(time)), blocks))
        keep = np.concatenate(keeps)
        # The last is of the keys that have no entry.
        positions = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1)[rows]
        indices = np.flatnonzero(positions >= 0)
        # Entries are decoded in the order of their keys, file by file: neighbours share pages.
        visible = [
            block if is_kept.all() else block.take(np.flatnonzero(is_kept))
            for block, is_kept in zip(blocks, keeps, strict=True)
        ]
        if len(visible) > 1 and len(keep) < _FEW_PER_BLOCK * len(visible):
            visible = [Block.joined(visible)]
        order = positions[indices]
        is_ordered = len(order) == np.count_nonzero(keep) and (np.diff(order) == 1).all()
        piece = Piece(tuple(visible), None if is_ordered else order)
        return indices, piece

    def _entries_of(
        self, full_keys: Bytes, newest: Block | None, time: Callable[[], int]
    ) -> tuple[Positions, Sequence[Block]]:
        """Return (rows, blocks) as `find`; entries in ``newest`` hide the table's own."""
        if self._encoding.has_parts:
            entries = self.documents(full_keys, time)
        elif newest is None:
            return self.find(full_keys)
        else:
            entries = Block.joined(self.values(full_keys))
        if newest is not None:
            is_asked = np.asarray(pc.is_in(newest.key_bytes(), value_set=full_keys))
            # The first of equal keys is the newest.
            entries = newest.take(np.flatnonzero(is_asked)).followed_by(entries)
        return rows_of(full_keys, entries), [entries]

    def documents(self, full_keys: Bytes, time: Callable[[], int]) -> Block:
        """Return the rows under some full keys, each made of all its entries, as at a time."""
        blocks = self.stored_entries(full_keys)
        resolver = self._encoding.resolver(keep_all, time)
        return resolver.resolve(blocks) if blocks else Block.of_pairs([])

    def stored_entries(self, full_keys: Bytes) -> list[Block]:
        """Return all entries of the rows under some full keys, file by file, the newest first."""
        resolver = self._encoding.resolver(keep_all, lambda: 0)
        distinct_keys = full_keys.take(pa.array(first_of_equal(full_keys)))
        files = self._files.of_ranges(KeyRanges.of_prefixes(distinct_keys))
        return PrefixReader(files, resolver).entries(distinct_keys)

    def damaged_row_error(self, error: Exception) -> CorruptionError:
        """Return the error for a row whose bytes cannot be decoded."""
        return CorruptionError(
            f"{self._environment.local_path(SEGMENTS)}: a row of table {self._encoding.table_id} "
            f"cannot be decoded ({error}); run check to find the file"
        )

    def _fail_lookup(self, full_key: bytes, error: Exception) -> NoReturn:
        """Raise CorruptionError for the file in which a lookup failed."""
        files = self._files.holding(full_key)
        self._files.close()
        stored_key = longkey.group_key(full_key) if longkey.is_long(full_key) else full_key
        for file in files:
            file.get(stored_key)
        raise CorruptionError(
            f"{self._environment.local_path(SEGMENTS)}: a lookup failed ({error}); run check to "
            "find the damaged file"
        ) from error

    def _folded_value(self, fold: Fold, full_key: bytes) -> bytes | None:
        versions = [(full_key, value) for value in self._versions_of(full_key)]
        if len(versions) < 2:
            return versions[0][1] if versions else None
        folded = fold(Block.of_pairs(versions), np.zeros(1, np.int64))
        value: bytes = folded.value_bytes()[0].as_py()
        return value

    def _versions_of(self, full_key: bytes) -> Iterator[bytes]:
        """Yield every value under a full key, the newest first."""
        is_long = longkey.is_long(full_key)
        stored = longkey.group_key(full_key) if is_long else full_key
        for get in self._files.getters(full_key):
            value = get(stored)
            if value is not None and is_long:
                value = longkey.find(value, full_key)
            if value is not None:
                yield value


def rows_of(full_keys: Bytes, entries: Block) -> Positions:
    """Return for each key the index of the first of some entries that has it, int64; -1: none."""
    indices = pc.index_in(full_keys, value_set=entries.key_bytes())
    rows: Positions = np.asarray(pc.fill_null(indices, -1)).astype(np.int64)
    return rows
