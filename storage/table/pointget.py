"""The lookup of one row in as few steps as there can be; what depends on the table is done before.

LMDB finds a key in a microsecond, and each function of Python on the way takes a twentieth of one
or more. So the usual case is one function, made for the table: a usual key (see fullkey.py), and a
value under the present schema without flags. All else is left to the general way.

Promises: what is returned is what the general way returns; where that would raise an error, or the
case is another, it is taken.
Does not know: epochs, what is wrong with a key or a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..errors import CorruptionError
from ..segment.longkey import GROUP_KEY_BYTES
from ..segment.segment import LOOKUP_ERRORS
from .encoding import Encoding
from .fullkey import MISFITS
from .record import Row
from .tablefiles import TableFiles

_UNUSUAL = (*LOOKUP_ERRORS, *MISFITS, CorruptionError, IndexError, OverflowError)

PointGet: TypeAlias = Callable[[Sequence[Any]], Row | None]
"""Takes the values of a primary key; returns the row, None if there is none."""


def point_get(encoding: Encoding, files: TableFiles, general_get: PointGet) -> PointGet:
    """Return the quickest lookup of a row of a table.

    It is ``general_get`` if the table has no usual keys, or its rows are not their newest entries.
    """
    encode = encoding.key_encoder
    if encode is None or encoding.has_parts or encoding.fold is not None:
        return general_get
    header, decode = encoding.plain_rows

    def get(key: Sequence[Any]) -> Row | None:
        try:
            vnode, full_key = encode(key)
            getters = files.getters_by_vnode
            if getters is None or len(full_key) >= GROUP_KEY_BYTES:
                return general_get(key)
            for look_up in getters[vnode]:
                value = look_up(full_key)
                if value is not None:
                    return decode(key, value) if value.startswith(header) else general_get(key)
            return None
        except _UNUSUAL:
            # Outside of this block, as what it raises is not due to this error.
            pass
        return general_get(key)

    return get
