"""ORDER BY of strings whose collation has no keys: Spark sorts them, in a window.

Promises: LIMIT and OFFSET take the rows that Spark's order puts there.
Does not know: how a window is maintained (windows).
"""

from __future__ import annotations

from collections.abc import Sequence

from relstate.connector.syntax.tree import Tree, is_column, parse_expression, text_of
from relstate.storage import types

from ..plan.node import Node
from .builder import Builder, Relation
from .collations import is_keyless
from .windows import plan_windows


def keyless_position(
    builder: Builder, node: Node, keys: Sequence[tuple[Tree, bool, bool]]
) -> int | None:
    """Return the position of the first sort key that no state can be ordered by; None for none."""
    values = [value for value, _, _ in keys]
    computed = [text_of(value) for value in values if not is_column(value)]
    computed_types = iter(builder.analysis.types_of(node.fields, computed))
    data_types = (
        node.type_of(value.name) if is_column(value) else next(computed_types) for value in values
    )
    positions = (number for number, data_type in enumerate(data_types) if is_keyless(data_type))
    return next(positions, None)


def limit_by_window(
    builder: Builder,
    relation: Relation,
    keys: Sequence[tuple[Tree, bool, bool]],
    limit: int | None,
    offset: int,
) -> Node:
    """Return ``limit`` rows in the order of keys, None for all, after the first ``offset``.

    Of a relation with a domain, for each of its combinations.
    """
    order = ", ".join(
        f"{text_of(value)} {'DESC' if descending else 'ASC'} NULLS "
        f"{'FIRST' if nulls_first else 'LAST'}"
        for value, descending, nulls_first in keys
    )
    names = ", ".join(map(types.quoted, relation.domain))
    partition = f"PARTITION BY {names} " if names else ""
    window = parse_expression(f"row_number() OVER ({partition}ORDER BY {order})")
    node, (position,) = plan_windows(builder, relation.node, [window], ["position"])
    bounds = [f"{types.quoted(position)} > {offset}"]
    if limit is not None:
        bounds.append(f"{types.quoted(position)} <= {offset + limit}")
    return builder.filter(node, [parse_expression(bound) for bound in bounds])
