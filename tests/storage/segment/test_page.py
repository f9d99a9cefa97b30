"""Laws of reading LMDB's pages in bulk: what LMDB's own cursor finds, and nothing else."""

from __future__ import annotations

from pathlib import Path

import lmdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relstate.storage.paths import segment_path
from relstate.storage.segment.page import LayoutError, Pages
from support.segments import Pair, folder_for_segments, pairs_of, write_pairs

# Short and long keys, values within a leaf page, beside it, and on several pages.
_PAIRS: list[Pair] = sorted(
    {
        (b"%05d" % (number * 7) + b"k" * (number * 61 % 480)): bytes([number % 251])
        * (0, 1, 100, 1000, 2030, 2040, 5000)[number % 7]
        for number in range(1, 1500)
    }.items()
)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.uint8]:
    """The map of a file of some hundred leaf pages in a tree of several levels."""
    environment = folder_for_segments(tmp_path_factory.mktemp("pages"))
    path = segment_path(write_pairs(environment, _PAIRS).name)
    with lmdb.open(environment.local_path(path), subdir=False, readonly=True, lock=False) as file:
        assert file.stat()["depth"] >= 3
    return environment.map(path)


_BOUNDS = st.none() | st.integers(0, 11_000).map(lambda number: b"%05d" % number)


@given(_BOUNDS, _BOUNDS, st.sampled_from([1, 2, 3, 7, 100, 10_000]), st.booleans())
def test_blocks_hold_just_the_entries_within_bounds(
    contents: NDArray[np.uint8], low: bytes | None, high: bytes | None, leaves: int, last: bool
) -> None:
    """For any bounds, block size and direction; no block is empty or has too many pages."""
    pages = Pages(contents)

    blocks = pairs_of(pages.blocks(low, high, leaves, descending=last))

    pairs = [pair for block in (blocks[::-1] if last else blocks) for pair in block]
    assert pairs == [
        pair for pair in _PAIRS if (low or b"") <= pair[0] and (high is None or pair[0] < high)
    ]
    assert all(blocks)
    assert len(blocks) <= -(-len(pages.first_keys) // leaves)


@given(_BOUNDS, _BOUNDS, st.sampled_from([1, 3, 100]), st.booleans())
def test_no_byte_is_read_before_it_was_waited_for(
    contents: NDArray[np.uint8], low: bytes | None, high: bytes | None, leaves: int, last: bool
) -> None:
    """Of pages or of large values; a range of keys does not wait for the leaves of others."""
    arrived = np.zeros_like(contents)
    has = np.zeros(len(contents), np.bool_)

    def wait(start: int, stop: int) -> None:
        arrived[start:stop] = contents[start:stop]
        has[start:stop] = True

    pages = Pages(arrived, wait)
    before = int(has.sum())
    actual: list[Pair] = []
    for block in pages.blocks(low, high, leaves, descending=last):
        (pairs,) = pairs_of([block])
        actual = [*pairs, *actual] if last else [*actual, *pairs]
    expected = [
        pair for pair in _PAIRS if (low or b"") <= pair[0] and (high is None or pair[0] < high)
    ]
    assert actual == expected
    if len(expected) < 10:
        assert int(has.sum()) - before < len(contents) / 4


@given(st.integers(0, len(_PAIRS) - 1), st.binary(max_size=3))
def test_single_entries_are_found(contents: NDArray[np.uint8], index: int, more: bytes) -> None:
    """Every key has its own value, and an absent key has none."""
    pages, (key, value) = Pages(contents), _PAIRS[index]

    assert pages.find(key) == value
    assert pages.find(key + more) == dict(_PAIRS).get(key + more)
    assert pages.find(key[:-1]) == dict(_PAIRS).get(key[:-1])


def test_a_file_without_entries_has_no_blocks(tmp_path: Path) -> None:
    """Searches in it find nothing, without an error."""
    environment = folder_for_segments(tmp_path)
    pages = Pages(environment.map(segment_path(write_pairs(environment, []).name)))

    assert list(pages.blocks(None, None, 8)) == []
    assert list(pages.blocks(b"a", b"b", 8, descending=True)) == []
    assert pages.find(b"a") is None


def test_buffers_are_views_of_the_file(contents: NDArray[np.uint8]) -> None:
    """Neither keys nor values are copied."""
    block = next(Pages(contents).blocks(None, None, 4))

    assert block.keys is contents
    assert block.values is contents


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("field", [16, 20])
def test_another_format_is_refused(contents: NDArray[np.uint8], index: int, field: int) -> None:
    """A wrong magic number or data version on either meta page is a LayoutError."""
    changed = contents.copy()
    changed[index * 4096 + field] ^= 1

    with pytest.raises(LayoutError, match=r"not LMDB 0\.9"):
        Pages(changed)


@pytest.mark.parametrize("size", [0, 100, 4096, 3 * 4096])
def test_a_truncated_file_is_an_error(contents: NDArray[np.uint8], size: int) -> None:
    """Page numbers are compared with the end of the file before they are followed."""
    with pytest.raises((ValueError, IndexError)):
        list(Pages(contents[:size]).blocks(None, None, 100))


@pytest.mark.parametrize("leaves", [1, 7, 10_000])
def test_all_nodes_are_those_of_the_blocks(contents: NDArray[np.uint8], leaves: int) -> None:
    """In key order, whatever number of leaf pages is read at once."""
    pages = Pages(contents)

    nodes = np.concatenate(list(pages.all_nodes(leaves)))

    assert pairs_of([pages.entries(nodes)]) == [_PAIRS]


@pytest.mark.parametrize("lower", [16, 0, 0xFFFF])
def test_a_page_of_an_impossible_number_of_entries_is_damage(
    contents: NDArray[np.uint8], lower: int
) -> None:
    """All of its file's nodes are not read."""
    damaged = contents.copy()
    (first,) = Pages(damaged)._leaves[:1].tolist()
    damaged[4096 * first + 12 : 4096 * first + 14] = np.frombuffer(
        lower.to_bytes(2, "little"), np.uint8
    )

    with pytest.raises(ValueError, match="a page has no entries, or more than it has room for"):
        list(Pages(damaged).all_nodes(1))
