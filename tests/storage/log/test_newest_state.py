"""Loading the newest state: from the files alone, whatever else is beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from relstate.storage.errors import StoreNotFoundError
from relstate.storage.local_environment import LocalEnvironment
from relstate.storage.log.log import Log
from relstate.storage.log.state import StoreState, fold
from support.commits import advanced, committed, entries_on_disk, new_store, upsert


def test_nothing_is_not_a_store(environment: LocalEnvironment) -> None:
    """A path with nothing at it is told from one that holds something else."""
    with pytest.raises(StoreNotFoundError, match="no store here"):
        Log(environment).load()


def test_loading_is_folding_all_entries(environment: LocalEnvironment) -> None:
    """However many checkpoints and archives there are."""
    log, state = new_store(environment, "orders")
    for _ in range(100):
        state = committed(log, state, upsert(environment))

    first, *rest = entries_on_disk(environment, 1, state.epoch)
    assert Log(environment).load() == state == fold(StoreState.first(first), rest)


def test_files_that_are_not_the_logs_do_no_harm(environment: LocalEnvironment) -> None:
    """Rests of a crash, pointers of other systems, garbage: they are left alone."""
    log, state = new_store(environment, "orders")
    state = advanced(log, state, 70)
    strays = ["latest", "_last_checkpoint", f"{71:020d}.json.0a.tmp", "99.json", ".nfs0001"]
    for name in strays:
        Path(environment.local_path(f"_log/{name}")).write_bytes(b"\xff garbage")

    assert Log(environment).load() == state
    state = advanced(log, state, 130)
    assert Log(environment).load() == state
    assert set(strays) < set(environment.list("_log"))
