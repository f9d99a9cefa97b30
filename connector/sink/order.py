"""When the last change of a key can be told among many.

Does not know: options, rows.
"""

from __future__ import annotations

from relstate.storage import TableDefinition, errors


def check_order(definition: TableDefinition, clustered: bool, option: str, promise: str) -> None:
    """OptionError unless changes of one key have an order: the table's, or a promised one.

    The two last name the options as the caller spells them.
    """
    if clustered or definition.properties.version_column is not None:
        return
    raise errors.OptionError(
        f"{option} needs {promise}, by which you promise that all changes of one key arrive in one "
        f"task, in order: the table {definition.name!r} has no version_column that tells which of "
        "them is the last"
    )
