"""The names that tables and indexes may have, and how names are compared."""

from __future__ import annotations

import re

from ..errors import TableNameError

RESERVED_PREFIX = "__internal_"
# Of the table with the rows that another table or view does not take.
QUARANTINE_SUFFIX = "__quarantine"
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def lower_name(name: str) -> str:
    """Return the name of a table in lower case, as names are compared.

    TableNameError for what is not text.
    """
    if not isinstance(name, str):
        raise TableNameError(f"the name of a table is text, not {name!r}")
    return name.lower()


def check_table_name(name: str) -> None:
    """Raise TableNameError unless a user may give a table this name."""
    if not _TABLE_NAME.fullmatch(lower_name(name)):
        raise TableNameError(
            f"{name!r} is not a table name: use letters, digits and _, no digit first, at most 128 "
            "characters"
        )
    if name.lower().startswith(RESERVED_PREFIX):
        raise TableNameError(
            f"{name!r} is reserved: names of relstate's own tables begin with {RESERVED_PREFIX}; "
            "take another name"
        )
    if is_quarantine_name(name):
        raise TableNameError(
            f"{name!r} is reserved: a table whose name ends with {QUARANTINE_SUFFIX} holds rows "
            "that the table or view of the name before it does not take, and relstate creates it; "
            "take another name"
        )


def quarantine_name(name: str) -> str:
    """Return the name of the table with the rows that a table or view does not take."""
    return f"{name}{QUARANTINE_SUFFIX}"


def is_quarantine_name(name: str) -> bool:
    """Return whether a name is one of `quarantine_name`, whatever its case."""
    return lower_name(name).endswith(QUARANTINE_SUFFIX)


def check_index_name(name: str) -> None:
    """Raise TableNameError unless a user may give an index this name."""
    if not _TABLE_NAME.fullmatch(lower_name(name)):
        raise TableNameError(
            f"{name!r} is not the name of an index: use letters, digits and _, no digit first, at "
            "most 128 characters"
        )
