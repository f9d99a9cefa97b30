"""A store whose checkpoints are divided among manifests, against a model."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import pyarrow as pa

from relstate.storage import Store
from relstate.storage.check import check
from relstate.storage.environment import Environment
from relstate.storage.epochs import Epochs
from relstate.storage.errors import RelstateError, UnknownOutcomeError
from relstate.storage.log.folding import Division
from relstate.storage.log.history import EntryCache
from relstate.storage.log.log import Log
from relstate.storage.log.manifest_files import ManifestCache
from relstate.storage.log.store_creation import create_store
from support.commits import SETTINGS, quick_environment
from support.faulty_environment import FaultyEnvironment
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


def test_an_error_at_any_touch_of_an_overwrite_loses_no_rows(tmp_path: Path) -> None:
    """A write that raises has changed nothing; its files are removed only then."""
    store = opened(quick_environment(tmp_path / "store"), create=True)
    store.create_table("t", "k BIGINT, v STRING", primary_key=["k"])
    while store.epoch < 33:
        store.write("t", rows([store.epoch], "old"))
    before, after = set(contents(store, "t")), {(0, "new0")}

    for step in itertools.count(1):
        folder = tmp_path / f"copy {step}"
        shutil.copytree(tmp_path / "store", folder)
        environment = FaultyEnvironment(folder, error_at=step)
        raised: RelstateError | None = None
        try:
            # Rows that can be read once are not written again after an error.
            opened(environment).write("t", rows([0], "new").to_reader(), overwrite=True)
        except RelstateError as error:
            raised = error
        again = opened(quick_environment(folder))
        is_new = set(contents(again, "t")) == after
        assert is_new or set(contents(again, "t")) == before
        assert is_new or raised is not None
        assert not is_new or raised is None or isinstance(raised, UnknownOutcomeError)
        shutil.rmtree(folder)
        if not environment.struck:
            break
