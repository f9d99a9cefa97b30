"""The options of a read or a write that are those of the object store: ``storage.<name>``.

Promises: a credential has a name that Spark hides in the plans that it shows.
Does not know: which options an object store has.
"""

from __future__ import annotations

from collections.abc import Mapping

from relstate.storage import Location, location_of, may_be_secret

# Options of the object store that the path is in have this prefix, and credentials may have this.
# Spark shows the options of some plans, but not the values of those with ``secret`` in their names.
_STORAGE, _SECRET = "storage.", "secret."


def storage_options(path: str) -> dict[str, str]:
    """Return the options with which Spark opens the object store that a store's path is in."""
    values = path.storage_options if isinstance(path, Location) else {}
    return {
        f"{_STORAGE}{_SECRET if may_be_secret(name) else ''}{name}": value
        for name, value in values.items()
    }


def location(options: Mapping[str, str]) -> Location:
    """Return the location of the store that checked options name."""
    values = {_storage_name(key): value for key, value in options.items() if is_storage_option(key)}
    return location_of(options["path"], values or None)


def _storage_name(key: str) -> str:
    return key.lower().removeprefix(_STORAGE).removeprefix(_SECRET)


def is_secret_option(key: str) -> bool:
    """Return whether an option of a read or write may be a credential."""
    return is_storage_option(key) and may_be_secret(_storage_name(key))


def is_storage_option(key: str) -> bool:
    """Return whether an option of a read or write is one of the object store."""
    return key.lower().startswith(_STORAGE)
