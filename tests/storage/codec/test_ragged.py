"""Laws of the vectorised primitives: each equals the plain Python it replaces."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.codec import ragged

# Few different bytes and lengths, so that ties, prefixes and duplicates are common.
_BYTES = st.binary(max_size=3).map(lambda tail: tail.replace(b"\xff", b"\x01"))
_SAME_LENGTH = st.text("ab", min_size=2, max_size=2).map(lambda text: b"m" + text.encode())
_ROWS = st.one_of(
    st.lists(st.lists(st.sampled_from([0, 1, 200]), max_size=45).map(bytes), max_size=30),
    st.lists(st.tuples(st.just(b"p" * 40), _BYTES).map(b"".join), max_size=30),
    st.lists(st.binary(min_size=11, max_size=11), max_size=30),
    # Most rows begin with one byte and have one length, as keys of which few are NULL.
    st.tuples(st.lists(_SAME_LENGTH, max_size=20), st.lists(st.binary(max_size=9), max_size=5))
    .map(lambda parts: parts[0] + parts[1])
    .flatmap(st.permutations),
)


def bytes_array(rows: list[bytes]) -> ragged.Bytes:
    """Return rows as a bytes array that starts in the middle of its buffers."""
    return pa.array([b"before", *rows, b"after"], pa.large_binary()).slice(1, len(rows))


def terminated(rows: list[bytes]) -> list[bytes]:
    """Return rows made prefix-free, as keys are: zero bytes escaped and a terminator added."""
    return [row.replace(b"\0", b"\0\1") + b"\0\0" for row in rows]


@given(_ROWS)
def test_sort_order_is_the_stable_order_of_the_bytes(rows: list[bytes]) -> None:
    """Prefix-free rows come in Python's order of bytes, equal rows in their original order."""
    rows = terminated(rows)

    order = ragged.sort_order(bytes_array(rows))

    assert order.tolist() == sorted(range(len(rows)), key=lambda row: rows[row])


@given(_ROWS, st.randoms())
def test_rows_are_sorted_in_their_groups(rows: list[bytes], draw: random.Random) -> None:
    """By the numbers of the groups, which may be many, then by their bytes; equal rows stay."""
    rows = [*terminated(rows), b"\0\0"]
    groups = [draw.choice([0, 1, 300, 70_000]) for _ in rows]

    order = ragged.sort_order_in_groups(np.array(groups, np.int64), bytes_array(rows))

    assert order.tolist() == sorted(range(len(rows)), key=lambda row: (groups[row], rows[row]))


@given(_ROWS, st.booleans())
def test_ascending_rows_are_known(rows: list[bytes], are_sorted: bool) -> None:
    """Each row is above the one before it: equal ones do not ascend. They are in order as such."""
    rows = sorted(terminated(rows)) if are_sorted else terminated(rows)

    ascends = ragged.ascends(bytes_array(rows))

    assert ascends == all(low < high for low, high in itertools.pairwise(rows))
    if ascends:
        assert ragged.last_of_equal(bytes_array(rows)).tolist() == [*range(len(rows))]


@given(st.lists(st.integers(0, 2**16 - 1), max_size=20), st.integers(0, 3))
def test_what_is_stored_is_loaded(numbers: list[int], first: int) -> None:
    """Aligned or not; bytes between the positions stay as they are."""
    buffer = np.full(first + 3 * len(numbers), 7, np.uint8)
    positions = first + 3 * np.arange(len(numbers))

    ragged.store(buffer, positions, np.array(numbers, np.int64), "<u2")

    assert ragged.load(buffer, positions, "<u2").tolist() == numbers
    assert (buffer[:first] == 7).all()
    assert (buffer[first + 2 :: 3] == 7).all()


@given(_ROWS, st.integers(0, 50))
def test_words_are_eight_bytes_from_a_place_on(rows: list[bytes], start: int) -> None:
    """Big endian; zeros beyond the end of a row."""
    words = ragged.words_at(bytes_array(rows), start)

    expected = [row[start : start + 8].ljust(8, b"\0") for row in rows]
    assert words.tolist() == [int.from_bytes(word, "big") for word in expected]


@given(_ROWS)
def test_first_of_equal_names_the_first_of_equal_rows(rows: list[bytes]) -> None:
    """Its index is returned, in the order of the rows' bytes."""
    rows = terminated(rows)

    firsts = ragged.first_of_equal(bytes_array(rows))

    assert firsts.tolist() == [rows.index(row) for row in sorted(set(rows))]


@given(_ROWS)
def test_distinct_rows_names_the_set_of_each_row(rows: list[bytes]) -> None:
    """The firsts are those of `first_of_equal`; a row's number is that of its set among them."""
    rows = terminated(rows)

    firsts, numbers = ragged.distinct_rows(bytes_array(rows))

    assert firsts.tolist() == ragged.first_of_equal(bytes_array(rows)).tolist()
    assert [rows[firsts[number]] for number in numbers.tolist()] == rows


@given(_ROWS)
def test_last_of_equal_names_the_last_of_equal_rows(rows: list[bytes]) -> None:
    """Its index is returned, in the order of the rows' bytes."""
    rows = terminated(rows)

    lasts = ragged.last_of_equal(bytes_array(rows))

    assert lasts.tolist() == [len(rows) - 1 - rows[::-1].index(row) for row in sorted(set(rows))]


@given(_ROWS)
def test_equal_neighbours_compares_each_row_with_the_one_before(rows: list[bytes]) -> None:
    """The result is one shorter than the rows, and true where a row repeats."""
    equal = ragged.equal_neighbours(bytes_array(rows))

    assert equal.tolist() == [a == b for a, b in itertools.pairwise(rows)]


@given(st.binary(min_size=1, max_size=200), st.data())
def test_gather_copies_rows_from_anywhere(content: bytes, data: st.DataObject) -> None:
    """Rows may be in any order and overlap; each equals a slice of the buffer."""
    spans = data.draw(
        st.lists(st.tuples(st.integers(0, len(content)), st.integers(0, len(content))), max_size=20)
    )
    starts = np.array([min(span) for span in spans], np.int64)
    lengths = np.array([abs(a - b) for a, b in spans], np.int64)

    rows = ragged.gather(np.frombuffer(content, np.uint8), starts, lengths)

    assert rows.to_pylist() == [content[min(span) : max(span)] for span in spans]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9)), max_size=20), st.integers(1, 8))
def test_expand_lists_the_positions_of_items(spans: list[tuple[int, int]], width: int) -> None:
    """The items of a row follow one another from its start."""
    starts = np.array([start for start, _ in spans], np.int64)
    counts = np.array([count for _, count in spans], np.int64)

    positions = ragged.expand(starts, counts, width)

    assert positions.tolist() == [start + i * width for start, count in spans for i in range(count)]


@given(_ROWS, _ROWS)
def test_concat_joins_row_by_row(left: list[bytes], right: list[bytes]) -> None:
    """Each row is the concatenation of its parts; a scalar is a part of every row."""
    rows = min(len(left), len(right))
    parts = [
        bytes_array(left[:rows]),
        pa.scalar(b"-", pa.large_binary()),
        bytes_array(right[:rows]),
    ]

    joined = ragged.concat(parts)

    assert joined.to_pylist() == [a + b"-" + b for a, b in zip(left, right, strict=False)]


def test_load_reads_unaligned_values() -> None:
    """A value may begin at any byte."""
    buffer = np.frombuffer(b"\x00" + (258).to_bytes(4, "little") + b"\x00", np.uint8)

    assert ragged.load(buffer, np.array([1]), "<u4").tolist() == [258]


def test_load_beyond_the_buffer_is_an_error() -> None:
    """A value that would end after the buffer is refused, also in an empty buffer."""
    with pytest.raises(IndexError):
        ragged.load(np.zeros(8, np.uint8), np.array([5]), "<u4")
    with pytest.raises(IndexError):
        ragged.load(np.zeros(3, np.uint8), np.array([0]), "<u4")
