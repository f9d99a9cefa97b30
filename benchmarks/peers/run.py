"""The run: every workload, turn by turn, in each turn one peer after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .inputs import Inputs
from .results import Results
from .workloads import PROGRAM, Step, Workload, in_order


class Performer(Protocol):
    """What performs the operations of a peer."""

    def perform(self, operation: str, arguments: Sequence[Any], limit: float) -> dict[str, Any]:
        """Return the answer of the peer."""
        ...


class Run:
    """One run over some peers."""

    def __init__(
        self,
        peers: Mapping[str, Performer],
        inputs: Inputs,
        results: Results,
        *,
        turns: int,
        limit: float,
        silent: Mapping[str, Mapping[str, str]],
    ) -> None:
        """``silent``: by peer the operations that it makes unmeasured, with the reason."""
        self._peers, self._inputs, self._results = dict(peers), inputs, results
        self._turns, self._limit, self._silent = turns, limit, silent
        # Why a peer has other rows than the rest.
        self._out: dict[str, str] = {}

    def measure(self, save: Callable[[], None], program: Sequence[Workload] = PROGRAM) -> None:
        """Measure a program; ``save`` is called after each workload."""
        for workload in program:
            start = time.monotonic()
            self._results.begin(workload.name, workload.titled(self._inputs.size), workload.unit)
            for step in workload.once:
                for peer in self._active():
                    self._step(workload, step, peer, 0)
            for turn, counts in workload.turns(self._turns):
                for peer in in_order(self._active(), turn):
                    self._turn(workload, peer, turn, counts)
            save()
            seconds = time.monotonic() - start
            print(f"measured {workload.name} in {seconds:.0f} s", file=sys.stderr, flush=True)

    def _active(self) -> list[str]:
        return [peer for peer in self._peers if peer not in self._out]

    def _turn(self, workload: Workload, peer: str, turn: int, counts: bool) -> None:
        """Measure a workload once, for one peer."""
        if not all(self._step(workload, step, peer, turn) for step in workload.before):
            return
        if workload.name in self._results.left_out.get(peer, {}) and not workload.change:
            return
        found = self._perform(workload.step, peer, turn)
        if reason := _failure(found):
            self._results.leave_out(workload.name, peer, reason)
            if workload.change:
                self._exclude(peer, workload, reason)
            return
        self._results.answered(workload.name, turn, peer, found.get("answer"))
        silent = self._silent.get(peer, {}).get(workload.step.operation)
        if silent is not None:
            self._results.leave_out(workload.name, peer, silent)
        elif counts:
            factor = 1e6 if workload.unit == "us" else 1.0
            value = found["megabytes"] if "megabytes" in found else found["seconds"] * factor
            self._results.measured(workload.name, peer, value)

    def _step(self, workload: Workload, step: Step, peer: str, turn: int) -> bool:
        """Make a change that is not measured; return whether the peer goes on."""
        if peer in self._out:
            return False
        if reason := _failure(self._perform(step, peer, turn)):
            self._results.leave_out(workload.name, peer, reason)
            if step.operation == "upsert":
                self._exclude(peer, workload, reason)
            return step.operation != "upsert"
        return True

    def _exclude(self, peer: str, workload: Workload, reason: str) -> None:
        self._out[peer] = f"not measured after {workload.name}: {reason}"
        self._results.leave_out("what follows", peer, self._out[peer])
        print(f"{peer}: {self._out[peer]}", file=sys.stderr, flush=True)

    def _perform(self, step: Step, peer: str, turn: int) -> dict[str, Any]:
        arguments = step.arguments(self._inputs, turn)
        found = self._peers[peer].perform(step.operation, arguments, self._limit)
        if "error" in found:
            print(f"{peer}: {step.operation}: {found['error']}", file=sys.stderr, flush=True)
        return found


def _failure(found: Mapping[str, Any]) -> str | None:
    """Return why there is no measurement, None if there is one."""
    if "missing" in found:
        return str(found["missing"])
    return f"failed: {found['error']}" if "error" in found else None
