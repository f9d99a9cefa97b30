"""The lookup of one key in a segment of which only parts are here.

Promises: it reads the meta pages, one page of each level of the tree and a large value, no more;
damage is a ValueError, IndexError or struct.error.
Does not know: where the parts come from. The layout is that of `page`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from .page import (
    BIG_DATA,
    BRANCH_PAGE,
    LEAF_PAGE,
    META_BYTES,
    NO_PAGE,
    NODE_HEADER,
    PAGE_HEADER,
    PAGE_KINDS,
    tree_of,
)

_POINTER, _WORD = struct.Struct("<H"), struct.Struct("<Q")

Read = Callable[[int, int], bytes]
"""Takes a start and an end of a file; returns its bytes, fewer if it ends before."""


def find(read: Read, key: bytes) -> bytes | None:
    """Return the value of a key; None if there is none."""
    tree = tree_of(np.frombuffer(read(0, META_BYTES), np.uint8))
    if tree.root == NO_PAGE:
        return None
    page, page_size = tree.root, tree.page_size
    for _ in range(tree.depth - 1):
        node, content = _last_not_after(read, page, page_size, BRANCH_PAGE, key)
        page = _WORD.unpack_from(content, node)[0] & 0xFFFFFFFFFFFF
    node, content = _last_not_after(read, page, page_size, LEAF_PAGE, key)
    if node < 0 or _key(content, node) != key:
        return None
    header: int = _WORD.unpack_from(content, node)[0]
    start, length = node + NODE_HEADER + len(key), header & 0xFFFFFFFF
    if header >> 32 & BIG_DATA:
        start = _WORD.unpack_from(content, start)[0] * page_size + PAGE_HEADER
        value = read(start, start + length)
    else:
        value = content[start : start + length]
    if len(value) != length:
        raise ValueError("a value ends beyond the end of the file")
    return value


def _last_not_after(
    read: Read, page: int, page_size: int, kind: int, key: bytes
) -> tuple[int, bytes]:
    """Return where the last node of a page is whose key is not after ``key``, and the page.

    The first of a branch page is before all keys; -1: there is none on the leaf.
    """
    content = read(page * page_size, (page + 1) * page_size)
    if len(content) < page_size:
        raise ValueError("a page number points beyond the end of the file")
    if _POINTER.unpack_from(content, 10)[0] & PAGE_KINDS != kind:
        raise ValueError(f"a page of the tree is not of kind {kind:#x}")
    count = (_POINTER.unpack_from(content, 12)[0] - PAGE_HEADER) // 2
    low, high = (1 if kind == BRANCH_PAGE else 0), count
    while low < high:
        middle = (low + high) // 2
        if _key(content, _node(content, middle)) <= key:
            low = middle + 1
        else:
            high = middle
    return (_node(content, low - 1) if low else -1), content


def _node(content: bytes, slot: int) -> int:
    node: int = _POINTER.unpack_from(content, PAGE_HEADER + 2 * slot)[0]
    return node


def _key(content: bytes, node: int) -> bytes:
    start = node + NODE_HEADER
    length: int = _POINTER.unpack_from(content, node + 6)[0]
    return content[start : start + length]
