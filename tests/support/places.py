"""Where the stores of tests are: in folders, in a bucket in memory, or on a server of S3.

``--place`` chooses: ``folder`` (the default), ``memory``, ``server`` or ``faulty``: the server
behind a proxy that drops, delays, doubles, cuts and refuses requests. In another place than a
folder only those tests run whose stores can be there. A bucket in memory is seen by one process
alone, so tests that start processes, as all that use Spark do, need a server.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from relstate.storage import Location

from .object_stores import s3_options, s3_server, unreliable_proxy

FOLDER, MEMORY, SERVER, FAULTY = "folder", "memory", "server", "faulty"
ON_SERVER = (SERVER, FAULTY)
# Of the requests through the proxy. Repeats hide them: ten in a row are improbable.
_FAULTS, _FAULTS_SEED = 0.05, 1
# For a test that is about the files of a folder, whatever the place of others.
in_folder = pytest.mark.parametrize("place", [FOLDER])
# For a module whose tests are about stores wherever they are.
BOTH = (FOLDER, MEMORY)

# What a server of the tests is asked by, in the variables that the ordinary clients read.
_VARIABLES = {
    "endpoint": "AWS_ENDPOINT_URL",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_REGION",
    "allow_http": "AWS_ALLOW_HTTP",
    "cache_folder": "RELSTATE_CACHE_FOLDER",
}


def serve_places(place: str, resources: contextlib.ExitStack) -> None:
    """Start a server, which this process and those that it starts find by their environment."""
    folder = Path(resources.enter_context(tempfile.TemporaryDirectory()))
    endpoint = resources.enter_context(s3_server(folder))
    if place == FAULTY:
        endpoint = resources.enter_context(unreliable_proxy(endpoint, _FAULTS_SEED, _FAULTS))
    os.environ.update(variables_of(s3_options(endpoint, folder / "cache")))


def variables_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that say what storage options of S3 do."""
    return {_VARIABLES[name]: value for name, value in options.items()}


def is_elsewhere(item: pytest.Item, place: str) -> bool:
    """Return whether a test has a store whose place is chosen by ``--place``, and can be that."""
    if "place" not in getattr(item, "fixturenames", ()):
        return False
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "place" in callspec.params:
        return False
    return place in ON_SERVER or "spark" not in getattr(item, "fixturenames", ())


def path_in(place: str, folder: Path) -> str:
    """Return a path that no store has had: below a test's folder, or in a bucket."""
    name = uuid.uuid4().hex
    if place == FOLDER:
        return str(folder / name)
    bucket = "memory://shop" if place == MEMORY else "s3://shop"
    return Location(f"{bucket}/{name}/a store", {"cache_folder": str(folder / "cache")})
