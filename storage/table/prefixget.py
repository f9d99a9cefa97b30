"""The lookup of the entries below a prefix of a key in as few steps as there can be: see pointget.

The usual case: the values of the first key columns are usual (see fullkey.py), no key is long, and
each entry is a delete or has a value under the present schema without flags.

Promises: what is returned is what the general way makes of the same entries; all else is left to
that.
Does not know: epochs, what is wrong with a key or a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..segment.longkey import GROUP_KEY_BYTES
from .encoding import Encoding
from .header import is_delete
from .pointget import UNUSUAL, UNUSUAL_ERRORS
from .record import Row
from .tablefiles import TableFiles

PrefixGet: TypeAlias = Callable[[Sequence[Any]], list[Row] | None]
"""Takes the values of the first key columns; returns rows, in key order.

None where the general way is to be taken."""


@dataclass(frozen=True, slots=True)
class EntryReader:
    """How the rows of usual entries are made.

    Where ``holds_rows``, an entry has all values of the row: ``read_key`` is a `KeyReader` for what
    follows the prefix in its key, and ``row_of`` a `RowFunction` of the whole key. Otherwise what
    follows is the primary key of the row in another table: they are its `KeyLocator` and
    `RowFinder`.
    """

    holds_rows: bool
    read_key: Callable[[bytes], tuple[Any, ...]]
    row_of: Callable[..., Row | None]


def prefix_get(
    encoding: Encoding, files: TableFiles, count: int, reader: EntryReader
) -> PrefixGet | None:
    """Return the quickest lookup of what is made of the entries below a prefix of ``count`` values.

    None if the table has no usual prefixes, or its rows are not their newest entries.
    """
    encode = encoding.prefix_encoder(count)
    if encode is None or encoding.has_parts or encoding.fold is not None:
        return None
    heads, _ = encoding.plain_rows
    # What is below the first of them is checked where a value is decoded.
    most_head = heads[-1]
    holds_rows, read_key, row_of = reader.holds_rows, reader.read_key, reader.row_of

    def get(values: Sequence[Any]) -> list[Row] | None:
        try:
            vnode, prefix, _ = encode(values)
            by_vnode = files.newest_below_by_vnode
            start = len(prefix)
            if by_vnode is None or start >= GROUP_KEY_BYTES:
                return None
            rows: list[Row] = []
            for key, value in by_vnode[vnode](prefix):
                if value[0] > most_head or len(key) >= GROUP_KEY_BYTES:
                    if is_delete(value) and len(key) < GROUP_KEY_BYTES:
                        continue
                    return None
                row = (
                    row_of((*values, *read_key(key[start:])), value)
                    if holds_rows
                    else row_of(*read_key(key[start:]))
                )
                if row is UNUSUAL:
                    return None
                if row is not None:
                    rows.append(row)
        except UNUSUAL_ERRORS:
            return None
        return rows

    return get
