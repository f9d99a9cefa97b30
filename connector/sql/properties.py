"""The properties of tables and views, as text in TBLPROPERTIES.

    merge                 overwrite, ignore or partial
    version_column        the column, or several with commas, that says which of two rows is later
    ttl                   after how long rows expire: seconds, or '7 days'
    append_only           true or false
    nullable_key          true: key columns that are not NOT NULL may be NULL
    tombstone_retention   for how long deletes hide rows that arrive late
    transaction_retention after how long a writer (txnAppId) that writes nothing is forgotten
    encoding              row, or document: parts of rows can be written alone
    packed                false: each part of a document is stored alone at once
    sets                  ARRAY columns of a document table whose elements are distinct, in order
    parallelism           of a view: the number of its parallel units
    comment               of a table or view, as COMMENT sets it
    with a dot            a property of the user's own, of a table or view: 'owner.team'

A name without a dot that is not in this list is refused, so that a typing error does not go unseen.

Does not know: statements, or the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from relstate.connector.syntax.tokens import quoted
from relstate.storage import CatalogView, TableDefinition, errors, positive_seconds, whole_seconds

_RETENTION = (
    "a store has one retention for all its tables: relstate.create(path, retention=seconds), or "
    "VACUUM RETAIN n HOURS"
)
_DELTA = {
    "delta.appendonly": "write 'append_only' = 'true' when the table is created",
    "delta.logretentionduration": _RETENTION,
    "delta.deletedfileretentionduration": _RETENTION,
    "delta.settransactionretentionduration": "write 'transaction_retention' = '30 days'",
}
"""Properties of Delta Lake on which the rows of a table depend; others do no harm."""

COMMENT = "comment"
NULLABLE_KEY = "nullable_key"
PARALLELISM = "parallelism"
ON_ERROR = "on_error"
_ON_ERROR = ("fail", "quarantine")


def split_properties(
    properties: Mapping[str, str | None],
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return (the properties that mean something to relstate, comment and the user's own).

    OptionError for one that promises in Delta Lake what would not be kept here.
    """
    for key in properties:
        advice = _DELTA.get(key.lower())
        if advice is not None:
            raise errors.OptionError(f"the property {key!r} of Delta Lake is not offered: {advice}")
    users = {key: text for key, text in properties.items() if key == COMMENT or "." in key}
    return {key: text for key, text in properties.items() if key not in users}, users


def creation_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return properties as arguments of `Store.create_table`.

    OptionError for one that is unknown or has a wrong value.
    """
    own, users = split_properties(properties)
    return {name: _value(name, str(text)) for name, text in own.items()} | {
        "user_properties": users
    }


def altered_property(properties: Mapping[str, str | None]) -> tuple[str, Any]:
    """Return the name and the value of the property that an ALTER TABLE sets; None unsets it.

    OptionError for several, for a wrong value, and for one that rows have been written under.
    """
    for name in properties:
        if name == "sets":
            raise errors.OptionError(
                "the property 'sets' cannot be altered: arrays store their elements by position, "
                "sets by value, and no row is rewritten; CREATE a TABLE … TBLPROPERTIES "
                "('encoding' = 'document', 'sets' = …), and INSERT the rows into it"
            )
        if name not in _ALTERABLE:
            raise errors.OptionError(
                f"the property {name!r} cannot be altered, only 'ttl', 'encoding', "
                "'transaction_retention', 'comment' and your own; the others are given when a "
                "table is created"
                if name in _PARSERS
                else _unknown(name)
            )
    if len(properties) > 1:
        names = " and ".join(map(repr, properties))
        raise errors.OptionError(f"{names} are altered by a statement each")
    ((name, text),) = properties.items()
    return name, None if text is None else _value(name, text)


@dataclass(frozen=True, slots=True)
class ViewProperties:
    """The properties of a view that a statement names.

    ``parallelism``: the number of parallel units; None if it is not named. ``on_error``: what
    becomes of rows for which the view cannot be computed, `fail` or `quarantine`; None if not
    named. ``users``: the comment and the user's own.
    """

    parallelism: int | None
    on_error: str | None
    users: dict[str, str | None]


def view_properties(properties: Mapping[str, str | None]) -> ViewProperties:
    """Return the properties of a view that is created.

    OptionError for one that is unknown or has a wrong value.
    """
    own, users = split_properties(properties)
    unknown = own.keys() - {PARALLELISM, ON_ERROR}
    if unknown:
        raise errors.OptionError(
            f"unknown property {min(unknown)!r} of a materialized view; there are 'parallelism', "
            "'on_error', 'comment', and your own, which have a dot in their name ('owner.team')"
        )
    return ViewProperties(_parallelism_of(own), _on_error_of(own), users)


def altered_view_properties(properties: Mapping[str, str | None]) -> ViewProperties:
    """Return the properties of a view that is altered; None of the user's own unsets one.

    OptionError also for one that is chosen when a view is created.
    """
    if ON_ERROR in properties:
        raise errors.OptionError(
            "'on_error' is not altered: the rows that the view has were computed under it; CREATE "
            "OR REPLACE MATERIALIZED VIEW … TBLPROPERTIES ('on_error' = …) computes them again"
        )
    return view_properties(properties)


def _parallelism_of(properties: Mapping[str, str | None]) -> int | None:
    if PARALLELISM not in properties:
        return None
    text = properties[PARALLELISM]
    if text is None:
        raise errors.OptionError("'parallelism' cannot be unset: set another number")
    return parse_parallelism(text)


def _on_error_of(properties: Mapping[str, str | None]) -> str | None:
    text = properties.get(ON_ERROR)
    if text is None:
        return None
    if text.strip().lower() not in _ON_ERROR:
        raise errors.OptionError(f"'on_error' is 'fail' or 'quarantine', not {text!r}")
    return text.strip().lower()


def parse_parallelism(text: str) -> int:
    """Return a number of parallel units. OptionError if the text is none."""
    if not text.strip().isdecimal():
        raise errors.OptionError(f"parallelism is a number of parallel units, not {text!r}")
    return int(text)


def property_texts(definition: TableDefinition, view: CatalogView | None) -> dict[str, str]:
    """Return the properties of a table or view that are set, as text, by name."""
    properties = definition.properties
    columns = {column.id: column.name for column in definition.schema.columns}
    texts = {"merge": str(properties.merge)} if view is None else {}
    if view is not None:
        texts[PARALLELISM] = str(view.definition.mapping.units)
        if view.definition.quarantine is not None:
            texts[ON_ERROR] = "quarantine"
    if properties.is_versioned:
        versions = (_name_text(columns[i]) for i in properties.version_columns)
        texts["version_column"] = ", ".join(versions)
        texts["tombstone_retention"] = f"{properties.tombstone_retention} seconds"
    if properties.ttl is not None:
        texts["ttl"] = f"{properties.ttl} seconds"
    if properties.transaction_retention is not None:
        texts["transaction_retention"] = f"{properties.transaction_retention} seconds"
    if properties.encoding != "row":
        texts["encoding"] = str(properties.encoding)
    if not properties.packed:
        texts["packed"] = "false"
    if properties.sets:
        texts["sets"] = ", ".join(_name_text(columns[i]) for i in properties.sets if i in columns)
    if properties.append_only:
        texts["append_only"] = "true"
    if definition.comment is not None:
        texts[COMMENT] = definition.comment
    return texts | dict(definition.user_properties)


def _value(name: str, text: str) -> Any:
    parse = _PARSERS.get(name)
    if parse is None:
        raise errors.OptionError(_unknown(name))
    try:
        return parse(text)
    except ValueError as error:
        raise errors.OptionError(f"the property {name!r} is {text!r}: {error}") from None


def _unknown(name: str) -> str:
    return (
        f"unknown property {name!r}; the properties are {', '.join(_PARSERS)}, comment, and your "
        "own, which have a dot in their name ('owner.team')"
    )


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("it must be 'true' or 'false'")
    return text.strip().lower() == "true"


def _names(text: str) -> list[str]:
    """Return the names that are separated by commas; one in backticks may have commas itself."""
    names = re.findall(r"\s*(`(?:[^`]|``)+`|[^,]*?)\s*,", text + ",")
    if "" in names:
        raise ValueError("it must be the name of a column, or several with commas between them")
    return [name[1:-1].replace("``", "`") if _is_quoted(name) else name for name in names]


def _is_quoted(name: str) -> bool:
    return len(name) > 2 and name.startswith("`") and name.endswith("`")


def _name_text(name: str) -> str:
    """Return a name as `_names` reads it: in backticks if it would be read as something else."""
    is_plain = "," not in name and name == name.strip() and not _is_quoted(name)
    return name if is_plain else quoted(name)


def _lower(text: str) -> str:
    return text.strip().lower()


_PARSERS: dict[str, Callable[[str], Any]] = {
    "merge": _lower,
    "version_column": _names,
    "ttl": positive_seconds,
    "append_only": _boolean,
    NULLABLE_KEY: _boolean,
    "tombstone_retention": whole_seconds,
    "transaction_retention": positive_seconds,
    "encoding": _lower,
    "packed": _boolean,
    "sets": _names,
}
_ALTERABLE = ("ttl", "encoding", "transaction_retention")
