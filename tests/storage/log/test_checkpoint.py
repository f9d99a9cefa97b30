"""Checkpoints: a state as bytes, equal whichever entries it was folded from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.errors import CorruptionError, FormatVersionError
from relstate.storage.log.checkpoint import decode_checkpoint, encode_checkpoint
from relstate.storage.log.entry import Entry
from relstate.storage.log.file_frame import seal, unseal
from relstate.storage.log.live_segments import LiveSegments
from relstate.storage.log.state import StoreState, fold
from support.commits import record
from support.histories import FIRST, definition, following, histories


def state_with_segments() -> StoreState:
    """Return a state with a table and two segments."""
    state = StoreState.first(FIRST)
    state = state.apply(following(state, created_tables=(definition(state, "orders"),)))
    return state.apply(following(state, added=(record("a", 1), record("b", 1))))


@given(histories(), st.data())
def test_a_fold_through_checkpoints_is_the_fold(history: list[Entry], data: st.DataObject) -> None:
    """Cut the log anywhere, twice: the state, and the bytes of its checkpoint, are the same."""
    first, *rest = history
    whole = fold(StoreState.first(first), rest)
    cuts = sorted(data.draw(st.tuples(st.integers(0, len(rest)), st.integers(0, len(rest)))))

    state = StoreState.first(first)
    for part in (rest[: cuts[0]], rest[cuts[0] : cuts[1]], rest[cuts[1] :]):
        state = fold(state, part)
        state = decode_checkpoint(encode_checkpoint(state), state.epoch, "file")

    assert encode_checkpoint(state) == encode_checkpoint(whole)
    assert state == whole


@given(histories())
def test_equal_states_have_equal_bytes(history: list[Entry]) -> None:
    """The order in which mappings were filled does not show."""
    state = fold(StoreState.first(history[0]), history[1:])
    backwards = replace(
        state,
        tables=dict(reversed([*state.tables.items()])),
        segments=LiveSegments.of(reversed([*state.segments.values()])),
        transactions=dict(reversed([*state.transactions.items()])),
    )

    assert backwards == state
    assert encode_checkpoint(backwards) == encode_checkpoint(state)


def test_every_flipped_byte_is_found() -> None:
    """Also in a record that is decoded later."""
    data = encode_checkpoint(state_with_segments())
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with pytest.raises(CorruptionError, match="/store/file: "):
            decode_checkpoint(bytes(damaged), 3, "/store/file")


def test_a_checkpoint_under_another_number_is_corrupt() -> None:
    """A renamed checkpoint is refused."""
    with pytest.raises(CorruptionError, match="the state of epoch 3, not of epoch 4"):
        decode_checkpoint(encode_checkpoint(state_with_segments()), 4, "file")


def test_a_later_format_is_told_apart_from_damage() -> None:
    """The message says to update."""
    with pytest.raises(FormatVersionError, match="written in format 2"):
        decode_checkpoint(seal("checkpoint", {"format": 2}), 3, "file")


def test_missing_or_surplus_records_are_corrupt() -> None:
    """As many lines as segments, even under a right checksum."""
    value, lines = unseal("checkpoint", encode_checkpoint(state_with_segments()), "file")

    for wrong in (lines[:1], [*lines, lines[0]]):
        with pytest.raises(CorruptionError, match="file: its content is not a checkpoint"):
            decode_checkpoint(seal("checkpoint", value, wrong), 3, "file")


def test_a_record_that_is_not_its_segments_is_corrupt() -> None:
    """It is found at the first access to the record; the error names the segment."""
    value, lines = unseal("checkpoint", encode_checkpoint(state_with_segments()), "file")

    for wrong in ([lines[1], lines[0]], [b"{}", b"{}"], [b"", b"["]):
        state = decode_checkpoint(seal("checkpoint", value, wrong), 3, "file")
        with pytest.raises(CorruptionError, match="segment a in the log's checkpoint"):
            _ = state.segments["a"].record
