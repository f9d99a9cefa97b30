"""The reads of single rows of one table at one epoch.

Promises: a row is made of all of its entries, as at the time of the read; damage names the file.
Does not know: how the files are searched, or how the epoch was found.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from ..codec.ragged import Bytes
from ..segment import longkey
from ..segment.search import KeyRanges
from .encoding import Encoding
from .expiry import first_absence
from .header import has_expired, is_delete
from .lookup import Lookup
from .prefixes import PrefixReader
from .record import Row
from .resolve import keep_visible
from .tablefiles import TableFiles, newest_pairs


class PointReader:
    """Reads single rows. Safe between threads."""

    def __init__(
        self,
        encoding: Encoding,
        files: TableFiles,
        lookup: Lookup,
        time: Callable[[], int],
    ) -> None:
        """``time`` returns microseconds since 1970: what has expired by then is not visible."""
        self._encoding = encoding
        self._files = files
        self._lookup = lookup
        self._time = time

    def get(self, key: Sequence[Any]) -> Row | None:
        """Return the row with these primary key values, in the key's order; None if none."""
        return self.get_at(*self._encoding.stored_key(key))

    def get_at(self, key: Sequence[Any], full_key: bytes) -> Row | None:
        """Return the row with a primary key, which is also given as a full key; None if none."""
        if self._encoding.has_parts:
            return self._get_document(key, full_key)
        value = self._lookup.value(full_key)
        if value is None or has_expired(value, self._time):
            return None
        try:
            return self._encoding.decode_row(key, value)
        except (ValueError, IndexError, struct.error) as error:
            raise self._lookup.damaged_row_error(error) from error

    def _get_document(self, key: Sequence[Any], full_key: bytes) -> Row | None:
        """Return the row with a primary key, made of all its entries; None if there is none."""
        from .document.point import ManyPartsError

        files = self._lookup.row_entries(full_key)
        if not files:
            return None
        try:
            if not any(longkey.is_long(pair[0]) for pairs in files for pair in pairs):
                with suppress(ManyPartsError):
                    return self._encoding.decode_entries(key, files, self._time)
            rows = self._lookup.documents(pa.array([full_key], pa.large_binary()), self._time)
            value = rows.value_bytes()[0].as_py() if len(rows) else None
            return None if value is None else self._encoding.decode_row(key, value)
        except (ValueError, IndexError, struct.error) as error:
            raise self._lookup.damaged_row_error(error) from error

    def prefix_entries(self, full_prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the visible (full key, value) below a prefix of full keys, in key order.

        The prefix determines the vnode. Meant for a few rows, in a table that merges none.
        """
        prefix = longkey.group_key(full_prefix)
        getters = self._files.prefix_getters(full_prefix)
        entries: list[tuple[bytes, bytes]] = []
        for pair in newest_pairs(getters, prefix):
            key, value = pair
            if longkey.is_long(key):
                return self._long_prefix_entries(full_prefix)
            if not is_delete(value) and not has_expired(value, self._time):
                entries.append(pair)
        return entries

    def _long_prefix_entries(self, full_prefix: bytes) -> list[tuple[bytes, bytes]]:
        prefixes = pa.array([full_prefix], pa.large_binary())
        _, rows = self._prefix_reader(prefixes).prefix_scan(prefixes)
        return list(zip(rows.key_bytes().to_pylist(), rows.value_bytes().to_pylist(), strict=True))

    def _prefix_reader(self, prefixes: Bytes) -> PrefixReader:
        resolver = self._encoding.resolver(keep_visible(self._time), self._time)
        return PrefixReader(self._files.of_ranges(KeyRanges.of_prefixes(prefixes)), resolver)

    def seconds_left(self, key: Sequence[Any], path: Sequence[Any]) -> float | None:
        """Return after how many seconds a row, or what is at a path in it, is gone.

        None if it does not expire, or is not there. ``path``: see `Targets.locate`; empty for the
        row.
        """
        find = self._encoding.finder(path) if path else None
        full_keys = pa.array([self._encoding.encode_key(key)], pa.large_binary())
        blocks = self._prefix_reader(full_keys).entries(full_keys)

        def is_there(time: int) -> bool:
            resolver = self._encoding.resolver(keep_visible(lambda: time), lambda: time)
            rows = resolver.resolve(blocks)
            return len(rows) > 0 and (find is None or find(rows))

        now = self._time()
        absent = first_absence(blocks, is_there, now) if blocks else None
        return None if absent is None else (absent - now) / 1_000_000
