"""The state tables that a plan needs: which columns each has, and its key.

Promises: a function of the plan alone, in one order: a catalog that numbers them by it finds the
same ones for ever.
Does not know: table ids, or what executors do with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from relstate.storage import types

from .node import Names, Order


@dataclass(frozen=True, slots=True)
class StateTableSpec:
    """A state table of an executor.

    ``role`` names it among the executor's. ``distribution``: columns of the key; ``()`` where all
    rows lie in vnode 0. Columns of the key may hold NULL.
    """

    role: str
    fields: tuple[types.Field, ...]
    primary_key: tuple[Order, ...]
    distribution: Names
