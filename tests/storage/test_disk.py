"""The system calls of a disk, and the limits of the process."""

from __future__ import annotations

import io
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relstate.storage import disk as disk_module
from relstate.storage.disk import descriptor_limit, raise_descriptor_limit
from relstate.storage.local_environment import LocalEnvironment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store's folder with a folder in it."""
    (tmp_path / "store" / "_log").mkdir(parents=True)
    return tmp_path / "store"


def test_a_short_write_is_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may write less than it was given: the rest follows."""

    class ShortWrites(io.FileIO):
        def write(self, content: Any) -> int:
            return super().write(memoryview(content)[:3])

    monkeypatch.setattr(
        disk_module,
        "open",
        lambda descriptor, mode, buffering: ShortWrites(descriptor, mode),
        raising=False,
    )
    environment = LocalEnvironment(str(root))

    environment.write("_log/name", [b"content", np.frombuffer(b" and more", np.uint8).data])

    assert (root / "_log" / "name").read_bytes() == b"content and more"


def test_the_descriptor_limit_is_a_number_of_files() -> None:
    """Positive, and never the system's mark for infinity."""
    assert 3 < descriptor_limit() <= 1_000_000


def test_the_descriptor_limit_is_raised_as_far_as_it_may_be() -> None:
    """It never falls."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, 500), most))
        assert raise_descriptor_limit(600) == 600
        assert raise_descriptor_limit(100) == 600
        if most != resource.RLIM_INFINITY:
            assert raise_descriptor_limit(most + 1) == min(most, 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
