"""Laws of the headers of values: those of batches and of single values say the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.segment.block import Block
from relstate.storage.segment.key import HEADER, KIND_BITS, Kind
from relstate.storage.table.header import (
    BY_COLUMNS,
    FLAGS,
    NEVER,
    Headers,
    delete_value,
    encode_headers,
    has_expired,
    is_delete,
    read_header,
)

BODY = b"\x7frow"
_EXPIRY = st.integers(0, 2**62) | st.just(int(NEVER))
_ROWS = st.lists(st.tuples(st.sampled_from(Kind), _EXPIRY, st.sampled_from([0, BY_COLUMNS])))


def block_of(values: list[bytes]) -> Block:
    """Return a block of values, of whatever keys."""
    return Block.of_pairs([(b"%06d" % number, value) for number, value in enumerate(values)])


@given(_ROWS, st.integers(1, 3), st.none() | st.binary(max_size=3))
def test_headers_are_read_as_they_were_written(
    rows: list[tuple[Kind, int, int]], schema_version: int, version: bytes | None
) -> None:
    """Kind, flags, schema version, expiry, and where the body is: of all values and of each."""
    kinds, expiries, flags = (
        (list(column) for column in zip(*rows, strict=True))
        if rows
        else (
            [],
            [],
            [],
        )
    )
    headers = encode_headers(
        np.array(kinds, np.uint8),
        schema_version,
        len(rows),
        np.array(expiries, np.int64),
        None if version is None else pa.array([version] * len(rows), pa.large_binary()),
        np.array(flags, np.uint8),
    )
    values = [header + BODY for header in headers.to_pylist()]

    read = Headers(block_of(values))
    points = [read_header(value) for value in values]

    assert read.kinds.tolist() == kinds == [point.kind for point in points]
    assert (read.flags & BY_COLUMNS).tolist() == flags == [p.flags & BY_COLUMNS for p in points]
    assert read.expiries.tolist() == expiries
    assert [NEVER if point.expiry is None else point.expiry for point in points] == expiries
    assert set(read.schema_versions.tolist()) <= {schema_version}
    assert read.body_lengths.tolist() == [len(BODY)] * len(rows)
    assert [value[point.body_start :] for value, point in zip(values, points, strict=True)] == [
        BODY
    ] * len(rows)
    assert read.body_starts.tolist() == [
        start + point.body_start
        for start, point in zip(read.block.value_starts.tolist(), points, strict=True)
    ]
    assert [is_delete(value) for value in values] == [kind == Kind.DELETE for kind in kinds]
    assert [has_expired(value, lambda: 2**61) for value in values] == [
        expiry <= 2**61 for expiry in expiries
    ]


@given(st.integers(1, 2), st.sampled_from(Kind), st.booleans(), st.booleans())
def test_only_a_put_without_flags_of_the_first_schema_has_no_header(
    schema_version: int, kind: Kind, expires: bool, by_columns: bool
) -> None:
    """It has no header in any batch, so that equal rows have equal values."""
    expiries = np.array([1 if expires else NEVER, 1], np.int64)
    flags = BY_COLUMNS if by_columns else 0
    header = encode_headers(kind, schema_version, 2, expiries, flags=flags)[0].as_py()
    is_plain = (schema_version, kind, expires, by_columns) == (1, Kind.PUT, False, False)
    assert (header == b"") == is_plain
    if kind == Kind.DELETE and not expires and not by_columns:
        assert header == delete_value(schema_version)


@pytest.mark.parametrize("value", [b"\x89\x01\x00\x00", b"\x91\x01\x00\x05", b"\xa1\x01\x00"])
def test_a_value_that_ends_in_its_header_is_an_error(value: bytes) -> None:
    """No body follows it, and no bytes of other values are taken for it."""
    headers = Headers(block_of([value, b"\0" * 16]))
    with pytest.raises(ValueError, match="longer than the value"):
        _ = headers.body_lengths


def test_a_head_has_room_for_all_kinds_and_flags() -> None:
    """Kinds, flags and the bit of headers share no bit."""
    assert HEADER | FLAGS | KIND_BITS == 0xFF
    assert HEADER & FLAGS == FLAGS & KIND_BITS == HEADER & KIND_BITS == 0
    assert max(Kind) <= KIND_BITS
