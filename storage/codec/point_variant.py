"""The check of one variant, without Arrow: whether its bytes are one.

Promises: it accepts what `variant.check` accepts, and nothing else.
Does not know: plain values beyond their sizes.
"""

from __future__ import annotations

from .variant import (
    COUNT_WIDTHS,
    ID_WIDTHS,
    KEYS_RATIO,
    KINDS,
    MOST_LEVELS,
    OFFSET_WIDTHS,
    SIZES,
    VERSION,
    VERSION_MASK,
    Node,
)

_SIZE_OF: list[int] = SIZES.tolist()
_KIND_OF: list[int] = KINDS.tolist()
_WIDTHS_OF: list[tuple[int, int, int]] = list(
    zip(COUNT_WIDTHS.tolist(), ID_WIDTHS.tolist(), OFFSET_WIDTHS.tolist(), strict=True)
)
_LENGTH_END = 5


def check_variant(value: bytes, metadata: bytes, deepest: int = MOST_LEVELS) -> None:
    """ValueError, as of `variant.check`, if the bytes are not a variant."""
    keys = _Keys(metadata)
    budget, key_budget = len(value), KEYS_RATIO * (len(value) + len(metadata))
    starts, depth = [0], 0
    while starts:
        if depth > deepest:
            raise ValueError(f"a variant nests objects and arrays more than {deepest} times")
        items: list[int] = []
        for start in starts:
            size, item_starts, ids = _measured(value, start)
            budget -= size
            key_budget -= sum(map(keys.length, ids))
            items += item_starts
        if budget < 0:
            raise ValueError("values in a variant share bytes")
        if key_budget < 0:
            raise ValueError("the keys in a variant are too long")
        starts, depth = items, depth + 1


def _measured(value: bytes, start: int) -> tuple[int, list[int], list[int]]:
    """Return (how many bytes a value has without its items, where these start, ids of keys)."""
    if start >= len(value):
        raise ValueError("a variant ends before its items")
    header = value[start]
    kind = _KIND_OF[header]
    if kind == Node.PLAIN:
        size = _SIZE_OF[header]
        if size < 0:
            size = _LENGTH_END + int.from_bytes(value[start + 1 : start + _LENGTH_END], "little")
        if not size:
            raise ValueError("a variant holds a value of an unknown type")
        if start + size > len(value):
            raise ValueError("a variant ends within a value")
        return size, [], []
    count_width, id_width, width = _WIDTHS_OF[header]
    ids = start + 1 + count_width
    count = int.from_bytes(value[start + 1 : ids], "little")
    offsets = ids + count * id_width
    data = offsets + (count + 1) * width
    if data > len(value):
        raise ValueError("a variant ends within a value")
    items = [data + offset for offset in _numbers(value, offsets, count, width)]
    return data - start, items, _numbers(value, ids, count, id_width) if id_width else []


def _numbers(data: bytes, start: int, count: int, width: int) -> list[int]:
    """Return numbers of ``width`` bytes each, little endian."""
    if width == 1:
        return list(data[start : start + count])
    stop = start + count * width
    return [int.from_bytes(data[at : at + width], "little") for at in range(start, stop, width)]


class _Keys:
    """The keys of a variant. ValueError for metadata of another version."""

    def __init__(self, metadata: bytes) -> None:
        if not metadata:
            raise ValueError("a variant ends early (it has no metadata)")
        if metadata[0] & VERSION_MASK != VERSION:
            raise ValueError("the metadata of a variant is of an unknown version")
        self._metadata = metadata
        self._width = width = (metadata[0] >> 6) + 1
        self._count = int.from_bytes(metadata[1 : 1 + width], "little")
        self._texts = 1 + width + (self._count + 1) * width

    def length(self, key: int) -> int:
        """Return the length of a key. ValueError unless it is one, in UTF-8."""
        if key >= self._count:
            raise ValueError("a variant has a key that is not in its metadata")
        metadata, width = self._metadata, self._width
        begin, end = _numbers(metadata, 1 + width + key * width, 2, width)
        text = metadata[self._texts + begin : self._texts + end]
        if begin > end or self._texts + end > len(metadata):
            raise ValueError("the metadata of a variant ends within a key")
        # A UnicodeDecodeError is a ValueError.
        text.decode()
        return end - begin
