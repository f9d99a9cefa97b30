"""CLUSTER BY: the columns by whose hash the rows of a view are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..plan.materialize import Materialize
from .builder import check_keyable
from .expressions import unsupported_error


def cluster_root(root: Materialize, columns: Sequence[str]) -> Materialize:
    """Return a root whose table is clustered by some of its columns, by any if there are none.

    UnsupportedStatementError for a column that the view does not have, or whose type has no order.
    """
    fields = {name.lower(): field for name, field in root.visible}
    for column in columns:
        field = fields.get(column.lower())
        if field is None:
            raise unsupported_error(
                f"CLUSTER BY ({column}), which is not one of its columns",
                f"write some of {', '.join(name for name, _ in root.visible)}",
            )
        check_keyable(root.child.type_of(field), "CLUSTER BY")
    cluster = dict.fromkeys(fields[column.lower()] for column in columns)
    return replace(root, cluster=tuple(cluster))
