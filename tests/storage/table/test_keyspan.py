"""Spans of primary keys: which files a read needs, and which have rows in common."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from relstate.storage import Store
from relstate.storage.log.segment_record import KEY_BOUND_BYTES
from relstate.storage.paths import SEGMENTS, segment_path
from relstate.storage.segment.registry import registry
from relstate.storage.table.keylookups import VnodeFiles
from relstate.storage.table.keyspan import (
    KeySpan,
    KeyWords,
    PrimaryKeyRanges,
    disjoint_groups,
)
from support.stores import committed, contents, rows_of, upsert, written

# Keys of one or two bytes, of which none begins with another, and one that is cut.
KEYS = [b"\x01", b"\x02\x01", b"\x02\x02", b"\x02\xff", b"\x03", b"\x04" * (KEY_BOUND_BYTES + 1)]
PREFIXES = [b"\x07\x00", b"\x07\xfe", b"\x07\xff"]
keys_of_files = st.lists(st.sets(st.sampled_from(KEYS), min_size=1), min_size=1, max_size=5)
ends = st.none() | st.sampled_from([*KEYS, b"\x02", b"\x05", b"\x04" * KEY_BOUND_BYTES])


def span_of_keys(keys: set[bytes]) -> KeySpan:
    """Return the span of some keys, as a file has it."""
    cut = [key[:KEY_BOUND_BYTES] for key in keys]
    return KeySpan(min(cut), max(cut))


@given(keys_of_files, st.data())
def test_a_row_is_in_files_of_one_group(files: list[set[bytes]], data: st.DataObject) -> None:
    """Whatever its vnode; and every file is in one group."""
    entries = [
        sorted(data.draw(st.sampled_from(PREFIXES)) + key for key in sorted(keys)) for keys in files
    ]

    groups = disjoint_groups(
        [span_of_keys(keys) for keys in files], [(keys[0], keys[-1]) for keys in entries]
    )

    assert sorted(number for group in groups for number in group) == list(range(len(files)))
    assert all(group == sorted(group) for group in groups)
    group_of = {number: index for index, group in enumerate(groups) for number in group}
    for left, left_keys in enumerate(entries):
        for right, right_keys in enumerate(entries):
            assert group_of[left] == group_of[right] or not {*left_keys} & {*right_keys}


@example({KEYS[-1]}, [(KEYS[-1], None)])
@given(st.sets(st.sampled_from(KEYS), min_size=1), st.lists(st.tuples(ends, ends), max_size=3))
def test_a_file_is_read_if_a_range_has_one_of_its_keys(
    keys: set[bytes], ranges: list[tuple[bytes | None, bytes | None]]
) -> None:
    """And not if all of its keys are before or after all ranges."""
    bounds = [(low or b"", high) for low, high in ranges]
    last = PREFIXES[-1]
    full = [(last + low, b"\x08\x00" if high is None else last + high) for low, high in bounds]

    may_meet = PrimaryKeyRanges.of(full, len(last)).may_meet(span_of_keys(keys))

    has_one = any(
        low <= key and (high is None or key < high) for low, high in bounds for key in keys
    )
    assert may_meet or not has_one
    is_outside = all(max(keys) < low for low, _ in bounds) or all(
        high is not None and high <= min(keys)[:KEY_BOUND_BYTES] for _, high in bounds
    )
    assert not (may_meet and is_outside and max(map(len, keys)) < KEY_BOUND_BYTES)


@example([{KEYS[-1]}], [KEYS[-1]])
@given(keys_of_files, st.lists(st.sampled_from(KEYS), min_size=1, max_size=9))
def test_words_let_the_keys_of_a_span_pass(files: list[set[bytes]], asked: list[bytes]) -> None:
    """Of any lengths, with or without what all spans have in common."""
    spans = [span_of_keys(keys) for keys in files]
    keys = [PREFIXES[number % 3] + key for number, key in enumerate(asked)]
    words = KeyWords.of(pa.array(keys, pa.large_binary()), 2, spans)

    for span, held in zip(spans, files, strict=True):
        within = words.are_within(span, slice(0, len(keys)))
        passes = [True] * len(keys) if within is None else within.tolist()
        assert all(passes[number] for number, key in enumerate(asked) if key in held)


@given(keys_of_files)
def test_a_lookup_asks_the_files_that_may_have_its_key(files: list[set[bytes]]) -> None:
    """The newest first; no others if most files are told apart by their keys."""
    spans = [span_of_keys(keys) for keys in files]

    vnode = VnodeFiles.of(tuple(range(len(files))), spans)

    counts = []
    for key in KEYS:
        numbers = vnode.by_span[bisect_right(vnode.bounds, key)]
        assert list(numbers) == sorted(numbers)
        assert {number for number, keys in enumerate(files) if key in keys} <= {*numbers}
        cut = key[:KEY_BOUND_BYTES]
        counts.append(sum(span.least <= cut <= span.greatest for span in spans))
        assert len(numbers) == (counts[-1] if vnode.bounds else len(files))
    assert bool(vnode.bounds) == (max(counts) * 2 <= len(files))


def load(store: Store, *parts: range) -> None:
    """Write each part of a load to a file of its own, all in one commit, as tasks do."""
    files = [written(store, "t", [(key, key) for key in part]) for part in parts]
    committed(store, [segment for segments in files for segment in segments])


def test_files_of_other_keys_are_not_merged(store: Store) -> None:
    """Those of a load that is cut by key; an upsert is merged with the files that it changes."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    load(store, range(100), range(100, 200), range(200, 300))

    def groups() -> list[list[int]]:
        table = store.read_plan("t").open()
        scan = table.scan_of((), None)
        assert scan.parts is not None
        parts = scan.parts(table.encoding.vnode_bounds(range(table.encoding.vnode_count)))
        return sorted(sorted(map(scan.sources.index, part)) for part in parts)

    assert groups() == [[0], [1], [2]]
    assert store.read_plan("t").rows_by_log() == 300
    upsert(store, "t", [(205, -1), (299, -2)])
    assert groups() == [[0, 1], [2], [3]]
    assert store.read_plan("t").rows_by_log() is None
    expected = [(key, {205: -1, 299: -2}.get(key, key)) for key in range(300)]
    assert contents(store, "t") == expected
    assert [store.table("t").get(key) for key in range(-1, 301)] == [None, *expected, None]
    assert store.table("t").count() == 300


def test_a_read_of_a_range_opens_the_files_of_its_keys(store: Store) -> None:
    """Others are not even looked at: they may be on a server, or gone."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    load(store, range(-100, 100), range(100, 200), range(200, 300))
    newest, _, oldest = (segment_path(s.record.name) for s in store.state.segments_of(1))
    registry.close(store.environment.local_path(SEGMENTS))
    paths = [Path(store.environment.local_path(path)) for path in (newest, oldest)]
    for path in paths:
        path.rename(path.with_suffix(".away"))

    plan = store.read_plan("t").filtered("k >= 150 AND k < 160 OR k > 190 AND k < 200")

    assert plan.examined_bytes() < plan.stored_bytes
    batches = [batch for units in plan.partitions(2) for batch in plan.read(units)]
    keys = sorted(key for batch in batches for key in batch["k"].to_pylist())
    assert keys == [*range(150, 160), *range(191, 200)]
    for path in paths:
        path.with_suffix(".away").rename(path)


def test_a_file_that_a_reader_has_opened_stays_open(store: Store) -> None:
    """Also if it was opened for some keys only, and is removed: a vacuum may do so."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    load(store, range(100), range(100, 200))
    table = store.read_plan("t").open()
    keys = pa.record_batch({"k": [5, 7]})
    expected = table.get_rows(keys)[1]
    registry.close(store.environment.local_path(SEGMENTS))
    oldest = store.state.segments_of(1)[-1]
    path = Path(store.environment.local_path(segment_path(oldest.name)))
    path.rename(path.with_suffix(".away"))

    assert table.get_rows(keys)[1] == expected
    assert rows_of(expected) == [(5, 5), (7, 7)]
    path.with_suffix(".away").rename(path)
