"""Processes that commit to one store at once, and the history that they write down.

A history is what processes saw, each in its own order: commits with their epochs and changes, and
reads with the epoch, or the epochs, at which they may have happened.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path

from relstate.storage import Store
from relstate.storage.errors import TableExistsError

from .stores import contents, rows_of, unsynced, upsert

Change = tuple[int, str | None]
TABLE = "t"
KEYS = range(16)


@dataclass(frozen=True)
class Commit:
    """A commit that returned: its epoch and what it changed, in order; None deletes."""

    epoch: int
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Snapshot:
    """All rows of the table as read at one epoch."""

    epoch: int
    rows: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Lookup:
    """A row got, between seeing one epoch as the latest and seeing another."""

    before: int
    after: int
    key: int
    value: str | None


@dataclass
class History:
    """What one process saw, in its order."""

    events: list[Commit | Snapshot | Lookup] = field(default_factory=list)
    created: bool = False


def run_rivals(path: str, folder: Path, count: int, commits: int) -> list[History]:
    """Let so many processes commit so often to the store at ``path``; return what they saw."""
    context = get_context("spawn")
    start = context.Barrier(count)
    files = [folder / f"history-{number}.pickle" for number in range(count)]
    processes = [
        context.Process(target=_run, args=(path, file, number, commits, start))
        for number, file in enumerate(files)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * count
    return [pickle.loads(file.read_bytes()) for file in files]


def _run(path: str, file: Path, number: int, commits: int, start: Barrier) -> None:
    chance = random.Random(number)
    history = History()
    with Store.open(path, environment=unsynced(path)) as store:
        start.wait()
        try:
            store.create_table("only_once", "k INT", primary_key=["k"])
            history.created = True
        except TableExistsError:
            pass
        for turn in range(commits):
            history.events += _act(store, chance, f"{number}-{turn}")
    file.write_bytes(pickle.dumps(history))


def _act(store: Store, chance: random.Random, name: str) -> list[Commit | Snapshot | Lookup]:
    """Commit once, as a task or an executor does, and read in three ways."""
    keys = chance.sample(KEYS, 4)
    changes = [(key, None if chance.random() < 0.3 else f"{name}-{key}") for key in keys]
    commit = Commit(_commit(store, changes, chance.random() < 0.5), tuple(changes))
    table, key = store.table(TABLE), chance.choice(KEYS)
    before = store.epoch
    row = table.get(key)
    lookup = Lookup(before, store.epoch, key, None if row is None else row.v)
    epoch = store.epoch
    newest = Snapshot(epoch, tuple(contents(store, TABLE, epoch)))
    epoch = chance.randrange(2, epoch + 1)
    old = Snapshot(epoch, tuple(sorted(rows_of(store.at(epoch).table(TABLE).scan()))))
    return [commit, lookup, newest, old]


def _commit(store: Store, changes: Sequence[Change], is_executor: bool) -> int:
    if not is_executor:
        puts = [change for change in changes if change[1] is not None]
        return upsert(store, TABLE, puts, [change for change in changes if change[1] is None])
    table = store.state_table(TABLE)
    for key, value in changes:
        if value is None:
            table.delete([key, None])
        else:
            table.insert([key, value])
    return table.commit()
