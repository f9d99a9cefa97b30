"""The lookup of one row in as few steps as there can be; what depends on the table is done before.

LMDB finds a key in a microsecond, and each function of Python on the way takes a twentieth of one
or more. So the usual case is a few functions, made for the table: a usual key (see fullkey.py), and
a value under the present schema without flags. All else is left to the general way.

Promises: what is returned is what the general way returns; where that would raise an error, or the
case is another, it is taken.
Does not know: epochs, what is wrong with a key or a file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..errors import CorruptionError
from ..segment.longkey import GROUP_KEY_BYTES
from ..segment.segment import LOOKUP_ERRORS
from .columnnames import visible_names
from .encoding import Encoding
from .fullkey import MISFITS
from .header import is_delete
from .record import Row, row_type
from .tablefiles import TableFiles

UNUSUAL_ERRORS = (*LOOKUP_ERRORS, *MISFITS, CorruptionError, IndexError, OverflowError)
"""What the quick functions raise where the general way says what is wrong, or reads the row."""
UNUSUAL: Row = Row()
"""What a quick function returns instead of a row that it leaves to the general way."""

_MOST_COLUMN_GETS = 64

PointGet: TypeAlias = Callable[[Sequence[Any]], Row | None]
"""Takes the values of a primary key; returns the row, None if there is none."""
RowFinder: TypeAlias = Callable[[Sequence[Any], int, bytes, int], Row | None]
"""Takes a primary key's values, and what a `KeyEncoder` returns; returns the row, None if none.

It returns `UNUSUAL` or raises one of `UNUSUAL_ERRORS` where the general way is to be taken."""


def row_finder(
    encoding: Encoding, files: TableFiles, columns: Sequence[str] | None = None
) -> RowFinder | None:
    """Return what finds the rows of a table, or some of their columns, if they are usual.

    None if its rows are not their newest entries.
    """
    if encoding.has_parts or encoding.fold is not None:
        return None
    heads, decode = encoding.plain_rows if columns is None else encoding.plain_rows_of(columns)
    least_head, most_head = heads[0], heads[-1]
    prefix_bytes = encoding.prefix.size

    def find(key: Sequence[Any], vnode: int, full_key: bytes, digest: int) -> Row | None:
        lookups = files.key_lookups
        if lookups is None or len(full_key) >= GROUP_KEY_BYTES:
            return UNUSUAL
        bounds, by_span = lookups.by_vnode[vnode]
        getters: Any = by_span[bisect_right(bounds, full_key[prefix_bytes:]) if bounds else 0]
        slots = lookups.slots
        if slots is not None:
            getters = getters[slots[digest & lookups.mask]]
        for look_up in getters:
            value = look_up(full_key)
            if value is not None:
                if least_head <= value[0] <= most_head:
                    row: Row = decode(key, value)
                    return row
                return None if is_delete(value) else UNUSUAL
        return None

    return find


def point_get(
    encoding: Encoding,
    files: TableFiles,
    general_get: PointGet,
    columns: Sequence[str] | None = None,
) -> PointGet:
    """Return the quickest lookup of a row of a table, or of some columns of it.

    It is ``general_get`` if the table has no usual keys, or its rows are not their newest entries.
    """
    encode, find = encoding.key_encoder, row_finder(encoding, files, columns)
    if encode is None or find is None:
        return general_get

    def get(key: Sequence[Any]) -> Row | None:
        try:
            vnode, full_key, digest = encode(key)
            row = find(key, vnode, full_key, digest)
        except UNUSUAL_ERRORS:
            # Read outside of this block, as what that raises is not due to this error.
            row = UNUSUAL
        return general_get(key) if row is UNUSUAL else row

    return get


class ColumnGets:
    """The lookups of some columns of the rows of a table, each made when it is first asked for."""

    def __init__(self, encoding: Encoding, files: TableFiles, general_get: PointGet) -> None:
        """``general_get`` returns whole rows."""
        self._encoding = encoding
        self._files = files
        self._general_get = general_get
        self._gets: dict[tuple[str, ...], PointGet] = {}

    def __call__(self, key: Sequence[Any], columns: Sequence[str]) -> Row | None:
        """Return some columns of the row with a primary key, in that order; None if none."""
        if isinstance(columns, str):
            # Its letters would be taken for names: this is the error that says so.
            visible_names(self._encoding, columns)
        names = tuple(columns)
        get = self._gets.get(names)
        if get is None:
            get = self._new_get(visible_names(self._encoding, columns))
            if len(self._gets) >= _MOST_COLUMN_GETS:
                self._gets.clear()
            self._gets[names] = get
        return get(key)

    def _new_get(self, names: tuple[str, ...]) -> PointGet:
        make_row = row_type(names)

        def general_get(key: Sequence[Any]) -> Row | None:
            row = self._general_get(key)
            return None if row is None else make_row(row[name] for name in names)

        return point_get(self._encoding, self._files, general_get, names)
