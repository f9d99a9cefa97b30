"""The filters of the keys of a segment, which follow its LMDB pages.

    magic u64 | filters u32 | 0 u32 | filters · (table id u32 | words u32) | words u64 of each

LMDB reads no page after the last one that it knows, so to it, and to a reader that does not look
for filters, the file is the same. A filter has the keys of entries as the pages have them: of long
keys, those of their groups (longkey.py). Tables with few keys have none.

Promises: equal entries have equal bytes; what is read is within the file.
Does not know: how a filter answers (keyfilter.py).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..codec.ragged import Buffer
from .keyfilter import KeyFilter

# On disk: never change these.
MAGIC = 0x52544C4653544C52
_HEADER, _FILTER = struct.Struct("<QII"), struct.Struct("<II")
_WORD = 8


def filter_block(filters: Mapping[int, KeyFilter]) -> list[Buffer]:
    """Return the bytes of the filters of some tables, by their ids, in parts; none of no filters.

    The tables are in the order of their ids.
    """
    if not filters:
        return []
    sizes = [(table_id, len(key_filter.words)) for table_id, key_filter in filters.items()]
    head = _HEADER.pack(MAGIC, len(sizes), 0) + b"".join(_FILTER.pack(*size) for size in sizes)
    words = (key_filter.words for key_filter in filters.values())
    return [np.frombuffer(head, np.uint8), *(part.astype("<u8").view(np.uint8) for part in words)]


def read_filters(contents: Buffer, start: int) -> dict[int, KeyFilter]:
    """Return the filters of a file by table id, as views of its map; none if there are none.

    ``start``: where the file's pages end. ValueError if a filter is not within the file.
    """
    if start + _HEADER.size > len(contents):
        return {}
    magic, count, _ = _HEADER.unpack_from(contents.data, start)
    if magic != MAGIC:
        return {}
    first = start + _HEADER.size
    end = first + count * _FILTER.size
    if end > len(contents):
        raise ValueError(f"{count} filters of keys do not fit into the file")
    filters = {}
    for table_id, words in _FILTER.iter_unpack(contents[first:end].data):
        filters[table_id] = KeyFilter(_words(contents, end, words))
        end += words * _WORD
    if end != len(contents):
        raise ValueError(f"the filters of keys end at byte {end} of {len(contents)}")
    return filters


def _words(contents: Buffer, start: int, count: int) -> NDArray[np.uint64]:
    if not count or start + count * _WORD > len(contents):
        raise ValueError(f"a filter of {count} words does not fit into the file")
    return contents[start : start + count * _WORD].view("<u8")
