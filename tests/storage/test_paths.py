"""Names on disk: built and parsed in one place, never leading out of the store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relstate.storage.paths import (
    BLOCK,
    LogFile,
    archive_path,
    block_of,
    checkpoint_path,
    entry_path,
    failure_path,
    is_segment_name,
    parse_log_file,
    parse_segment_file,
    segment_path,
)

EPOCHS = st.integers(1, 2**40 - 1)


def test_names_are_those_of_the_format() -> None:
    """The names on disk, as documented; they never change."""
    assert entry_path(42) == "_log/00000000000000000042.json"
    assert checkpoint_path(64) == "_log/00000000000000000064.checkpoint.json"
    assert archive_path(33) == "_archive/00000000000000000033-00000000000000000064.json"
    assert segment_path("ab12-0") == "segments/ab12-0.lmdb"
    assert failure_path(12, 42) == "_failures/0000000012-00000000000000000042.json"


@given(EPOCHS)
def test_log_files_are_parsed_back(epoch: int) -> None:
    """Parsing undoes building, for entries and checkpoints."""
    assert parse_log_file(entry_path(epoch).removeprefix("_log/")) == LogFile("entry", epoch)
    checkpoint = checkpoint_path(epoch).removeprefix("_log/")
    assert parse_log_file(checkpoint) == LogFile("checkpoint", epoch)


@given(EPOCHS, EPOCHS)
def test_names_sort_as_epochs_do(left: int, right: int) -> None:
    """A sorted listing of entries is in the order of the epochs."""
    assert (entry_path(left) < entry_path(right)) == (left < right)


@given(EPOCHS)
def test_blocks_divide_the_epochs(epoch: int) -> None:
    """An epoch is in its block, blocks end at multiples of 32 and have one archive each."""
    block = block_of(epoch)

    assert epoch in block
    assert len(block) == BLOCK == 32
    assert block[-1] % BLOCK == 0
    assert {archive_path(epoch), archive_path(block[0]), archive_path(block[-1])} == {
        archive_path(epoch)
    }


@pytest.mark.parametrize(
    "file",
    [
        "latest",
        "42.json",
        "00000000000000000000.json",
        "00000000000000000042.json.0a1b.tmp",
        "00000000000000000042.json\n",
        "00000000000000000042.checkpoint",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.json",
        "",
    ],
)
def test_foreign_files_are_not_the_logs(file: str) -> None:
    """A file with a name of another form is not taken for an epoch."""
    assert parse_log_file(file) is None


@given(st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}", fullmatch=True))
def test_segment_files_are_parsed_back(name: str) -> None:
    """Parsing undoes building, for every name a segment can have."""
    if is_segment_name(name):
        assert parse_segment_file(segment_path(name).removeprefix("segments/")) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/b", "a\\b", "a\0", "a.b", "é", "-a", "a" * 129]
)
def test_a_segment_name_never_leaves_the_folder(name: str) -> None:
    """Neither a damaged log nor a hostile one can name a file elsewhere."""
    assert not is_segment_name(name)
    with pytest.raises(ValueError, match="is not the name of a segment"):
        segment_path(name)


@given(st.text(max_size=30))
def test_any_text_is_parsed_without_trouble(file: str) -> None:
    """A folder may hold files of any name."""
    segment = parse_segment_file(file)
    assert segment is None or segment_path(segment) == f"segments/{file}"
    parsed = parse_log_file(file)
    assert parsed is None or f"{parsed.epoch:020d}" in file
