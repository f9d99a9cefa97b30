"""Laws of damage that no hash has found: it ends in an error or in other rows, never in a crash.

With ``verify="size"`` a process reads files whose hashes it has not verified. Scans use `page`,
which must stay within the file whatever the file contains.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from relstate.storage import Store
from support.stores import unsynced, upsert

_SCRIPT = """
    import random, sys
    from dataclasses import replace
    from pathlib import Path
    from relstate.storage import Store
    from relstate.storage.errors import CorruptionError
    from relstate.storage.segment.registry import SegmentRegistry, registry

    path, seed, is_field = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "field"
    chance = random.Random(seed)
    plan = replace(Store.open(path).read_plan("t"), verify="size")
    (file,) = Path(path, "segments").iterdir()
    whole = file.read_bytes()
    outcomes = {"rows": 0, "error": 0}
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 1, 3])):
            page = chance.randrange(len(whole) // 4096) * 4096
            # Headers, pointers and the first node of a page lead elsewhere; other bytes may not.
            place = page + (chance.randrange(64) if is_field else chance.randrange(4096))
            damaged[place] = chance.choice([0, 255, damaged[place] ^ (1 << chance.randrange(8))])
        file.write_bytes(damaged)
        for read in (
            lambda table: list(table.scan()),
            lambda table: list(table.scan_in_order(descending=True)),
            lambda table: table.count(),
        ):
            try:
                read(plan.open())
                outcomes["rows"] += 1
            except CorruptionError:
                outcomes["error"] += 1
            registry.close(str(file.parent))
    assert min(outcomes.values()) > 10, outcomes
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a store with one segment of leaf, branch and overflow pages and long keys."""
    path = str(tmp_path_factory.mktemp("damage") / "store")
    with Store.create(path, vnode_count=3, environment=unsynced(path)) as store:
        store.create_table("t", "k STRING, v ARRAY<STRING>, w INT", primary_key=["k"])
        letters = {0: "k" * 600, 1: "m" * 480, 2: ""}
        rows = [
            (f"{letters[key % 3]}{key:04}", [f"v{key}", None] * (key % 37 * 4), key)
            for key in range(600)
        ]
        upsert(store, "t", rows, deleted=[(f"x{key}", None, None) for key in range(20)])
    return path


@pytest.mark.parametrize("where", ["field", "anywhere"])
@pytest.mark.parametrize("seed", [1])
def test_scans_of_damaged_pages_end(path: str, seed: int, where: str, tmp_path: Path) -> None:
    """A process that scans 150 damaged files gets errors or rows, and does not crash."""
    copy = tmp_path / "store"
    subprocess.run(["cp", "-r", path, str(copy)], check=True)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_SCRIPT), str(copy), str(seed), where],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
