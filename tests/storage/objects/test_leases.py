"""Leases between processes: who holds one keeps a file, however others fork, stop or are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import xxhash

from relstate.storage.errors import FilesystemError
from relstate.storage.objects import leases as leases_module
from relstate.storage.objects.cache import Cache
from relstate.storage.objects.leases import leases_of

CONTENT = b"segment" * 100


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Return a cache with room for everything."""
    return Cache(str(tmp_path / "cache"), 1 << 30)


def path_of(cache: Cache, name: str) -> str:
    """Return the path of a segment in a cache."""
    return f"{cache.make_store('store', 's3://bucket/shop')}/segments/{name}.lmdb"


def fill(cache: Cache, name: str) -> object:
    """Return a lease of a segment that is made if it is missing."""
    digest = xxhash.xxh3_64_hexdigest(CONTENT)
    return cache.fill(path_of(cache, name), len(CONTENT), digest, lambda: CONTENT)


@contextmanager
def process(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script that prints a line when it is ready and ends at the end of its input."""
    head = "import os, sys\nfrom relstate.storage.objects.cache import Cache\n"
    with subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                started.send_signal(signal.SIGCONT)
            assert started.stdin is not None
            started.stdin.close()
            started.wait(60)


HOLDER = """
lease = Cache(sys.argv[1], 1 << 30).lease(sys.argv[2], int(sys.argv[3]))
print("ready" if lease else "missing", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_holds_nothing(cache: Cache) -> None:
    """What it had open may go at once."""
    path = path_of(cache, "a")
    fill(cache, "a")
    with process(HOLDER, cache.folder, path, str(len(CONTENT))) as holder:
        assert cache.clear() == (0, 0)
        holder.kill()
        holder.wait()
        assert cache.clear() == (1, len(CONTENT))


def test_a_file_is_held_under_every_name_of_the_folder(cache: Cache, tmp_path: Path) -> None:
    """A process that reaches the cache by a symbolic link holds the same files."""
    path = path_of(cache, "a")
    fill(cache, "a")
    link = tmp_path / "link"
    link.symlink_to(cache.folder)
    script = """
        cache = Cache(sys.argv[1], 1 << 30)
        lease = cache.lease(cache.folder + sys.argv[2], int(sys.argv[3]))
        print("ready" if lease else "missing", flush=True)
        sys.stdin.read()
    """
    with process(script, str(link), path.removeprefix(cache.folder), str(len(CONTENT))):
        assert cache.clear() == (0, 0)


def test_a_child_keeps_what_its_parent_had_open(cache: Cache) -> None:
    """Also after the parent has closed it; and what the child closes, the parent keeps."""
    fill(cache, "both")
    fill(cache, "parent")
    script = """
        import gc
        cache, size = Cache(sys.argv[1], 1 << 30), int(sys.argv[3])
        folder = sys.argv[2]
        both = cache.lease(folder + "both.lmdb", size)
        parent = cache.lease(folder + "parent.lmdb", size)
        read, write = os.pipe()
        if os.fork() == 0:
            del parent
            os.write(write, b"1")
            sys.stdin.read()
            os._exit(0)
        os.read(read, 1)
        del both
        print("ready" if parent else "missing", flush=True)
        sys.stdin.read()
    """
    folder = os.path.dirname(path_of(cache, "both")) + "/"
    with process(script, cache.folder, folder, str(len(CONTENT))):
        assert cache.clear() == (0, 0)
    assert cache.clear() == (2, 2 * len(CONTENT))


def test_a_child_does_not_hold_what_its_parent_is_fetching(cache: Cache) -> None:
    """Its parent is killed in the middle, the child lives on, and others make the copy."""
    path = path_of(cache, "a")
    script = """
        import threading, time
        cache, path = Cache(sys.argv[1], 1 << 30), sys.argv[2]
        def fetch():
            fetching.set()
            time.sleep(600)
        fetching = threading.Event()
        threading.Thread(target=cache.fill, args=(path, 1, "", fetch), daemon=True).start()
        fetching.wait()
        if os.fork() == 0:
            print("ready", flush=True)
            sys.stdin.read()
            os._exit(0)
        time.sleep(600)
    """
    done = threading.Event()

    def read() -> None:
        fill(cache, "a")
        done.set()

    with process(script, cache.folder, path) as fetching:
        threading.Thread(target=read, daemon=True).start()
        assert not done.wait(0.3)
        fetching.kill()
        fetching.wait()
        assert done.wait(60)


def test_a_file_that_is_being_written_stays(cache: Cache) -> None:
    """From before its first byte, under its name and under that of a copy in the making."""
    path = path_of(cache, "a")
    script = """
        cache, path = Cache(sys.argv[1], 1 << 30), sys.argv[2]
        lease = cache.lease_name(path)
        for name in (path, path + ".1-2.tmp"):
            open(name, "wb").write(b"half")
        print("ready", flush=True)
        sys.stdin.read()
    """
    with process(script, cache.folder, path):
        assert cache.clear() == (0, 0)
    assert cache.clear() == (2, 8)


READER = """
import random, time
import xxhash
cache, folder, content = Cache(sys.argv[1], int(sys.argv[2])), sys.argv[3], b"x" * 10_000
draw, held = random.Random(sys.argv[4]), {}
def fetch(name):
    with open(f"{folder}/fetched", "ab") as log:
        log.write(name.encode())
    return content
print("ready", flush=True)
end = time.monotonic() + 3
while time.monotonic() < end:
    name = draw.choice("abcdefghij")
    if name in held and draw.random() < 0.7:
        path, lease = held.pop(name)
        with open(path, "rb") as file:
            assert file.read() == content
        del lease
    elif len(held) < 3:
        path = f"{cache.folder}/store/segments/{name}.lmdb"
        digest = xxhash.xxh3_64_hexdigest(content)
        held[name] = path, cache.fill(path, len(content), digest, lambda: fetch(name))
        if draw.random() < 0.05:
            cache.clear()
        if draw.random() < 0.02 and os.fork() == 0:
            for path, _ in held.values():
                assert os.path.getsize(path) == len(content)
            held.clear()
            os._exit(0)
    for path, _ in held.values():
        assert os.path.getsize(path) == len(content)
"""


def test_no_process_loses_what_it_has_open(tmp_path: Path) -> None:
    """Four processes read ten files through a cache for three; they fork and clear; one dies."""
    cache = Cache(str(tmp_path / "cache"), 30_000)
    cache.make_store("store", "s3://bucket/shop")
    head = "import os, sys\nfrom relstate.storage.objects.cache import Cache\n"
    arguments = [cache.folder, "30000", str(tmp_path)]
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", head + READER, *arguments, str(seed)],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    assert readers[0].stdout is not None
    readers[0].stdout.readline()
    readers[0].kill()
    errors = [reader.communicate(timeout=60)[1] for reader in readers]

    assert [reader.returncode for reader in readers[1:]] == [0, 0, 0], errors
    assert (tmp_path / "fetched").stat().st_size > 10
    cache.clear()
    assert cache.files() == []


def test_processes_that_start_together_fetch_once(tmp_path: Path) -> None:
    """All of them need the same file; one makes it."""
    cache = Cache(str(tmp_path / "cache"), 1 << 30)
    path = path_of(cache, "a")
    script = """
import sys, time
from relstate.storage.objects.cache import Cache
def fetch():
    with open(sys.argv[3], "ab") as log:
        log.write(b"x")
    time.sleep(0.5)
    return b"x"
cache = Cache(sys.argv[1], 1 << 30)
cache.fill(sys.argv[2], 1, sys.argv[4], fetch)
"""
    digest = xxhash.xxh3_64_hexdigest(b"x")
    command = [sys.executable, "-c", script, cache.folder, path, str(tmp_path / "log"), digest]
    started = [subprocess.Popen(command) for _ in range(4)]

    assert [reader.wait(60) for reader in started] == [0, 0, 0, 0]
    assert (tmp_path / "log").read_bytes() == b"x"


def test_a_removed_cache_is_made_again(cache: Cache) -> None:
    """With the leases of a process that goes on, in a file that other processes see."""
    lease = fill(cache, "a")
    for path in (path_of(cache, "a"), f"{cache.folder}/leases"):
        os.unlink(path)
    lease = [lease, fill(cache, "a")]
    script = """
        print("ready", flush=True)
        sys.stdin.read()
        print(Cache(sys.argv[1], 1 << 30).clear())
    """
    with process(script, cache.folder) as other:
        assert other.communicate("")[0] == "(0, 0)\n"
    del lease
    assert cache.clear() == (1, len(CONTENT))


def test_a_stopped_process_does_not_stop_the_readers(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was removing the file: they say so after a while."""
    monkeypatch.setattr(leases_module, "_PATIENCE", 0.2)
    path = path_of(cache, "a")
    script = """
        import fcntl
        from relstate.storage.objects import leases
        held = leases.leases_of(sys.argv[1])
        leases._lock(held._new_descriptor(), fcntl.F_WRLCK, held._offset(sys.argv[2]))
        print("ready", flush=True)
        sys.stdin.read()
    """
    with (
        process(script, cache.folder, path),
        pytest.raises(FilesystemError, match="is it stopped"),
    ):
        cache.lease(path, 1)


def test_a_lease_ends_with_its_last_holder_in_a_process(cache: Cache) -> None:
    """Two caches of one folder share the leases, and each lease counts."""
    first = fill(cache, "a")
    again = Cache(cache.folder, 1 << 30)
    assert leases_of(again.folder) is leases_of(cache.folder)
    second = fill(again, "a")
    del first
    assert again.clear() == (0, 0)
    del second
    assert again.clear() == (1, len(CONTENT))


def test_an_unusable_folder_is_an_error_of_the_cache(tmp_path: Path) -> None:
    """And not one of the system."""
    (tmp_path / "file").write_bytes(b"")
    cache = Cache(str(tmp_path / "file" / "cache"), 1 << 30)

    with pytest.raises(FilesystemError, match="RELSTATE_CACHE_FOLDER"):
        cache.lease(f"{cache.folder}/store/segments/a.lmdb", 1)
