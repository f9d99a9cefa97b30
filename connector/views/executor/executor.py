"""The executor: one stateful operator of a plan in one parallel unit, for one epoch.

Promises: if its chunk is net, so is its output, by the key of its node (changes).
Does not know: Spark, where chunks come from, or who commits what it writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from relstate.storage import errors, types

from ..plan.node import Names, Node, Order
from .changes import Changes, Mask, Step
from .next_moments import NextMoments
from .rowkeys import Codes, RowKeys
from .state import State

NodeT = TypeVar("NodeT", bound=Node)


@dataclass(frozen=True, slots=True)
class StateTableSpec:
    """A state table of an executor.

    ``role`` names it among the executor's tables. ``distribution``: columns of the key; ``()`` if
    all rows are in vnode 0. Columns of the key may hold NULL.
    """

    role: str
    fields: tuple[types.Field, ...]
    primary_key: tuple[Order, ...]
    distribution: Names

    @classmethod
    def of_rows(
        cls, role: str, fields: Iterable[types.Field], key: tuple[Order, ...], distribution: Names
    ) -> StateTableSpec:
        """Return the table of rows with these fields; those of the key come first, in its order."""
        by_name = {field.name: field for field in fields}
        names = dict.fromkeys((*(order.name for order in key), *by_name))
        return cls(role, tuple(by_name[name] for name in names), key, distribution)


SIDE_COLUMN = "_side"
"""In the chunks of a join: the input (int8), 0 left and 1 right, whose fields a row has."""
PART_COLUMN = "_part"
"""In the candidates of a join: the kind of a row (int8).

0 a pair, 1 a left row, 2 a right row; 3 matches of a left row, 4 of a right row, which only count.
"""
PAIR, LEFT_ROW, RIGHT_ROW, LEFT_MATCHES, RIGHT_MATCHES = range(5)
MATCHES_COLUMN = "_matches"
"""In the candidates of a broadcast join: for how many matches a row counts (int64)."""


class Executor(ABC, Generic[NodeT]):
    """One operator in one unit for one epoch."""

    label: ClassVar[str]
    """The executor's name in EXPLAIN and in the names of state tables."""

    def __init__(self, node: NodeT, states: Sequence[State], is_ansi: bool = True) -> None:
        """``states``: the state tables that `tables` describes, in its order.

        ``is_ansi``: whether a value that does not fit its type is an error.
        """
        self.node = node
        self.states = tuple(states)
        self.is_ansi = is_ansi
        self.next_moments: NextMoments | None = None
        """What a temporal filter has found by `run`; None of other executors."""

    @classmethod
    def maintains(cls, node: NodeT) -> bool:
        """Return whether this node needs the executor; by default every node of its type does."""
        return True

    @classmethod
    @abstractmethod
    def tables(cls, node: NodeT) -> tuple[StateTableSpec, ...]:
        """Return the state tables that the operator needs."""

    @classmethod
    def combiner(cls, node: NodeT) -> tuple[Step, type[Executor[NodeT]]] | None:
        """Return (step, executor) to combine rows before the shuffle; None if that is impossible.

        The step combines the rows within a task; the executor runs on the combined rows.
        """
        return None

    @classmethod
    def count_rows(cls, node: NodeT, chunk: pa.RecordBatch, unit: int) -> int:
        """Return how many changed rows an input chunk of `run` represents, in all units once."""
        return int(chunk.num_rows)

    def batches(self, chunk: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield what `run` returns, in parts if it can be much larger than the input."""
        yield self.run(chunk)

    @abstractmethod
    def run(self, chunk: pa.RecordBatch) -> pa.RecordBatch:
        """Apply all changes of the epoch at once and return the changes of the output.

        It is called once per epoch, also without changes. ConsistencyError if a change does not
        fit the state.
        """


def state_mismatch_error(problem: str) -> errors.ConsistencyError:
    """Return the error for changes that contradict a state table; ``problem`` says how."""
    return errors.ConsistencyError(
        f"{problem}; the state does not fit the view's inputs: drop the view and create it again"
    )


def check_fits_state(
    label: str, changes: Changes, row_keys: RowKeys, codes: Codes, is_stored: Mask
) -> None:
    """ConsistencyError if a deleted row does not exist, or an inserted one already exists.

    ``codes``: numbers of the keys of the changes; ``is_stored``: by number, whether there is a row.
    """
    remains = is_stored.copy()
    remains[codes[~changes.inserts]] = False
    missing = ~changes.inserts & ~is_stored[codes]
    is_invalid = missing | (changes.inserts & remains[codes])
    if is_invalid.any():
        row = int(np.flatnonzero(is_invalid)[0])
        problem = "deleted but does not exist" if missing[row] else "inserted but already exists"
        raise state_mismatch_error(
            f"{label}: the row with {row_keys.describe(changes.rows, row)} is {problem}"
        )
