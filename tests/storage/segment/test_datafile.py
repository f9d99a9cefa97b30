"""Laws of data files: LMDB reads them, and changes them, as files of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relstate.storage.codec.ragged import concat
from relstate.storage.errors import ValueRangeError
from relstate.storage.segment import datafile
from relstate.storage.segment.datafile import data_file
from relstate.storage.segment.page import Pages
from support.segments import Pair, pairs_of

_PAGE = 4096
# Around what a node of a leaf may take, and what fits one, two and more overflow pages.
_LENGTHS = (
    0,
    1,
    2,
    7,
    100,
    1000,
    1500,
    2015,
    2016,
    2017,
    2030,
    4079,
    4080,
    4081,
    8176,
    8177,
    20_000,
)


def entries_of(widths: list[tuple[int, int]]) -> list[Pair]:
    """Return an entry for each (length of the key, length of the value), in key order."""
    return [
        (b"%04d" % number + b"k" * (key_length - 4), bytes([number % 251]) * value_length)
        for number, (key_length, value_length) in enumerate(widths)
    ]


# Nodes as large as a leaf takes, and a little less or more, with keys of many lengths.
_LIMITS = [
    (key_length, node_bytes - 8 - key_length)
    for node_bytes in (2036, 2037, 2038, 2039, 2040)
    for key_length in (4, 5, 6, 7, 8, 9, 20, 254, 255, 256, 510, 511)
]
_WIDTHS = st.lists(
    st.tuples(st.integers(4, 30) | st.sampled_from([4, 255, 510, 511]), st.sampled_from(_LENGTHS)),
    max_size=80,
)
_EVEN = st.builds(
    lambda width, count: [width] * count,
    st.tuples(st.integers(4, 511), st.integers(0, 2100)),
    st.integers(0, 300),
)


def arrays_of(pairs: list[Pair]) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of some entries."""
    return (
        pa.array([key for key, _ in pairs], pa.large_binary()),
        pa.array([value for _, value in pairs], pa.large_binary()),
    )


def bytes_of(pairs: list[Pair]) -> bytes:
    """Return the data file of some entries."""
    return b"".join(map(bytes, data_file(*arrays_of(pairs), np.arange(len(pairs)))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder."""
    return tmp_path_factory.mktemp("files")


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[lmdb.Environment]:
    """Open a file by LMDB."""
    with lmdb.open(
        str(path), subdir=False, lock=False, map_size=64 << 20, lib_version=0, **options
    ) as file:
        yield file


def written_by_lmdb(path: Path, pairs: list[Pair]) -> lmdb._StatDict:
    """Let LMDB append some entries to a new file; return its figures."""
    path.unlink(missing_ok=True)
    with opened(path, sync=False) as file:
        with file.begin(write=True) as transaction:
            _, added = transaction.cursor().putmulti(pairs, append=True)
            assert added == len(pairs)
        return file.stat()


@given(_WIDTHS | _EVEN)
@example([])
@example([(511, 0)] * 57)
@example([(511, 2100)] * 450)
@example(_LIMITS)
def test_lmdb_finds_just_the_entries(folder: Path, widths: list[tuple[int, int]]) -> None:
    """Its cursor gives them forward, backward and from any key on; its figures are right."""
    pairs = entries_of(widths)
    path = folder / "file.lmdb"
    path.write_bytes(bytes_of(pairs))

    with opened(path, readonly=True) as file, file.begin() as transaction:
        cursor = transaction.cursor()
        assert list(cursor.iternext()) == pairs
        assert list(transaction.cursor().iterprev()) == pairs[::-1]
        for index, (key, value) in enumerate(pairs):
            assert transaction.get(key) == value
            after = pairs[index + 1] if index + 1 < len(pairs) else (b"", b"")
            assert cursor.set_range(key + b"\0") == bool(after[0])
            assert cursor.item() == after
        assert cursor.set_range(b"") == bool(pairs)
        figures = file.stat()
        info = file.info()
    assert figures["entries"] == len(pairs)
    pages = 2 + figures["branch_pages"] + figures["leaf_pages"] + figures["overflow_pages"]
    assert path.stat().st_size == pages * _PAGE == (info["last_pgno"] + 1) * _PAGE
    assert figures["psize"] == _PAGE


@given(_WIDTHS | _EVEN)
@example([(511, 0)] * 450)
@example(_LIMITS)
def test_leaves_are_as_full_as_those_of_lmdb(folder: Path, widths: list[tuple[int, int]]) -> None:
    """What LMDB appends takes as many leaves and overflow pages, and no fewer branch pages."""
    pairs = entries_of(widths)
    theirs = written_by_lmdb(folder / "theirs.lmdb", pairs)
    path = folder / "ours.lmdb"
    path.write_bytes(bytes_of(pairs))

    with opened(path, readonly=True) as file:
        ours = file.stat()

    for name in ("psize", "entries", "leaf_pages", "overflow_pages"):
        assert ours[name] == theirs[name], name
    assert ours["depth"] <= theirs["depth"]
    assert ours["branch_pages"] <= theirs["branch_pages"]


@pytest.mark.parametrize("width", _LIMITS)
def test_a_node_is_as_large_as_lmdb_lets_it_be(folder: Path, width: tuple[int, int]) -> None:
    """A value has overflow pages where LMDB gives it some: beyond a node of 2,038 bytes."""
    pairs = entries_of([width])
    theirs = written_by_lmdb(folder / "theirs.lmdb", pairs)
    (folder / "ours.lmdb").write_bytes(bytes_of(pairs))

    with opened(folder / "ours.lmdb", readonly=True) as file:
        assert file.stat() == theirs
    assert theirs["overflow_pages"] == (8 + sum(width) > 2038)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_meta_pages_are_those_of_lmdb(folder: Path, count: int) -> None:
    """Byte for byte but for the size of the map: so is what a tree of one page begins with."""
    pairs = entries_of([(20, 30)] * count)
    written_by_lmdb(folder / "theirs.lmdb", pairs)
    theirs = bytearray((folder / "theirs.lmdb").read_bytes())
    ours = bytearray(bytes_of(pairs))
    if not count:
        # LMDB commits nothing, so that its second meta page counts as no transaction.
        ours[_PAGE + 144 : _PAGE + 152] = bytes(8)
    for contents in (theirs, ours):
        for start in (0, _PAGE):
            contents[start + 32 : start + 40] = bytes(8)

    assert len(ours) == max(len(theirs), 2 * _PAGE)
    assert ours[: 2 * _PAGE + 16 * bool(count)] == theirs[: 2 * _PAGE + 16 * bool(count)]


@given(_WIDTHS | _EVEN, st.randoms(use_true_random=False))
@example([(511, 2100)] * 450, Random(0))
def test_lmdb_copies_and_changes_the_file(
    folder: Path, widths: list[tuple[int, int]], draw: Any
) -> None:
    """Its copy, which counts all pages, has the entries; so has the file after random changes."""
    pairs = entries_of(widths)
    path, copy = folder / "changed.lmdb", folder / "copy.lmdb"
    path.write_bytes(bytes_of(pairs))
    copy.unlink(missing_ok=True)
    with opened(path, sync=False) as file:
        file.copy(str(copy), compact=True)
        expected = dict(pairs)
        with file.begin(write=True) as transaction:
            for key, value in draw.sample(pairs, len(pairs)):
                match draw.randrange(4):
                    case 0:
                        assert transaction.delete(key)
                        del expected[key]
                    case 1:
                        expected[key] = value[: len(value) // 2] + b"new"
                        transaction.put(key, expected[key])
                    case 2:
                        expected[key[:-1] + b"\xff"] = value
                        transaction.put(key[:-1] + b"\xff", value)
        with file.begin() as transaction:
            assert list(transaction.cursor()) == sorted(expected.items())
    with opened(copy, readonly=True) as file, file.begin() as transaction:
        assert list(transaction.cursor()) == pairs


@given(_WIDTHS | _EVEN, st.integers(0, 2**32 - 1))
def test_equal_entries_give_equal_bytes(widths: list[tuple[int, int]], seed: int) -> None:
    """Whatever order they are given in, and what else is in their arrays."""
    pairs = entries_of(widths)
    shuffled = np.random.default_rng(seed).permutation(len(pairs))
    mixed = [(b"", b"before"), *(pairs[index] for index in shuffled), (b"", b"after")]
    keys, values = arrays_of(mixed)
    order = np.argsort(shuffled) + 1

    contents = b"".join(map(bytes, data_file(keys.slice(0), values.slice(0), order)))

    assert contents == bytes_of(pairs)


def test_many_pages_are_made_part_by_part(tmp_path: Path) -> None:
    """No part has more than a few MiB, and they continue each other: LMDB reads all entries."""
    pairs = entries_of(
        [(4 + number % 40, _LENGTHS[number % len(_LENGTHS)]) for number in range(9000)]
    )
    keys, values = arrays_of(pairs)

    parts = list(data_file(keys, values, np.arange(len(pairs))))

    path = tmp_path / "file.lmdb"
    path.write_bytes(b"".join(map(bytes, parts)))
    assert path.stat().st_size > 16 << 20
    assert max(len(part) for part in parts) < 4 << 20
    with opened(path, readonly=True) as file, file.begin() as transaction:
        assert list(transaction.cursor()) == pairs


@pytest.mark.parametrize("step", [1, 2])
def test_many_large_values_are_made_part_by_part(step: int) -> None:
    """Even if one leaf has them all: no part has more than a few MiB, or one value."""
    pairs = entries_of([(20, 500_000), (20, 10)] * 40 + [(20, 5_000_000), (20, 500_000)] * 2)
    keys, values = arrays_of(pairs)
    order = np.arange(0, len(pairs), step)

    parts = list(data_file(keys, values, order))

    assert b"".join(map(bytes, parts)) == bytes_of(pairs[::step])
    assert sorted(len(part) for part in parts)[-3] <= 4 << 20
    assert max(len(part) for part in parts) < 5_000_000 + 2 * _PAGE
    blocks = Pages(np.concatenate(parts)).blocks(None, None, 100)
    assert [pair for block in pairs_of(blocks) for pair in block] == pairs[::step]


def test_entries_of_a_page_ascend_in_the_file() -> None:
    """What a scan copies from neighbouring entries is in the order of the file."""
    pairs = entries_of([(20, 10 + number % 30) for number in range(500)])
    contents = np.frombuffer(bytes_of(pairs), np.uint8)

    blocks = list(Pages(contents).blocks(None, None, 100))

    assert [pair for block in pairs_of(blocks) for pair in block] == pairs
    assert all((np.diff(block.value_starts) > 0).all() for block in blocks)


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"]])
@pytest.mark.parametrize("before", [0, 1, 1024, 3000])
def test_entries_that_do_not_ascend_are_refused(keys: list[bytes], before: int) -> None:
    """A search would not find them: on one page, on neighbours and in parts made apart."""
    pairs = [*entries_of([(4, 2000)] * before), *((key, b"v" * 2000) for key in keys)]

    with pytest.raises(AssertionError, match="do not ascend"):
        bytes_of(pairs)


@pytest.mark.parametrize("length", [0, 512, 5000])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_keys_that_lmdb_does_not_take_are_refused(length: int, number: int) -> None:
    """Wherever they are among others, with an order or without one."""
    pairs: list[Pair] = [(b"1", b"a"), (b"2", b"b"), (b"3", b"c")]
    pairs[number] = (pairs[number][0] * length, b"value")
    keys, values = arrays_of(pairs)

    for order in (np.arange(3), np.array([number])):
        with pytest.raises(AssertionError, match=f"keys of .*{length} "):
            list(data_file(keys, values, order))


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("order", [[0, 1, 2], [0, 2], []])
def test_nulls_are_refused(column: int, order: list[int]) -> None:
    """A null has no place in a page: what follows it would move."""
    arrays = list(arrays_of([(b"1", b"a"), (b"2", b"b"), (b"3", b"c")]))
    arrays[column] = pa.array([b"1", None, b"3"], pa.large_binary())

    with pytest.raises(AssertionError, match="nulls"):
        list(data_file(arrays[0], arrays[1], np.array(order, np.int64)))


def test_a_value_whose_length_has_33_bits_is_refused(tmp_path: Path) -> None:
    """LMDB has 32 bits for it: the error names the key and what to do."""
    sparse = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=((1 << 32) + 3,))
    offsets = np.array([0, 3, 3 + (1 << 32)])
    values = pa.Array.from_buffers(
        pa.large_binary(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(sparse)]
    )
    keys = pa.array([b"\0\0\0\7a", b"\0\0\0\7b"], pa.large_binary())

    for order in (np.arange(2), np.array([1])):
        with pytest.raises(ValueRangeError, match=r"00 00 00 07 62 .* 4294967296 bytes.*divide"):
            list(data_file(keys, values, order))


@pytest.mark.parametrize("lost", ["leaf", "overflow", "sum"])
def test_pages_of_another_length_are_refused(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in putting them together: later pages would not be where they belong."""

    def concat_without_last(columns: list[pa.Array]) -> pa.Array:
        is_leaf = len(columns) > 3
        return concat(columns[:-1] if is_leaf == (lost == "leaf") else columns)

    if lost == "sum":
        monkeypatch.setattr(datafile, "_overflow_pages", lambda *_: np.empty(0, np.uint8))
    else:
        monkeypatch.setattr(datafile, "concat", concat_without_last)

    with pytest.raises(AssertionError, match="pages"):
        bytes_of(entries_of([(20, 3000), (20, 10), (20, 5001)]))
