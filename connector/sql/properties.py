"""The properties of a table, between the text of TBLPROPERTIES and the store.

    merge                 overwrite, ignore or partial
    version_column        the column that tells which of two rows is the later
    ttl                   after how long rows expire: seconds, or '7 days'
    append_only           true or false
    tombstone_retention   for how long deletes hide rows that arrive late

Does not know: statements, or what the properties do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relstate.connector.duration import positive_seconds, whole_seconds
from relstate.storage import TableDefinition, errors


def creation_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return properties as arguments of `Store.create_table`.

    OptionError for one that is not known or has no such value.
    """
    return {name: _value(name, text) for name, text in properties.items()}


def new_ttl(properties: Mapping[str, str | None]) -> int | None:
    """Return the TTL, in seconds, that an ALTER TABLE sets; None if it takes it away.

    OptionError for another property: rows have been written under it.
    """
    for name in properties:
        if name != "ttl":
            raise errors.OptionError(
                f"the property {name!r} cannot be altered, only 'ttl'; the others are given when "
                "a table is created"
                if name in _PARSERS
                else _unknown(name)
            )
    text = properties.get("ttl")
    return None if text is None else int(_value("ttl", text))


def described(definition: TableDefinition) -> dict[str, str]:
    """Return the properties of a table as text, by name; those that are not set are left out."""
    properties = definition.properties
    columns = {column.id: column.name for column in definition.schema.columns}
    found = {"merge": str(properties.merge)}
    if properties.version_column is not None:
        found["version_column"] = columns[properties.version_column]
        found["tombstone_retention"] = f"{properties.tombstone_retention} seconds"
    if properties.ttl is not None:
        found["ttl"] = f"{properties.ttl} seconds"
    if properties.append_only:
        found["append_only"] = "true"
    return found


def _value(name: str, text: str) -> Any:
    parse = _PARSERS.get(name)
    if parse is None:
        raise errors.OptionError(_unknown(name))
    try:
        return parse(text)
    except ValueError as error:
        raise errors.OptionError(f"the property {name!r} is {text!r}: {error}") from None


def _unknown(name: str) -> str:
    return f"unknown property {name!r}; the properties are {', '.join(_PARSERS)}"


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("it must be 'true' or 'false'")
    return text.strip().lower() == "true"


def _lower(text: str) -> str:
    return text.strip().lower()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "merge": _lower,
    "version_column": str,
    "ttl": positive_seconds,
    "append_only": _boolean,
    "tombstone_retention": whole_seconds,
}
