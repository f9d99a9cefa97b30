"""A disk that is really full: nothing is written or lost, and the error says so."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from relstate.storage import Proposal, Store
from relstate.storage.errors import StorageFullError
from relstate.storage.segment.registry import registry
from support.faulty_environment import FaultyEnvironment
from support.places import in_folder
from support.stores import contents, unsynced, upsert

_ROOM = "3m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={_ROOM}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    registry.close(str(folder))
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(path: Path) -> None:
    """Fill the disk."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(file, bytes(4096)):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(file)


def test_a_full_disk_refuses_rows_and_loses_none(small_disk: Path) -> None:
    """Rows that do not fit are refused whole; earlier rows stay; then writes succeed again."""
    with Store.create(str(small_disk / "store"), vnode_count=3, shards=1) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        upsert(store, "t", [(1, "before")])
        epoch = store.epoch
        wide = [(key, "w" * 100_000) for key in range(100)]

        with pytest.raises(StorageFullError, match="no space left"):
            upsert(store, "t", wide)

        assert store.epoch == epoch
        assert contents(store, "t") == [(1, "before")]
        upsert(store, "t", [(2, "after")])
        assert contents(store, "t") == [(1, "before"), (2, "after")]
        assert store.check().problems == ()


def test_segments_that_cannot_be_made_durable_are_removed(tmp_path: Path) -> None:
    """They would occupy the disk, and a later sync might not report what was lost."""
    path = str(tmp_path / "store")
    with Store.create(path, vnode_count=3, shards=1, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    environment = FaultyEnvironment(path, error_at="sync segments/*", errno=errno.ENOSPC)
    with Store.open(path, environment=environment) as store:
        with pytest.raises(StorageFullError, match="no space left"):
            store.write("t", pa.table({"k": [1], "v": ["lost"]}))

        assert list((tmp_path / "store" / "segments").iterdir()) == []
        upsert(store, "t", [(2, "after")])
        assert contents(store, "t") == [(2, "after")]


def test_a_disk_too_full_for_the_log_refuses_the_commit(small_disk: Path) -> None:
    """Where not even the entry fits, nothing is committed, and the store can still be read."""
    with Store.create(str(small_disk / "store"), vnode_count=3, shards=1) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        upsert(store, "t", [(1, "before")])
        epoch = store.epoch
        filler = small_disk / "filler"
        _fill(filler)

        with pytest.raises(StorageFullError):
            store.truncate("t")

        assert store.epoch == epoch
        assert contents(store, "t") == [(1, "before")]
        filler.unlink()
        assert store.truncate("t") == epoch + 1
        assert store.check().problems == ()


@pytest.mark.parametrize("freeing", ["vacuum", "drop"])
def test_a_full_disk_can_be_vacuumed_and_its_tables_dropped(small_disk: Path, freeing: str) -> None:
    """The reserve makes room for the commit; what vacuum frees makes room for the next reserve."""
    with Store.create(str(small_disk / "store"), vnode_count=3, shards=1) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        for _ in range(3):
            upsert(store, "t", [(key, "w" * 1000) for key in range(100)])
        store.compact()
        _fill(small_disk / "filler")

        if freeing == "drop":
            store.drop_table("t")
        report = store.vacuum(retention=0)

        assert report.files >= 3
        assert (small_disk / "store" / ".reserve").stat().st_size == 65_536
        assert store.check().problems == ()


@pytest.mark.parametrize("freeing", ["vacuum", "drop", "replace", "truncate"])
def test_only_what_frees_space_uses_the_reserve(tmp_path: Path, freeing: str) -> None:
    """Where the entry does not fit: it is tried again without the reserve."""
    path = tmp_path / "store"
    with Store.create(str(path), environment=unsynced(str(path))) as store:
        store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
        upsert(store, "t", [(1, "a")])
        upsert(store, "t", [(1, "b")])
        store.create_table("u", "k BIGINT", primary_key=["k"])
        store.compact()
        epoch = store.epoch
    environment = FaultyEnvironment(path, error_at="write _log/*", errno=errno.ENOSPC)
    with Store.open(str(path), environment=environment) as store:
        if freeing == "truncate":
            with pytest.raises(StorageFullError):
                store.truncate("t")
            assert (store.epoch, environment.exists(".reserve")) == (epoch, True)
        elif freeing == "replace":
            target = store.jobs.write_target("u")
            with target.open(environment) as writer:
                writer.write(pa.record_batch({"k": pa.array([1], pa.int64())}))
                segments = writer.finish()
            dropped = (store.state.table("t").definition.table_id,)
            proposal = Proposal(
                operation="replace",
                started=environment.now(),
                segments=segments,
                dropped_tables=dropped,
            )
            assert store.jobs.commit(proposal).epoch == epoch + 1
            assert not environment.exists(".reserve")
        elif freeing == "drop":
            store.drop_table("t")
            assert (store.epoch, environment.exists(".reserve")) == (epoch + 1, False)
        else:
            assert store.vacuum(retention=0).files >= 2
            assert (store.epoch, environment.exists(".reserve")) == (epoch + 1, True)
            assert "remove .reserve" in environment.touches
        assert environment.struck


@in_folder
def test_a_file_size_limit_refuses_the_rows(store: Store) -> None:
    """A segment beyond the process's limit of a file's size is refused, not written in halves."""
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    upsert(store, "t", [(1, "before")])
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        from relstate.storage import Proposal, Store
        from relstate.storage.errors import StorageError

        store = Store.open(sys.argv[1])
        state = store.state_table("t")
        for key in range(100):
            state.insert([key, "w" * 100_000])
        try:
            state.commit()
        except StorageError:
            sys.exit(0)
        sys.exit(3)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), store.path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert contents(store, "t") == [(1, "before")]
