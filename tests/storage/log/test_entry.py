"""Log entries as values and as bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from relstate.storage.errors import CorruptionError, FormatVersionError
from relstate.storage.log.entry import Entry, Transaction, decode_entry, encode_entry
from relstate.storage.log.file_frame import seal, unseal
from relstate.storage.log.segment_record import SegmentRecord, TableStatistics
from support.histories import histories

WRITE = Entry(
    commit_id="b" * 32,
    parent="a" * 32,
    epoch=7,
    time=1_767_268_800_000_000,
    started=1_767_268_799_000_000,
    operation="write",
    added=(
        SegmentRecord(
            "0c-1",
            4096,
            "00112233aabbccdd",
            (TableStatistics(3, 10, 2, b"\x00\x01", b"\xff", (0, 640), b"", b"\xff"),),
        ),
    ),
    transactions=(Transaction("query", 3, 5, "run"),),
)

# On disk: an entry of format 1, byte by byte. It must be readable, and written, for ever.
WRITE_BYTES = (
    b'{"checksum":"3287cd24224a217f","entry":{"added":[{"hash":"00112233aabbccdd","name":"0c-1","place":null,'
    b'"size":4096,"tables":[{"deletes":2,"first_key":"0001","greatest_key":"ff","last_key":"ff",'
    b'"least_key":"","rows":10,"shard_bytes":[0,640],"table_id":3}]}],"altered_tables":[],"altered_views":[],"based_tables":[],'
    b'"commit_id":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","created_tables":[],"created_views":[],"data_change":true,'
    b'"dropped_tables":[],"epoch":7,"format":1,"oldest_epoch":null,"operation":"write",'
    b'"parent":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","progress":[],"removed":[],"settings":null,'
    b'"started":1767268799000000,"time":1767268800000000,"transactions":[{"batch":5,"run":"run",'
    b'"table_id":3,"writer":"query"}]}}\n'
)


def test_an_entry_has_the_bytes_of_the_format() -> None:
    """The encoding of format 1 never changes."""
    assert encode_entry(WRITE) == WRITE_BYTES
    assert decode_entry(WRITE_BYTES, 7, "file") == WRITE


@given(histories())
def test_entries_come_back_as_they_were(history: list[Entry]) -> None:
    """Decoding undoes encoding."""
    assert [decode_entry(encode_entry(entry), entry.epoch, "file") for entry in history] == history


def test_a_later_format_is_told_apart_from_damage() -> None:
    """The message says to update, whatever else the entry holds."""
    later = seal("entry", {"format": 2, "anything": "else"})

    with pytest.raises(FormatVersionError, match=r"_log/7\.json: written in format 2.*update"):
        decode_entry(later, 7, "_log/7.json")


@pytest.mark.parametrize("value", [[], {}, {"format": "1"}, {"format": 0}, {"format": 1}, None])
def test_a_whole_file_that_is_no_entry_is_corrupt(value: object) -> None:
    """Wrong content under a right checksum is an error that names the file."""
    with pytest.raises(CorruptionError, match="/store/file: "):
        decode_entry(seal("entry", value), 7, "/store/file")


def test_an_entry_under_another_number_is_corrupt() -> None:
    """A renamed entry is refused."""
    with pytest.raises(CorruptionError, match="the entry of epoch 7, not of epoch 8"):
        decode_entry(WRITE_BYTES, 8, "file")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("removed", ["../../etc/passwd"]),
        ("added", [{**WRITE.added[0].to_json(), "name": "a/b"}]),
        ("added", [{**WRITE.added[0].to_json(), "place": [7]}]),
        ("created_tables", [{"table_id": 1, "name": "t", "schema": {}, "created_epoch": 7}]),
        ("transactions", [{}]),
    ],
)
def test_an_entry_that_says_the_impossible_is_corrupt(field: str, value: object) -> None:
    """Names never lead out of the store, fields are never missing."""
    content, _ = unseal("entry", WRITE_BYTES, "file")

    with pytest.raises(CorruptionError, match="file: its content is not a log entry"):
        decode_entry(seal("entry", {**content, field: value}), 7, "file")


def test_an_entry_is_json() -> None:
    """Anyone can read a log with a JSON tool, a line an entry."""
    assert json.loads(WRITE_BYTES)["entry"]["epoch"] == 7
