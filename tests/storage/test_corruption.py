"""What a damaged segment does: an error that names the file, never wrong rows, never a crash."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import Store
from relstate.storage.errors import CorruptionError, SegmentMissingError
from relstate.storage.segment.registry import registry

_ROWS = 3000


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[..., tuple[Store, Path]]:
    """Make a store with one segment of many leaf pages and some overflow pages.

    Each call makes a new one, closed once, so that no file of it is open in this process.
    """
    made = 0

    def make(letter: str = "v") -> tuple[Store, Path]:
        nonlocal made
        made += 1
        path = tmp_path / f"store{made}"
        with Store.create(str(path), vnode_count=3, shards=1) as store:
            store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
            state = store.state_table("t")
            for key in range(_ROWS):
                state.insert([key, letter * (5000 if key % 100 == 0 else 40)])
            state.commit()
        (segment,) = (path / "segments").glob("*.lmdb")
        return Store.open(str(path)), segment

    return make


def _read_everything(store: Store) -> None:
    table = store.table("t")
    assert table.get(1) is not None
    assert table.to_arrow().num_rows == _ROWS


def _flip(segment: Path, position: int) -> None:
    with segment.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


@pytest.mark.parametrize("part", [0.0001, 0.01, 0.2, 0.5, 0.8, 0.999])
def test_a_flipped_bit_is_found_before_anything_is_read(
    damaged: Callable[..., tuple[Store, Path]], part: float
) -> None:
    """One bit, in a meta page, a branch, a leaf or an overflow page: CorruptionError."""
    store, segment = damaged()
    _flip(segment, int(segment.stat().st_size * part))

    for read in (lambda: store.table("t").get(1), lambda: store.table("t").to_arrow()):
        with pytest.raises(CorruptionError, match=segment.name):
            read()
    assert any(segment.name in problem for problem in store.check().problems)


@pytest.mark.parametrize("size", [0, 100, 4096, 4096 * 5 + 7])
def test_a_truncated_segment_is_never_mapped(
    damaged: Callable[..., tuple[Store, Path]], size: int
) -> None:
    """A file shorter than the log says is refused by its size, whatever ``verify`` says."""
    store, segment = damaged()
    os.truncate(segment, size)

    with pytest.raises(CorruptionError, match=segment.name):
        store.table("t").get(1)
    plan = store.read_plan("t")
    trusting = replace(plan, verify="size")
    with pytest.raises(CorruptionError, match=segment.name):
        trusting.open().get((1,))
    assert any(segment.name in problem for problem in store.check().problems)


def test_a_replaced_segment_is_refused(damaged: Callable[..., tuple[Store, Path]]) -> None:
    """Another store's segment of the same size is not this store's."""
    store, segment = damaged()
    _, replacement = damaged("w")
    assert replacement.stat().st_size == segment.stat().st_size
    os.replace(replacement, segment)

    with pytest.raises(CorruptionError, match=segment.name):
        _read_everything(store)


def test_a_missing_segment_is_an_error(damaged: Callable[..., tuple[Store, Path]]) -> None:
    """A segment that the log names but the disk lacks is an error, for reads and the check."""
    store, segment = damaged()
    segment.unlink()

    with pytest.raises(SegmentMissingError, match=segment.name):
        _read_everything(store)
    assert any(segment.name in problem for problem in store.check().problems)


def test_the_check_goes_on_after_a_problem(damaged: Callable[..., tuple[Store, Path]]) -> None:
    """Of two damaged segments the check names both."""
    store, first = damaged()
    state = store.state_table("t")
    state.insert([-1, "another segment"])
    state.commit()
    store.close()
    store = Store.open(store.path)
    second = next(path for path in first.parent.glob("*.lmdb") if path != first)
    _flip(first, 9000)
    os.truncate(second, 10)

    problems = store.check().problems

    assert len(problems) == 2
    assert {first.name in " ".join(problems), second.name in " ".join(problems)} == {True}


def test_a_damaged_page_behind_a_trusted_hash_is_an_error(
    damaged: Callable[..., tuple[Store, Path]],
) -> None:
    """With ``verify="size"`` a node that points nowhere is an error, or harmless."""
    store, segment = damaged()
    plan = store.read_plan("t")
    original = segment.read_bytes()
    for page in range(2, min(len(original) // 4096, 40)):
        # The number of entries, and the first pointer, of every page in turn.
        for field in (13, 17):
            _flip(segment, page * 4096 + field)
            trusting = replace(plan, verify="size")
            with suppress(CorruptionError):
                assert sum(batch.num_rows for batch in trusting.read((range(3),))) <= _ROWS
            # The next opening must look at the file again.
            registry.close(str(segment.parent))
            segment.write_bytes(original)


def test_damage_in_a_group_of_rows_with_long_keys_is_an_error(tmp_path: Path) -> None:
    """A lookup whose entry is there, but does not hold its rows, is not a plain miss."""
    store = Store.create(str(tmp_path / "store"), vnode_count=3, shards=1)
    store.create_table("t", "k STRING, v STRING", primary_key=["k"])
    table, key = store.table("t"), "k" * 600
    store.write("t", pa.table({"k": [key], "v": ["value"]}))
    assert table.get(key) is not None
    (segment,) = (tmp_path / "store" / "segments").glob("*.lmdb")
    original = segment.read_bytes()

    # The number of the group's rows, before an end of 4 bytes and one of 8.
    (count,) = re.finditer(rb"\x01\x00{3}..\x00{2}.\x00{7}k", original, re.DOTALL)
    with segment.open("r+b") as file:
        file.seek(count.start())
        file.write(b"\xff")
    with pytest.raises(CorruptionError, match="run check"):
        table.get(key)
    segment.write_bytes(original)
    assert table.get(key) is not None


@pytest.mark.parametrize("way", ["in place", "another file"])
def test_a_file_damaged_while_it_is_open_is_named_until_it_is_restored(
    damaged: Callable[..., tuple[Store, Path]], way: str
) -> None:
    """Every lookup names it; once it is whole again, the same table finds its rows."""
    store, segment = damaged()
    table = store.table("t")
    row = table.get(1)
    original = segment.read_bytes()
    _clear_kinds_of_pages(segment)

    for _ in range(3):
        with pytest.raises(CorruptionError, match=segment.name):
            table.get(1)
        with pytest.raises(CorruptionError, match=segment.name):
            table.get_rows([(1,), (2,)])

    if way == "in place":
        with segment.open("r+b") as file:
            file.write(original)
    else:
        copy = segment.with_name("copy")
        copy.write_bytes(original)
        copy.replace(segment)
    assert table.get(1) == row
    assert table.get_rows([(1,), (2,)]).num_rows == 2
    _read_everything(store)


def _clear_kinds_of_pages(segment: Path) -> None:
    """Clear the kind of every page of the tree, in place: LMDB finds that damaged."""
    with segment.open("r+b") as file:
        for page in range(2, segment.stat().st_size // 4096):
            file.seek(page * 4096 + 10)
            file.write(b"\0\0")


def test_a_file_changed_while_the_store_is_closed_is_verified_again(
    damaged: Callable[..., tuple[Store, Path]],
) -> None:
    """Its hash was right when this process first opened it; then the file was changed."""
    store, segment = damaged()
    _read_everything(store)
    store.close()
    _flip(segment, segment.stat().st_size // 2)

    with (
        Store.open(store.path) as again,
        pytest.raises(CorruptionError, match=f"{segment.name}.*hash"),
    ):
        again.table("t").get(1)
