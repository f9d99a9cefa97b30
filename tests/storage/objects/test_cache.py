"""The cache of segments: bounded, filled once, and never emptied under a reader."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import xxhash

from relstate.storage.objects.cache import Cache

CONTENT = b"segment" * 100


def digest(content: bytes) -> str:
    """Return the hash of a content."""
    return xxhash.xxh3_64_hexdigest(content)


def path_of(cache: Cache, name: str) -> str:
    """Return the path of a segment in a cache."""
    return f"{cache.make_store('store', 's3://bucket/shop')}/segments/{name}.lmdb"


def fill(cache: Cache, name: str, content: bytes = CONTENT) -> object:
    """Return a lease of a segment that is made if it is missing."""
    return cache.fill(path_of(cache, name), len(content), digest(content), lambda: content)


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    """Threads and caches of other processes that need it meanwhile wait for the first."""
    fetches: list[int] = []

    def fetch() -> bytes:
        fetches.append(1)
        time.sleep(0.1)
        return CONTENT

    def read() -> None:
        cache = Cache(str(tmp_path), 1 << 20)
        cache.fill(path_of(cache, "a"), len(CONTENT), digest(CONTENT), fetch)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(fetches) == 1


def test_wrong_content_is_not_kept(tmp_path: Path) -> None:
    """Neither of another hash nor of another size."""
    cache = Cache(str(tmp_path), 1 << 20)
    path = path_of(cache, "a")

    for content in (b"x" * len(CONTENT), CONTENT[:-1]):
        with pytest.raises(ValueError, match="bytes of hash"):
            cache.fill(path, len(CONTENT), digest(CONTENT), lambda content=content: content)  # type: ignore[misc]

    assert os.listdir(os.path.dirname(path)) == []


def test_the_copies_opened_longest_ago_go_first(tmp_path: Path) -> None:
    """As many as there is no room for."""
    cache = Cache(str(tmp_path), 3 * len(CONTENT))
    for name in "abc":
        fill(cache, name)
        time.sleep(0.01)
    assert cache.lease(path_of(cache, "a"), len(CONTENT)) is not None

    fill(cache, "d")

    names = sorted(os.path.basename(file.path)[0] for file in cache.files())
    assert names == ["a", "c", "d"]


_HOLDER = """
import sys
from relstate.storage.objects.cache import Cache
lease = Cache(sys.argv[1], 1 << 20).lease(sys.argv[2], int(sys.argv[3]))
print(lease is not None, flush=True)
sys.stdin.read()
"""


def test_a_copy_that_another_process_has_open_stays(tmp_path: Path) -> None:
    """Whatever room is needed; when that process has ended, it may go."""
    cache = Cache(str(tmp_path), len(CONTENT))
    fill(cache, "held")
    command = [sys.executable, "-c", _HOLDER, str(tmp_path), path_of(cache, "held")]
    with subprocess.Popen(
        [*command, str(len(CONTENT))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"True\n"
        fill(cache, "b")
        assert cache.clear() == (1, len(CONTENT))
        assert [os.path.basename(file.path) for file in cache.files()] == ["held.lmdb"]
    assert cache.clear() == (1, len(CONTENT))
