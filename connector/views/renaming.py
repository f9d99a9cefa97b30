"""What becomes of the views that read a view which gets another name.

Promises: the query of such a view means what it meant; its plan and its state stay as they are.
Does not know: how the names are committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relstate.connector.syntax.parsed_query import ParsedQuery, TableReference
from relstate.connector.syntax.tokens import quoted
from relstate.storage import StoreState, ViewDefinition, errors

from .plan.stateless import Scan


def follow_rename(name: str, new: str, state: StoreState, reader: ViewDefinition) -> ViewDefinition:
    """Return the definition of a view that reads ``name`` after that has become ``new``.

    In its query the old name becomes the alias where there was none, so that ``name.column`` stays
    as written. DependentViewsError if the query gives the new name to something else.
    """
    query = ParsedQuery.parse(reader.query)
    references = _references(query, name)
    names = [quoted(new)] * len(references)
    fields = [f"relation_{number}" for number in range(len(references))]
    text = query.replaced(references, fields).format(**dict(zip(fields, names, strict=True)))
    if len(_references(ParsedQuery.parse(text), new)) != len(references) + len(
        _references(query, new)
    ):
        raise errors.DependentViewsError(
            f"{name!r} cannot be renamed to {new!r}: the view {state.name_of(reader.view_id)!r}, "
            "which reads it, uses this name for a common table expression; use another name"
        )
    table_id = state.table(name).definition.table_id
    return replace(reader, query=text, plan=_with_name(reader.plan, table_id, new))


def _references(query: ParsedQuery, name: str) -> tuple[TableReference, ...]:
    return query.table_references(lambda table, as_of: table.lower() == name.lower())


def _with_name(value: Any, table_id: int, name: str) -> Any:
    """Return the JSON of a plan in which the scans of a table give it another name."""
    match value:
        case dict():
            renamed = {key: _with_name(item, table_id, name) for key, item in value.items()}
            is_scan = value.get("operator") == Scan.operator and value.get("table_id") == table_id
            return renamed | ({"table": name} if is_scan else {})
        case list():
            return [_with_name(item, table_id, name) for item in value]
    return value
