"""Log files with right checksums and wrong content: calls end soon, maybe with an error of ours."""

from __future__ import annotations

import copy
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import xxhash

from relstate.storage import Store
from relstate.storage.errors import CorruptionError, RelstateError
from relstate.storage.log.file_frame import seal, unseal
from relstate.storage.paths import checkpoint_path, entry_path
from relstate.storage.segment.registry import registry
from support.examples import examples
from support.stores import unsynced, upsert
from support.views import new_view, progressed, refresh

# What a number, a text or a list is replaced by.
_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    2**31,
    2**63,
    10**400,
    1.5,
    "",
    "x",
    "\0" * 9,
    [],
    [None],
    [[0, 10**15]],
    {},
    {"type": "array"},
    "decimal(99,5)",
)
_SECONDS = 30.0


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a table, rows, a view, a compaction and a checkpoint, at epoch 34."""
    path = str(tmp_path_factory.mktemp("original") / "store")
    with Store.create(path, vnode_count=8, shards=2, environment=unsynced(path)) as store:
        store.create_table("t", "k BIGINT, v STRING, a ARRAY<INT>", primary_key=["k"])
        store.view_catalog.create(new_view(store, "v", "t"))
        upsert(store, "t", [(1, "a", [1]), (2, "b", None)])
        refresh(store, progressed(store, "v"))
        store.add_columns("t", "w DECIMAL(9, 2)")
        store.compact("t")
        while store.epoch < 34:
            upsert(store, "t", [(store.epoch, "c", [], None)])
        store.close()
    return Path(path)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values inside a JSON value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def forged(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with one or two of the values inside it replaced, removed or doubled."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2))):
        *way, last = chance.choice(list(places(value)))
        inner = value
        for key in way:
            inner = inner[key]
        action = chance.random()
        if action < 0.15:
            del inner[last]
        elif action < 0.25 and isinstance(inner, list):
            inner.append(copy.deepcopy(inner[last]))
        else:
            inner[last] = chance.choice(_VALUES)
    return value


def use(path: Path) -> None:
    """Call what users call."""
    with Store.open(str(path), environment=unsynced(str(path))) as store:
        uses: list[Callable[[], object]] = [
            store.tables,
            store.views,
            lambda: store.table("t").get(1),
            lambda: list(store.table("t").scan()),
            lambda: list(store.history()),
            lambda: [store.at(epoch).table("t").get(1) for epoch in range(1, 35)],
            lambda: list(store.changes("t", 4)),
            lambda: store.view("v").progress,
            lambda: store.vacuum(0, dry_run=True),
            store.check,
            lambda: store.create_table("u", "k BIGINT", primary_key=["k"]),
            lambda: store.truncate("t"),
            lambda: store.compact(),
        ]
        for call in uses:
            with suppress(RelstateError):
                call()


@pytest.mark.parametrize(
    "name", [entry_path(1), entry_path(3), entry_path(4), entry_path(7), entry_path(33)]
)
@pytest.mark.parametrize("seed", range(examples(4)))
def test_forged_entries(original: Path, tmp_path: Path, name: str, seed: int) -> None:
    """Whatever an entry holds, all calls end with an answer or an error of ours."""
    _check_forgeries(original, tmp_path, name, "entry", seed)


@pytest.mark.parametrize("seed", range(examples(8)))
def test_forged_checkpoints(original: Path, tmp_path: Path, seed: int) -> None:
    """The same holds for checkpoints."""
    _check_forgeries(original, tmp_path, checkpoint_path(32), "checkpoint", seed)


def _check_forgeries(original: Path, tmp_path: Path, name: str, label: str, seed: int) -> None:
    data = (original / name).read_bytes()
    value, lines = unseal(label, data, name)
    chance = random.Random(f"{name} {seed}")
    for number in range(8):
        path = tmp_path / f"{number}"
        shutil.copytree(original, path)
        if label == "entry":
            # Without the checkpoint, all entries are read.
            (path / checkpoint_path(32)).unlink()
        content = forged(value, chance)
        records = lines
        if lines and chance.random() < 0.3:
            records = [json.dumps(forged(json.loads(lines[0]), chance)).encode(), *lines[1:]]
        (path / name).write_bytes(seal(label, content, records))
        began = time.monotonic()
        try:
            with suppress(RelstateError):
                use(path)
        except Exception as error:
            error.add_note(f"forged: {content} {records}")
            raise
        assert time.monotonic() - began < _SECONDS, content
        registry.close(str(path / "segments"))
        shutil.rmtree(path)


def test_deeply_nested_json_is_corruption() -> None:
    """JSON that is nested deeper than the parser's stack is refused."""
    content = b'"entry":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    digest = xxhash.xxh3_64_hexdigest(content).encode()
    with pytest.raises(CorruptionError, match="x: its content is not JSON"):
        unseal("entry", b'{"checksum":"' + digest + b'",' + content, "x")
