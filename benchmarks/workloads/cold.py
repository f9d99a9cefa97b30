"""What is done once: the first get of a process, the first write and read of a session of Spark.

Processor time, not the time that passes: most of it is that of imports, in processes that start one
after another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from relstate.storage import Store

from ..figure import Comparison, Figure, Samples
from ..turns import in_turns
from ..workbench import Workbench, new_table

_GET = """import sys, relstate
relstate.open(sys.argv[1]).table("small").get(1)"""
_LIBRARIES = "import numpy, pyarrow, pyarrow.compute, lmdb, xxhash"
# Spark ends workers after a minute without work. A small run does not wait for it.
_IDLE_SECONDS, _LEAST_ROWS_TO_WAIT = 70.0, 100_000
_DAEMONS = {
    "Spark's daemon": (),
    "relstate's daemon": ("relstate.connector.spark.worker_daemon",),
}


def cold(bench: Workbench) -> Iterator[Figure]:
    """Measure the first get of a process, and the first operations of sessions by both daemons."""
    with bench.store() as store:
        yield _first_get(bench, store)
    waits = bench.size.rows >= _LEAST_ROWS_TO_WAIT
    for title, daemon in _DAEMONS.items():
        measured = _session(bench.folder(), _IDLE_SECONDS if waits else 0.0, daemon)
        operations: dict[str, list[float]] = measured["operations"]
        for name in ("write", "read"):
            yield _once(f"first {name}, {title}", *_spent(operations, "first", "second", name))
            if waits:
                case = f"{name} after {_IDLE_SECONDS:.0f} idle seconds, {title}"
                yield _once(case, *_spent(operations, "idle", "next", name))
        yield Figure(
            workload="cold: memory",
            case=f"all workers, {title}",
            unit="MiB",
            samples=Samples((measured["resident"] / (1 << 20),)),
            comparison=Comparison.ALONE,
            against="",
        )


def _first_get(bench: Workbench, store: Store) -> Figure:
    new_table(store, "small")
    table = store.state_table("small")
    table.insert((1, 0, 0.0, None, "thirteen char"))
    table.commit()
    samples = in_turns(
        lambda: _processor_seconds(_GET, store.path),
        lambda: _processor_seconds(_LIBRARIES),
        bench.size.turns,
    )
    return Figure(
        workload="cold: get",
        case="open and first get of a process",
        unit="CPU ms",
        samples=samples.scaled(1e3),
        comparison=Comparison.EXTRA,
        against="a process that imports the libraries",
    )


def _processor_seconds(program: str, *arguments: str) -> float:
    """Return the processor time, user and system, of a program of Python."""
    process = subprocess.Popen([sys.executable, "-P", "-c", program, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"a program ended with {process.returncode}: {program}")
    return usage.ru_utime + usage.ru_stime


def _session(folder: str, idle: float, daemon: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.cold_session", folder, str(idle), *daemon]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return measured


def _spent(
    operations: dict[str, list[float]], cold_turn: str, warm_turn: str, name: str
) -> tuple[float, float]:
    """Return the processor time of an operation in two turns."""
    return operations[f"{cold_turn} {name}"][1], operations[f"{warm_turn} {name}"][1]


def _once(case: str, ours: float, warm: float) -> Figure:
    return Figure(
        workload="cold",
        case=case,
        unit="CPU s",
        samples=Samples((ours,), (warm,)),
        comparison=Comparison.EXTRA,
        against="the same operation once more",
    )
