"""The keys of an ORDER BY, also within a window.

Does not know: what is ordered by them.
"""

from __future__ import annotations

from typing import NamedTuple

from relstate.connector.syntax.tree import Tree


class SortKey(NamedTuple):
    """A value, whether it descends, and whether NULLs come first."""

    value: Tree
    descending: bool
    nulls_first: bool


def sort_keys(order: Tree) -> list[SortKey]:
    """Return the keys of an ORDER BY."""
    return [
        SortKey(key.this, bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
        for key in order.expressions
    ]
