"""The features of a store: what a version of relstate must know to work with its files.

A later version may store what this one would misread. The commit that first does so names a
feature, and so does every commit and checkpoint after it. Each name says who must know it: those
who read the store, or only those who change it.

Promises: a store that has a feature which this version does not know is not read, or not changed.
A feature is never removed from a store.
Does not know: what a feature means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CorruptionError, FormatVersionError

# On disk: never change or reuse a name. The features that this version reads and writes.
KNOWN: frozenset[str] = frozenset()

# On disk. A feature that only those must know who change the store; any other text, which a later
# version may have, is of one that readers must know.
WRITERS = "writers"
READERS = "readers"


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of a store; ``needed_by``: who must know it, `READERS` or `WRITERS`."""

    name: str
    needed_by: str = READERS

    @property
    def is_known(self) -> bool:
        """Whether this version knows it."""
        return self.name in KNOWN


def united(*features: Iterable[Feature]) -> tuple[Feature, ...]:
    """Return the features that any of some lists has, sorted; of one name that of the last list."""
    by_name = {feature.name: feature for part in features for feature in part}
    return tuple(by_name[name] for name in sorted(by_name))


def features_to_json(features: Iterable[Feature]) -> dict[str, dict[str, str]]:
    """Return the field of an entry or a checkpoint; nothing if there are no features.

    On disk: never change a name.
    """
    value = {feature.name: feature.needed_by for feature in features}
    return {"features": value} if value else {}


def features_from_json(value: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Return the features that an entry or a checkpoint names, sorted by their names."""
    return tuple(
        Feature(name, value["features"][name]) for name in sorted(value.get("features", ()))
    )


def check_readable(value: Mapping[str, Any], location: str) -> None:
    """Raise FormatVersionError if a file names a feature that its readers must know.

    ``value``: its content, which may hold anything else that this version does not know.
    """
    features = value.get("features", {})
    texts = [*features, *features.values()] if isinstance(features, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise CorruptionError(
            f"{location}: its features are {features!r:.100}: restore it from a backup"
        )
    unknown = [
        feature.name
        for feature in features_from_json(value)
        if not feature.is_known and feature.needed_by != WRITERS
    ]
    if unknown:
        raise FormatVersionError(
            f"{location}: a later version of relstate has written this store and uses "
            f"{_named(unknown)}, which this version does not know; nothing was changed: update "
            "relstate to read it"
        )


def check_writable(features: Iterable[Feature], root: str) -> None:
    """Raise FormatVersionError if a store has a feature that this version does not know.

    ``root``: where the store is, for messages.
    """
    unknown = [feature.name for feature in features if not feature.is_known]
    if unknown:
        raise FormatVersionError(
            f"{root}: a later version of relstate has written this store and uses "
            f"{_named(unknown)}, which this version does not know; nothing was changed: update "
            "relstate to change it; this version can read it"
        )


def _named(names: list[str]) -> str:
    quoted = ", ".join(f"{name!r:.100}" for name in names)
    return f"the feature {quoted}" if len(names) == 1 else f"the features {quoted}"
