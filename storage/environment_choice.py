"""The environment of the store at a path: the only place that chooses its kind.

Does not know: what the files mean.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .environment import Environment
from .local_environment import LocalEnvironment
from .location import location_of


def environment_of(
    path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Environment:
    """Return the environment of the store at a user's path. OptionError as of `location_of`.

    ``storage_options``: for an object store; those that ``path`` carries if it is a `Location`.
    """
    location = location_of(path, storage_options)
    if not location.is_object_store:
        return LocalEnvironment(location)
    # Processes with local stores only do not load the client of object stores.
    from .objects.object_environment import ObjectEnvironment

    return ObjectEnvironment.of(location)
