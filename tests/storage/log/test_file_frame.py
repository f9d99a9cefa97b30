"""The frame of the log's files: every changed byte is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import CorruptionError
from relstate.storage.log.file_frame import canonical, seal, unseal

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
LINES = st.lists(st.from_regex(rb"[ -~]{0,20}", fullmatch=True), max_size=3)
SEALED = seal("entry", {"epoch": 7, "name": "orders"}, [b'{"a":1}', b"{}"])


@given(VALUES, LINES)
def test_what_was_sealed_comes_back(value: object, lines: list[bytes]) -> None:
    """Unsealing undoes sealing."""
    assert unseal("entry", seal("entry", value, lines), "file") == (value, lines)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_one_value_has_one_encoding(value: dict[str, object]) -> None:
    """The order in which an object was filled does not show."""
    backwards = dict(reversed(value.items()))

    assert canonical(value) == canonical(backwards)
    assert b"\n" not in canonical(value)


def test_every_flipped_bit_is_found() -> None:
    """In the frame, the checksum, the value or a line."""
    for at in range(len(SEALED)):
        for bit in range(8):
            damaged = bytearray(SEALED)
            damaged[at] ^= 1 << bit
            with pytest.raises(CorruptionError, match="/store/file: "):
                unseal("entry", bytes(damaged), "/store/file")


def test_every_truncation_is_found() -> None:
    """Down to nothing."""
    for length in range(len(SEALED)):
        with pytest.raises(CorruptionError, match="/store/file: "):
            unseal("entry", SEALED[:length], "/store/file")


@given(st.binary(min_size=1, max_size=4))
def test_every_added_byte_is_found(tail: bytes) -> None:
    """Bytes after the end of the file are an error."""
    with pytest.raises(CorruptionError):
        unseal("entry", SEALED + tail, "file")


def test_a_file_of_another_kind_is_found() -> None:
    """A checkpoint instead of an entry is whole, but refused."""
    with pytest.raises(CorruptionError, match="is not of kind 'entry'"):
        unseal("entry", seal("checkpoint", {}), "file")


def test_what_json_cannot_say_is_refused() -> None:
    """NaN would not be read back by every JSON reader."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))
