"""The executors of a node over states in memory, and what somebody holds who follows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from relstate.connector.views.executor.executor import Executor
from relstate.connector.views.executor.state import State
from support.changes import Mirror
from support.memory_state import MemoryState


class Bench:
    """A node's executors in the order in which rows pass them, with all their states.

    ``states``: of each executor those that it asks for.
    """

    def __init__(self, node: Any, *executors: type[Executor[Any]]) -> None:
        self.node = node
        self.executors = executors
        self.states = [[MemoryState(spec) for spec in kind.tables(node)] for kind in executors]
        self.mirror = Mirror(node.key)

    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return what an epoch's changes make, without a commit."""
        for state in self._every_state:
            state.forget()
        return self.passed(self.states, chunk)

    def commit(self) -> None:
        """Make what was written visible."""
        for state in self._every_state:
            state.commit()

    def step(self, chunk: pa.RecordBatch) -> None:
        """Run an epoch and commit it; the mirror follows."""
        self.mirror.apply(self.run(chunk))
        self.commit()

    def passed(self, states: Sequence[Sequence[State]], chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the executors make of a chunk over other states than its own."""
        for number, (kind, own) in enumerate(zip(self.executors, states, strict=True)):
            chunk = kind(self.node, own).run(self.between(chunk) if number else chunk)
        return chunk

    def between(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Return what reaches an executor of what the one before it gave: all of it."""
        return chunk

    @property
    def _every_state(self) -> list[MemoryState]:
        return [state for own in self.states for state in own]
