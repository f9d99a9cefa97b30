"""Laws of the segments that processes have open: forks, descriptors, closing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from relstate.storage import Store
from relstate.storage.segment.registry import registry
from support.places import in_folder
from support.stores import upsert


def run(script: str, *arguments: str) -> None:
    """Run Python in a process of its own; what it prints on failure is the message."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with a table of a few rows in two segments."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(key, "first") for key in range(10)])
    upsert(store, "t", [(5, "second")])
    return store


def test_a_file_is_open_once_however_many_read_it(filled: Store) -> None:
    """Two stores, a snapshot and a plan of one process read the same segments at once."""
    with Store.open(filled.path) as again:
        readers = [filled.table("t"), again.table("t"), again.at(again.epoch).table("t")]

        assert [reader.get(5) for reader in readers] == [(5, "second")] * 3
        assert filled.read_plan("t").open().get((4,)) == (4, "first")


def test_a_segment_closes_when_nobody_holds_it(filled: Store) -> None:
    """After the store is closed LMDB can open its files again: nothing holds them."""
    (segment, _) = filled.state.segments_of(1)
    table = filled.table("t")
    assert table.get(5) is not None
    del table
    held = registry.open(filled.environment, segment.record)
    registry.close(str(Path(filled.path) / "segments"))

    assert registry.open(filled.environment, segment.record) is held
    del held
    gc.collect()
    registry.close(str(Path(filled.path) / "segments"))
    reopened = registry.open(filled.environment, segment.record)

    assert len(list(reopened.blocks(None, None, 8))) == 1


def test_what_is_open_survives_a_fork(filled: Store) -> None:
    """A forked child reads files that its parent had open, and others; the parent continues."""
    script = """
        import os, sys
        from relstate.storage import Store

        store = Store.open(sys.argv[1])
        table = store.table("t")
        assert table.get(5) == (5, "second")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                again = Store.open(sys.argv[1])
                assert table.get(5) == again.table("t").get(5) == (5, "second")
                assert table.to_arrow().num_rows == again.at(3).table("t").count() == 10
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert table.get(4) == (4, "first")
        assert table.to_arrow().num_rows == 10
    """
    run(script, filled.path)


def test_a_lock_held_while_forking_does_not_stop_the_child(filled: Store) -> None:
    """Another thread may be opening a segment when the process forks; the child still can."""
    script = """
        import os, sys, threading
        from relstate.storage import Store
        from relstate.storage.segment.registry import registry

        def hold():
            with registry._lock:
                held.set()
                forked.wait()

        store = Store.open(sys.argv[1])
        held, forked = threading.Event(), threading.Event()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert store.table("t").get(5) == (5, "second")
                code = 0
            finally:
                os._exit(code)
        forked.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    run(script, filled.path)


def test_a_segment_read_while_forking_does_not_stop_the_child(filled: Store) -> None:
    """Another thread may be amid a read when the process forks; the child reads the same file."""
    script = """
        import os, sys
        from relstate.storage import Store
        from relstate.storage.segment.registry import registry

        store = Store.open(sys.argv[1])
        table = store.table("t")
        assert table.get(5) == (5, "second")
        for segment in list(registry._open.values()):
            segment._lock.__enter__()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert table.get_rows([(4,), (5,)]).num_rows == 2
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    run(script, filled.path)


def test_the_files_kept_open_stay_within_the_descriptor_limit(store: Store) -> None:
    """Many tables are read one after another with few descriptors."""
    for number in range(60):
        store.create_table(f"t{number}", "k BIGINT, v BIGINT", primary_key=["k"])
        upsert(store, f"t{number}", [(number, number)])
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        from relstate.storage import Store

        with Store.open(sys.argv[1]) as store:
            for turn in range(2):
                for number in range(60):
                    assert store.table(f"t{number}").get(number) == (number, number)
    """
    run(script, store.path)


def test_a_table_of_more_segments_than_descriptors_is_read(store: Store) -> None:
    """All at once, key by key and in order: only some of the files take a descriptor."""
    store.create_table("t", "k BIGINT, v BIGINT", primary_key=["k"])
    for number in range(150):
        upsert(store, "t", [(number, number), (-1, number)])
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        from relstate.storage import Store

        with Store.open(sys.argv[1]) as store:
            table, expected = store.table("t"), [-1, *range(150)]
            assert table.count() == 151
            assert [table.get(key) for key in range(150)] == [(key, key) for key in range(150)]
            assert table.get(-1) == (-1, 149)
            assert table.get(150) is None
            assert table.get_rows([(key,) for key in expected]).column("k").to_pylist() == expected
            assert table.to_arrow().column("k").to_pylist() == expected
            assert store.check().ok
    """
    run(script, store.path)


@in_folder
def test_what_vacuum_removed_is_released_at_the_next_look(filled: Store) -> None:
    """Another process has read the files; it keeps those that a snapshot of its own has opened."""
    for key in range(20, 30):
        upsert(filled, "t", [(key, "more")])
    filled.create_table("other", "k BIGINT", primary_key=["k"])
    upsert(filled, "other", [(1,)])
    script = """
        import os, sys
        from relstate.storage import Store

        def removed():
            with open("/proc/self/maps") as maps:
                mapped = {line.split()[5] for line in maps if "(deleted)" in line}
            links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
            names = [os.readlink(link) for link in links if os.path.lexists(link)]
            opened = {name.split()[0] for name in names if "(deleted)" in name}
            return {name for name in mapped | opened if name.endswith(".lmdb")}

        store = Store.open(sys.argv[1])
        other, then = store.table("other"), store.at(4).table("t")
        assert store.table("t").count() == 20
        assert then.count() == 10
        assert other.get(1) == (1,)
        print("read", flush=True)
        sys.stdin.readline()
        assert len(removed()) > 2, removed()
        assert other.get(1) == (1,)
        assert len(removed()) == 2, removed()
        assert then.get(5) == (5, "second")
        del then
        assert not removed(), removed()
        assert store.table("t").count() == 20
    """
    arguments = [sys.executable, "-c", textwrap.dedent(script), filled.path]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "read\n"
        filled.compact()
        filled.vacuum(0)
        _, errors = reader.communicate("\n", timeout=120)
    assert reader.returncode == 0, errors[-3000:]


def test_files_that_were_merged_away_do_not_stay_open(filled: Store) -> None:
    """A process that commits and reads for long, without a vacuum, opens no more and more."""
    table = filled.table("t")

    def descriptors_after(commits: int) -> int:
        for number in range(commits):
            upsert(filled, "t", [(number % 10, str(number))])
            assert table.get(number % 10) == (number % 10, str(number))
        return len(os.listdir("/proc/self/fd"))

    before = descriptors_after(100)

    assert descriptors_after(200) <= before + 100


def test_nothing_is_remembered_of_files_that_vacuum_removed(filled: Store) -> None:
    """Neither handles nor hashes: a process knows files that are there."""

    def remembered() -> set[str]:
        return {*registry.kept(filled.environment), *registry.verified(filled.environment)}

    with Store.open(filled.path) as other:
        for key in range(20):
            upsert(filled, "t", [(key, "more")])
            assert other.table("t").get(key) == (key, "more")
        before = remembered()
        filled.compact()
        assert other.table("t").count() == 20
        filled.vacuum(0)
        assert other.epoch == filled.epoch

    live = set(filled.state.segments)
    assert len(before) > 20
    assert before - live
    assert not remembered() - live


def test_closing_releases_every_descriptor(filled: Store) -> None:
    """Opening, reading and closing a store again and again leaves no file open."""

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    filled.close()
    before = descriptors()
    for _ in range(5):
        with Store.open(filled.path) as again:
            assert again.table("t").count() == 10

    assert descriptors() <= before
