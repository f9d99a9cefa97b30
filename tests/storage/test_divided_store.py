"""A store whose checkpoints are divided among manifests, against a model."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

from relstate.storage import Store
from relstate.storage.check import check
from relstate.storage.environment import Environment
from relstate.storage.epochs import Epochs
from relstate.storage.log.folding import Division
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.store_creation import create_store
from support.commits import SETTINGS, quick_environment
from support.stores import contents


def opened(environment: Environment, *, create: bool = False) -> Store:
    """Return the store as a new process that divides everything finely has it."""
    log = Log(environment, EntryCache(), ManifestCache(8), Division(most=0, size=3))
    return Store(Epochs(log, create_store(log, SETTINGS) if create else log.load()))


def rows(keys: list[int], value: str) -> pa.Table:
    """Return rows of the table."""
    return pa.table({"k": keys, "v": [f"{value}{key}" for key in keys]})


def test_a_divided_store_is_the_model(tmp_path: Path) -> None:
    """Writes, deletes, truncations, merges, an index, a vacuum; processes come and go."""
    draw = random.Random(1)
    environment = quick_environment(tmp_path / "store")
    store = opened(environment, create=True)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    store.create_table("u", "k BIGINT, v STRING", primary_key=["k"])
    store.create_index("t", "by_v", ["v"])
    model: dict[str, dict[int, str]] = {"t": {}, "u": {}}
    past: dict[int, set[tuple[int, str]]] = {}
    while store.epoch < 75:
        name = draw.choice("ttu")
        keys = draw.sample(range(200), draw.randint(1, 20))
        kind = draw.random()
        if kind < 0.8:
            value = f"{draw.random()}-"
            store.write(name, rows(keys, value))
            model[name] |= {key: f"{value}{key}" for key in keys}
        elif kind < 0.9:
            store.delete(name, pa.table({"k": keys}))
            model[name] = {key: v for key, v in model[name].items() if key not in keys}
        elif kind < 0.93:
            store.truncate("u")
            model["u"] = {}
        elif kind < 0.96:
            store.compact(name)
        else:
            store = opened(environment)
        past[store.epoch] = set(model["t"].items())
        key = draw.randrange(200)
        found = store.table("t").get(key)
        assert (None if found is None else found.v) == model["t"].get(key)

    store = opened(environment)
    for name, expected in model.items():
        assert set(contents(store, name)) == set(expected.items())
    key, v = next(iter(model["t"].items()))
    assert [row.k for row in store.table("t").get_by("by_v", v)] == [key]
    for epoch in draw.sample(sorted(past), 6):
        assert set(contents(store, "t", epoch)) == past[epoch]
    report = check(environment, store.state)
    assert report.ok, report.problems
    store.vacuum(retention=0)
    assert set(contents(opened(environment), "t")) == set(model["t"].items())
