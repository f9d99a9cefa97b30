"""Laws of rows whose keys are longer than LMDB takes."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment import longkey
from relstate.storage.segment.block import Block

_PREFIX = b"\0\0\0\1\0\2"
_LENGTHS = st.sampled_from([1, 400, 499, 500, 501, 502, 503, 504, 505, 511, 600])
_KEYS = st.sets(
    st.tuples(
        st.sampled_from([b"a", b"b"]), _LENGTHS, st.sampled_from([b"x", b"yy", b"z\0\1"])
    ).map(lambda part: _PREFIX + part[0] * part[1] + part[2] + b"\0\0"),
    min_size=1,
    max_size=30,
)


def packed(keys: list[bytes], values: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the entries for rows in key order."""
    entries = longkey.pack(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()))
    return entries[0].to_pylist(), entries[1].to_pylist()


def values_for(keys: list[bytes]) -> list[bytes]:
    """Return a different value for every key, some empty, some large."""
    return [bytes([index]) * (index * 777 % 5000) for index, _ in enumerate(keys)]


@given(_KEYS)
def test_entries_keep_the_order_of_the_rows_and_fit_lmdb(keys: set[bytes]) -> None:
    """Entries' keys ascend strictly, none beyond 511 bytes, only groups at 511."""
    rows = sorted(keys)

    entry_keys, _ = packed(rows, values_for(rows))

    assert all(low < high for low, high in itertools.pairwise(entry_keys))
    assert max(map(len, entry_keys)) <= 511
    assert all(key in keys for key in entry_keys if len(key) < 511)


@given(_KEYS)
def test_unpack_gives_back_every_row_in_order(keys: set[bytes]) -> None:
    """Packing and unpacking is the identity on rows."""
    rows = sorted(keys)
    values = values_for(rows)

    block = longkey.unpack(Block.of_pairs(list(zip(*packed(rows, values), strict=True))))

    assert block.key_bytes().to_pylist() == rows
    assert block.value_bytes().to_pylist() == values


@given(_KEYS)
def test_row_counts_are_the_rows_that_unpack_makes_of_each_entry(keys: set[bytes]) -> None:
    """There are none where every entry is a row."""
    rows = sorted(keys)
    entries = list(zip(*packed(rows, values_for(rows)), strict=True))

    counts = longkey.row_counts(Block.of_pairs(entries))

    sizes = [len(longkey.unpack(Block.of_pairs([entry]))) for entry in entries]
    assert sizes == ([1] * len(entries) if counts is None else counts.tolist())
    assert (counts is None) == (not any(map(longkey.is_long, rows)))


@given(_KEYS)
def test_rows_with_a_prefix_are_in_entries_with_its_prefix(keys: set[bytes]) -> None:
    """A flag is set where the prefix was cut off, so that its entries may have other rows too."""
    pairs = [
        (key[:length], key)
        for key in sorted(keys)
        for length in (7, 400, 510, 511, 512, 513, 600)
        if length <= len(key)
    ]
    prefixes = [prefix for prefix, _ in pairs]

    asked, is_cut = longkey.entry_prefixes(pa.array(prefixes, pa.large_binary()))

    for (prefix, key), entry_prefix in zip(pairs, asked.to_pylist(), strict=True):
        entry = longkey.group_key(key) if longkey.is_long(key) else key
        assert prefix.startswith(entry_prefix)
        assert entry.startswith(entry_prefix)
    lengths = map(len, asked.to_pylist())
    assert [
        len(row_prefix) > size for row_prefix, size in zip(prefixes, lengths, strict=True)
    ] == is_cut.tolist()


@given(_KEYS)
def test_find_sees_the_rows_of_a_group_and_no_others(keys: set[bytes]) -> None:
    """A point lookup in a group finds each of its rows, and nothing for other keys."""
    rows = sorted(keys)
    values = values_for(rows)
    entries = dict(zip(*packed(rows, values), strict=True))

    for key, value in zip(rows, values, strict=True):
        if longkey.is_long(key):
            group = entries[longkey.group_key(key)]
            absent = key + b"q"
            assert longkey.find(group, key) == value
            assert longkey.find(group, absent) is None
        else:
            assert entries[key] == value


def test_a_damaged_group_is_an_error() -> None:
    """A count or an end that does not fit the value is an error, and is not followed."""
    key = _PREFIX + b"a" * 600
    (group_key,), (group,) = packed([key], [b"value"])

    for damaged in (b"\xff" + group[1:], group[:4] + b"\xff" + group[5:], group[:-1]):
        with pytest.raises((ValueError, IndexError)):
            longkey.unpack(Block.of_pairs([(group_key, damaged)]))
    with pytest.raises(IndexError, match="a group of rows is damaged"):
        longkey.find(b"\xff" + group[1:], key)
