"""ORDER BY of strings whose collation has no keys: Spark sorts them, in a window.

Promises: LIMIT and OFFSET take the rows that Spark's order puts there.
Does not know: how a window is maintained (windows).
"""

from __future__ import annotations

from collections.abc import Sequence

from relstate.connector.syntax.tree import column, parse_expression, text_of
from relstate.storage import types

from ..plan.node import Names, Node
from .builder import Builder
from .collations import is_keyless
from .sort_keys import SortKey
from .windows import plan_windows


def keys_over_fields(keys: Sequence[SortKey], fields: Sequence[str]) -> list[SortKey]:
    """Return sort keys whose values are these fields."""
    return [key._replace(value=column(field)) for key, field in zip(keys, fields, strict=True)]


def keyless_position(node: Node, fields: Sequence[str]) -> int | None:
    """Return the position of the first field that no state can be ordered by; None for none."""
    positions = (
        position for position, field in enumerate(fields) if is_keyless(node.type_of(field))
    )
    return next(positions, None)


def limit_by_window(
    builder: Builder,
    node: Node,
    partition: Names,
    keys: Sequence[SortKey],
    limit: int | None,
    offset: int,
) -> Node:
    """Return ``limit`` rows in the order of keys, None for all, after the first ``offset``.

    ``partition``: fields for each combination of whose values these are taken.
    """
    order = ", ".join(
        f"{text_of(value)} {'DESC' if descending else 'ASC'} NULLS "
        f"{'FIRST' if nulls_first else 'LAST'}"
        for value, descending, nulls_first in keys
    )
    names = ", ".join(map(types.quoted, partition))
    partition_by = f"PARTITION BY {names} " if names else ""
    window = parse_expression(f"row_number() OVER ({partition_by}ORDER BY {order})")
    node, (position,) = plan_windows(builder, node, [window], ["position"])
    bounds = [f"{types.quoted(position)} > {offset}"]
    if limit is not None:
        bounds.append(f"{types.quoted(position)} <= {offset + limit}")
    return builder.filter(node, [parse_expression(bound) for bound in bounds])
