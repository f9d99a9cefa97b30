"""Libraries of locks, queues and caches run their examples on `relstate redis`.

Their releases are installed by pip and npm, into a folder of the run; a library that cannot be
installed is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relstate.storage import Store
from support.redis_servers import SECONDS, served

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]  # libraries are installed

_EXAMPLES = Path(__file__).parent
_PYTHON = {
    "rq": (["rq<1.12", "redis<5"], {"results": [3, 30], "failed": 1, "waiting": 0}),
    "celery": (["celery[redis]"], {"sum": 5, "group": [2, 4, 6], "chord": 12, "later": 9}),
    "huey": (["huey", "redis"], {"results": [5, 7], "locked": True, "scheduled": 0}),
    "dramatiq": (["dramatiq[redis]"], {"results": [6, 20], "tried": 2, "limited": [True, False]}),
    "redis-py": (["redis"], {"locked": [True, False, True], "most": 1, "owned": [True, False]}),
    "django-redis": (["django-redis"], {"value": {"a": 1}, "locked": [True, False], "pattern": 2}),
    "aiocache": (["aiocache[redis]"], {"shared": True, "results": [1, 1, 1], "swapped": [1, 0]}),
}
_NODE = {
    "redlock": (["redlock@4", "ioredis"], {"refused": True, "extended": True, "free": True}),
    "rate-limiter-flexible": (
        ["rate-limiter-flexible", "ioredis"],
        [2, 1, 0, "limited", "limited"],
    ),
    "bull": (["bull"], {"done": [1, 2, 3, 4], "result": 4, "completed": 4, "left": 0}),
    "bee-queue": (["bee-queue"], [5, 105]),
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a server."""
    with Store.create(str(tmp_path / "store")) as store, served(store) as server:
        yield f"redis://127.0.0.1:{server.settings.port}/0"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where libraries are installed, each in a folder of its own."""
    return tmp_path_factory.mktemp("libraries")


def _install(name: str, command: list[str], folder: Path) -> None:
    """Run an installer once for a library. Skips the test if it fails."""
    if (folder / "installed").exists():
        return
    folder.mkdir(exist_ok=True)
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    if result.returncode:
        pytest.skip(f"{name} cannot be installed: {result.stderr.strip()[-300:]}")
    (folder / "installed").touch()


def _run(command: list[str], environment: dict[str, str], folder: Path) -> Any:
    """Return what an example prints last."""
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return json.loads(result.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("name", ["BullMQ", "RQ from 1.12 on"])
def test_libraries_that_need_streams(name: str) -> None:
    """They are left out, by name: their examples cannot run without the commands of streams."""
    pytest.skip(f"{name} needs streams (XADD, XREAD), which relstate redis does not have")


@pytest.mark.parametrize("name", _PYTHON)
def test_libraries_of_python(url: str, folder: Path, name: str) -> None:
    """Their locks, queues and caches do what their documents say."""
    packages, expected = _PYTHON[name]
    target = folder / name
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(target / "packages")]
    _install(name, [*pip, *packages], target)
    example = str(_EXAMPLES / f"{name.replace('-', '_')}_example.txt")
    command = [sys.executable, example, url]
    assert _run(command, {"PYTHONPATH": str(target / "packages")}, target) == expected


@pytest.mark.parametrize("name", _NODE)
def test_libraries_of_node(url: str, folder: Path, name: str) -> None:
    """Their locks, queues and limits do what their documents say."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    packages, expected = _NODE[name]
    target = folder / name
    npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(target)]
    _install(name, [*npm, *packages], target)
    example = target / f"{name}.cjs"
    shutil.copy(_EXAMPLES / f"{name}.cjs", example)
    assert _run(["node", str(example), url], {}, target) == expected
