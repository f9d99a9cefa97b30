"""Laws of the search for many keys: it finds what lookups one by one find."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relstate.storage.codec.ragged import Positions
from relstate.storage.segment import writer
from relstate.storage.segment.segment import SegmentFile
from relstate.storage.table import keysearch
from relstate.storage.table.keysearch import SearchedFile, all_entries, newest_entries
from relstate.storage.table.keyspan import KeySpan
from support.examples import examples
from support.segments import (
    Pair,
    folder_for_segments,
    full_key,
    open_file,
    pairs_of,
    write_pairs,
)

_WITH_PAIRS = ("one by one", "filtered")
_PREFIX_BYTES = len(full_key(b""))


def _searched(file: SegmentFile, keys: Sequence[bytes]) -> SearchedFile:
    """Return a file with some ascending keys as searches take it."""
    primary_keys = [key[_PREFIX_BYTES:] for key in keys]
    return SearchedFile(file, (keys[0], keys[-1]), KeySpan(min(primary_keys), max(primary_keys)))


def _key_array(keys: Sequence[bytes]) -> pa.LargeBinaryArray:
    return pa.array(keys, pa.large_binary())


@pytest.fixture(params=["one by one", "filtered", "at once", "by cursor"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Look keys up one by one, with filters, by a search for all, or without knowing the layout."""
    way: str = request.param
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1 if way != "at once" else 1 << 30)
    for limit in ("_FEW_KEYS", "_FEW_OF_A_FILE"):
        monkeypatch.setattr(keysearch, limit, 1 << 30 if way == "one by one" else 0)
    for limit in ("_MANY_KEYS", "_MANY_OF_A_FILE"):
        monkeypatch.setattr(keysearch, limit, 1 << 30 if way in _WITH_PAIRS else 1)
    return way


def _keys(draw: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        number = draw.randint(0, 5000)
        primary_key = b"%d" % number * (number % 7) + b"%04d\xff" % number
        yield full_key(primary_key, vnode=number % 5)


@pytest.mark.parametrize("seed", range(examples(6)))
def test_the_newest_or_all_entries_are_found(tmp_path: Path, way: str, seed: int) -> None:
    """In files that overlap, with filters and without."""
    draw = random.Random(seed)
    environment = folder_for_segments(tmp_path)
    files: list[SearchedFile] = []
    contents: list[dict[bytes, bytes]] = []
    for number in range(4):
        pairs: list[Pair] = sorted(
            (key, b"%d" % number * draw.choice([1, 9, 1500])) for key in _distinct(draw)
        )
        record = write_pairs(environment, pairs, f"{number:032x}-000000")
        file = open_file(environment, record, is_known=way != "by cursor")
        files.append(_searched(file, [key for key, _ in pairs]))
        contents.append(dict(pairs))

    for _ in range(4):
        keys = sorted({*_keys(draw, 300), *itertools.islice(contents[3], 40)})
        full_keys = pa.array(keys, pa.large_binary())
        newest = {
            key: next(pairs[key] for pairs in contents if key in pairs)
            for key in keys
            if any(key in pairs for pairs in contents)
        }

        indices, blocks = newest_entries(files, full_keys, _PREFIX_BYTES)
        entries = [pair for pairs in pairs_of(blocks) for pair in pairs]
        assert sorted(entries) == sorted(newest.items())
        assert [keys[index] for index in indices.tolist()] == [key for key, _ in entries]

        found = pairs_of(all_entries(files, full_keys, _PREFIX_BYTES))
        every = [[(key, pairs[key]) for key in keys if key in pairs] for pairs in contents]
        assert found == [pairs for pairs in every if pairs]


def _distinct(draw: random.Random) -> set[bytes]:
    return {*_keys(draw, draw.choice([1, 30, 900]))}


def test_a_file_of_none_of_the_keys_is_filtered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the filter that is stored with it: hardly any key is looked up there."""
    monkeypatch.setattr(writer, "LEAST_FILTERED_KEYS", 1)
    environment = folder_for_segments(tmp_path)
    pairs = [(full_key(b"%06d" % (2 * number)), b"value") for number in range(500)]
    file = open_file(environment, write_pairs(environment, pairs))
    looked_up: list[int] = []
    get_many = file.get_many

    def counted(keys: list[bytes]) -> list[Pair]:
        looked_up.append(len(keys))
        return get_many(keys)

    monkeypatch.setattr(file, "get_many", counted)
    absent = [full_key(b"%06d" % (2 * number + 1)) for number in range(400)]
    searched = _searched(file, [key for key, _ in pairs])

    indices, _ = newest_entries([searched], _key_array(absent), _PREFIX_BYTES)
    assert len(indices) == 0
    assert sum(looked_up) < 40


def test_a_file_is_asked_for_keys_of_its_span_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files that are cut by primary key, in whatever vnodes; none of them needs a filter."""
    environment = folder_for_segments(tmp_path)
    keys = [full_key(b"key %06d" % number, vnode=number % 7) for number in range(4000)]
    files = []
    for part in range(4):
        part_keys = sorted(keys[1000 * part : 1000 * part + 1000])
        pairs = [(key, b"%d" % part) for key in part_keys]
        record = write_pairs(environment, pairs, f"{part:032x}-000000")
        files.append(_searched(open_file(environment, record), part_keys))
    asked: list[int] = []
    look_up = keysearch._KeySearch._look_up

    def counted(search: keysearch._KeySearch, file: SegmentFile, rows: Positions) -> Any:
        asked.append(len(rows))
        return look_up(search, file, rows)

    monkeypatch.setattr(keysearch._KeySearch, "_look_up", counted)

    indices, _ = newest_entries(files, _key_array(sorted(keys)[::2]), _PREFIX_BYTES)

    assert len(indices) == sum(asked) == 2000


def test_long_keys_are_not_padded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One long key among many would make texts of its width of all of them."""
    monkeypatch.setattr(keysearch, "_FEW_KEYS", 0)
    monkeypatch.setattr(keysearch, "_MANY_OF_A_FILE", 1)
    environment = folder_for_segments(tmp_path)
    keys = sorted([*(full_key(b"%06d" % number) for number in range(100)), full_key(b"x" * 300)])
    file = open_file(environment, write_pairs(environment, [(key, b"value") for key in keys]))
    monkeypatch.delattr(type(file), "find_keys")

    _, entries = newest_entries([_searched(file, keys)], _key_array(keys), _PREFIX_BYTES)

    assert pairs_of(entries) == [[(key, b"value") for key in keys]]


def test_many_long_keys_are_made_objects_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few of them are made objects one by one: to find the file's span takes two bisections."""
    for limit, number in (("_FEW_KEYS", 0), ("_MANY_OF_A_FILE", 1), ("_MANY_KEYS", 1)):
        monkeypatch.setattr(keysearch, limit, number)
    environment = folder_for_segments(tmp_path)
    keys = [full_key(b"%0100d" % number) for number in range(500)]
    file = open_file(environment, write_pairs(environment, [(key, b"value") for key in keys[1:]]))
    made: list[int] = []
    get = keysearch._KeySequence.__getitem__

    def counted(sequence: keysearch._KeySequence, index: int) -> Any:
        made.append(index)
        return get(sequence, index)

    monkeypatch.setattr(keysearch._KeySequence, "__getitem__", counted)

    _, entries = newest_entries([_searched(file, keys)], _key_array(keys), _PREFIX_BYTES)

    assert pairs_of(entries) == [[(key, b"value") for key in keys[1:]]]
    assert len(made) <= 20
