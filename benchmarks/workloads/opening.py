"""The latency of opening a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from relstate.storage import ReadPlan, Store

from ..figure import Comparison, Figure
from ..turns import in_turns, seconds
from ..workbench import Workbench, new_table

_OPENINGS = 20


def opening(bench: Workbench) -> Iterator[Figure]:
    """Measure `Store.open` and the plan of a read, in milliseconds."""
    with bench.store() as store:
        new_table(store, "small")
        table = store.state_table("small")
        for epochs in (20, 200):
            while store.epoch < epochs:
                table.insert((store.epoch, 0, 0.0, None, "thirteen char"))
                table.commit()
            yield _open(bench, store.path, f"{epochs} epochs")


def _open(bench: Workbench, path: str, case: str) -> Figure:
    samples = in_turns(
        seconds(lambda: [_planned(path) for _ in range(_OPENINGS)]),
        seconds(lambda: [_log_bytes(path) for _ in range(_OPENINGS)]),
        bench.size.turns,
    )
    return Figure(
        workload="open",
        case=case,
        unit="ms",
        samples=samples.scaled(1e3 / _OPENINGS),
        comparison=Comparison.TIME,
        against="reading every file in the log's folder, without a look at it",
    )


def _planned(path: str) -> ReadPlan:
    with Store.open(path) as store:
        return store.read_plan("small")


def _log_bytes(path: str) -> int:
    return sum(len(file.read_bytes()) for file in (Path(path) / "_log").iterdir())
