"""The columns that a read of a table names.

Does not know: what is read of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SchemaMismatchError
from ..schema.schema import Column, name_list
from .encoding import Encoding


def readable_columns(encoding: Encoding, names: Sequence[str] | None) -> Sequence[Column]:
    """Return the columns of a table with these names, by default the visible ones.

    SchemaMismatchError if there is no such column, or a name is repeated.
    """
    schema = encoding.schema
    if names is None:
        return schema.visible_columns
    if not name_list("columns", names):
        raise SchemaMismatchError("the list of columns is empty; name at least one")
    columns_by_name = {column.name.lower(): column for column in schema.columns}
    try:
        return [columns_by_name.pop(name.lower()) for name in names]
    except KeyError as error:
        if any(error.args == (column.name.lower(),) for column in schema.columns):
            raise SchemaMismatchError(
                f"table {encoding.name}: the column {error} is named twice in {', '.join(names)}"
            ) from None
        raise SchemaMismatchError(
            f"table {encoding.name}: {error} is not one of its columns "
            f"{', '.join(column.name for column in schema.visible_columns)}"
        ) from None


def visible_names(encoding: Encoding, names: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns as they are declared; SchemaMismatchError for a hidden one, too."""
    declared = tuple(column.name for column in readable_columns(encoding, names))
    if not set(declared) <= {column.name for column in encoding.schema.visible_columns}:
        raise SchemaMismatchError(
            f"table {encoding.name}: a point lookup returns no hidden column, but "
            f"{', '.join(declared)} were named; read it with scan"
        )
    return declared
